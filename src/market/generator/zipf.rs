//! Which security comes next: Zipf-distributed activity, drawn in constant time from an alias table.

use super::draw::below;
use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::Rng};

/// Draws indices so that the k-th most active has probability proportional to 1/k. Which index is how active is a
/// permutation of its own (Walker's alias method, Vose's construction).
#[derive(Clone, Debug)]
pub(super) struct Activity {
    /// Per column: the share of its own index in units of 2^-32, and the two indices it gives.
    columns: Vec<(u32, u16, u16)>,
}

impl Activity {
    /// The table for `count` securities (at least one), permuted by `rng`. Returns it with each index's rank, 0 being
    /// the most active.
    pub(super) fn new(count: u16, rng: &mut Xoshiro256PlusPlus) -> (Self, Vec<u16>) {
        let mut by_rank: Vec<u16> = (0..count).collect();
        for i in (1..by_rank.len()).rev() {
            by_rank.swap(i, below(rng.next_u64(), i as u64 + 1) as usize);
        }
        let mut ranks = vec![0; by_rank.len()];
        for (rank, &index) in by_rank.iter().enumerate() {
            ranks[usize::from(index)] = rank as u16;
        }
        let total: f64 = (0..by_rank.len()).map(weight).sum();
        let scale = by_rank.len() as f64 / total;
        // Columns in order of rank: the weights fall, so the overfull ones come first and the underfull ones last.
        let mut mass: Vec<f64> = (0..by_rank.len()).map(|rank| weight(rank) * scale).collect();
        let mut columns: Vec<_> = by_rank.iter().map(|&index| (u32::MAX, index, index)).collect();
        let mut small: Vec<usize> = (0..mass.len()).filter(|&i| mass[i] < 1.0).collect();
        let mut large: Vec<usize> = (0..mass.len()).filter(|&i| mass[i] >= 1.0).collect();
        while let (Some(under), Some(&over)) = (small.pop(), large.last()) {
            columns[under] = ((mass[under] * 4_294_967_296.0) as u32, by_rank[under], by_rank[over]);
            mass[over] -= 1.0 - mass[under];
            if mass[over] < 1.0 {
                large.pop();
                small.push(over);
            }
        }
        (Self { columns }, ranks)
    }

    /// The index that `bits` stands for.
    #[inline]
    pub(super) fn pick(&self, bits: u64) -> u16 {
        let (share, own, alias) = self.columns[below(bits << 32, self.columns.len() as u64) as usize];
        if (bits >> 32) as u32 <= share { own } else { alias }
    }
}

fn weight(rank: usize) -> f64 {
    1.0 / (rank + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn the_second_comes_half_as_often_as_the_first_and_nobody_never() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let (activity, ranks) = Activity::new(100, &mut rng);
        let mut counts = [0u32; 100];
        for _ in 0..1_000_000 {
            counts[usize::from(ranks[usize::from(activity.pick(rng.next_u64()))])] += 1;
        }
        let total: f64 = (0..100).map(weight).sum();
        for (rank, &count) in counts.iter().enumerate() {
            let expected = 1e6 * weight(rank) / total;
            assert!(
                (f64::from(count) - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {count}, not {expected}"
            );
        }
    }

    #[test]
    fn one_security_is_always_picked() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let (activity, _) = Activity::new(1, &mut rng);
        assert!((0..1000).all(|_| activity.pick(rng.next_u64()) == 0));
    }
}
