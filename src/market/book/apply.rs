//! What each kind of order event does to a book. An event that is rejected changes nothing.

use super::{
    Books,
    instrument::Book,
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
    /// Applies `event` to `book`, whose quote follows.
    #[inline]
    pub(super) fn apply(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        match event.kind {
            OrderKind::Add => self.add(state, event, book),
            OrderKind::Delete => self.delete(state, event, book),
            OrderKind::Replace => self.replace(state, event, book),
            OrderKind::Modify => self.modify(state, event, book),
            OrderKind::Execute | OrderKind::ExecuteAt | OrderKind::Cancel | OrderKind::CancelOrDelete => {
                self.reduce(state, event, book)
            }
            OrderKind::Fill => Ok(Ok(Counted::Executed(0, 0))),
            OrderKind::Clear => self.clear(state, event.instrument, book).map(Ok),
            OrderKind::Mark => Ok(Ok(Counted::Nothing)),
        }
    }

    #[inline]
    fn add(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        Ok(match self.enter(state, event, event.reference, event.side(), book)? {
            true => Ok(Counted::Added),
            false => Err((FaultKind::LiveReference, event.reference)),
        })
    }

    #[inline]
    fn delete(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        Ok(match self.leave(state, event, book)? {
            Some(_) => Ok(Counted::Deleted),
            None => Err((FaultKind::UnknownOrder, event.reference)),
        })
    }

    fn replace(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        let old_key = OrderKey::new(event.instrument, event.reference);
        let new_key = OrderKey::new(event.instrument, event.new_reference());
        let old = self.orders.get(state, old_key, book.generation);
        if old.is_none() {
            return Ok(Err((FaultKind::UnknownOrder, event.reference)));
        }
        // The old order is still live when the message comes: it cannot be replaced under its own reference.
        if self.orders.get(state, new_key, book.generation).is_some() {
            return Ok(Err((FaultKind::LiveReference, event.new_reference())));
        }
        if let Some(old) = self.leave(state, event, book)? {
            self.enter(state, event, event.new_reference(), old.side(), book)?;
        }
        Ok(Ok(Counted::Replaced))
    }

    fn modify(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        let key = OrderKey::new(event.instrument, event.reference);
        if let Some(order) = self.orders.get(state, key, book.generation) {
            if order.side() != event.side() {
                return Ok(Err((FaultKind::SideChanged, event.reference)));
            }
            self.leave(state, event, book)?;
        }
        self.enter(state, event, event.reference, event.side(), book)?;
        Ok(Ok(Counted::Replaced))
    }

    /// Shares of an order are executed or cancelled.
    fn reduce(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        book: &mut Book,
    ) -> Result<Result<Counted, Reason>, StateError> {
        let key = OrderKey::new(event.instrument, event.reference);
        let Some(order) = self.orders.get(state, key, book.generation) else {
            return Ok(Err((FaultKind::UnknownOrder, event.reference)));
        };
        if event.shares > order.shares {
            return Ok(Err((FaultKind::TooManyShares, event.reference)));
        }
        if event.shares == order.shares {
            self.leave(state, event, book)?;
        } else {
            self.orders.set_shares(state, key, order.shares - event.shares)?;
            self.take_shares(state, event.instrument, &order, event.shares, book)?;
        }
        Ok(Ok(match event.kind {
            OrderKind::Execute => Counted::Executed(event.shares, order.price),
            OrderKind::ExecuteAt if event.printable() => Counted::Executed(event.shares, event.price),
            OrderKind::ExecuteAt => Counted::Executed(0, 0),
            OrderKind::CancelOrDelete if event.shares == order.shares => Counted::Deleted,
            _ => Counted::Cancelled,
        }))
    }

    /// An order with the event's shares and price enters as `reference`; false, and nothing, if that is live.
    #[inline]
    fn enter(
        &mut self,
        state: &mut Arena,
        event: &OrderEvent,
        reference: u64,
        side: Side,
        book: &mut Book,
    ) -> Result<bool, StateError> {
        let order = Order::new(event.price, event.shares, side, book.generation);
        if !self.orders.put(state, OrderKey::new(event.instrument, reference), order)? {
            return Ok(false);
        }
        book.live += 1;
        let of = BookSide { instrument: event.instrument, side };
        let leaves = &mut book.leaves[side as usize];
        let sum = self.levels.add(state, of, leaves, event.price, u64::from(event.shares))?;
        let (best, shares) = book.best(side);
        if shares == 0 || of.rank(event.price) >= of.rank(best) {
            book.set_best(side, event.price, sum);
        }
        Ok(true)
    }

    /// The event's order leaves with all its shares; `None`, and nothing, if it is not live.
    #[inline]
    fn leave(&mut self, state: &mut Arena, event: &OrderEvent, book: &mut Book) -> Result<Option<Order>, StateError> {
        let key = OrderKey::new(event.instrument, event.reference);
        let Some(order) = self.orders.take(state, key, book.generation)? else { return Ok(None) };
        book.live -= 1;
        self.take_shares(state, event.instrument, &order, order.shares, book)?;
        Ok(Some(order))
    }

    /// `shares` of `order` leave its level.
    #[inline]
    fn take_shares(
        &mut self,
        state: &mut Arena,
        instrument: u32,
        order: &Order,
        shares: u32,
        book: &mut Book,
    ) -> Result<(), StateError> {
        let side = order.side();
        let of = BookSide { instrument, side };
        let leaves = book.leaves[side as usize];
        let left = self.levels.take(state, of, leaves, order.price, u64::from(shares))?;
        if book.best(side).0 == order.price {
            let (price, shares) = if left > 0 {
                (order.price, left)
            } else {
                self.levels.best(state, of, leaves).map_or((0, 0), |level| (level.price, level.shares))
            };
            book.set_best(side, price, shares);
        }
        Ok(())
    }

    /// All orders leave.
    #[cold]
    fn clear(&mut self, state: &mut Arena, id: u32, book: &mut Book) -> Result<Counted, StateError> {
        for side in [Side::Bid, Side::Ask] {
            self.levels.clear(state, BookSide { instrument: id, side }, &mut book.leaves[side as usize])?;
            book.set_best(side, 0, 0);
        }
        let dead = std::mem::take(&mut book.live);
        if dead > 0 {
            book.generation = book.generation.wrapping_add(1);
            // A sweep asks the instruments for their generations.
            let generation = book.generation;
            self.instruments.modify(state, &id, |instrument| instrument.book.generation = generation)?;
            self.orders.bury(state, &self.instruments, dead)?;
        }
        Ok(Counted::Nothing)
    }
}
