//! A disk that fails: the checkpoint at hand fails, the writer goes on, and no line is ever missing afterwards.
#![allow(clippy::unwrap_used)]

mod snapshot_model;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use isobar::failpoint::{self, Failpoint};
use isobar::snapshot::*;
use proptest::prelude::*;
use snapshot_model::*;

fn touch(model: &mut Model, seed: u32, writes: u32) {
    for i in 0..writes {
        let n = seed.wrapping_mul(2_654_435_761).wrapping_add(i * 40_503) >> 4;
        model.write(operator(0), n % 2, page(n % 50), (n / 50 % 64) as usize, (seed + i) as u8 | 1);
    }
}

fn begin(store: &MemoryStore) -> Writer {
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    log.writer(None, small()).unwrap()
}

/// Fails the nth operation of its kind from now on.
fn fail_nth(store: &MemoryStore, operation: Operation, nth: u32, fault: Fault) {
    let count = AtomicU32::new(0);
    store.set_faults(move |at| (at == operation && count.fetch_add(1, Ordering::Relaxed) + 1 == nth).then_some(fault));
}

#[test]
fn one_fault_fails_one_checkpoint_and_the_next_holds_its_lines() {
    let faults = [
        (Operation::Write, Fault::Io),
        (Operation::Write, Fault::Full),
        (Operation::Write, Fault::Short),
        (Operation::Sync, Fault::Io),
    ];
    for (operation, fault) in faults {
        let (store, mut model) = (MemoryStore::journaled(), Model::default());
        let mut writer = begin(&store);
        for checkpoint in 1..=6 {
            touch(&mut model, checkpoint as u32, 40);
            if checkpoint == 3 {
                fail_nth(&store, operation, 1, fault);
            }
            model.checkpoint(&mut writer, checkpoint, 2);
            let events = settle(&mut writer, 9);
            match checkpoint {
                3 => {
                    assert_eq!(failed(&events), [3], "{operation:?} {fault:?}: {events:?}");
                    let Event::Failed { reason, .. } = &events[0] else { unreachable!() };
                    assert!(!reason.to_string().contains('\n') && reason.to_string().contains("segment"), "{reason}");
                }
                _ => assert_eq!(durable(&events), [checkpoint], "{operation:?} {fault:?}"),
            }
        }
        assert_eq!(writer.write_failures(), 1);
        // A crash right behind the last sync: only what was really synced counts.
        let log = open(&store.crash(store.steps(), |_, _| false)).unwrap();
        assert_eq!(log.checkpoints().collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        assert_restores(&log, &model);
    }
}

#[test]
fn a_segment_in_which_a_sync_failed_is_never_written_again() {
    let (store, mut model) = (MemoryStore::journaled(), Model::default());
    let mut writer = begin(&store);
    touch(&mut model, 1, 40);
    model.checkpoint(&mut writer, 1, 2);
    settle(&mut writer, 100);
    let kept = store.lens();
    fail_nth(&store, Operation::Sync, 1, Fault::Io);
    for checkpoint in 2..=4 {
        touch(&mut model, checkpoint as u32, 40);
        model.checkpoint(&mut writer, checkpoint, 2);
        settle(&mut writer, 100);
    }
    let lens = store.lens();
    assert_eq!(lens.len(), kept.len() + 1, "what followed went into another segment");
    assert!(lens[0].1 < kept[0].1, "the failed one was cut to what had been durable");
}

#[test]
fn what_a_failed_sync_leaves_behind_is_not_history_even_if_it_cannot_be_cut_off() {
    for steps in [1, 2, 3] {
        let (store, mut model) = (MemoryStore::new(), Model::default());
        let mut writer = begin(&store);
        for checkpoint in 1..=6 {
            touch(&mut model, checkpoint as u32, 40);
            let mut left = if (3..3 + steps).contains(&checkpoint) { 1 } else { 0 };
            store.set_faults(move |operation| match operation {
                Operation::Trim => Some(Fault::Io),
                Operation::Sync if left > 0 => {
                    left -= 1;
                    Some(Fault::Io)
                }
                _ => None,
            });
            model.checkpoint(&mut writer, checkpoint, 2);
            settle(&mut writer, 9);
        }
        store.clear_faults();
        // A process that starts again on a running system sees the failed commit records, whole and in place.
        let log = open(&store).unwrap();
        let expected: Vec<u64> = (1..=6).filter(|checkpoint| !(3..3 + steps).contains(checkpoint)).collect();
        assert_eq!(log.checkpoints().collect::<Vec<_>>(), expected);
        assert_restores(&log, &model);
    }
}

#[test]
fn a_full_disk_fails_every_checkpoint_at_once_and_recovers_with_all_lines() {
    let (store, mut model) = (MemoryStore::journaled(), Model::default());
    let mut writer = begin(&store);
    for checkpoint in 1..=40 {
        touch(&mut model, checkpoint as u32, 80);
        match checkpoint {
            2 => store.set_faults(|operation| {
                matches!(operation, Operation::Write | Operation::Create).then_some(Fault::Full)
            }),
            39 => store.clear_faults(),
            _ => {}
        }
        model.checkpoint(&mut writer, checkpoint, 2);
        let events = settle(&mut writer, 50);
        match checkpoint {
            1 | 39 | 40 => assert_eq!(durable(&events), [checkpoint], "{events:?}"),
            _ => assert_eq!(failed(&events), [checkpoint], "{events:?}"),
        }
    }
    let log = open(&store.crash(store.steps(), |_, _| false)).unwrap();
    assert_eq!(log.checkpoints().collect::<Vec<_>>(), [1, 39, 40]);
    assert_restores(&log, &model);
}

#[test]
fn lists_are_not_taken_while_memory_is_full_and_the_disk_fails() {
    struct Counted(Box<List>, Arc<AtomicU32>);
    impl FrozenPages for Counted {
        fn next(&mut self) -> Option<FrozenPage<'_>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.next()
        }
    }
    let (store, mut model) = (MemoryStore::journaled(), Model::default());
    let mut writer = begin(&store);
    store.set_faults(|operation| (operation != Operation::Read).then_some(Fault::Io));
    let taken = Arc::new(AtomicU32::new(0));
    for checkpoint in 1..=3 {
        for index in 0..40 {
            for line in 0..64 {
                model.write(operator(0), 0, page(index), line, checkpoint as u8);
            }
        }
        model.history.insert(checkpoint, model.pages.clone());
        let pages = Box::new(Counted(model.freeze(operator(0), 0), Arc::clone(&taken)));
        writer.command(Command::Delta { checkpoint, operator: operator(0), subtask: 0, pages });
        writer.command(Command::Commit(parts(checkpoint, 1)));
        assert_eq!(failed(&settle(&mut writer, 1000)), [checkpoint]);
    }
    // 120 full pages are 480 KiB; 128 KiB may be held.
    assert!(taken.load(Ordering::Relaxed) < 40, "{taken:?}");
    store.clear_faults();
    model.write(operator(0), 0, page(0), 0, 99);
    model.checkpoint(&mut writer, 4, 1);
    assert_eq!(durable(&settle(&mut writer, 1000)), [4]);
    let log = open(&store.crash(store.steps(), |_, _| false)).unwrap();
    assert_restores(&log, &model);
    assert_eq!(log.last(), Some(4));
}

#[test]
fn closing_on_a_broken_disk_ends_and_says_why() {
    let (store, mut model) = (MemoryStore::journaled(), Model::default());
    let mut writer = begin(&store);
    store.set_faults(|operation| (operation != Operation::Read).then_some(Fault::Io));
    touch(&mut model, 1, 4000);
    model.checkpoint(&mut writer, 1, 2);
    writer.command(Command::Close);
    let events = settle(&mut writer, 1000);
    assert_eq!(failed(&events), [1]);
    assert!(matches!(events.last(), Some(Event::Closed(Some(_)))), "{events:?}");
    writer.command(Command::Commit(parts(2, 1)));
    assert!(matches!(writer.event(), Some(Event::Failed { checkpoint: 2, reason: FailReason::Closed })));
}

#[test]
fn an_attempt_that_cannot_write_its_record_does_not_begin() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        let store = MemoryStore::journaled();
        let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
        fail_nth(&store, operation, 1, Fault::Full);
        let error = log.writer(None, small()).unwrap_err();
        assert!(matches!(error, LogError::Start(_)), "{error}");
        assert!(error.to_string().contains("free space"), "{error}");
        store.clear_faults();
        assert!(open(&store).unwrap().writer(None, small()).is_ok(), "and the store is as good as before");
    }
}

#[test]
fn every_injected_failpoint_fails_a_checkpoint_and_loses_nothing() {
    let points =
        [Failpoint::BeforeAppend, Failpoint::AfterAppend, Failpoint::BeforeFdatasync, Failpoint::AfterFdatasync];
    for point in points {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(DirectoryStore::create(folder.path(), "job").unwrap());
        let log = CheckpointLog::create(store.clone(), manifest()).unwrap();
        let (mut writer, mut model) = (log.writer(None, small()).unwrap(), Model::default());
        for checkpoint in 1..=5 {
            touch(&mut model, checkpoint as u32, 40);
            if checkpoint == 3 {
                failpoint::inject(point, 1);
            }
            model.checkpoint(&mut writer, checkpoint, 2);
            let events = settle(&mut writer, 9);
            assert_eq!(failed(&events).len(), usize::from(checkpoint == 3), "{}: {events:?}", point.name());
        }
        drop(writer);
        let log = CheckpointLog::open(store, &OpenOptions::default()).unwrap();
        assert_eq!(log.checkpoints().collect::<Vec<_>>(), [1, 2, 4, 5], "{}", point.name());
        assert_restores(&log, &model);
    }
}

/// A step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Write {
        subtask: u32,
        page: u32,
        line: usize,
        byte: u8,
    },
    /// Every line of some pages: fills buffers and segments.
    Flood {
        from: u32,
        pages: u32,
    },
    Checkpoint,
    Abort,
    Turn {
        budget: usize,
    },
    Fault {
        operation: Operation,
        nth: u32,
        fault: Fault,
    },
    LastingFault {
        operation: Operation,
        fault: Fault,
    },
    Heal,
    Crash {
        seed: u64,
    },
    Close,
    GoBack {
        choice: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let operation = prop_oneof![Just(Operation::Write), Just(Operation::Sync), Just(Operation::Create)];
    let fault = prop_oneof![Just(Fault::Io), Just(Fault::Full), Just(Fault::Short)];
    prop_oneof![
        20 => (0..2u32, 0..30u32, 0..64usize, any::<u8>())
            .prop_map(|(subtask, page, line, byte)| Step::Write { subtask, page, line, byte }),
        3 => (0..100u32, 1..12u32).prop_map(|(from, pages)| Step::Flood { from, pages }),
        10 => Just(Step::Checkpoint),
        2 => Just(Step::Abort),
        6 => (1..20usize).prop_map(|budget| Step::Turn { budget }),
        2 => (operation.clone(), 1..4u32, fault.clone())
            .prop_map(|(operation, nth, fault)| Step::Fault { operation, nth, fault }),
        1 => (operation, fault).prop_map(|(operation, fault)| Step::LastingFault { operation, fault }),
        2 => Just(Step::Heal),
        1 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
        1 => Just(Step::Close),
        1 => any::<usize>().prop_map(|choice| Step::GoBack { choice }),
    ]
}

/// A job with a model beside it: what is durable must be there, and whatever is there must be right.
struct Life {
    store: MemoryStore,
    writer: Writer,
    model: Model,
    /// Durable checkpoints of the history.
    durable: Vec<u64>,
    /// Commits that have no answer yet.
    unanswered: Vec<u64>,
    next: u64,
}

impl Life {
    fn new() -> Self {
        let store = MemoryStore::journaled();
        let writer = begin(&store);
        Self { store, writer, model: Model::default(), durable: Vec::new(), unanswered: Vec::new(), next: 1 }
    }

    fn take(&mut self, events: &[Event]) {
        for checkpoint in durable(events).into_iter().chain(failed(events)) {
            let before = self.unanswered.len();
            self.unanswered.retain(|&waiting| waiting != checkpoint);
            assert_eq!(self.unanswered.len() + 1, before, "checkpoint {checkpoint} was answered twice");
        }
        self.durable.extend(durable(events));
    }

    fn settle(&mut self) {
        let events = settle(&mut self.writer, 50);
        self.take(&events);
        assert!(self.unanswered.is_empty(), "no answer to {:?}", self.unanswered);
    }

    /// Opens `store` as a new process would, checks all it holds, and begins an attempt from one of its checkpoints.
    fn restart(&mut self, store: MemoryStore, back: Option<usize>) {
        let log = open(&store).unwrap();
        let held: Vec<u64> = log.checkpoints().collect();
        let last_durable = self.durable.last().copied().unwrap_or(0);
        let common: Vec<u64> = held.iter().copied().filter(|&checkpoint| checkpoint <= last_durable).collect();
        assert_eq!(common, self.durable, "every durable checkpoint is there, and none that failed before one");
        assert_restores(&log, &self.model);
        let parent = match back {
            Some(choice) if !held.is_empty() => Some(held[choice % held.len()]),
            _ => held.last().copied(),
        };
        self.next = self.next.max(log.highest() + 1);
        self.durable = held.into_iter().filter(|&checkpoint| Some(checkpoint) <= parent).collect();
        self.unanswered.clear();
        self.model.go_back(parent);
        self.writer = log.writer(parent, small()).unwrap();
        self.store = store;
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { subtask, page: index, line, byte } => {
                self.model.write(operator(0), subtask, page(index), line, byte);
            }
            Step::Flood { from, pages } => {
                for index in from..from + pages {
                    (0..64).for_each(|line| self.model.write(operator(0), 0, page(index), line, index as u8));
                }
            }
            Step::Checkpoint => {
                self.model.checkpoint(&mut self.writer, self.next, 2);
                self.unanswered.push(self.next);
                self.next += 1;
            }
            Step::Abort => {
                if let Some(&checkpoint) = self.unanswered.last() {
                    self.writer.command(Command::Abort { checkpoint });
                }
            }
            Step::Turn { budget } => {
                self.writer.turn(budget);
                let events: Vec<_> = std::iter::from_fn(|| self.writer.event()).collect();
                self.take(&events);
            }
            Step::Fault { operation, nth, fault } => fail_nth(&self.store, operation, nth, fault),
            Step::LastingFault { operation, fault } => {
                self.store.set_faults(move |at| (at == operation).then_some(fault));
            }
            Step::Heal => self.store.clear_faults(),
            Step::Crash { seed } => {
                let mut random = seed | 1;
                let store = self.store.crash(self.store.steps(), |_, _| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    random >> 63 == 1
                });
                self.restart(store, None);
            }
            Step::Close => {
                self.writer.command(Command::Close);
                self.settle();
                self.store.clear_faults();
                self.restart(self.store.clone(), None);
            }
            Step::GoBack { choice } => {
                self.settle();
                self.store.clear_faults();
                self.restart(self.store.clone(), Some(choice));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_life_with_any_faults_restores_exactly_what_was_durable(steps in prop::collection::vec(step(), 1..150)) {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.step(step));
        life.store.clear_faults();
        life.settle();
        // The disk works again: two checkpoints at most until one is complete, with every line in it.
        for _ in 0..2 {
            life.step(&Step::Checkpoint);
            life.settle();
        }
        prop_assert_eq!(life.durable.last(), Some(&(life.next - 1)));
        let store = life.store.crash(life.store.steps(), |_, _| false);
        life.restart(store, None);
    }
}
