//! What each kind of order event does to a book. An event that is rejected changes nothing.

use super::{
    Books,
    instrument::Instrument,
    levels::BookSide,
    orders::{Order, OrderKey},
};
use crate::{
    market::{
        event::{OrderEvent, OrderKind, Side},
        fault::FaultKind,
        result::Counters,
    },
    state::{Arena, StateError},
};

/// How an accepted event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Nothing,
    Added,
    /// Executed shares and their price, or no shares where the execution does not count as a trade.
    Executed(u32, i64),
    Cancelled,
    Deleted,
    Replaced,
}

impl Counted {
    #[inline]
    pub(super) fn add_to(self, counters: &mut Counters) {
        match self {
            Self::Nothing => {}
            Self::Added => counters.orders_added += 1,
            Self::Executed(shares, price) => {
                counters.orders_executed += 1;
                if shares > 0 {
                    counters.count_shares(shares, price);
                }
            }
            Self::Cancelled => counters.orders_cancelled += 1,
            Self::Deleted => counters.orders_deleted += 1,
            Self::Replaced => counters.orders_replaced += 1,
        }
    }
}

/// Why an event is rejected, with the detail of [`FaultKind`].
type Reason = (FaultKind, u64);

/// The letter by which a fault names the event.
pub(super) fn subject(event: &OrderEvent) -> u8 {
    match event.kind {
        OrderKind::Add => b'A',
        OrderKind::Execute => b'E',
        OrderKind::ExecuteAt | OrderKind::CancelOrDelete => b'C',
        OrderKind::Cancel => b'X',
        OrderKind::Delete => b'D',
        OrderKind::Replace => b'U',
        OrderKind::Modify => b'M',
        OrderKind::Fill => b'F',
        OrderKind::Clear => b'R',
        OrderKind::Mark => b'N',
    }
}

impl Books {
    /// Applies `event` to the book of `instrument`, whose quote follows.
    #[inline]
    pub(super) fn apply(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        instrument: &mut Instrument,
    ) -> Result<Result<Counted, Reason>, StateError> {
        let key = OrderKey::new(event.instrument, event.reference);
        let order = match event.kind {
            OrderKind::Fill => return Ok(Ok(Counted::Executed(0, 0))),
            OrderKind::Mark => return Ok(Ok(Counted::Nothing)),
            OrderKind::Clear => return self.clear(state, event.instrument, instrument).map(Ok),
            _ => self.orders.get(state, key, instrument.generation),
        };
        match (event.kind, order) {
            (OrderKind::Add, None) => {
                self.enter(state, event, key, event.side(), instrument)?;
                Ok(Ok(Counted::Added))
            }
            (OrderKind::Add, Some(_)) => Ok(Err((FaultKind::LiveReference, event.reference))),
            (OrderKind::Modify, None) => {
                self.enter(state, event, key, event.side(), instrument)?;
                Ok(Ok(Counted::Replaced))
            }
            (OrderKind::Modify, Some(order)) if order.side() != event.side() => {
                Ok(Err((FaultKind::SideChanged, event.reference)))
            }
            (OrderKind::Modify, Some(order)) => {
                self.leave(state, event.instrument, key, order, order.shares, instrument)?;
                self.enter(state, event, key, order.side(), instrument)?;
                Ok(Ok(Counted::Replaced))
            }
            (_, None) => Ok(Err((FaultKind::UnknownOrder, event.reference))),
            (OrderKind::Replace, Some(order)) => self.replace(state, event, key, order, instrument),
            (OrderKind::Delete, Some(order)) => {
                self.leave(state, event.instrument, key, order, order.shares, instrument)?;
                Ok(Ok(Counted::Deleted))
            }
            (_, Some(order)) if event.shares > order.shares => Ok(Err((FaultKind::TooManyShares, event.reference))),
            (kind, Some(order)) => {
                self.leave(state, event.instrument, key, order, event.shares, instrument)?;
                Ok(Ok(match kind {
                    OrderKind::Execute => Counted::Executed(event.shares, order.price),
                    OrderKind::ExecuteAt if event.printable() => Counted::Executed(event.shares, event.price),
                    OrderKind::ExecuteAt => Counted::Executed(0, 0),
                    OrderKind::CancelOrDelete if event.shares == order.shares => Counted::Deleted,
                    _ => Counted::Cancelled,
                }))
            }
        }
    }

    fn replace(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        key: OrderKey,
        order: Order,
        instrument: &mut Instrument,
    ) -> Result<Result<Counted, Reason>, StateError> {
        let new_key = OrderKey::new(event.instrument, event.new_reference());
        // The order itself is still live when the message comes: it cannot be replaced by its own reference.
        if self.orders.get(state, new_key, instrument.generation).is_some() {
            return Ok(Err((FaultKind::LiveReference, event.new_reference())));
        }
        self.leave(state, event.instrument, key, order, order.shares, instrument)?;
        self.enter(state, event, new_key, order.side(), instrument)?;
        Ok(Ok(Counted::Replaced))
    }

    /// An order with the event's shares and price enters.
    #[inline]
    fn enter(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        key: OrderKey,
        side: Side,
        instrument: &mut Instrument,
    ) -> Result<(), StateError> {
        let order = Order::new(event.price, event.shares, side, instrument.generation);
        self.orders.put(state, key, order)?;
        instrument.live += 1;
        let book = BookSide { instrument: event.instrument, side };
        let leaves = &mut instrument.leaves[side as usize];
        let sum = self.levels.add(state, book, leaves, event.price, u64::from(event.shares))?;
        let (best, shares) = instrument.best(side);
        if shares == 0 || book.rank(event.price) >= book.rank(best) {
            instrument.set_best(side, event.price, sum);
        }
        Ok(())
    }

    /// `shares` of an order, at most all, leave.
    #[inline]
    fn leave(
        &mut self,
        state: &mut Arena,
        id: u32,
        key: OrderKey,
        order: Order,
        shares: u32,
        instrument: &mut Instrument,
    ) -> Result<(), StateError> {
        if shares == order.shares {
            self.orders.remove(state, key)?;
            instrument.live -= 1;
        } else {
            self.orders.set_shares(state, key, order.shares - shares)?;
        }
        let side = order.side();
        let book = BookSide { instrument: id, side };
        let leaves = instrument.leaves[side as usize];
        let left = self.levels.take(state, book, leaves, order.price, u64::from(shares))?;
        if instrument.best(side).0 == order.price {
            let best = if left > 0 {
                (order.price, left)
            } else {
                self.levels.best(state, book, leaves).map_or((0, 0), |level| (level.price, level.shares))
            };
            instrument.set_best(side, best.0, best.1);
        }
        Ok(())
    }

    /// All orders leave.
    #[cold]
    fn clear(&mut self, state: &mut Arena, id: u32, instrument: &mut Instrument) -> Result<Counted, StateError> {
        for side in [Side::Bid, Side::Ask] {
            let leaves = &mut instrument.leaves[side as usize];
            self.levels.clear(state, BookSide { instrument: id, side }, leaves)?;
            instrument.set_best(side, 0, 0);
        }
        let dead = std::mem::take(&mut instrument.live);
        if dead > 0 {
            instrument.generation = instrument.generation.wrapping_add(1);
            // The sweep asks the map for the generation.
            self.instruments.insert(state, id, *instrument)?;
            self.orders.bury(state, &self.instruments, dead)?;
        }
        Ok(Counted::Nothing)
    }
}
