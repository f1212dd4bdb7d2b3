//! What a core does when it finds nothing to do. The names are Aeron's.

use std::time::Duration;

/// How a core waits for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStrategy {
    /// Looks again at once. Lowest latency; the core is never given up, so it needs a core of its own.
    BusySpin,
    /// Offers the core to other threads between looks.
    Yielding,
    /// Spins, then yields, then sleeps for times that double from 1 us up to `max_park`.
    Backoff {
        /// The longest sleep.
        max_park: Duration,
    },
}

impl Default for IdleStrategy {
    /// Backoff with sleeps of at most 100 us.
    fn default() -> Self {
        Self::Backoff { max_park: Duration::from_micros(100) }
    }
}

/// What to do before the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStep {
    Spin,
    Yield,
    Park(Duration),
}

const SPINS: u32 = 200;
const YIELDS: u32 = 50;
const MIN_PARK: Duration = Duration::from_micros(1);

/// The state of one core's waiting.
#[derive(Debug)]
pub(crate) struct Idler {
    strategy: IdleStrategy,
    idle_turns: u32,
    park: Duration,
}

impl Idler {
    pub(crate) fn new(strategy: IdleStrategy) -> Self {
        Self { strategy, idle_turns: 0, park: MIN_PARK }
    }

    /// There was work: waiting starts over.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.idle_turns = 0;
        self.park = MIN_PARK;
    }

    /// There was none: the next step of waiting.
    pub(crate) fn step(&mut self) -> IdleStep {
        let max_park = match self.strategy {
            IdleStrategy::BusySpin => return IdleStep::Spin,
            IdleStrategy::Yielding => return IdleStep::Yield,
            IdleStrategy::Backoff { max_park } => max_park,
        };
        self.idle_turns = self.idle_turns.saturating_add(1);
        if self.idle_turns <= SPINS {
            IdleStep::Spin
        } else if self.idle_turns <= SPINS + YIELDS {
            IdleStep::Yield
        } else {
            let park = self.park.min(max_park);
            self.park = (self.park * 2).min(max_park.max(MIN_PARK));
            IdleStep::Park(park)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_spins_then_yields_then_parks_ever_longer_up_to_its_limit() {
        let mut idler = Idler::new(IdleStrategy::Backoff { max_park: Duration::from_micros(5) });
        let steps: Vec<_> = (0..SPINS + YIELDS + 5).map(|_| idler.step()).collect();
        let us = |n| IdleStep::Park(Duration::from_micros(n));
        assert!(steps[..SPINS as usize].iter().all(|step| *step == IdleStep::Spin));
        assert!(steps[SPINS as usize..(SPINS + YIELDS) as usize].iter().all(|step| *step == IdleStep::Yield));
        assert_eq!(steps[(SPINS + YIELDS) as usize..], [us(1), us(2), us(4), us(5), us(5)]);
        idler.reset();
        assert_eq!(idler.step(), IdleStep::Spin);
    }
}
