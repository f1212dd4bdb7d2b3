//! Which messages a source takes from the input, and what it makes of them.

use crate::market::{
    event::{OrderEvent, OrderKind, Side, TradeEvent},
    input::Mbo,
    itch::Message,
    symbol::SymbolCode,
};

/// The messages of one of the two sources.
pub trait Lane: Send + 'static {
    /// What the source gives.
    type Event: Copy;
    /// The operator's name, with which the names of its states begin.
    const NAME: &'static str;
    /// Whether this source counts faults of framing and fields; one of the two does.
    const COUNTS_FAULTS: bool;

    /// Whether an ITCH message of this type, or what is wrong with it, matters here.
    #[doc(hidden)]
    fn looks_at(message_type: u8) -> bool;

    /// The event of an accepted ITCH message at byte `offset`, if it is one of this lane's.
    #[doc(hidden)]
    fn of_itch(message: &Message<'_>, offset: u64) -> Option<Self::Event>;

    /// The event of an accepted DBN record at byte `offset`, if it is one of this lane's.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "the trait cannot be implemented outside of this module")]
    fn of_mbo(mbo: &Mbo, symbol: SymbolCode, offset: u64) -> Option<Self::Event>;

    /// What stands for a rejected DBN record at byte `offset` that ends an event of `instrument`.
    #[doc(hidden)]
    fn end_mark(instrument: u32, symbol: SymbolCode, offset: u64) -> Option<Self::Event>;
}

/// Order messages: ITCH A F E C X D U, DBN A M C R F.
#[derive(Clone, Copy, Debug)]
pub struct Orders;

impl Lane for Orders {
    type Event = OrderEvent;
    const NAME: &'static str = "orders";
    const COUNTS_FAULTS: bool = true;

    #[inline]
    fn looks_at(_message_type: u8) -> bool {
        true
    }

    #[inline]
    fn of_itch(message: &Message<'_>, offset: u64) -> Option<OrderEvent> {
        let event = |kind| OrderEvent::new(kind, u32::from(message.header().locate.get()), offset).with_end(true);
        let side = |side| if side == b'S' { Side::Ask } else { Side::Bid };
        Some(match message {
            Message::AddOrder(m) => event(OrderKind::Add)
                .with_reference(m.reference.get())
                .with_terms(m.shares.get(), i64::from(m.price.get()))
                .with_side(side(m.side))
                .with_symbol(SymbolCode::of_stock(m.stock)),
            Message::AddOrderAttributed(m) => event(OrderKind::Add)
                .with_reference(m.reference.get())
                .with_terms(m.shares.get(), i64::from(m.price.get()))
                .with_side(side(m.side))
                .with_symbol(SymbolCode::of_stock(m.stock)),
            Message::OrderExecuted(m) => {
                event(OrderKind::Execute).with_reference(m.reference.get()).with_terms(m.shares.get(), 0)
            }
            Message::OrderExecutedWithPrice(m) => event(OrderKind::ExecuteAt)
                .with_reference(m.reference.get())
                .with_terms(m.shares.get(), i64::from(m.price.get()))
                .with_printable(m.printable == b'Y'),
            Message::OrderCancelled(m) => {
                event(OrderKind::Cancel).with_reference(m.reference.get()).with_terms(m.shares.get(), 0)
            }
            Message::OrderDeleted(m) => event(OrderKind::Delete).with_reference(m.reference.get()),
            Message::OrderReplaced(m) => event(OrderKind::Replace)
                .with_reference(m.reference.get())
                .with_new_reference(m.new_reference.get())
                .with_terms(m.shares.get(), i64::from(m.price.get())),
            _ => return None,
        })
    }

    #[inline]
    #[expect(private_interfaces, reason = "as in the trait")]
    fn of_mbo(mbo: &Mbo, symbol: SymbolCode, offset: u64) -> Option<OrderEvent> {
        let ends_event = mbo.flags & dbn::flags::LAST != 0;
        let kind = match mbo.action {
            b'A' => OrderKind::Add,
            b'M' => OrderKind::Modify,
            b'C' => OrderKind::CancelOrDelete,
            b'F' => OrderKind::Fill,
            b'R' => OrderKind::Clear,
            _ if ends_event => OrderKind::Mark,
            _ => return None,
        };
        let event = OrderEvent::new(kind, mbo.instrument.get(), offset)
            .with_reference(mbo.reference.get())
            .with_terms(mbo.size.get(), mbo.price.get())
            .with_side(if mbo.side == b'A' { Side::Ask } else { Side::Bid })
            .with_symbol(symbol)
            .with_end(ends_event);
        Some(event)
    }

    #[inline]
    fn end_mark(instrument: u32, symbol: SymbolCode, offset: u64) -> Option<OrderEvent> {
        Some(OrderEvent::new(OrderKind::Mark, instrument, offset).with_symbol(symbol).with_end(true))
    }
}

/// Trades and mentions of symbols: ITCH P Q R, DBN T.
#[derive(Clone, Copy, Debug)]
pub struct Trades;

impl Lane for Trades {
    type Event = TradeEvent;
    const NAME: &'static str = "trades";
    const COUNTS_FAULTS: bool = false;

    /// Besides its own messages those that name symbols: they decide what a later message may be called.
    #[inline]
    fn looks_at(message_type: u8) -> bool {
        matches!(message_type, b'R' | b'A' | b'F' | b'P' | b'Q')
    }

    #[inline]
    fn of_itch(message: &Message<'_>, offset: u64) -> Option<TradeEvent> {
        let instrument = u32::from(message.header().locate.get());
        Some(match message {
            Message::Trade(m) => {
                let symbol = SymbolCode::of_stock(m.stock);
                TradeEvent::trade(instrument, symbol, offset, m.shares.get(), i64::from(m.price.get()))
            }
            Message::CrossTrade(m) => TradeEvent::mention(instrument, SymbolCode::of_stock(m.stock), offset),
            Message::StockDirectory(m) => TradeEvent::mention(instrument, SymbolCode::of_stock(m.stock), offset),
            _ => return None,
        })
    }

    #[inline]
    #[expect(private_interfaces, reason = "as in the trait")]
    fn of_mbo(mbo: &Mbo, symbol: SymbolCode, offset: u64) -> Option<TradeEvent> {
        let instrument = mbo.instrument.get();
        (mbo.action == b'T').then(|| TradeEvent::trade(instrument, symbol, offset, mbo.size.get(), mbo.price.get()))
    }

    fn end_mark(_instrument: u32, _symbol: SymbolCode, _offset: u64) -> Option<TradeEvent> {
        None
    }
}
