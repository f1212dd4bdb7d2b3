//! What the book keeps for each instrument beside its orders and levels.

use crate::market::{
    event::{Quote, Side},
    result::Share,
    symbol::SymbolCode,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One instrument.
///
/// It counts for the symbol that it was first seen with. In DBN the symbol may change with the day; what is counted
/// under another symbol lies in a map of its own.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Instrument {
    /// What every order event reads and may change.
    pub(super) book: Book,
    /// What is counted. Its quote is set when the last event's symbol becomes another.
    pub(super) share: Share,
}

/// An instrument's book, but for its orders and levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Book {
    /// The symbol that the instrument counts for.
    pub(super) symbol: SymbolCode,
    /// The symbol of the last accepted order event; 0 before the first.
    pub(super) last_symbol: u64,
    /// The best quote.
    pub(super) quote: Quote,
    /// The best quote as it was last put out.
    pub(super) emitted: Quote,
    /// Live orders.
    pub(super) live: u64,
    /// The generation of live orders.
    pub(super) generation: u32,
    /// Leaves of price levels that each side has had.
    pub(super) leaves: [u32; 2],
    /// The key group that the instrument belongs to.
    pub(super) key_group: u16,
    zero: u16,
}

impl Instrument {
    /// An instrument with an empty book that counts for `symbol`.
    pub(super) fn new(symbol: SymbolCode, key_group: u16) -> Self {
        Self { book: Book::new(symbol, key_group), share: Share::default() }
    }

    /// What the instrument contributes to its own symbol's row.
    pub(super) fn own_share(&self) -> Share {
        let quote = if self.book.last_symbol == self.book.symbol.0 { self.book.quote } else { self.share.quote };
        Share { quote, ..self.share }
    }
}

impl Book {
    /// An empty book.
    pub(super) fn new(symbol: SymbolCode, key_group: u16) -> Self {
        Self {
            symbol,
            last_symbol: 0,
            quote: Quote::default(),
            emitted: Quote::default(),
            live: 0,
            generation: 0,
            leaves: [0; 2],
            key_group,
            zero: 0,
        }
    }

    /// Price and shares of the best level of a side; 0 shares for none.
    #[inline]
    pub(super) fn best(&self, side: Side) -> (i64, u64) {
        match side {
            Side::Bid => (self.quote.bid_price, self.quote.bid_shares),
            Side::Ask => (self.quote.ask_price, self.quote.ask_shares),
        }
    }

    /// Sets the best level of a side. An empty side's price is 0, so that equal quotes have equal bytes.
    #[inline]
    pub(super) fn set_best(&mut self, side: Side, price: i64, shares: u64) {
        match side {
            Side::Bid => (self.quote.bid_price, self.quote.bid_shares) = (price, shares),
            Side::Ask => (self.quote.ask_price, self.quote.ask_shares) = (price, shares),
        }
    }
}
