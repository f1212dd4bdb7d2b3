//! What a run leaves behind: the summary's rows and the faults, gathered from all operators when they end.

use super::{
    decimal::{append_i64, append_i128, append_u64},
    event::Quote,
    fault::FaultReport,
    input::Input,
    symbol::{SymbolCode, SymbolNames},
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, byteorder::little_endian::I128};

/// What is counted for a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counters {
    /// Orders that entered the book.
    pub orders_added: u64,
    /// Executions of orders, in part or as a whole, printable or not.
    pub orders_executed: u64,
    /// Cancellations of a part of an order.
    pub orders_cancelled: u64,
    /// Orders that were deleted.
    pub orders_deleted: u64,
    /// Orders that were replaced or modified.
    pub orders_replaced: u64,
    /// Shares executed or traded.
    pub executed_shares: u64,
    /// Sum of shares times price, in the input's price unit.
    pub notional: I128,
    /// Trades that were reported beside the book.
    pub trades: u64,
}

impl Counters {
    /// Counts `shares` executed or traded at `price`.
    #[inline]
    pub fn count_shares(&mut self, shares: u32, price: i64) {
        self.executed_shares += u64::from(shares);
        self.notional.set(self.notional.get() + i128::from(shares) * i128::from(price));
    }

    /// Adds `other`, counter by counter.
    pub fn add(&mut self, other: &Self) {
        self.orders_added += other.orders_added;
        self.orders_executed += other.orders_executed;
        self.orders_cancelled += other.orders_cancelled;
        self.orders_deleted += other.orders_deleted;
        self.orders_replaced += other.orders_replaced;
        self.executed_shares += other.executed_shares;
        self.notional.set(self.notional.get() + other.notional.get());
        self.trades += other.trades;
    }
}

/// What one instrument contributes to a symbol's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Share {
    /// What was counted.
    pub counters: Counters,
    /// The best quote behind the last order event that the book accepted under the symbol.
    pub quote: Quote,
    /// One more than the offset of that event, in bytes; 0 where there was none.
    pub seen: u64,
}

/// One line of the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// The symbol, without trailing spaces.
    pub symbol: Vec<u8>,
    /// What was counted.
    pub counters: Counters,
    /// The best quote at the end of the input.
    pub quote: Quote,
}

/// The summary's first line, without a line end.
pub const SUMMARY_HEADER: &str = "symbol,orders_added,orders_executed,orders_cancelled,orders_deleted,orders_replaced,\
executed_shares,notional,trades,best_bid_price,best_bid_shares,best_ask_price,best_ask_shares";

impl SummaryRow {
    /// Appends the row as a line of comma-separated values; an empty side is two empty fields.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.symbol);
        let Counters { orders_added, orders_executed, orders_cancelled, orders_deleted, orders_replaced, .. } =
            self.counters;
        let counts = [orders_added, orders_executed, orders_cancelled, orders_deleted, orders_replaced];
        for count in counts.into_iter().chain([self.counters.executed_shares]) {
            out.push(b',');
            append_u64(count, out);
        }
        out.push(b',');
        append_i128(self.counters.notional.get(), out);
        out.push(b',');
        append_u64(self.counters.trades, out);
        append_quote(&self.quote, out);
        out.push(b'\n');
    }
}

/// Appends `,bid_price,bid_shares,ask_price,ask_shares`; an empty side is two empty fields.
#[inline]
pub(super) fn append_quote(quote: &Quote, out: &mut Vec<u8>) {
    for (price, shares) in [(quote.bid_price, quote.bid_shares), (quote.ask_price, quote.ask_shares)] {
        out.push(b',');
        if shares > 0 {
            append_i64(price, out);
        }
        out.push(b',');
        if shares > 0 {
            append_u64(shares, out);
        }
    }
}

/// The shares of all instruments, and all faults. Publishing the same instrument again replaces what was there, so an
/// operator that is restarted may publish twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderBookResult {
    shares: BTreeMap<(SymbolCode, u32), Share>,
    /// The rejected messages.
    pub faults: FaultReport,
    /// Messages that the orders source read in this run, rejected ones and those of no interest included.
    pub messages: u64,
}

impl OrderBookResult {
    /// Takes over what one operator's state holds.
    pub(super) fn merge(&mut self, other: Self) {
        self.shares.extend(other.shares);
        self.faults.merge(other.faults);
        self.messages = self.messages.max(other.messages);
    }

    /// Sets what `instrument` contributes to `symbol`.
    pub(super) fn set(&mut self, symbol: SymbolCode, instrument: u32, share: Share) {
        self.shares.insert((symbol, instrument), share);
    }

    /// The summary: a row for each symbol, sorted by the symbol's bytes. Where several instruments had a symbol in
    /// turn, their counters are added and the quote is that of the last.
    pub fn summary(&self, names: &SymbolNames) -> Vec<SummaryRow> {
        let mut rows: BTreeMap<Vec<u8>, (u64, SummaryRow)> = BTreeMap::new();
        for (&(symbol, _), share) in &self.shares {
            let symbol = names.name(symbol);
            let (seen, row) = rows
                .entry(symbol.clone())
                .or_insert_with(|| (0, SummaryRow { symbol, counters: Counters::default(), quote: Quote::default() }));
            row.counters.add(&share.counters);
            if share.seen > *seen {
                (*seen, row.quote) = (share.seen, share.quote);
            }
        }
        rows.into_values().map(|(_, row)| row).collect()
    }

    /// Writes the summary with its header.
    ///
    /// # Errors
    /// What `to` reports.
    pub fn write_summary(&self, names: &SymbolNames, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{SUMMARY_HEADER}\n").into_bytes();
        for row in self.summary(names) {
            row.append_to(&mut text);
        }
        to.write_all(&text)
    }
}

/// The input was cut or corrupt. What came before the damage was processed and committed, but there is no result of
/// the whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BrokenInput(pub(super) String);

impl BrokenInput {
    /// An input that an earlier run found to be broken.
    pub(super) fn before(input: &Input, offset: u64) -> Self {
        let path = input.path();
        Self(format!(
            "input {} was found cut or corrupt behind {offset} uncompressed bytes by an earlier run; fetch the file \
             again and start afresh",
            path.display()
        ))
    }
}

/// Where the operators of a run publish their part of the result when they close. Clones share one result.
#[derive(Clone, Debug, Default)]
pub struct Results(Arc<Mutex<Published>>);

#[derive(Debug, Default)]
struct Published {
    result: OrderBookResult,
    broken: Option<BrokenInput>,
}

impl Results {
    /// An empty result.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was published so far; complete once the job has ended normally.
    ///
    /// # Errors
    /// The input was cut or corrupt.
    pub fn get(&self) -> Result<OrderBookResult, BrokenInput> {
        let published = self.lock();
        match &published.broken {
            Some(broken) => Err(broken.clone()),
            None => Ok(published.result.clone()),
        }
    }

    pub(super) fn publish(&self, part: OrderBookResult) {
        self.lock().result.merge(part);
    }

    pub(super) fn publish_broken(&self, broken: BrokenInput) {
        self.lock().broken.get_or_insert(broken);
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        // A merge cannot panic half-way in a way that matters: what is there is still whole parts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::itch::Stock;

    fn code(name: &str) -> SymbolCode {
        SymbolCode::of_stock(Stock::new(name))
    }

    #[test]
    fn rows_are_sorted_by_bytes_and_empty_sides_left_blank() {
        let mut result = OrderBookResult::default();
        let mut share = Share { seen: 1, ..Share::default() };
        share.quote = Quote { bid_price: -5, bid_shares: 7, ask_price: 9, ask_shares: 0 };
        share.counters.count_shares(u32::MAX, i64::MIN);
        share.counters.count_shares(u32::MAX, i64::MIN);
        for (instrument, name) in [(1, "b"), (2, "B"), (3, "A.B")] {
            result.set(code(name), instrument, share);
        }
        let mut text = Vec::new();
        result.write_summary(&SymbolNames::Itch, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rest = format!(",0,0,0,0,0,8589934590,{},0,-5,7,,\n", i128::from(u32::MAX) * i128::from(i64::MIN) * 2);
        assert_eq!(text, format!("{SUMMARY_HEADER}\nA.B{rest}B{rest}b{rest}"));
    }

    #[test]
    fn instruments_that_share_a_symbol_add_up_and_the_last_quotes() {
        let names = SymbolNames::Dbn(["ES".into()].into());
        let mut result = OrderBookResult::default();
        for (instrument, seen) in [(1, 100), (2, 50)] {
            let mut share = Share { seen, ..Share::default() };
            share.counters.orders_added = u64::from(instrument);
            share.quote.bid_shares = seen;
            result.set(SymbolCode::of_name(0), instrument, share);
        }
        let again = result.clone();
        result.merge(again);
        let rows = result.summary(&names);
        assert_eq!((rows.len(), rows[0].counters.orders_added, rows[0].quote.bid_shares), (1, 3, 100));
    }

    #[test]
    fn the_header_is_the_contracts() {
        assert_eq!(SUMMARY_HEADER.split(',').count(), 13);
        assert!(!SUMMARY_HEADER.contains(' '));
    }
}
