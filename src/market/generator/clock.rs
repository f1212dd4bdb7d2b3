//! The day's time: bursts of messages microseconds apart, and pauses between them.

use super::draw::below;

/// Market hours begin: 9:30, in ns since midnight.
pub(super) const OPEN_NS: u64 = 34_200_000_000_000;
/// Market hours end: 16:00, in ns since midnight.
pub(super) const CLOSE_NS: u64 = 57_600_000_000_000;

/// The longest gap within a burst.
const BURST_GAP_NS: u64 = 4_000;

/// Gives times that only grow and fill market hours with a given number of messages.
#[derive(Clone, Debug)]
pub(super) struct DayClock {
    now_ns: u64,
    /// Twice the mean pause between two bursts of eight messages on average.
    pause_ns: u64,
}

impl DayClock {
    /// A clock for `messages` between open and close.
    pub(super) fn new(messages: u64) -> Self {
        let mean = (CLOSE_NS - OPEN_NS) / 100 * 98 / messages.max(1);
        let pause_ns = (16 * mean).saturating_sub(7 * BURST_GAP_NS).max(2);
        Self { now_ns: OPEN_NS, pause_ns }
    }

    /// The next message's time in ns since midnight, and whether it belongs to the burst of the one before.
    #[inline]
    pub(super) fn tick(&mut self, bits: u64) -> (u64, bool) {
        let in_burst = bits & 7 != 0;
        // The bits that chose the branch are the lowest; the draw takes the highest.
        let gap = below(bits, if in_burst { BURST_GAP_NS.min(self.pause_ns) } else { self.pause_ns });
        self.now_ns = (self.now_ns + gap + 1).min(CLOSE_NS - 1);
        (self.now_ns, in_burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::{
        Xoshiro256PlusPlus,
        rand_core::{Rng, SeedableRng},
    };

    #[test]
    fn the_day_is_filled_and_time_never_goes_back() {
        for messages in [1_u64, 1000, 1_000_000] {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(messages);
            let mut clock = DayClock::new(messages);
            let mut last = OPEN_NS;
            for _ in 0..messages {
                let (now, _) = clock.tick(rng.next_u64());
                assert!(now >= last && now < CLOSE_NS);
                last = now;
            }
            if messages > 1000 {
                assert!(last > OPEN_NS + (CLOSE_NS - OPEN_NS) / 10 * 9, "{last}");
            }
        }
    }
}
