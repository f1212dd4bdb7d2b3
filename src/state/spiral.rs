//! Spiral storage (Martin, *Spiral storage: incrementally augmentable hash addressed storage*, 1979): which bucket a
//! hash belongs to, in a table that grows one bucket at a time.
//!
//! A table of n buckets has the buckets n, n + 1, ... 2n - 1. To grow, bucket n is split into 2n and 2n + 1. A hash is
//! a fraction c of a turn on a spiral, v = 2^c lies in 1..2, and its bucket is floor(v * 2^k) for the k that puts it
//! among the live ones. As v is skewed, bucket loads lie between 1.44 (the next one to be split) and 0.72 times the
//! mean at every size, where plain linear hashing has all its buckets nearly full and then half empty in turn: the
//! density of the table is the same at every size.
//!
//! The page of a bucket is derived, not stored: bucket 2n stays in the page of n, and 2n + 1 gets the next page.

/// The addresses of a table with a given number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spiral {
    buckets: u32,
    /// 32 - floor(log2(buckets)).
    shift: u32,
}

impl Spiral {
    /// The most buckets that a table can have.
    pub const MAX_BUCKETS: u32 = 1 << 29;

    /// The addresses of `buckets` buckets; 0 is a table without pages, whose addresses are all 1.
    pub fn new(buckets: u32) -> Self {
        debug_assert!(buckets <= Self::MAX_BUCKETS);
        Self { buckets, shift: 32 - buckets.max(1).ilog2() }
    }

    /// How many buckets, and pages, there are. The bucket to be split next has this number.
    pub fn buckets(self) -> u32 {
        self.buckets
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub fn bucket(self, hash: u64) -> u32 {
        let turn = exp2(hash >> 32);
        let bucket = (turn >> self.shift) as u32;
        if bucket < self.buckets { (turn >> (self.shift - 1)) as u32 } else { bucket }
    }

    /// The page of a hash's bucket.
    #[inline(always)]
    pub fn page(self, hash: u64) -> u32 {
        page_of(self.bucket(hash))
    }
}

/// The page of a bucket: its number's odd part, in order.
#[inline(always)]
pub(crate) fn page_of(bucket: u32) -> u32 {
    (bucket >> bucket.trailing_zeros()) >> 1
}

/// 2^c in units of 2^-32, for c in units of 2^-32, below 1: a cubic whose coefficients add up to 1, within 0.02 % of
/// the power. Part of the on-disk format; what counts is that it is monotone (each step is) and the same everywhere.
#[inline(always)]
fn exp2(c: u64) -> u64 {
    const A: u64 = 0xB1F3_6262; // 0.69512
    const B: u64 = 0x3A43_FE5C; // 0.22760
    const C: u64 = (1 << 32) - A - B;
    let third = (C * c) >> 32;
    let second = ((B + third) * c) >> 32;
    (1 << 32) + (((A + second) * c) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::stable_hash;

    #[test]
    fn the_power_is_monotone_and_close() {
        let mut last = 0;
        for c in (0..1u64 << 32).step_by(65_521).chain([(1 << 32) - 1]) {
            let power = exp2(c);
            assert!(power >= last && power < 1 << 33);
            let exact = (c as f64 / 2f64.powi(32)).exp2();
            assert!((power as f64 / 2f64.powi(32) / exact - 1.0).abs() < 2e-4, "c = {c}: {power}");
            last = power;
        }
    }

    #[test]
    fn splitting_sends_a_hash_to_one_of_the_two_children() {
        for hash in (0..200u64).map(|i| stable_hash(&i.to_le_bytes())) {
            let mut bucket = 1;
            for buckets in 1..500 {
                let grown = Spiral::new(buckets + 1).bucket(hash);
                if bucket == buckets {
                    assert!(grown == 2 * bucket || grown == 2 * bucket + 1, "{bucket} -> {grown}");
                } else {
                    assert_eq!(grown, bucket);
                }
                assert!((buckets + 1..2 * (buckets + 1)).contains(&grown));
                bucket = grown;
            }
        }
    }

    #[test]
    fn live_buckets_have_the_pages_from_0_on() {
        for buckets in [1u32, 2, 3, 7, 64, 100] {
            let mut pages: Vec<_> = (buckets..2 * buckets).map(page_of).collect();
            pages.sort_unstable();
            assert_eq!(pages, (0..buckets).collect::<Vec<_>>());
        }
        assert_eq!(page_of(2 * 12), page_of(12), "the even child stays");
        assert_eq!(page_of(2 * 12 + 1), 12, "the odd child gets the next page");
    }

    #[test]
    fn the_last_hash_is_in_the_last_bucket_at_the_largest_size() {
        for buckets in [1, 2, 1 << 20, Spiral::MAX_BUCKETS - 1, Spiral::MAX_BUCKETS] {
            let spiral = Spiral::new(buckets);
            assert_eq!(spiral.bucket(0), if buckets.is_power_of_two() { buckets } else { 2 << buckets.ilog2() });
            assert!(spiral.bucket(u64::MAX) < 2 * buckets && spiral.bucket(u64::MAX) >= buckets);
        }
    }

    #[test]
    fn loads_are_within_the_spirals_bounds() {
        let mut loads = vec![0f64; 100];
        let hashes = 1_000_000;
        for i in 0..hashes {
            loads[(Spiral::new(100).bucket(stable_hash(&u64::to_le_bytes(i))) - 100) as usize] += 1.0;
        }
        for (i, load) in loads.iter().enumerate() {
            let expected = ((101 + i) as f64 / (100 + i) as f64).log2();
            assert!((load / hashes as f64 / expected - 1.0).abs() < 0.06, "bucket {}: {load}", 100 + i);
        }
    }
}
