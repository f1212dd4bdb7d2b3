//! Small distributions over random bits, in integers alone: the same on every machine.

/// A number in `0..bound` from the high bits of `bits` (Lemire's multiplication; the bias is below bound / 2^64).
#[inline]
pub(super) fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// A geometric number from 32 random bits: 0 with probability 1/4, then 3/4 of that each; at most 16.
#[inline]
pub(super) fn depth(bits: u32) -> u32 {
    ((bits | bits >> 16) & 0xffff).trailing_ones()
}

/// Shares of an order: mostly round lots of a few hundred, one in eight an odd lot below 100.
#[inline]
pub(super) fn shares(bits: u32) -> u32 {
    if bits & 7 == 0 { 1 + (bits >> 3) % 99 } else { 100 * (1 + (bits >> 3).trailing_zeros().min(20)) }
}

/// A part of `whole` shares, at least one and less than all; `whole` is at least 2.
#[inline]
pub(super) fn part(bits: u32, whole: u32) -> u32 {
    1 + below(u64::from(bits) << 32, u64::from(whole - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_ranges() {
        for bits in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
            assert!(depth(bits) <= 16);
            assert!((1..=2100).contains(&shares(bits)));
            for whole in [2, 3, 100, u32::MAX] {
                assert!((1..whole).contains(&part(bits, whole)));
            }
        }
        assert_eq!(below(u64::MAX, 7), 6);
        assert_eq!(below(0, 7), 0);
    }
}
