//! Whole jobs: the prefix equation at every checkpoint, exactly-once output, and what ends a job.

mod support;

use std::sync::Arc;
use std::time::Duration;

use isobar::checkpoint::{AlignmentMode, CheckpointConfig};
use isobar::job::{Driver, Ended, Event, JobBuilder, JobError, JobHandle, Restore};
use isobar::snapshot::MemoryStore;
use support::{CountingSource, Ledger, LedgerSink, Positions, Tallies, Tally};

/// The limit and the skew of each channel's source.
type Channels = &'static [(u64, u32)];

/// Numbers from one source subtask per channel, folded per source by `parallelism` subtasks, into a ledger.
struct Pipeline {
    channels: Channels,
    parallelism: usize,
    mode: AlignmentMode,
    driver: Driver,
    store: Arc<MemoryStore>,
    tallies: Tallies,
    ledger: Ledger,
}

impl Pipeline {
    fn new(channels: Channels, parallelism: usize) -> Self {
        Self {
            channels,
            parallelism,
            mode: AlignmentMode::ExactlyOnce,
            driver: Driver::Auto,
            store: Arc::new(MemoryStore::new()),
            tallies: Tallies::default(),
            ledger: Ledger::default(),
        }
    }

    fn builder(&self, positions: Option<Positions>) -> JobBuilder {
        let config = CheckpointConfig {
            mode: self.mode,
            retained: 1 << 20,
            ..CheckpointConfig::every(Duration::from_millis(1))
        };
        let builder = JobBuilder::new("pipeline")
            .checkpointing(config)
            .store(self.store.clone())
            .parallelism(self.parallelism)
            .driver(self.driver)
            .ring_capacity(64);
        let (tallies, ledger, channels) = (self.tallies.clone(), self.ledger.clone(), self.channels);
        builder
            .source("numbers", move |i| {
                let source = CountingSource::new(i as u64, channels[i].0, channels[i].1);
                CountingSource { positions: positions.clone(), ..source }
            })
            .parallelism(channels.len())
            .key_by(|item| item.source)
            .process("tally", move |_| Tally::new(&tallies))
            .sink("ledger", move |_| LedgerSink::new(&ledger));
        builder
    }

    /// The fold of the first `count` records of a source.
    fn fold(count: u64) -> (u64, u64, bool) {
        (count, count * count.saturating_sub(1) / 2, true)
    }

    /// Runs to the end; gives the ids of the completed checkpoints.
    fn run(&self) -> Vec<u64> {
        let handle = self.builder(None).build().unwrap().start().unwrap();
        let completed = completed_until_end(&handle);
        let outcome = handle.join().unwrap();
        assert_eq!(outcome.ended, Ended::EndOfData);
        assert_eq!(outcome.records, self.channels.iter().map(|(limit, _)| limit).sum::<u64>());
        assert_eq!(outcome.last_checkpoint, completed.last().copied());
        completed
    }

    /// Restores `checkpoint` with sources that give nothing more: what the operator publishes is the state at the
    /// barrier, and the sources note their positions at it.
    fn check_prefix(&self, checkpoint: u64) {
        let positions = Positions::default();
        self.tallies.lock().unwrap().clear();
        let builder = self.builder(Some(positions.clone())).restore(Restore::Checkpoint(checkpoint));
        builder.build().unwrap().run().unwrap();
        let tallies = self.tallies.lock().unwrap();
        let positions = positions.lock().unwrap();
        assert_eq!(positions.len(), self.channels.len());
        for (source, &position) in positions.iter() {
            let tally = tallies.get(source).copied().unwrap_or(Self::fold(0));
            assert_eq!(tally, Self::fold(position), "checkpoint {checkpoint}, source {source}");
        }
    }
}

fn completed_until_end(handle: &JobHandle) -> Vec<u64> {
    let mut completed = Vec::new();
    loop {
        let finished = handle.is_finished();
        match handle.next_event(Duration::from_millis(1)) {
            Some(Event::Completed(stats)) => completed.push(stats.checkpoint),
            Some(_) => {}
            None if finished => return completed,
            None => {}
        }
    }
}

/// Runs a pipeline, then checks its output, its final state, and the prefix equation at up to `samples` checkpoints.
fn check(pipeline: &Pipeline, samples: usize) {
    let completed = pipeline.run();
    for (source, &(limit, _)) in pipeline.channels.iter().enumerate().filter(|(_, (limit, _))| *limit > 0) {
        assert_eq!(pipeline.tallies.lock().unwrap()[&(source as u64)], Pipeline::fold(limit), "source {source}");
    }
    let mut committed: Vec<_> =
        pipeline.ledger.committed.lock().unwrap().iter().map(|item| (item.source, item.sequence)).collect();
    committed.sort_unstable();
    let expected = |(source, (limit, _)): (usize, &(u64, u32))| (0..*limit).map(move |n| (source as u64, n));
    assert!(committed.iter().copied().eq(pipeline.channels.iter().enumerate().flat_map(expected)));
    assert!(!completed.is_empty(), "a bounded job ends with a last checkpoint");
    let step = completed.len().div_ceil(samples).max(1);
    // From the newest back: going back to a checkpoint begins a branch, which no longer has those behind it.
    for &checkpoint in completed.iter().rev().step_by(step) {
        pipeline.check_prefix(checkpoint);
    }
}

#[test]
fn the_state_is_the_fold_of_the_prefix_on_1_channel() {
    check(&Pipeline::new(&[(400_000, 0)], 1), 8);
}

#[test]
fn the_state_is_the_fold_of_the_prefix_on_2_skewed_channels() {
    check(&Pipeline::new(&[(400_000, 0), (40_000, 3)], 1), 8);
}

#[test]
fn the_state_is_the_fold_of_the_prefix_on_5_channels_of_which_some_end_early_or_are_empty() {
    check(&Pipeline::new(&[(200_000, 0), (10_000, 9), (0, 0), (1, 0), (100_000, 1)], 2), 8);
}

#[test]
fn the_state_is_the_fold_of_the_prefix_on_plain_threads() {
    let pipeline = Pipeline { driver: Driver::Threads, ..Pipeline::new(&[(300_000, 0), (30_000, 2)], 2) };
    check(&pipeline, 4);
}

#[test]
fn a_stopped_job_resumes_where_it_stood() {
    let pipeline = Pipeline::new(&[(2_000_000, 0), (1_000_000, 0)], 2);
    let handle = pipeline.builder(None).build().unwrap().start().unwrap();
    while !matches!(handle.next_event(Duration::from_secs(10)).expect("a checkpoint"), Event::Completed(_)) {}
    handle.stop();
    let first = handle.join().unwrap();
    let resumed = pipeline.builder(None).restore(Restore::Latest).build().unwrap().run().unwrap();
    assert_eq!(resumed.restored, first.last_checkpoint);
    assert_eq!(first.records + resumed.records, 3_000_000, "no record is read twice after an orderly stop");
    assert_eq!(pipeline.tallies.lock().unwrap()[&0], Pipeline::fold(2_000_000));
    assert_eq!(pipeline.ledger.committed.lock().unwrap().len(), 3_000_000);
}

#[test]
fn a_cancelled_job_resumes_from_its_last_checkpoint_with_exactly_once_output() {
    let pipeline = Pipeline::new(&[(1_000_000, 0), (1_000_000, 0)], 2);
    let mut completed = 0;
    let handle = pipeline.builder(None).build().unwrap().start().unwrap();
    while completed < 3 && !handle.is_finished() {
        completed += u32::from(matches!(handle.next_event(Duration::from_millis(5)), Some(Event::Completed(_))));
    }
    handle.cancel();
    let cancelled = handle.join();
    assert!(matches!(cancelled, Err(JobError::Cancelled) | Ok(_)), "{cancelled:?}");
    pipeline.builder(None).restore(Restore::Latest).build().unwrap().run().unwrap();
    let mut committed: Vec<_> =
        pipeline.ledger.committed.lock().unwrap().iter().map(|item| (item.source, item.sequence)).collect();
    let total = committed.len();
    committed.sort_unstable();
    committed.dedup();
    assert_eq!((total, committed.len()), (2_000_000, 2_000_000));
}

#[test]
fn a_running_job_goes_back_to_a_checkpoint_on_request() {
    let pipeline = Pipeline::new(&[(3_000_000, 0)], 1);
    let handle = pipeline.builder(None).build().unwrap().start().unwrap();
    let first = loop {
        if let Some(Event::Completed(stats)) = handle.next_event(Duration::from_secs(10)) {
            break stats.checkpoint;
        }
    };
    handle.restore(first);
    let mut restored = None;
    while restored.is_none() && !handle.is_finished() {
        if let Some(Event::Restored { checkpoint, .. }) = handle.next_event(Duration::from_millis(100)) {
            restored = Some(checkpoint);
        }
    }
    let outcome = handle.join().unwrap();
    assert_eq!(restored, Some(first));
    assert_eq!(outcome.ended, Ended::EndOfData);
    assert_eq!(pipeline.tallies.lock().unwrap()[&0], Pipeline::fold(3_000_000));
}

#[test]
fn at_least_once_loses_nothing_and_without_a_failure_doubles_nothing() {
    let pipeline =
        Pipeline { mode: AlignmentMode::AtLeastOnce, ..Pipeline::new(&[(300_000, 0), (30_000, 3), (5, 0)], 2) };
    pipeline.run();
    for (source, &(limit, _)) in pipeline.channels.iter().enumerate() {
        assert_eq!(pipeline.tallies.lock().unwrap()[&(source as u64)], Pipeline::fold(limit));
    }
}

#[test]
fn a_job_without_checkpointing_commits_its_output_at_the_end() {
    let (tallies, ledger) = (Tallies::default(), Ledger::default());
    let builder = JobBuilder::new("plain");
    let (t, l) = (tallies.clone(), ledger.clone());
    builder
        .source("numbers", |_| CountingSource::new(0, 10_000, 0))
        .filter(|item| item.sequence % 2 == 0)
        .flat_map(|item| [item, item])
        .key_by(|item| item.source)
        .process("tally", move |_| Tally::new(&t))
        .sink("ledger", move |_| LedgerSink::new(&l));
    let outcome = builder.build().unwrap().run().unwrap();
    assert_eq!((outcome.last_checkpoint, outcome.checkpoints.triggered), (None, 0));
    assert_eq!(tallies.lock().unwrap()[&0].0, 10_000);
    assert_eq!(ledger.committed.lock().unwrap().len(), 10_000);
}

#[test]
fn a_panic_in_user_code_ends_the_job_with_an_error_that_names_operator_and_subtask() {
    let builder = JobBuilder::new("panics").checkpointing(CheckpointConfig::every(Duration::from_millis(1)));
    builder
        .source("numbers", |_| CountingSource::new(0, u64::MAX, 0))
        .map(|item| {
            assert!(item.sequence < 100_000, "the hundred-thousandth");
            item
        })
        .key_by(|item| item.source)
        .process("tally", |_| Tally::new(&Tallies::default()))
        .for_each("ignore", |_| {});
    let error = builder.build().unwrap().run().unwrap_err();
    assert!(matches!(&error, JobError::Operator { operator, subtask: 0, .. } if operator == "numbers"), "{error}");
    assert!(error.to_string().contains("the hundred-thousandth"), "{error}");
}

#[test]
fn a_union_and_a_shared_stream_lose_and_double_nothing() {
    let (tallies, ledger) = (Tallies::default(), Ledger::default());
    let builder = JobBuilder::new("diamond").checkpointing(CheckpointConfig::every(Duration::from_millis(1)));
    let shared = builder.source("numbers", |_| CountingSource::new(0, 200_000, 0)).share();
    let even = shared.reader().filter(|item| item.sequence % 2 == 0);
    let odd = shared.reader().filter(|item| item.sequence % 2 == 1);
    let (t, l) = (tallies.clone(), ledger.clone());
    even.union(odd)
        .key_by(|item| item.source)
        .process("tally", move |_| Tally::new(&t))
        .sink("ledger", move |_| LedgerSink::new(&l));
    builder.build().unwrap().run().unwrap();
    let (count, sum, _) = tallies.lock().unwrap()[&0];
    assert_eq!((count, sum), (200_000, 199_999 * 100_000));
    let mut committed: Vec<_> = ledger.committed.lock().unwrap().iter().map(|item| item.sequence).collect();
    committed.sort_unstable();
    assert!(committed.into_iter().eq(0..200_000));
}
