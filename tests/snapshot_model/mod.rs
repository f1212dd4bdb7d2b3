//! A plain model of paged state with dirty lines, and what a store must give back of it.
#![allow(dead_code, clippy::unwrap_used)] // every test file uses a part of it

use std::collections::BTreeMap;
use std::sync::Arc;

use isobar::snapshot::*;

/// Operator, subtask and page.
pub type Key = (OperatorId, u32, PageId);
/// Every page that was ever written.
pub type Pages = BTreeMap<Key, Box<[u8; PAGE_BYTES]>>;

/// The state of a job, what is dirty in it, and what it was at each checkpoint.
#[derive(Clone, Default)]
pub struct Model {
    pub pages: Pages,
    dirty: BTreeMap<Key, u64>,
    pub history: BTreeMap<u64, Pages>,
}

/// A list as the state engine would hand it over.
pub struct List {
    pages: std::vec::IntoIter<(PageId, u64, Box<[u8; PAGE_BYTES]>)>,
    current: Option<(PageId, u64, Box<[u8; PAGE_BYTES]>)>,
}

impl FrozenPages for List {
    fn next(&mut self) -> Option<FrozenPage<'_>> {
        self.current = self.pages.next();
        self.current.as_ref().map(|(id, mask, bytes)| FrozenPage { id: *id, mask: *mask, bytes })
    }
}

pub fn operator(n: u32) -> OperatorId {
    OperatorId::from_name(&format!("operator {n}"))
}

pub fn page(index: u32) -> PageId {
    PageId { state: (index % 3) as u16, key_group: (index % 7) as u16, index }
}

impl Model {
    /// Fills one line of a page.
    pub fn write(&mut self, operator: OperatorId, subtask: u32, id: PageId, line: usize, byte: u8) {
        let key = (operator, subtask, id);
        let page = self.pages.entry(key).or_insert_with(|| Box::new([0; PAGE_BYTES]));
        page[line * LINE_BYTES..(line + 1) * LINE_BYTES].fill(byte);
        *self.dirty.entry(key).or_default() |= 1 << line;
    }

    /// Hands a subtask's dirty lines over; they are clean from here on.
    pub fn freeze(&mut self, operator: OperatorId, subtask: u32) -> Box<List> {
        let frozen: Vec<_> = self
            .dirty
            .extract_if(.., |(o, s, _), _| (*o, *s) == (operator, subtask))
            .map(|(key, mask)| (key.2, mask, self.pages[&key].clone()))
            .collect();
        Box::new(List { pages: frozen.into_iter(), current: None })
    }

    pub fn dirty_lines(&self) -> u64 {
        self.dirty.values().map(|mask| u64::from(mask.count_ones())).sum()
    }

    /// Freezes the subtasks (0..subtasks of operator 0) and sends their lists and the commit.
    pub fn checkpoint(&mut self, writer: &mut Writer, checkpoint: u64, subtasks: u32) {
        self.history.insert(checkpoint, self.pages.clone());
        for subtask in 0..subtasks {
            let pages = self.freeze(operator(0), subtask);
            writer.command(Command::Delta { checkpoint, operator: operator(0), subtask, pages });
        }
        writer.command(Command::Commit(parts(checkpoint, subtasks)));
    }

    /// The job has gone back to a checkpoint.
    pub fn go_back(&mut self, checkpoint: Option<u64>) {
        self.pages = checkpoint.map_or_else(Pages::new, |checkpoint| self.history[&checkpoint].clone());
        self.dirty.clear();
    }
}

pub fn parts(checkpoint: u64, subtasks: u32) -> CommitParts {
    let subtask = |subtask| SubtaskCommit {
        operator: operator(0),
        subtask,
        position: Some(checkpoint * 1000 + u64::from(subtask)),
        sink_state: checkpoint.to_le_bytes().to_vec(),
        finished: false,
        times: PhaseTimes { sync_ns: 700, ..PhaseTimes::default() },
    };
    CommitParts { checkpoint, wall_clock_ns: 1_700_000_000 << 30, subtasks: (0..subtasks).map(subtask).collect() }
}

pub fn manifest() -> Manifest {
    let operator = OperatorEntry { id: operator(0), name: "operator 0".into(), parallelism: 2, states: Vec::new() };
    Manifest::new("test", 128, vec![operator])
}

/// The smallest sizes allowed, so that tests roll over segments and fill buffers.
pub fn small() -> WriterConfig {
    WriterConfig { segment_bytes: 64 << 10, buffer_bytes: 16 << 10, held_bytes: 128 << 10, ..WriterConfig::default() }
}

/// Turns the writer until it has nothing to do, in slices of `budget` pages, and returns its events.
pub fn settle(writer: &mut Writer, budget: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..1_000_000 {
        let progress = writer.turn(budget);
        events.extend(std::iter::from_fn(|| writer.event()));
        match progress {
            Progress::Busy => {}
            Progress::Waiting => writer.wait(),
            Progress::Idle | Progress::Closed => return events,
        }
    }
    panic!("the writer never comes to rest: {writer:?}");
}

pub fn durable(events: &[Event]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Durable(completed) => Some(completed.checkpoint),
            _ => None,
        })
        .collect()
}

pub fn failed(events: &[Event]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Failed { checkpoint, .. } => Some(*checkpoint),
            _ => None,
        })
        .collect()
}

/// What a restore of `checkpoint` gives.
pub fn restored(log: &CheckpointLog, checkpoint: u64) -> Result<(Pages, CommitRecord), LogError> {
    let mut pages = Pages::new();
    let commit = log.restore(checkpoint, |restored| {
        let key = (restored.operator, restored.subtask, restored.id);
        let page = pages.entry(key).or_insert_with(|| Box::new([0; PAGE_BYTES]));
        let lines = restored.lines.chunks_exact(LINE_BYTES);
        for (line, bytes) in (0..64).filter(|line| restored.mask >> line & 1 == 1).zip(lines) {
            page[line * LINE_BYTES..(line + 1) * LINE_BYTES].copy_from_slice(bytes);
        }
        Ok::<(), LogError>(())
    })?;
    Ok((pages, commit))
}

pub fn open(store: &MemoryStore) -> Result<CheckpointLog, LogError> {
    CheckpointLog::open(Arc::new(store.clone()), &OpenOptions::default())
}

/// Every checkpoint of the log is one of the model's, and restores to exactly what the model had.
pub fn assert_restores(log: &CheckpointLog, model: &Model) {
    for checkpoint in log.checkpoints() {
        let (pages, commit) = restored(log, checkpoint).unwrap();
        assert!(pages == model.history[&checkpoint], "checkpoint {checkpoint} differs");
        assert_eq!(commit.checkpoint, checkpoint);
    }
}
