//! Alignment: what the state machine costs, and t_align in a running job, by channels and by injected skew.
//!
//! ```text
//! source 0 ─┐
//! source 1 ─┼─ ring each ─ gate, cursors stop at the barrier ─ keyed process ─ callback
//! ...       ┘
//! ```
//! The skewed source holds each of its turns for the given time, as a slow feed would; t_align can then reach that time
//! and should not exceed it by more than the machine's own gaps, which are printed beside it. Every run asserts the sum
//! of what arrived.

mod common;

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use isobar::channel::Record;
use isobar::checkpoint::{Aligner, AlignmentMode, CheckpointConfig, Decision};
use isobar::job::{JobBuilder, Outcome};
use isobar::measure::{cores, noise_floor};
use isobar::operator::{OperatorError, Polled, Source};
use isobar::state::Arena;

/// Counts up to a limit; holds the core for `hold` on every 1,000th poll.
struct Numbers {
    next: u64,
    limit: u64,
    hold: Duration,
}

impl Source for Numbers {
    type Out = u64;

    fn open(&mut self, _state: &mut Arena, position: Option<u64>) -> Result<(), OperatorError> {
        self.next = position.unwrap_or(0);
        Ok(())
    }

    fn poll(&mut self, _state: &mut Arena) -> Result<Polled<u64>, OperatorError> {
        if self.next == self.limit {
            return Ok(Polled::EndOfData);
        }
        self.next += 1;
        if !self.hold.is_zero() && self.next.is_multiple_of(1_000) {
            let begin = Instant::now();
            while begin.elapsed() < self.hold {
                spin_loop();
            }
        }
        Ok(Polled::Record(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: self.next }))
    }

    fn position(&self) -> u64 {
        self.next
    }
}

/// Runs `channels` sources of `records` each into one subtask, a checkpoint every millisecond; source 0 is skewed.
fn run(channels: usize, records: u64, skew: Duration) -> Outcome {
    let cores = cores();
    let sum = Arc::new(AtomicU64::new(0));
    let builder = JobBuilder::new("align").checkpointing(CheckpointConfig::every(Duration::from_millis(1)));
    let adding = Arc::clone(&sum);
    builder
        .source("numbers", move |i| Numbers {
            next: 0,
            limit: records,
            hold: if i == 0 { skew } else { Duration::ZERO },
        })
        .parallelism(channels)
        .cores(&cores[..1])
        .broadcast(1)
        .cores(&cores[cores.len() - 1..])
        .for_each("sum", move |record| {
            adding.store(adding.load(Ordering::Relaxed) + record.value, Ordering::Relaxed);
        });
    let outcome = builder.build().expect("a valid graph").run().expect("a job that ends");
    assert_eq!(sum.load(Ordering::Relaxed), channels as u64 * records * (records + 1) / 2);
    outcome
}

fn table() {
    let smoke = common::smoke();
    let floor_for = Duration::from_millis(if smoke { 5 } else { 500 });
    let floor = noise_floor(cores(), floor_for).ok().and_then(|floor| floor.percentiles());
    println!("noise floor: {}", common::percentiles(floor));
    println!("{:>8} {:>10} {:>11}  t_align", "channels", "skew", "checkpoints");
    for channels in [2, 4, 16] {
        for skew_us in [0, 10, 100, 1_000] {
            let records = if smoke { 2_000 } else { 4_000_000 / (1 + skew_us) };
            let outcome = run(channels, records, Duration::from_micros(skew_us));
            assert!(outcome.checkpoints.completed > 0);
            let (completed, t_align) = (outcome.checkpoints.completed, outcome.checkpoints.t_align_ns);
            println!("{channels:>8} {skew_us:>7} us {completed:>11}  {}", common::percentiles(t_align));
        }
    }
}

/// One checkpoint through an aligner: a barrier on each channel, the decision at the last.
fn state_machine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("aligner");
    for channels in [1usize, 4, 16] {
        group.bench_function(BenchmarkId::new("checkpoint", channels), |bencher| {
            let mut aligner = Aligner::new(AlignmentMode::ExactlyOnce, channels);
            let mut checkpoint = 0;
            bencher.iter(|| {
                checkpoint += 1;
                for channel in 0..channels {
                    aligner.barrier(channel, checkpoint, (), checkpoint * 100 + channel as u64);
                }
                let Some(Decision::Snapshot(snapshot)) = aligner.decide() else { panic!("all barriers are there") };
                assert_eq!(snapshot.t_align_ns, channels as u64 - 1);
                assert!(!aligner.is_stopped(0));
                black_box(snapshot)
            });
        });
    }
    group.finish();
}

fn main() {
    table();
    let mut criterion = Criterion::default().configure_from_args();
    state_machine(&mut criterion);
    criterion.final_summary();
}
