//! The one clock that every time in a job is read from.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::Histogram;

/// Where times come from: the machine's clock, or a simulated one.
pub trait TimeSource {
    /// The time in ns. Never goes backwards, and is never 0, so that 0 can say "not stamped".
    fn now_ns(&self) -> u64;
}

struct Origin {
    timer: quanta::Clock,
    raw: u64,
}

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// The machine's monotonic clock: the time stamp counter scaled to ns where the processor has an invariant one, else
/// `CLOCK_MONOTONIC` (crate `quanta`).
///
/// All clocks of a process share one origin, 1 ns at the first [`Clock::new`], which calibrates for up to 200 ms. Readings
/// of different cores can be compared; they are not ordered against memory accesses, so the difference between a
/// reading on one core and a later one on another can come out a few ns short: subtract saturating.
///
/// ```
/// use isobar::measure::{Clock, TimeSource};
///
/// let clock = Clock::new();
/// let start_ns = clock.now_ns();
/// assert!(clock.now_ns() >= start_ns && start_ns > 0);
/// ```
#[derive(Clone, Copy)]
pub struct Clock {
    origin: &'static Origin,
}

impl Clock {
    /// The process's clock.
    pub fn new() -> Self {
        let origin = ORIGIN.get_or_init(|| {
            let timer = quanta::Clock::new();
            Origin { raw: timer.raw(), timer }
        });
        Self { origin }
    }

    /// The time in ns since the clock's origin, 1 or above.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let Origin { timer, raw } = self.origin;
        timer.delta_as_nanos(*raw, timer.raw()) + 1
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("now_ns", &self.now_ns()).finish()
    }
}

impl TimeSource for Clock {
    #[inline]
    fn now_ns(&self) -> u64 {
        Clock::now_ns(self)
    }
}

/// A clock that stands still until it is moved. Clones show the same time, on whatever thread.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `now_ns` (or 1, if that is 0).
    pub fn new(now_ns: u64) -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(now_ns.max(1))) }
    }

    /// Moves on by `by_ns`, and returns the new time.
    pub fn advance(&self, by_ns: u64) -> u64 {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed) + by_ns
    }

    /// Moves on to `to_ns`; stays where it is if that is in the past.
    pub fn advance_to(&self, to_ns: u64) {
        self.now_ns.fetch_max(to_ns, Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(1)
    }
}

impl TimeSource for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

/// What reading the clock costs: the ns between `readings` consecutive pairs of readings, which is also the least that
/// any measured duration can be.
pub fn timer_cost(clock: Clock, readings: u32) -> Histogram {
    let mut histogram = Histogram::new();
    for _ in 0..readings {
        let before_ns = clock.now_ns();
        histogram.record(clock.now_ns().saturating_sub(before_ns));
    }
    histogram
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_clock_never_goes_backwards_and_starts_above_0() {
        let clock = Clock::new();
        let mut last_ns = 0;
        for _ in 0..100_000 {
            let now_ns = clock.now_ns();
            assert!(now_ns >= last_ns && now_ns > 0);
            last_ns = now_ns;
        }
    }

    #[test]
    fn clocks_of_different_threads_share_their_origin() {
        let clock = Clock::new();
        for _ in 0..100 {
            let before_ns = clock.now_ns();
            let there_ns = std::thread::spawn(|| Clock::new().now_ns()).join().unwrap();
            let after_ns = clock.now_ns();
            assert!((before_ns..=after_ns).contains(&there_ns), "{before_ns} {there_ns} {after_ns}");
        }
    }

    #[test]
    fn a_nanosecond_is_a_nanosecond() {
        let clock = Clock::new();
        let (outer, start_ns, inner) = (Instant::now(), clock.now_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (inner, measured, outer) = (inner.elapsed(), clock.now_ns() - start_ns, outer.elapsed());
        // However the thread was interrupted, the measured time lies between the two.
        let (least, most) = (inner.as_nanos() as f64 * 0.999, outer.as_nanos() as f64 * 1.001);
        assert!((least..=most).contains(&(measured as f64)), "{measured} ns, not {least}..{most}");
    }

    #[test]
    fn a_manual_clock_moves_only_forward_and_only_when_told() {
        let clock = ManualClock::new(0);
        let same = clock.clone();
        assert_eq!(clock.now_ns(), 1);
        assert_eq!(same.advance(9), 10);
        clock.advance_to(5);
        assert_eq!(clock.now_ns(), 10);
        clock.advance_to(25);
        assert_eq!(same.now_ns(), 25);
    }

    #[test]
    fn a_reading_costs_less_than_a_microsecond() {
        let cost = timer_cost(Clock::new(), 10_000).percentiles().unwrap();
        assert!(cost.p50 < 1_000, "{cost:?}");
    }
}
