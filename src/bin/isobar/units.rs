//! Numbers for people.

/// A whole number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in ns to three digits.
pub fn duration(ns: u64) -> String {
    if ns < 1_000 { format!("{ns} ns") } else { scaled(ns as f64, 1e3, &["us", "ms", "s"]) }
}

/// A size in bytes to three digits.
pub fn bytes(size: u64) -> String {
    if size < 1_024 { format!("{size} B") } else { scaled(size as f64, 1024.0, &["KiB", "MiB", "GiB", "TiB"]) }
}

/// A rate to three digits.
pub fn per_second(rate: f64) -> String {
    if rate < 1e3 { format!("{rate:.0} /s") } else { scaled(rate, 1e3, &["k/s", "M/s", "G/s"]) }
}

/// The number in the largest of `units`, each `step` times the one before, of which there is at least one.
fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let (mut number, mut unit) = (number / step, 0);
    while number >= step && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let decimals = match number {
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 12_345, 1_234_567].map(count), ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn three_digits_and_the_largest_unit() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 123_456, 1_500_000_000, 90_000_000_000_000].map(duration),
            ["0 ns", "999 ns", "1.00 us", "12.3 us", "123 us", "1.50 s", "90000 s"]
        );
        assert_eq!([1_023, 1_024, 1 << 20, 5 << 30].map(bytes), ["1023 B", "1.00 KiB", "1.00 MiB", "5.00 GiB"]);
        assert_eq!(per_second(999.0), "999 /s");
        assert_eq!(per_second(4_567_890.0), "4.57 M/s");
    }
}
