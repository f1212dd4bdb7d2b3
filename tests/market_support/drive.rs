//! Runs the pipeline's operators without an engine: sources polled in random turns, records routed by key group to the
//! subtasks of the book, and on request everything torn down and restored in the middle.

use super::Outcome;
use isobar::{
    channel::Record,
    hash::{key_group, key_groups_of, stable_hash, subtask_of},
    market::{
        Input, OnError, OrderBook, OrderSource, QuoteChange, Results, SymbolNames, TradeSource, append_quote_line,
    },
    operator::{Collector, KeyedCoProcess, OperatorError, Polled, Source},
    state::{Arena, ArenaOptions, PageId},
};
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};
use std::ops::Range;

const GROUPS: u16 = 128;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides whose turn it is.
    pub seed: u64,
    /// Subtasks of the book.
    pub parallelism: usize,
    /// One in how many turns is a crash and a restore; 0 for none.
    pub restore_one_in: u64,
    pub on_error: OnError,
}

impl Plan {
    pub fn simple() -> Self {
        Self { seed: 1, parallelism: 1, restore_one_in: 0, on_error: OnError::Skip }
    }
}

/// Runs to the end; lines are also given when an error ended the run.
pub fn run(input: &Input, plan: Plan) -> (Outcome, Result<(), OperatorError>) {
    let mut run = Run::new(input, plan);
    let mut ended = run.finish();
    let mut outcome = Outcome::default();
    for line in String::from_utf8(run.lines.out).unwrap().lines() {
        let symbol = line.split(',').nth(1).unwrap().to_owned();
        outcome.lines.entry(symbol).or_default().push(line.to_owned());
    }
    let result = match run.results.get() {
        Ok(result) => result,
        Err(broken) => {
            ended = ended.and(Err(broken.into()));
            return (outcome, ended);
        }
    };
    let mut summary = Vec::new();
    result.write_summary(&input.names(), &mut summary).unwrap();
    outcome.summary = String::from_utf8(summary).unwrap();
    outcome.kinds = result.faults.by_kind().into_iter().map(|(kind, n)| (kind.name().to_owned(), n)).collect();
    outcome.first = result.faults.first().map(|fault| (fault.offset, fault.kind.name().to_owned())).collect();
    (outcome, ended)
}

/// Runs an input that nothing stops.
pub fn outcome(input: &Input, plan: Plan) -> Outcome {
    let (outcome, ended) = run(input, plan);
    ended.unwrap();
    outcome
}

struct Lines {
    names: SymbolNames,
    out: Vec<u8>,
}

impl Collector<QuoteChange> for Lines {
    fn collect(&mut self, record: Record<QuoteChange>) {
        append_quote_line(&self.names, record.event_ns, &record.value, &mut self.out);
    }
}

struct Run<'a> {
    input: &'a Input,
    plan: Plan,
    rng: Xoshiro256PlusPlus,
    results: Results,
    orders: (OrderSource, State),
    trades: (TradeSource, State),
    books: Vec<(OrderBook, State)>,
    lines: Lines,
}

impl<'a> Run<'a> {
    fn new(input: &'a Input, plan: Plan) -> Self {
        let results = Results::new();
        Self {
            input,
            plan,
            rng: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            orders: (OrderSource::new(input.clone(), plan.on_error, results.clone()), State::new(0..1)),
            trades: (TradeSource::new(input.clone(), plan.on_error, results.clone()), State::new(0..1)),
            books: (0..plan.parallelism)
                .map(|subtask| {
                    let key_groups = key_groups_of(subtask, GROUPS, plan.parallelism);
                    (OrderBook::new(plan.on_error, results.clone()), State::new(key_groups))
                })
                .collect(),
            lines: Lines { names: input.names(), out: Vec::new() },
            results,
        }
    }

    fn finish(&mut self) -> Result<(), OperatorError> {
        self.orders.0.open(&mut self.orders.1.arena, None)?;
        self.trades.0.open(&mut self.trades.1.arena, None)?;
        for (book, state) in &mut self.books {
            book.open(&mut state.arena)?;
        }
        let (mut orders_ended, mut trades_ended) = (false, false);
        while !(orders_ended && trades_ended) {
            if self.plan.restore_one_in > 0 && self.rng.next_u64().is_multiple_of(self.plan.restore_one_in) {
                self.restore()?;
            }
            let turns = self.rng.next_u64() % 50;
            if self.rng.next_u64() & 1 == 0 {
                orders_ended |= self.turn_of_orders(turns)?;
            } else {
                trades_ended |= self.turn_of_trades(turns)?;
            }
        }
        self.orders.0.close(&mut self.orders.1.arena)?;
        self.trades.0.close(&mut self.trades.1.arena)?;
        for (book, state) in &mut self.books {
            book.close(&mut state.arena)?;
            // A job that is resumed behind its end closes again.
            book.close(&mut state.arena)?;
        }
        Ok(())
    }

    fn turn_of_orders(&mut self, turns: u64) -> Result<bool, OperatorError> {
        self.orders.1.arena.set_key_group(0)?;
        for _ in 0..turns {
            match self.orders.0.poll(&mut self.orders.1.arena)? {
                Polled::Pending => std::thread::yield_now(),
                Polled::EndOfData => return Ok(true),
                Polled::Record(record) => {
                    let (book, state) = route(&mut self.books, record.value.instrument);
                    book.process1(record.as_ref(), &mut state.arena, &mut self.lines)?;
                }
            }
        }
        Ok(false)
    }

    fn turn_of_trades(&mut self, turns: u64) -> Result<bool, OperatorError> {
        self.trades.1.arena.set_key_group(0)?;
        for _ in 0..turns {
            match self.trades.0.poll(&mut self.trades.1.arena)? {
                Polled::Pending => std::thread::yield_now(),
                Polled::EndOfData => return Ok(true),
                Polled::Record(record) => {
                    let (book, state) = route(&mut self.books, record.value.instrument);
                    book.process2(record.as_ref(), &mut state.arena, &mut self.lines)?;
                }
            }
        }
        Ok(false)
    }

    /// New operators over restored state, sources at their positions.
    fn restore(&mut self) -> Result<(), OperatorError> {
        let (input, on_error, results) = (self.input, self.plan.on_error, &self.results);
        let at = self.orders.0.position();
        self.orders.0 = OrderSource::new(input.clone(), on_error, results.clone());
        self.orders.1.crash();
        self.orders.0.open(&mut self.orders.1.arena, Some(at))?;
        let at = self.trades.0.position();
        self.trades.0 = TradeSource::new(input.clone(), on_error, results.clone());
        self.trades.1.crash();
        self.trades.0.open(&mut self.trades.1.arena, Some(at))?;
        for (book, state) in &mut self.books {
            *book = OrderBook::new(on_error, results.clone());
            state.crash();
            book.open(&mut state.arena)?;
        }
        Ok(())
    }
}

fn route(books: &mut [(OrderBook, State)], instrument: u32) -> &mut (OrderBook, State) {
    let group = key_group(stable_hash(&instrument.to_le_bytes()), GROUPS);
    let parallelism = books.len();
    let subtask = &mut books[subtask_of(group, GROUPS, parallelism)];
    subtask.1.arena.set_key_group(group).unwrap();
    subtask
}

/// A subtask's arena, with all that was ever frozen from it: what a checkpoint log would hold.
struct State {
    arena: Arena,
    key_groups: Range<u16>,
    log: Vec<(PageId, u64, Vec<u8>)>,
}

impl State {
    fn new(key_groups: Range<u16>) -> Self {
        Self { arena: Self::arena(&key_groups), key_groups, log: Vec::new() }
    }

    fn arena(key_groups: &Range<u16>) -> Arena {
        Arena::new(ArenaOptions { key_groups: key_groups.clone(), ..ArenaOptions::default() }).unwrap()
    }

    /// Freezes, crashes, and comes back in a new arena.
    fn crash(&mut self) {
        let mut frozen = self.arena.freeze().unwrap();
        while let Some(page) = frozen.next() {
            let lines = page.lines().flat_map(|(_, line)| line.to_vec()).collect();
            self.log.push((page.id, page.mask, lines));
        }
        let descriptors: Vec<_> = self.arena.descriptors().cloned().collect();
        self.arena = Self::arena(&self.key_groups);
        self.arena.restore_descriptors(&descriptors).unwrap();
        for (id, mask, lines) in &self.log {
            self.arena.apply(*id, *mask, lines).unwrap();
        }
    }
}
