//! Histograms of durations, and the standard files that they are written to.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hdrhistogram::serialization::{
    V2DeflateSerializer,
    interval_log::{IntervalLogWriterBuilder, Tag},
};
use serde::{Deserialize, Serialize};

const SIGNIFICANT_DIGITS: u8 = 3;
/// About 137 s: the end of the last bucket that 100 s needs.
const VALUE_MAX: u64 = (1 << 37) - 1;

/// A histogram of ns (or any other counts) from 0 to 2^37 - 1, about 137 s, with three significant digits: an HdrHistogram.
///
/// Larger values are recorded as that maximum. 224 KiB, all of it allocated by [`Histogram::new`].
///
/// ```
/// use isobar::measure::Histogram;
///
/// let mut histogram = Histogram::new();
/// (1..=1000).for_each(|ns| histogram.record(ns));
/// assert_eq!(histogram.percentiles().unwrap().p50, 500);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
}

/// The percentiles that reports give, in the unit of the recorded values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each name says which percentile it is")]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub p99_99: u64,
    pub max: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, VALUE_MAX, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that satisfy the crate's conditions: 1 <= low, 2 * low <= high");
        Self { inner }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.inner.saturating_record(value);
    }

    /// Counts `count` times the same value.
    #[inline]
    pub fn record_n(&mut self, value: u64, count: u64) {
        self.inner.saturating_record_n(value, count);
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.inner.add(&other.inner).expect("all histograms have the same bounds, so none is out of another's range");
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.inner.reset();
    }

    /// How many values were counted.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The value that a share `quantile` (0 to 1) of all values does not exceed; 0 if there are none.
    pub fn value_at(&self, quantile: f64) -> u64 {
        self.inner.value_at_quantile(quantile)
    }

    /// The percentiles of what was counted; `None` if nothing was.
    pub fn percentiles(&self) -> Option<Percentiles> {
        (!self.is_empty()).then(|| Percentiles {
            p50: self.value_at(0.5),
            p90: self.value_at(0.9),
            p99: self.value_at(0.99),
            p99_9: self.value_at(0.999),
            p99_99: self.value_at(0.9999),
            max: self.inner.max(),
        })
    }

    /// The recorded values and how often each came, ascending, to three digits.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.inner.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()))
    }

    /// Writes the percentile distribution as text (`.hgrm`), as HdrHistogram's Java implementation prints it: value,
    /// percentile, total count and 1/(1-percentile), five ticks per half distance. Values are divided by `unit`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_hgrm(&self, out: &mut impl Write, unit: f64) -> io::Result<()> {
        writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
        let mut total = 0;
        for at in self.inner.iter_quantiles(5) {
            total += at.count_since_last_iteration();
            let (value, quantile) = (at.value_iterated_to() as f64 / unit, at.quantile_iterated_to());
            write!(out, "{value:12.3} {quantile:2.12} {total:10}")?;
            if quantile < 1.0 {
                write!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
            }
            writeln!(out)?;
        }
        let inner = &self.inner;
        let (mean, deviation, max) = (inner.mean() / unit, inner.stdev() / unit, inner.max() as f64 / unit);
        writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
        writeln!(out, "#[Max     = {max:12.3}, Total count    = {:12}]", inner.len())?;
        let sub_buckets = 2 * 10_u32.pow(u32::from(SIGNIFICANT_DIGITS)).next_power_of_two();
        writeln!(out, "#[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]", inner.buckets())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// One line of an interval log: what was recorded under a name from `start` for `length`.
#[derive(Clone, Copy, Debug)]
pub struct HistogramInterval<'a> {
    /// The series that it belongs to. No comma, blank or line break.
    pub tag: &'a str,
    /// When the interval began, after the log's own start.
    pub start: Duration,
    /// How long it lasted.
    pub length: Duration,
    /// What was recorded in it.
    pub histogram: &'a Histogram,
}

/// Writes an interval log (`.hlog`, format version 1.3, V2 compressed histograms) that HdrHistogram's tools read.
/// Maxima in the lines are in the unit of the values.
///
/// # Errors
/// Those of `out`; `InvalidInput` if a tag has a comma, a blank or a line break.
pub fn write_hlog(out: &mut impl Write, started: SystemTime, intervals: &[HistogramInterval<'_>]) -> io::Result<()> {
    let epoch_seconds = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#[StartTime: {epoch_seconds:.3} (seconds since epoch)]")?;
    writeln!(out, "#[BaseTime: {epoch_seconds:.3} (seconds since epoch)]")?;
    writeln!(out, r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#)?;
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new().begin_log_with(out, &mut serializer)?;
    for interval in intervals {
        let tag = Tag::new(interval.tag).ok_or_else(|| {
            let what =
                format!("the histogram tag {:?} has a comma, a blank or a line break; leave it out", interval.tag);
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        log.write_histogram(&interval.histogram.inner, interval.start, interval.length, Some(tag))
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
