//! The noise floor: what this machine does to a thread that has nothing to do.

use std::{thread, time::Duration};

use super::{Clock, CoreError, Histogram, pin_to};

/// An arrival is due this often.
const ARRIVAL_NS: u64 = 1_000;

/// Measures how late an idle thread would notice something, on each of `cores` at the same time, for `duration`; the cores'
/// histograms are merged. Nothing that isobar measures on these cores can be better than this.
///
/// One pinned thread a core does nothing but read the clock. Imaginary arrivals are due every microsecond, and each counts
/// with the time from when it was due until the thread's next reading. So an interruption of 5 ms shows as 5,000 late
/// arrivals, just as it would delay 5,000 records of an open-loop load, and not as a single gap (jHiccup does the same
/// with its expected interval; Gil Tene's "coordinated omission").
///
/// # Errors
/// [`CoreError`] if a core cannot be used.
pub fn noise_floor(cores: &[usize], duration: Duration) -> Result<Histogram, CoreError> {
    let clock = Clock::new();
    let mut total = Histogram::new();
    let measured: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .map(|&core| scope.spawn(move || pin_to(core).map(|()| record_lateness(clock, duration))))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the recording loop does not panic")).collect()
    });
    for histogram in measured {
        total.merge(&histogram?);
    }
    Ok(total)
}

fn record_lateness(clock: Clock, duration: Duration) -> Histogram {
    // Every reading that finds an arrival counts with the lateness of the oldest one; those that were due behind it
    // are added afterwards, so that this loop's own work does not grow with a stall.
    let mut oldest_late = Histogram::new();
    let start_ns = clock.now_ns();
    let end_ns = start_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let mut due_ns = start_ns + ARRIVAL_NS;
    loop {
        let now_ns = clock.now_ns();
        if now_ns >= due_ns {
            let late_ns = now_ns - due_ns;
            oldest_late.record(late_ns);
            due_ns += (late_ns / ARRIVAL_NS + 1) * ARRIVAL_NS;
        }
        if now_ns >= end_ns {
            return with_all_arrivals(&oldest_late);
        }
    }
}

/// Adds the arrivals that were due behind the oldest one of each stall.
fn with_all_arrivals(oldest_late: &Histogram) -> Histogram {
    let mut all = oldest_late.clone();
    for (late_ns, count) in oldest_late.values() {
        for behind in 1..=late_ns / ARRIVAL_NS {
            all.record_n(late_ns - behind * ARRIVAL_NS, count);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cores;

    #[test]
    fn a_stall_counts_for_every_arrival_that_it_delays() {
        let mut oldest = Histogram::new();
        oldest.record_n(30, 994);
        oldest.record(5_250); // the arrivals due 0, 1, .. 5 us after the first one wait 5.25, 4.25, .. 0.25 us
        let all = with_all_arrivals(&oldest);
        assert_eq!(all.len(), 1_000);
        assert_eq!(all.value_at(0.99), 30);
        let late: Vec<_> = all.values().filter(|&(late_ns, _)| late_ns > 30).collect();
        assert_eq!(late.len(), 6);
        assert!(
            late.iter().zip([250, 1_250, 2_250, 3_250, 4_250, 5_250]).all(|(l, e)| l.0.abs_diff(e) <= 4),
            "{late:?}"
        );
    }

    #[test]
    fn the_floor_of_a_core_has_an_arrival_every_microsecond() {
        let start = std::time::Instant::now();
        let floor = noise_floor(&cores()[..1], Duration::from_millis(20)).unwrap();
        // A stall at the end adds the arrivals that it delays, so only the time that passed bounds their number.
        let arrivals = 19_990..=start.elapsed().as_micros() as u64 + 1;
        assert!(arrivals.contains(&floor.len()), "{} arrivals, not {arrivals:?}", floor.len());
        assert!(floor.value_at(0.01) < 1_000, "while the thread runs, it notices an arrival at once");
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(matches!(noise_floor(&[100_000], Duration::ZERO), Err(CoreError::Unavailable { core: 100_000, .. })));
    }
}
