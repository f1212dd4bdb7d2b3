//! The job that is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use isobar::channel::Record;
use isobar::checkpoint::CheckpointConfig;
use isobar::job::{CheckpointStats, Event, JobBuilder};
use isobar::measure::cores;
use isobar::operator::{Collector, KeyedProcess, OperatorError, Polled, Source};
use isobar::state::{Arena, KeyedMap};

use crate::common::keyed_state::{GROUPS, Random, fill};

/// What was measured between the warm-up and the end.
pub struct Run {
    pub checkpoints: Vec<CheckpointStats>,
    /// From the first of them to the last.
    pub seconds: f64,
}

/// Random keys below `entries`, until it is told to end.
struct Keys {
    random: Random,
    entries: u64,
    given: u64,
    end: Arc<AtomicBool>,
}

impl Source for Keys {
    type Out = u64;

    fn open(&mut self, _state: &mut Arena, _position: Option<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn poll(&mut self, _state: &mut Arena) -> Result<Polled<u64>, OperatorError> {
        if self.end.load(Ordering::Relaxed) {
            return Ok(Polled::EndOfData);
        }
        self.given += 1;
        let value = self.random.next() % self.entries;
        Ok(Polled::Record(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value }))
    }

    fn position(&self) -> u64 {
        self.given
    }
}

/// Counts each key; all keys have an entry from the start.
struct Count {
    entries: u64,
    counts: Option<KeyedMap<u64, u64>>,
    sum: Arc<AtomicU64>,
}

impl KeyedProcess for Count {
    type In = u64;
    type Out = ();

    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let mut counts = KeyedMap::open(state, "counts", 1)?;
        fill(state, &mut counts, self.entries);
        self.counts = Some(counts);
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<&u64>,
        state: &mut Arena,
        _out: &mut impl Collector<()>,
    ) -> Result<(), OperatorError> {
        let counts = self.counts.as_mut().ok_or("not open")?;
        counts.modify(state, record.value, |count| *count += 1)?.ok_or("a key without an entry")?;
        Ok(())
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let mut sum = 0;
        self.counts.as_ref().ok_or("not open")?.for_each(state, |_, count| sum += count);
        self.sum.store(sum, Ordering::Relaxed);
        Ok(())
    }
}

/// Completed checkpoints before the first that counts: the first of all writes the whole state.
const WARM_UP: usize = 5;

/// Runs the job until `checkpoints` were completed after the warm-up.
pub fn run(entries: u64, interval: Duration, checkpoints: usize) -> Run {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the store");
    let (end, sum) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let owner = &cores()[..1];
    let builder = JobBuilder::new("sync-phase")
        .checkpointing(CheckpointConfig::every(interval))
        .max_parallelism(GROUPS)
        .store_directory(folder.path())
        .expect("a new store");
    let (ending, summed) = (Arc::clone(&end), Arc::clone(&sum));
    builder
        .source("keys", move |_| Keys { random: Random(2), entries, given: 0, end: Arc::clone(&ending) })
        .cores(owner)
        .key_by(|key| *key)
        .process("count", move |_| Count { entries, counts: None, sum: Arc::clone(&summed) })
        .cores(owner)
        .for_each("nothing", |_| {});
    let handle = builder.build().expect("a valid graph").start().expect("a job that starts");

    let mut measured = Vec::with_capacity(checkpoints);
    let (mut completed, mut begin) = (0, None);
    while measured.len() < checkpoints {
        assert!(!handle.is_finished(), "the job ended by itself");
        let Some(Event::Completed(stats)) = handle.next_event(Duration::from_millis(100)) else { continue };
        completed += 1;
        if completed == WARM_UP {
            begin = Some(std::time::Instant::now());
        } else if completed > WARM_UP {
            measured.push(stats);
        }
    }
    let seconds = begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
    end.store(true, Ordering::Relaxed);
    let outcome = handle.join().expect("a job that ends");
    assert!(outcome.records > 0);
    assert_eq!(sum.load(Ordering::Relaxed), outcome.records, "a record was lost or counted twice");
    Run { checkpoints: measured, seconds }
}
