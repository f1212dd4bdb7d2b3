//! The order book: a keyed process with two inputs, order events and trade events, that keeps every instrument's live
//! orders and price levels and puts out the changes of its best quote.
//!
//! The two inputs may interleave in any way: trades touch nothing that an order event reads.

mod apply;
mod instrument;
mod levels;
mod orders;

use super::{
    event::{OrderEvent, OrderKind, QuoteChange, TradeEvent, TradeKind},
    fault::{Fault, FaultLog, OnError},
    result::{Counters, OrderBookResult, Results, Share},
    symbol::SymbolCode,
};
use crate::{
    channel::Record,
    operator::{Collector, KeyedCoProcess, OperatorError},
    state::{Arena, KeyedMap, StateError},
};
use apply::Counted;
use instrument::{Book, Instrument};
use levels::Levels;
use orders::Orders;
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The operator's name, with which the names of its states begin.
const NAME: &str = "book";

/// The order book operator. Key its inputs by [`OrderEvent::instrument`] and [`TradeEvent::instrument`].
pub struct OrderBook {
    on_error: OnError,
    results: Results,
    books: Option<Books>,
}

/// The operator's states.
struct Books {
    instruments: KeyedMap<u32, Instrument>,
    /// What is counted under other symbols than an instrument's first.
    shares: KeyedMap<ShareKey, Share>,
    orders: Orders,
    levels: Levels,
    faults: FaultLog,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ShareKey {
    symbol: SymbolCode,
    instrument: u32,
    zero: u32,
}

/// The book was given a record before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the order book was given a record before it was opened")]
pub struct BookNotOpen;

impl OrderBook {
    /// A book. When it ends, its rows and faults are published to `results`.
    pub fn new(on_error: OnError, results: Results) -> Self {
        Self { on_error, results, books: None }
    }
}

impl KeyedCoProcess for OrderBook {
    type In1 = OrderEvent;
    type In2 = TradeEvent;
    type Out = QuoteChange;

    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let instruments = KeyedMap::open(state, "book.instruments", 1)?;
        let orders = Orders::open(state, &instruments)?;
        self.books = Some(Books {
            instruments,
            orders,
            shares: KeyedMap::open(state, "book.shares", 1)?,
            levels: Levels::open(state)?,
            faults: FaultLog::open(state, NAME, self.on_error)?,
        });
        Ok(())
    }

    #[inline]
    fn process1(
        &mut self,
        record: Record<&OrderEvent>,
        state: &mut Arena,
        out: &mut impl Collector<QuoteChange>,
    ) -> Result<(), OperatorError> {
        let books = self.books.as_mut().ok_or(BookNotOpen)?;
        if let Some(change) = books.order(record.value, state)? {
            out.collect(record.with(change));
        }
        Ok(())
    }

    #[inline]
    fn process2(
        &mut self,
        record: Record<&TradeEvent>,
        state: &mut Arena,
        _out: &mut impl Collector<QuoteChange>,
    ) -> Result<(), OperatorError> {
        let books = self.books.as_mut().ok_or(BookNotOpen)?;
        Ok(books.trade(record.value, state)?)
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let books = self.books.as_ref().ok_or(BookNotOpen)?;
        let mut result = OrderBookResult::default();
        books
            .instruments
            .for_each(state, |&id, instrument| result.set(instrument.book.symbol, id, instrument.own_share()));
        books.shares.for_each(state, |key, share| result.set(key.symbol, key.instrument, *share));
        books.faults.report(state, NAME, &mut result.faults);
        self.results.publish(result);
        Ok(())
    }
}

impl Books {
    /// Handles an order event; gives the change of the best quote, if there is one.
    #[inline]
    fn order(&mut self, event: &OrderEvent, state: &mut Arena) -> Result<Option<QuoteChange>, OperatorError> {
        let before = self.instruments.get(state, &event.instrument).map(|instrument| instrument.book);
        let mut book = before.unwrap_or_else(|| {
            // An event that lets an unknown instrument in has its symbol with it; others are rejected below.
            Book::new(event.symbol().unwrap_or(SymbolCode(0)), state.key_group())
        });
        let symbol = event.symbol().unwrap_or(book.symbol);
        let outcome = self.apply(state, event, &mut book)?;
        if let Err((kind, detail)) = outcome {
            let fault = Fault { offset: event.offset(), kind, subject: apply::subject(event), detail };
            self.faults.record(state, event.instrument, fault)?;
        }
        let counted = outcome.ok().filter(|_| event.kind != OrderKind::Mark);
        if before.is_none() && counted.is_none() {
            return Ok(None);
        }
        let change = (event.ends_event() && book.quote != book.emitted).then(|| {
            book.emitted = book.quote;
            QuoteChange { symbol, quote: book.quote }
        });
        self.store(state, event, symbol, before, book, counted)?;
        Ok(change)
    }

    /// Stores the book behind an order event, and counts the event under `symbol` if it was accepted.
    #[inline]
    fn store(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        symbol: SymbolCode,
        before: Option<Book>,
        mut book: Book,
        counted: Option<Counted>,
    ) -> Result<(), StateError> {
        let seen = event.offset() + 1;
        let own = symbol == book.symbol;
        if counted.is_some() {
            book.last_symbol = symbol.0;
        }
        let change = |instrument: &mut Instrument| {
            if let Some(before) = before.filter(|before| !own && before.last_symbol == before.symbol.0) {
                // The instrument gives its own symbol up: what its quote was until now stays with that.
                instrument.share.quote = before.quote;
            }
            instrument.book = book;
            if let Some(counted) = counted.filter(|_| own) {
                instrument.share.seen = seen;
                counted.add_to(&mut instrument.share.counters);
            }
        };
        let changed = self.instruments.modify(state, &event.instrument, change)?;
        if changed.is_none() {
            let mut instrument = Instrument { book, share: Share::default() };
            change(&mut instrument);
            self.instruments.insert(state, event.instrument, instrument)?;
        }
        match counted {
            Some(counted) if !own => {
                let key = ShareKey { symbol, instrument: event.instrument, zero: 0 };
                self.shares.upsert(state, key, Share::default(), |share| {
                    (share.seen, share.quote) = (seen, book.quote);
                    counted.add_to(&mut share.counters);
                })
            }
            _ => Ok(()),
        }
    }

    /// Handles a trade event.
    #[inline]
    fn trade(&mut self, event: &TradeEvent, state: &mut Arena) -> Result<(), StateError> {
        let count = |counters: &mut Counters| {
            if event.kind == TradeKind::Trade {
                counters.trades += 1;
                counters.count_shares(event.shares, event.price);
            }
        };
        let new = Instrument::new(event.symbol, state.key_group());
        let own = self.instruments.upsert(state, event.instrument, new, |instrument| {
            let own = instrument.book.symbol == event.symbol;
            if own {
                count(&mut instrument.share.counters);
            }
            own
        })?;
        if !own {
            let key = ShareKey { symbol: event.symbol, instrument: event.instrument, zero: 0 };
            self.shares.upsert(state, key, Share::default(), |share| count(&mut share.counters))?;
        }
        Ok(())
    }
}
