//! The ring against rtrb and disruptor: 64-byte messages from one pinned core to another.
//!
//! ```text
//!   core 0                              core 1
//!   producer ──── ring, 1024 slots ───▶ consumer, which asserts the checksum
//! ```
//!
//! `cargo bench --bench ring` runs the contenders in turn, round after round, and prints the median of the rounds'
//! ratios: on a shared machine only what ran side by side can be compared. A section of its own says what an input gate adds on one core. Then criterion measures ours alone, to be
//! compared with its own earlier runs. Without `--bench`, as `cargo test` runs it, sizes are such that it only checks
//! answers.

mod contender;
mod gate;
mod paired;

use std::time::Duration;

use contender::{disruptor, ours, rtrb};
use criterion::{Criterion, Throughput};
use paired::{Cores, batched, half_round_trip, hops, one_by_one};

struct Sizes {
    rounds: usize,
    messages: u64,
    hops: u64,
    hop_interval_ns: u64,
}

const FULL: Sizes = Sizes { rounds: 11, messages: 1 << 21, hops: 100_000, hop_interval_ns: 1_000 };
const SMOKE: Sizes = Sizes { rounds: 1, messages: 10_000, hops: 500, hop_interval_ns: 1_000 };

/// The channels of the gates that are compared.
const CHANNELS: [usize; 4] = [1, 2, 8, 64];

/// One round's figure of each contender.
#[derive(Clone, Copy)]
struct Round {
    ours: f64,
    rtrb: f64,
    disruptor: f64,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints each contender's median and the median of the rounds' ratios.
fn report(name: &str, unit: &str, rounds: &[Round]) {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    println!(
        "{name:<24} ours {:8.1} {unit}, rtrb {:8.1}, disruptor {:8.1}; ours/rtrb {:.2}, ours/disruptor {:.2}",
        of(|r| r.ours),
        of(|r| r.rtrb),
        of(|r| r.disruptor),
        of(|r| r.ours / r.rtrb),
        of(|r| r.ours / r.disruptor),
    );
}

fn rounds(count: usize, mut round: impl FnMut() -> Round) -> Vec<Round> {
    (0..count).map(|_| round()).collect()
}

fn compare(cores: &Cores, sizes: &Sizes) {
    let messages = sizes.messages;
    let rate = |elapsed: Duration| messages as f64 / elapsed.as_secs_f64() / 1e6;
    let throughput = rounds(sizes.rounds, || Round {
        ours: rate(batched(cores, ours(), messages)),
        rtrb: rate(batched(cores, rtrb(), messages)),
        disruptor: rate(batched(cores, disruptor(), messages)),
    });
    report("batches of 64", "M/s", &throughput);
    let single = rounds(sizes.rounds, || Round {
        ours: rate(one_by_one(cores, ours(), messages)),
        rtrb: rate(one_by_one(cores, rtrb(), messages)),
        disruptor: rate(one_by_one(cores, disruptor(), messages)),
    });
    report("one by one", "M/s", &single);

    compare_hops(cores, sizes);
    compare_gates(sizes);
}

/// Hops beside the least that one can take: the time a cache line takes from core to core.
fn compare_hops(cores: &Cores, sizes: &Sizes) {
    let (count, interval) = (sizes.hops, sizes.hop_interval_ns);
    let (mut p50, mut p99, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let hops = (
            hops(cores, ours(), count, interval),
            hops(cores, rtrb(), count, interval),
            hops(cores, disruptor(), count, interval),
        );
        let at = |hops: &[u64], percentile: usize| hops[hops.len() * percentile / 100] as f64;
        let round = |percentile| Round {
            ours: at(&hops.0, percentile),
            rtrb: at(&hops.1, percentile),
            disruptor: at(&hops.2, percentile),
        };
        p50.push(round(50));
        p99.push(round(99));
        lines.push(half_round_trip(cores, count));
    }
    report("hop p50 at 1 M/s", "ns ", &p50);
    report("hop p99 at 1 M/s", "ns ", &p99);
    let ratio = median(p50.iter().zip(&lines).map(|(round, line)| round.ours / line));
    println!("half a cache line's round trip: {:.0} ns; our hop p50 / that: {ratio:.2}", median(lines.into_iter()));
}

/// What a record costs behind a gate, by the number of its channels, which share the same number of slots.
fn compare_gates(sizes: &Sizes) {
    let costs: Vec<_> = (0..sizes.rounds).map(|_| CHANNELS.map(|n| gate::drain(n, sizes.messages))).collect();
    for (i, channels) in CHANNELS.into_iter().enumerate() {
        let ns = median(costs.iter().map(|cost| cost[i].as_nanos() as f64 / sizes.messages as f64));
        let ratio = median(costs.iter().map(|cost| cost[i].as_secs_f64() / cost[0].as_secs_f64()));
        println!("gate, {channels:2} channels: {ns:.1} ns a record, {ratio:.2} x one channel's");
    }
}

/// Ours alone, for criterion's comparison with its earlier runs.
fn track(cores: &Cores, criterion: &mut Criterion, messages: u64) {
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(messages)).sample_size(20).measurement_time(Duration::from_secs(3));
    group.bench_function("batches of 64", |b| {
        b.iter_custom(|iterations| (0..iterations).map(|_| batched(cores, ours(), messages)).sum());
    });
    group.bench_function("one by one", |b| {
        b.iter_custom(|iterations| (0..iterations).map(|_| one_by_one(cores, ours(), messages)).sum());
    });
    group.finish();
}

fn main() {
    let cores = Cores::pick();
    let measure = std::env::args().any(|arg| arg == "--bench");
    let sizes = if measure { FULL } else { SMOKE };
    compare(&cores, &sizes);
    if measure {
        track(&cores, &mut Criterion::default().configure_from_args(), sizes.messages);
    }
}
