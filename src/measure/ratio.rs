//! Paired comparison: how much slower or faster is one thing than another, and how sure is that?

use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x150_BA12;

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of the pairs' ratios.
    pub ratio: f64,
    /// The lower end of the 95 % interval.
    pub lo: f64,
    /// The upper end of the 95 % interval.
    pub hi: f64,
    /// The number of pairs.
    pub pairs: usize,
}

/// Samples from which no ratio can be formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RatioError {
    /// The two sides do not pair up.
    #[error(
        "no ratio: {candidate} measurements of the candidate against {baseline} of the baseline; give one of each a pair"
    )]
    Unpaired {
        /// Measurements of the candidate.
        candidate: usize,
        /// Measurements of the baseline.
        baseline: usize,
    },
    /// There is nothing to compare.
    #[error("no ratio: there is no pair; measure at least one")]
    Empty,
    /// A ratio needs positive, finite numbers.
    #[error("no ratio: pair {pair} has a measurement that is not a positive number; look at what produced it")]
    NotPositive {
        /// The pair's index.
        pair: usize,
    },
}

/// The ratio of a candidate to a baseline that were measured in turn, pair by pair: the median of
/// `candidate[i] / baseline[i]`, with a 95 % percentile-bootstrap interval (Efron and Tibshirani 1993, chapter 13: 10,000
/// resamples of whole pairs, from a fixed seed, so the same measurements always give the same interval).
///
/// Pairing cancels what both sides of a pair shared, such as a neighbour on the machine; the median keeps one bad pair from
/// deciding. With fewer than 6 pairs the interval reaches from the smallest to the largest ratio at best and covers less
/// than 95 %: take 10 or more.
///
/// ```
/// use isobar::measure::paired_ratio;
///
/// let ratio = paired_ratio(&[11.0, 22.0, 5.5], &[10.0, 20.0, 5.0])?;
/// assert!((ratio.ratio - 1.1).abs() < 1e-9 && ratio.pairs == 3);
/// # Ok::<(), isobar::measure::RatioError>(())
/// ```
///
/// # Errors
/// [`RatioError`] if the sides differ in length, are empty, or hold anything but positive finite numbers.
pub fn paired_ratio(candidate: &[f64], baseline: &[f64]) -> Result<Ratio, RatioError> {
    let ratios = ratios(candidate, baseline)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut resample = vec![0.0; ratios.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.fill_with(|| ratios[below(&mut random, ratios.len())]);
            median(&mut resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    // 2.5 % of the resamples lie below the interval and 2.5 % above it.
    let tail = RESAMPLES / 40;
    Ok(Ratio {
        ratio: median(&mut ratios.clone()),
        lo: medians[tail],
        hi: medians[RESAMPLES - 1 - tail],
        pairs: ratios.len(),
    })
}

fn ratios(candidate: &[f64], baseline: &[f64]) -> Result<Vec<f64>, RatioError> {
    if candidate.len() != baseline.len() {
        return Err(RatioError::Unpaired { candidate: candidate.len(), baseline: baseline.len() });
    }
    if candidate.is_empty() {
        return Err(RatioError::Empty);
    }
    let is_usable = |value: f64| value.is_finite() && value > 0.0;
    let pairs = candidate.iter().zip(baseline).enumerate();
    pairs
        .map(|(pair, (&candidate, &baseline))| {
            let ratio = candidate / baseline;
            let usable = [candidate, baseline, ratio].into_iter().all(is_usable);
            if usable { Ok(ratio) } else { Err(RatioError::NotPositive { pair }) }
        })
        .collect()
}

/// A uniform index below `bound`, by Lemire's multiplication; the bias of at most `bound` / 2^64 does not matter here.
fn below(random: &mut impl Rng, bound: usize) -> usize {
    ((u128::from(random.next_u64()) * bound as u128) >> 64) as usize
}

/// The median of at least one number; reorders them.
fn median(values: &mut [f64]) -> f64 {
    let is_odd = values.len() % 2 == 1;
    let (smaller, &mut upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    if is_odd { upper } else { f64::midpoint(smaller.iter().copied().fold(f64::MIN, f64::max), upper) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs whose both sides share a large factor (the machine's mood) and differ by `ratio` times a little noise.
    fn pairs(count: usize, ratio: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // The sum of 12 uniforms is close to a normal distribution of variance 1.
        let mut normal = || (0..12).map(|_| random.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        (0..count)
            .map(|_| {
                let mood = (0.5 * normal()).exp();
                (1e6 * mood * ratio * (0.02 * normal()).exp(), 1e6 * mood * (0.02 * normal()).exp())
            })
            .unzip()
    }

    #[test]
    fn the_interval_covers_the_truth_about_19_times_in_20() {
        let covered = (0..400).filter(|&seed| {
            let (candidate, baseline) = pairs(12, 1.05, seed);
            let Ratio { ratio, lo, hi, .. } = paired_ratio(&candidate, &baseline).unwrap();
            assert!(lo <= ratio && ratio <= hi);
            assert!(hi - lo < 0.2, "the shared mood of +-50 % must cancel: {lo}..{hi}");
            (lo..=hi).contains(&1.05)
        });
        let covered = covered.count();
        assert!((364..=396).contains(&covered), "{covered} of 400"); // 91 % to 99 %
    }

    #[test]
    fn one_wild_pair_does_not_decide() {
        let (mut candidate, baseline) = pairs(15, 1.0, 1);
        candidate[7] *= 50.0;
        let Ratio { ratio, hi, .. } = paired_ratio(&candidate, &baseline).unwrap();
        assert!((ratio - 1.0).abs() < 0.05 && hi < 1.1, "{ratio}, up to {hi}");
    }

    #[test]
    fn the_same_measurements_give_the_same_interval() {
        let (candidate, baseline) = pairs(10, 1.3, 5);
        assert_eq!(paired_ratio(&candidate, &baseline), paired_ratio(&candidate, &baseline));
    }

    #[test]
    fn equal_sides_are_a_ratio_of_one_without_width() {
        let values = [3.0, 1.0, 2.0];
        assert_eq!(paired_ratio(&values, &values), Ok(Ratio { ratio: 1.0, lo: 1.0, hi: 1.0, pairs: 3 }));
        assert_eq!(paired_ratio(&[2.0], &[4.0]), Ok(Ratio { ratio: 0.5, lo: 0.5, hi: 0.5, pairs: 1 }));
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        assert_eq!(paired_ratio(&[1.0], &[]), Err(RatioError::Unpaired { candidate: 1, baseline: 0 }));
        assert_eq!(paired_ratio(&[], &[]), Err(RatioError::Empty));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(paired_ratio(&[1.0, bad], &[1.0, 1.0]), Err(RatioError::NotPositive { pair: 1 }));
            assert_eq!(paired_ratio(&[1.0, 1.0], &[1.0, bad]), Err(RatioError::NotPositive { pair: 1 }));
        }
        assert_eq!(paired_ratio(&[1e300], &[1e-300]), Err(RatioError::NotPositive { pair: 0 }), "it overflows");
    }

    #[test]
    fn the_median_of_an_even_number_lies_in_the_middle() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [9.0, 1.0, 3.0]), 3.0);
    }
}
