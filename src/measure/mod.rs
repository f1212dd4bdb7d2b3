//! Measuring: one clock, histograms, the machine's own noise, and the report that carries them.
//!
//! Times are u64 nanoseconds of one monotonic [`Clock`]; every duration is the difference of two of its readings. What
//! is compared is compared in pairs, within one run ([`paired_ratio`]), because on a shared machine two runs differ by
//! more than most changes do.

mod clock;
mod cores;
mod histogram;
mod hop;
mod host;
mod noise;
mod ratio;
pub mod report;

pub use clock::{Clock, ManualClock, TimeSource, timer_cost};
pub use cores::{CoreError, cores, pin_to};
pub use histogram::{Histogram, HistogramInterval, Percentiles, write_hlog};
pub use hop::hop;
pub use host::Host;
pub use noise::noise_floor;
pub use ratio::{Ratio, RatioError, paired_ratio};
