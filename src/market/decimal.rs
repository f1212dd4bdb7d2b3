//! Integers as decimal digits, appended to a caller's buffer without allocation.

/// The longest: `i128::MIN`.
const LONGEST: usize = 40;

/// Appends `value` in decimal digits to `out`.
#[inline]
pub fn append_u64(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends `value` in decimal digits to `out`, behind a minus sign if it is negative.
#[inline]
pub fn append_i64(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    append_u64(value.unsigned_abs(), out);
}

/// Appends `value` in decimal digits to `out`, behind a minus sign if it is negative.
pub fn append_i128(value: i128, out: &mut Vec<u8>) {
    if let Ok(value) = i64::try_from(value) {
        return append_i64(value, out);
    }
    let mut digits = [0; LONGEST];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_those_of_the_standard_library(value in any::<i128>(), shift in 0_u32..128) {
            let value = value >> shift;
            let mut out = b"x".to_vec();
            append_i128(value, &mut out);
            prop_assert_eq!(out, format!("x{value}").into_bytes());
            let mut out = Vec::new();
            append_i64(value as i64, &mut out);
            append_u64(value as u64, &mut out);
            prop_assert_eq!(out, format!("{}{}", value as i64, value as u64).into_bytes());
        }
    }

    #[test]
    fn the_ends_of_the_ranges_are_written_whole() {
        let mut out = Vec::new();
        append_i128(i128::MIN, &mut out);
        append_i64(i64::MIN, &mut out);
        append_u64(0, &mut out);
        assert_eq!(out, format!("{}{}0", i128::MIN, i64::MIN).into_bytes());
    }
}
