//! What travels between the pipeline's operators: order events, trade events, and changes of the best quote.
//!
//! The time of an event is its record's `event_ns`: ns since midnight from ITCH, ns since the Unix epoch from DBN.

use super::symbol::SymbolCode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// A side of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// Orders to buy.
    Bid = 0,
    /// Orders to sell.
    Ask = 1,
}

/// A byte offset in the uncompressed input, in 48 bits.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Offset([u8; 6]);

impl Offset {
    #[inline]
    fn new(offset: u64) -> Self {
        let [a, b, c, d, e, f, ..] = offset.to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    #[inline]
    fn get(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl std::fmt::Debug for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// What happens to an order or to a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(u8)]
pub enum OrderKind {
    /// An order enters (ITCH A and F, DBN A).
    Add = 0,
    /// An order is executed at its own price (ITCH E).
    Execute = 1,
    /// An order is executed at the event's price, which counts as a trade if it is printable (ITCH C).
    ExecuteAt = 2,
    /// Shares of an order are cancelled; counts as cancelled also if none remain (ITCH X).
    Cancel = 3,
    /// Shares of an order are cancelled; counts as deleted if none remain (DBN C).
    CancelOrDelete = 4,
    /// An order leaves (ITCH D).
    Delete = 5,
    /// An order leaves and another enters in its place (ITCH U).
    Replace = 6,
    /// An order's price and size are set; an unknown one enters (DBN M).
    Modify = 7,
    /// An execution is reported that the book learns about otherwise (DBN F).
    Fill = 8,
    /// All orders of the instrument leave (DBN R).
    Clear = 9,
    /// Nothing but the end of an event (a DBN record with F_LAST that is no order event or was rejected).
    Mark = 10,
}

const ASK: u8 = 1;
const ENDS_EVENT: u8 = 2;
const PRINTABLE: u8 = 4;

/// One message of the orders source, in 40 bytes, so that a frame with it is one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OrderEvent {
    /// The order's number, unique among the instrument's live orders.
    pub reference: u64,
    /// Price in the input's own unit, 1/10000 dollar (ITCH) or 1e-9 (DBN); 0 where the kind has none.
    pub price: i64,
    /// The new reference of a `Replace`, else the symbol's code; 0 where ITCH does not repeat the symbol.
    detail: u64,
    /// ITCH's locate code or DBN's instrument id: the partition key.
    pub instrument: u32,
    /// Shares or contracts; 0 where the kind has none.
    pub shares: u32,
    offset: Offset,
    /// What happens.
    pub kind: OrderKind,
    flags: u8,
}

const _: () = assert!(size_of::<OrderEvent>() == 40);

impl OrderEvent {
    /// An event at byte `offset` (of which 48 bits are kept) without reference, price, shares and symbol, on the bid
    /// side, printable, that does not end its event.
    #[inline]
    pub fn new(kind: OrderKind, instrument: u32, offset: u64) -> Self {
        let offset = Offset::new(offset);
        Self { reference: 0, price: 0, detail: 0, instrument, shares: 0, offset, kind, flags: PRINTABLE }
    }

    /// Sets the order's reference.
    #[inline]
    pub fn with_reference(self, reference: u64) -> Self {
        Self { reference, ..self }
    }

    /// Sets shares and price.
    #[inline]
    pub fn with_terms(self, shares: u32, price: i64) -> Self {
        Self { shares, price, ..self }
    }

    /// Sets the side.
    #[inline]
    pub fn with_side(self, side: Side) -> Self {
        self.with_flag(ASK, side == Side::Ask)
    }

    /// Sets the symbol. A `Replace` has none.
    #[inline]
    pub fn with_symbol(self, symbol: SymbolCode) -> Self {
        Self { detail: symbol.0, ..self }
    }

    /// Sets the reference of the order that enters with a `Replace`.
    #[inline]
    pub fn with_new_reference(self, reference: u64) -> Self {
        Self { detail: reference, ..self }
    }

    /// Says whether the execution is printable.
    #[inline]
    pub fn with_printable(self, printable: bool) -> Self {
        self.with_flag(PRINTABLE, printable)
    }

    /// Says whether the best quote is looked at behind this event.
    #[inline]
    pub fn with_end(self, ends_event: bool) -> Self {
        self.with_flag(ENDS_EVENT, ends_event)
    }

    #[inline]
    fn with_flag(self, flag: u8, on: bool) -> Self {
        Self { flags: if on { self.flags | flag } else { self.flags & !flag }, ..self }
    }

    /// Where the message begins in the uncompressed input, in bytes.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }

    /// The side; that of a new order alone means something.
    #[inline]
    pub fn side(&self) -> Side {
        if self.flags & ASK == 0 { Side::Bid } else { Side::Ask }
    }

    /// Whether the best quote is looked at behind this event: always in ITCH, at F_LAST in DBN.
    #[inline]
    pub fn ends_event(&self) -> bool {
        self.flags & ENDS_EVENT != 0
    }

    /// Whether the execution counts as a trade.
    #[inline]
    pub fn printable(&self) -> bool {
        self.flags & PRINTABLE != 0
    }

    /// The symbol, where the message has one.
    #[inline]
    pub fn symbol(&self) -> Option<SymbolCode> {
        (self.kind != OrderKind::Replace && self.detail != 0).then_some(SymbolCode(self.detail))
    }

    /// The reference of the order that enters with a `Replace`; nothing else has a meaningful one.
    #[inline]
    pub fn new_reference(&self) -> u64 {
        self.detail
    }
}

/// What a trade event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(u8)]
pub enum TradeKind {
    /// A trade that counts (ITCH P, DBN T).
    Trade = 0,
    /// The symbol exists; nothing counts (ITCH R and Q).
    Mention = 1,
}

/// One message of the trades source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TradeEvent {
    /// Price in the input's own unit; 0 for a mention.
    pub price: i64,
    /// The symbol.
    pub symbol: SymbolCode,
    /// ITCH's locate code or DBN's instrument id: the partition key.
    pub instrument: u32,
    /// Traded shares or contracts; 0 for a mention.
    pub shares: u32,
    offset: Offset,
    /// What it tells.
    pub kind: TradeKind,
    zero: u8,
}

const _: () = assert!(size_of::<TradeEvent>() == 32);

impl TradeEvent {
    /// A trade of `shares` at `price`, from the message at byte `offset` (of which 48 bits are kept).
    #[inline]
    pub fn trade(instrument: u32, symbol: SymbolCode, offset: u64, shares: u32, price: i64) -> Self {
        let offset = Offset::new(offset);
        Self { price, symbol, instrument, shares, offset, kind: TradeKind::Trade, zero: 0 }
    }

    /// A message that names a symbol and counts nowhere.
    #[inline]
    pub fn mention(instrument: u32, symbol: SymbolCode, offset: u64) -> Self {
        Self { kind: TradeKind::Mention, ..Self::trade(instrument, symbol, offset, 0, 0) }
    }

    /// Where the message begins in the uncompressed input, in bytes.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }
}

/// Best bid and offer with the shares of their price levels. A side with 0 shares is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Quote {
    /// The highest bid's price.
    pub bid_price: i64,
    /// Shares bid at that price.
    pub bid_shares: u64,
    /// The lowest offer's price.
    pub ask_price: i64,
    /// Shares offered at that price.
    pub ask_shares: u64,
}

/// A change of an instrument's best bid or offer: one line of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QuoteChange {
    /// The symbol.
    pub symbol: SymbolCode,
    /// The best quote from now on.
    pub quote: Quote,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_an_order_event_comes_out() {
        let event = OrderEvent::new(OrderKind::ExecuteAt, 7, (1 << 48) - 1)
            .with_reference(u64::MAX)
            .with_terms(5, -3)
            .with_side(Side::Ask)
            .with_end(true)
            .with_printable(false)
            .with_symbol(SymbolCode(9));
        assert_eq!((event.offset(), event.reference, event.shares, event.price), ((1 << 48) - 1, u64::MAX, 5, -3));
        assert_eq!((event.side(), event.ends_event(), event.printable()), (Side::Ask, true, false));
        assert_eq!(event.symbol(), Some(SymbolCode(9)));
        assert_eq!(event.with_side(Side::Bid).side(), Side::Bid);
        let replace = OrderEvent::new(OrderKind::Replace, 7, 0).with_new_reference(8);
        assert_eq!((replace.symbol(), replace.new_reference(), replace.printable()), (None, 8, true));
    }

    #[test]
    fn a_mention_counts_nothing() {
        let event = TradeEvent::mention(3, SymbolCode(4), 5);
        assert_eq!((event.kind, event.shares, event.price, event.offset()), (TradeKind::Mention, 0, 0, 5));
    }
}
