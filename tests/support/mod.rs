//! Small sources, operators and sinks that the engine's tests are made of.
#![allow(dead_code)] // each test binary uses its own part

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use isobar::channel::Record;
use isobar::operator::{Collector, KeyedProcess, OperatorError, Polled, Sink, SinkState, Source};
use isobar::state::{Arena, KeyedMap};

/// One record of a [`CountingSource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub source: u64,
    pub sequence: u64,
}

/// Gives `limit` items, numbered from 0. It is slow (`Pending` between items) where `skew` is above 0, so that some
/// channels run ahead of others.
///
/// With `positions` it gives nothing, and notes where it was restored to.
pub struct CountingSource {
    pub source: u64,
    pub limit: u64,
    pub skew: u32,
    pub positions: Option<Positions>,
    pub next: u64,
    pub wait: u32,
}

/// Where each source was restored to.
pub type Positions = Arc<Mutex<BTreeMap<u64, u64>>>;

impl CountingSource {
    pub fn new(source: u64, limit: u64, skew: u32) -> Self {
        Self { source, limit, skew, positions: None, next: 0, wait: 0 }
    }
}

impl Source for CountingSource {
    type Out = Item;

    fn open(&mut self, _state: &mut Arena, position: Option<u64>) -> Result<(), OperatorError> {
        self.next = position.unwrap_or(0);
        if let Some(positions) = &self.positions {
            positions.lock().map_err(|_| "poisoned")?.insert(self.source, self.next);
            self.limit = 0;
        }
        Ok(())
    }

    fn poll(&mut self, _state: &mut Arena) -> Result<Polled<Item>, OperatorError> {
        if self.wait > 0 {
            self.wait -= 1;
            return Ok(Polled::Pending);
        }
        if self.next >= self.limit {
            return Ok(Polled::EndOfData);
        }
        self.wait = self.skew;
        let value = Item { source: self.source, sequence: self.next };
        self.next += 1;
        Ok(Polled::Record(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value }))
    }

    fn position(&self) -> u64 {
        self.next
    }
}

/// What [`Tally`] found per source: how many records, the sum of their numbers, and whether each came right behind
/// the one before.
pub type Tallies = Arc<Mutex<BTreeMap<u64, (u64, u64, bool)>>>;

/// Folds the records of each source and publishes the fold at the end. Emits each record on.
pub struct Tally {
    counts: Option<KeyedMap<u64, [u64; 4]>>,
    published: Tallies,
}

impl Tally {
    pub fn new(published: &Tallies) -> Self {
        Self { counts: None, published: Arc::clone(published) }
    }
}

impl KeyedProcess for Tally {
    type In = Item;
    type Out = Item;

    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        self.counts = Some(KeyedMap::open(state, "counts", 1)?);
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<&Item>,
        state: &mut Arena,
        out: &mut impl Collector<Item>,
    ) -> Result<(), OperatorError> {
        let counts = self.counts.as_mut().ok_or("not open")?;
        let item = *record.value;
        counts.upsert(state, item.source, [0; 4], |[count, sum, next, in_order]| {
            *count += 1;
            *sum += item.sequence;
            *in_order += u64::from(item.sequence == *next);
            *next = item.sequence + 1;
        })?;
        out.collect(record.with(item));
        Ok(())
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let counts = self.counts.as_ref().ok_or("not open")?;
        let mut published = self.published.lock().map_err(|_| "poisoned")?;
        counts.for_each(state, |source, [count, sum, _, in_order]| {
            published.insert(*source, (*count, *sum, in_order == count));
        });
        Ok(())
    }
}

/// A transactional sink in memory: what it has committed, in order, as the outside world sees it.
#[derive(Clone, Default)]
pub struct Ledger {
    pub committed: Arc<Mutex<Vec<Item>>>,
}

/// The sink that writes to a [`Ledger`]. Its transaction state is the number of committed and pending items.
pub struct LedgerSink {
    ledger: Ledger,
    pending: Vec<Item>,
    cuts: Vec<(u64, usize)>,
}

impl LedgerSink {
    pub fn new(ledger: &Ledger) -> Self {
        Self { ledger: ledger.clone(), pending: Vec::new(), cuts: Vec::new() }
    }
}

impl Sink for LedgerSink {
    type In = Item;

    fn open(&mut self, _subtask: usize, _restored: &[SinkState], _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    fn write(&mut self, record: Record<Item>) -> Result<(), OperatorError> {
        self.pending.push(record.value);
        Ok(())
    }

    fn pre_commit(&mut self, checkpoint: u64) -> Result<SinkState, OperatorError> {
        self.cuts.push((checkpoint, self.pending.len()));
        Ok(SinkState::new())
    }

    fn commit(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        let Some(&(_, cut)) = self.cuts.iter().rev().find(|(id, _)| *id <= checkpoint) else { return Ok(()) };
        let mut committed = self.ledger.committed.lock().map_err(|_| "poisoned")?;
        committed.extend(self.pending.drain(..cut));
        self.cuts.retain_mut(|(id, at)| {
            *at -= cut.min(*at);
            *id > checkpoint
        });
        Ok(())
    }
}
