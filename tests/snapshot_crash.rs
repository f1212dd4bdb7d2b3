//! A crash after any operation, with any part of the unsynced sectors on the disk: what was complete is there.
#![allow(clippy::unwrap_used)]

mod snapshot_model;

use std::sync::Arc;

use isobar::snapshot::*;
use snapshot_model::*;

/// A run, with the number of journal steps at which each checkpoint was reported durable.
struct Run {
    store: MemoryStore,
    model: Model,
    durable_at: Vec<(u64, usize)>,
}

/// Two attempts (the second from an earlier checkpoint), several segments, a failed sync, a clean end.
fn run() -> Run {
    let store = MemoryStore::journaled();
    let mut run = Run { store: store.clone(), model: Model::default(), durable_at: Vec::new() };
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    for checkpoint in 1..=8 {
        if checkpoint == 5 {
            store.set_faults(|operation| (operation == Operation::Sync).then_some(Fault::Io));
        }
        run.checkpoint(&mut writer, checkpoint);
        store.clear_faults();
    }
    run.model.go_back(Some(6));
    let mut writer = open(&store).unwrap().writer(Some(6), small()).unwrap();
    for checkpoint in 9..=14 {
        run.checkpoint(&mut writer, checkpoint);
    }
    writer.command(Command::Close);
    settle(&mut writer, 100);
    run
}

impl Run {
    fn checkpoint(&mut self, writer: &mut Writer, checkpoint: u64) {
        for i in 0..60u32 {
            let n = (checkpoint as u32).wrapping_mul(2_654_435_761).wrapping_add(i * 40_503) >> 4;
            self.model.write(operator(0), n % 2, page(n % 40), (n / 40 % 64) as usize, checkpoint as u8);
        }
        self.model.checkpoint(writer, checkpoint, 2);
        // In small slices, so that blocks are written before the commit is, and step by step in the journal.
        let events = settle(writer, 3);
        self.durable_at.extend(durable(&events).into_iter().map(|checkpoint| (checkpoint, self.store.steps())));
    }

    /// The history after `steps` operations: what had been reported durable. After the second attempt's record is
    /// durable, checkpoints 7 and 8 are no longer part of it; before, they are.
    fn reported(&self, steps: usize) -> Vec<u64> {
        self.durable_at.iter().filter(|(_, at)| *at <= steps).map(|(checkpoint, _)| *checkpoint).collect()
    }
}

#[test]
fn after_a_crash_at_any_step_whatever_was_complete_is_there_and_all_that_is_there_is_right() {
    let run = run();
    assert_eq!(run.durable_at.len(), 13, "all but the fifth");
    let mut torn = 0;
    for steps in 0..=run.store.steps() {
        for pattern in 0..6u64 {
            let mut random = 0x9E37_79B9 ^ (steps as u64) << 8 ^ pattern;
            let crashed = run.store.crash(steps, |_, _| match pattern {
                0 => false,
                1 => true,
                _ => {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    random >> 62 != 0
                }
            });
            let log = match open(&crashed) {
                Ok(log) => log,
                // Before the manifest there is no store.
                Err(LogError::Store(StoreError::Missing { .. })) if steps == 0 => continue,
                Err(error) => panic!("step {steps}, pattern {pattern}: {error}"),
            };
            let held: Vec<u64> = log.checkpoints().collect();
            let gone_back = !held.contains(&7) && steps >= run.durable_at[6].1;
            for checkpoint in run.reported(steps).into_iter().filter(|c| !(gone_back && [7, 8].contains(c))) {
                assert!(held.contains(&checkpoint), "step {steps}, pattern {pattern}: {checkpoint} not in {held:?}");
            }
            assert_restores(&log, &run.model);
            torn += usize::from(log.torn_tail().is_some());
            goes_on(&crashed, &log, &run.model);
        }
    }
    assert!(torn > 0, "some commit records were found without their blocks");
}

/// The next attempt begins behind whatever the crash has left, and its checkpoint is complete.
fn goes_on(store: &MemoryStore, log: &CheckpointLog, model: &Model) {
    let mut model = model.clone();
    model.go_back(log.last());
    let mut writer = log.writer(log.last(), small()).unwrap();
    model.write(operator(0), 0, page(0), 0, 200);
    let checkpoint = log.highest() + 1;
    model.checkpoint(&mut writer, checkpoint, 2);
    assert_eq!(durable(&settle(&mut writer, 100)), [checkpoint]);
    let log = open(&store.crash(store.steps(), |_, _| false)).unwrap();
    assert_eq!(log.last(), Some(checkpoint));
    assert!(restored(&log, checkpoint).unwrap().0 == model.history[&checkpoint]);
}

#[test]
fn a_log_that_ends_before_what_is_published_is_an_error_that_names_both() {
    let run = run();
    let steps = run.durable_at[3].1;
    let crashed = run.store.crash(steps, |_, _| false);
    let options = OpenOptions { published: Some(9) };
    let error = CheckpointLog::open(Arc::new(crashed.clone()), &options).unwrap_err();
    assert!(matches!(error, LogError::BehindPublished { last: 4, published: 9, .. }), "{error}");
    assert!(CheckpointLog::open(Arc::new(crashed), &OpenOptions { published: Some(4) }).is_ok());
}
