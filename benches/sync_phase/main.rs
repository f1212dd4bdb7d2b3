//! The synchronous phase in a running job: what a checkpoint takes of the thread that owns the state, by the size of the
//! state, beside fork() and a full copy of the same state.
//!
//! ```text
//!  core 0   source of random keys ─ ring ─ keyed counters, 1 MiB to 1 GiB, updated as fast as they can be
//!  core 1   coordinator, writer ── checkpoint log on disk
//! ```
//!
//!     cargo bench --bench sync_phase               the table, about two minutes, then criterion's freeze
//!     cargo bench --bench sync_phase -- --test     small sizes, to see that all of it works
//!
//! The owner's share is all that checkpoints take of its thread: the synchronous phases as the job measured them, and
//! the first write to each page of an epoch and the pages moved by it, counted by the job and priced at what one of them
//! costs on the same state (see [`prices`]). Every run asserts the sum of the counters.

#[path = "../common/mod.rs"]
mod common;
mod job;
mod prices;

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::keyed_state::{BYTES_PER_ENTRY, State, drain, fork_seconds, seconds, uniform_ops};
use criterion::Criterion;
use isobar::measure::{Clock, Histogram, timer_cost};
use job::Run;
use prices::Prices;

/// The sizes of the state in MiB, and how many checkpoints are measured at each.
struct Scale {
    mebibytes: &'static [u64],
    checkpoints: usize,
    interval: Duration,
}

const FULL: Scale = Scale { mebibytes: &[1, 16, 256, 1024], checkpoints: 400, interval: Duration::from_millis(15) };
const SMOKE: Scale = Scale { mebibytes: &[1, 4], checkpoints: 10, interval: Duration::from_millis(5) };

/// Limits: the synchronous phase's p99, how much its p50 may grow from the smallest state to the largest, and for how
/// many dirty pages that has to hold.
const P99_LIMIT_NS: u64 = 2_000;
const GROWTH_LIMIT: f64 = 1.5;
const DIRTY_PAGES_AT_LEAST: u64 = 20_000;

fn of(verdict: bool) -> &'static str {
    if verdict { "held" } else { "NOT held" }
}

/// One line of the table; returns the synchronous phase's p50 and p99 and the median of the dirty pages.
fn line(mebibytes: u64, run: &Run, prices: &Prices, fork_s: f64, copy_s: f64) -> (u64, u64, u64) {
    let mut sync = Histogram::new();
    let mut dirty = Histogram::new();
    let mut dirty_pages = 0;
    let mut copied_pages = 0;
    for stats in &run.checkpoints {
        sync.record(stats.sync_ns);
        dirty.record(stats.dirty_pages);
        dirty_pages += stats.dirty_pages;
        copied_pages += stats.copied_pages;
    }
    let sync_s = run.checkpoints.iter().map(|stats| stats.sync_ns).sum::<u64>() as f64 / 1e9;
    let writes_s = prices.of(dirty_pages, copied_pages);
    println!(
        "{mebibytes:>6} MiB {:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>8}   {:>6.3} % + {:>5.2} % {:>10.0} {:>11.0}",
        run.checkpoints.len(),
        dirty.value_at(0.5),
        copied_pages / run.checkpoints.len() as u64,
        sync.value_at(0.5),
        sync.value_at(0.99),
        sync.value_at(0.999),
        sync.value_at(1.0),
        100.0 * sync_s / run.seconds,
        100.0 * writes_s / run.seconds,
        fork_s * 1e6,
        copy_s * 1e6,
    );
    (sync.value_at(0.5), sync.value_at(0.99), dirty.value_at(0.5))
}

/// fork() and a full copy, each with a state of this size in the process, and the prices of first writes to it.
fn controls(entries: u64) -> (Prices, f64, f64) {
    let mut state = State::with_entries(entries);
    let prices = Prices::measure(&mut state, entries);
    let fork_s = fork_seconds();
    let mut copy = Vec::with_capacity(entries as usize);
    let copy_s = seconds(|| state.map.for_each(&state.arena, |key, value| copy.push((*key, *value))));
    assert_eq!(copy.len() as u64, entries);
    (prices, fork_s, copy_s)
}

fn table(scale: &Scale) {
    let timer = timer_cost(Clock::new(), 100_000);
    println!("timer alone: p50 {} ns, p99 {} ns", timer.value_at(0.5), timer.value_at(0.99));
    println!(
        "                              pages     synchronous phase, ns        share of the owner's time  controls, us"
    );
    println!(
        "     state   chkpts   dirty   moved    p50    p99  p99.9      max      sync  +  writes     fork()   full copy"
    );
    let mut first_p50 = None;
    let mut last = (0, 0, 0);
    for &mebibytes in scale.mebibytes {
        let entries = (mebibytes << 20) / BYTES_PER_ENTRY;
        let (prices, fork_s, copy_s) = controls(entries);
        let run = job::run(entries, scale.interval, scale.checkpoints);
        last = line(mebibytes, &run, &prices, fork_s, copy_s);
        first_p50.get_or_insert(last.0);
    }
    let (p50, p99, dirty) = last;
    let growth = p50 as f64 / first_p50.unwrap_or(1).max(1) as f64;
    println!("p99 at the largest size: {p99} ns; at most {P99_LIMIT_NS} {}", of(p99 <= P99_LIMIT_NS));
    println!(
        "p50 from the smallest size to the largest: {growth:.2} x; at most {GROWTH_LIMIT} x {}",
        of(growth <= GROWTH_LIMIT)
    );
    println!(
        "dirty pages at the largest size: {dirty}; at least {DIRTY_PAGES_AT_LEAST} {}",
        of(dirty >= DIRTY_PAGES_AT_LEAST)
    );
}

/// The freeze alone, for criterion's comparison with its earlier runs.
fn freeze(criterion: &mut Criterion) {
    let entries = (16 << 20) / BYTES_PER_ENTRY;
    let ops = uniform_ops(entries, 1_000);
    let mut state = State::with_entries(entries);
    criterion.bench_function("freeze after 1,000 updates of 16 MiB", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut elapsed = Duration::ZERO;
            for _ in 0..iterations {
                ops.iter().for_each(|op| state.update(*op));
                let start = Instant::now();
                let list = black_box(state.freeze());
                elapsed += start.elapsed();
                drain(list);
            }
            elapsed
        });
    });
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench") && !common::smoke();
    table(if measure { &FULL } else { &SMOKE });
    let mut criterion = Criterion::default().configure_from_args();
    freeze(&mut criterion);
    criterion.final_summary();
}
