//! The core-to-core hop: how long a cache line takes from one core to the other.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crossbeam_utils::CachePadded;

use super::{Clock, CoreError, Histogram, pin_to};

/// Spins between two looks at the clock while waiting: rare enough not to show, often enough to end.
const SPINS_PER_LOOK: u32 = 4_096;

#[derive(Default)]
struct Lines {
    ping: CachePadded<AtomicU64>,
    pong: CachePadded<AtomicU64>,
    is_over: AtomicBool,
}

/// Measures a hop between two cores for about `duration`: a number goes there in one cache line and comes back in another;
/// each round trip counts once, with half its time (and half of what reading the clock costs). A ring whose slot
/// publishes itself moves one line per hop, so this is the floor under its latency.
///
/// Gives an empty histogram if both cores are the same: two spinning threads on one core measure the scheduler.
///
/// # Errors
/// [`CoreError`] if a core cannot be used.
pub fn hop(from: usize, to: usize, duration: Duration) -> Result<Histogram, CoreError> {
    if from == to {
        return Ok(Histogram::new());
    }
    let lines = Lines::default();
    thread::scope(|scope| {
        let echo = scope.spawn(|| pin_to(to).map(|()| send_back(&lines)));
        let pings = scope.spawn(|| {
            let measured = pin_to(from).map(|()| round_trips(&lines, duration));
            lines.is_over.store(true, Ordering::Relaxed);
            measured
        });
        let (echo, pings) = (echo.join(), pings.join());
        echo.expect("the echo loop does not panic")?;
        pings.expect("the ping loop does not panic")
    })
}

fn send_back(lines: &Lines) {
    let mut last = 0;
    while !lines.is_over.load(Ordering::Relaxed) {
        let number = lines.ping.load(Ordering::Acquire);
        if number != last {
            last = number;
            lines.pong.store(number, Ordering::Release);
        } else {
            std::hint::spin_loop();
        }
    }
}

fn round_trips(lines: &Lines, duration: Duration) -> Histogram {
    let clock = Clock::new();
    let mut histogram = Histogram::new();
    let end_ns = clock.now_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    for number in 1.. {
        let sent_ns = clock.now_ns();
        lines.ping.store(number, Ordering::Release);
        let mut spins = 0_u32;
        while lines.pong.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(SPINS_PER_LOOK) && clock.now_ns() >= end_ns {
                return histogram; // the other core does not answer: it is gone, or somebody else has it
            }
        }
        let back_ns = clock.now_ns();
        histogram.record(back_ns.saturating_sub(sent_ns) / 2);
        if back_ns >= end_ns {
            break;
        }
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cores;

    #[test]
    fn a_hop_takes_some_nanoseconds_where_there_are_two_cores() {
        let [from, to, ..] = cores() else { return }; // on one core there is no hop to measure
        // Other tests may hold one of the cores for a while: hops need both at the same time.
        let measured = || hop(*from, *to, Duration::from_millis(20)).unwrap();
        let hop = std::iter::repeat_with(measured).take(50).find(|hop| hop.len() > 10).expect("hops within a second");
        let percentiles = hop.percentiles().unwrap();
        assert!(percentiles.p50 > 5, "no signal travels that fast: {percentiles:?}");
    }

    #[test]
    fn a_core_has_no_hop_to_itself_and_a_missing_core_is_an_error_not_a_hang() {
        let core = cores()[0];
        assert!(hop(core, core, Duration::from_secs(9)).unwrap().is_empty());
        assert!(hop(core, 100_000, Duration::from_millis(1)).is_err());
        assert!(hop(100_000, core, Duration::from_millis(1)).is_err());
    }
}
