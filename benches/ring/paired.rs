//! Two pinned threads and what is measured between them.

use std::{
    hint,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use core_affinity::CoreId;
use crossbeam_utils::CachePadded;
use quanta::Clock;

use super::contender::{BATCH, Reader, Writer, last_word};

/// The producer's core and the consumer's. The list is read once: a pinned thread would see its own core only.
pub struct Cores(CoreId, CoreId);

impl Cores {
    pub fn pick() -> Self {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let first = *cores.first().expect("a machine has a core");
        Self(first, *cores.get(1).unwrap_or(&first))
    }

    /// Runs `produce` on the first core and `consume` on the second, both from the same moment.
    fn run<R>(&self, produce: impl FnOnce() + Send, consume: impl FnOnce() -> R) -> R {
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                core_affinity::set_for_current(self.0);
                start.wait();
                produce();
            });
            core_affinity::set_for_current(self.1);
            start.wait();
            consume()
        })
    }
}

/// Spins, and gives the core away now and then: with one core, the other side needs it.
#[inline(always)]
fn wait(mut ready: impl FnMut() -> bool) {
    loop {
        for _ in 0..2_000 {
            if ready() {
                return;
            }
            hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// The sum of what messages `0..count` carry.
struct Checksum(u64);

impl Checksum {
    fn assert_is_of(&self, count: u64) {
        let ids = u128::from(count) * u128::from(count.saturating_sub(1)) / 2;
        assert_eq!(self.0, (ids as u64).wrapping_add(last_word(ids as u64)), "not what was sent");
    }

    #[inline(always)]
    fn add(&mut self, first: u64, last: u64) {
        self.0 = self.0.wrapping_add(first).wrapping_add(last);
    }
}

/// Moves `count` messages one by one, as fast as they go; the time it took.
pub fn one_by_one(cores: &Cores, (mut writer, mut reader): (impl Writer, impl Reader), count: u64) -> Duration {
    let produce = move || (0..count).for_each(|id| wait(|| writer.push(id)));
    let consume = move || {
        let mut sum = Checksum(0);
        let start = Instant::now();
        (0..count).for_each(|_| wait(|| reader.pop(|first, last| sum.add(first, last))));
        let elapsed = start.elapsed();
        sum.assert_is_of(count);
        elapsed
    };
    cores.run(produce, consume)
}

/// Moves `count` messages in batches of up to 64, as fast as they go; the time it took.
pub fn batched(cores: &Cores, (mut writer, mut reader): (impl Writer, impl Reader), count: u64) -> Duration {
    let produce = move || {
        let mut sent = 0;
        while sent < count {
            let batch = BATCH.min((count - sent) as usize);
            wait(|| {
                let pushed = writer.push_batch(sent, batch);
                sent += pushed as u64;
                pushed > 0
            });
        }
    };
    let consume = move || {
        let mut sum = Checksum(0);
        let start = Instant::now();
        let mut received = 0;
        while received < count {
            wait(|| {
                let popped = reader.pop_batch(|first, last| sum.add(first, last));
                received += popped as u64;
                popped > 0
            });
        }
        let elapsed = start.elapsed();
        sum.assert_is_of(count);
        elapsed
    };
    cores.run(produce, consume)
}

/// The clock's reading once all loads before it are done. Without the fence the processor reads the time stamp ahead of
/// the very load that it waits for, and a hop looks shorter than a cache line takes.
#[inline(always)]
fn raw_after_loads(clock: &Clock) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    clock.raw()
}

/// Sends one message every `interval_ns`, each with the time at which it was sent; the hops' times in ns, sorted.
pub fn hops(
    cores: &Cores,
    (mut writer, mut reader): (impl Writer, impl Reader),
    count: u64,
    interval_ns: u64,
) -> Vec<u64> {
    let clock = Clock::new();
    let producer_clock = clock.clone();
    let produce = move || {
        let start = producer_clock.now();
        for id in 0..count {
            let due = start + Duration::from_nanos(id * interval_ns);
            wait(|| producer_clock.now() >= due);
            wait(|| writer.push(producer_clock.raw()));
        }
    };
    let consume = move || {
        let mut hops = Vec::with_capacity(count as usize);
        for _ in 0..count {
            wait(|| {
                reader.pop_batch(|sent, last| {
                    assert_eq!(last, last_word(sent), "a torn message");
                    hops.push(clock.delta_as_nanos(sent, raw_after_loads(&clock)));
                }) > 0
            });
            if hops.len() as u64 == count {
                break;
            }
        }
        hops
    };
    let mut hops = cores.run(produce, consume);
    hops.sort_unstable();
    hops
}

/// Half the median time in ns that a cache line takes to the other core and back, each way one word on a line.
pub fn half_round_trip(cores: &Cores, count: u64) -> f64 {
    let line = CachePadded::new(AtomicU64::new(0));
    let answer = || {
        for turn in 0..count {
            wait(|| line.load(Ordering::Acquire) == 2 * turn + 1);
            line.store(2 * turn + 2, Ordering::Release);
        }
    };
    let clock = Clock::new();
    let ask = || {
        let mut times = Vec::with_capacity(count as usize);
        for turn in 0..count {
            let start = clock.raw();
            line.store(2 * turn + 1, Ordering::Release);
            wait(|| line.load(Ordering::Acquire) == 2 * turn + 2);
            times.push(clock.delta_as_nanos(start, raw_after_loads(&clock)));
        }
        times.sort_unstable();
        times[times.len() / 2] as f64 / 2.0
    };
    cores.run(answer, ask)
}
