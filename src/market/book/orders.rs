//! The live orders of all instruments.
//!
//! An order belongs to a generation of its instrument's book. Clearing a book begins the next generation and leaves
//! the old orders where they are, dead. They are swept out once there are more of them than live ones, so that a clear
//! costs no more than the adds before it did.

use super::instrument::Instrument;
use crate::{
    market::event::Side,
    state::{Arena, KeyedMap, StateError},
};
use std::collections::HashMap;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Which order: references are unique within an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct OrderKey {
    reference: u64,
    instrument: u32,
    zero: u32,
}

impl OrderKey {
    #[inline]
    pub(super) fn new(instrument: u32, reference: u64) -> Self {
        Self { reference, instrument, zero: 0 }
    }
}

/// What the book remembers of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Order {
    pub(super) price: i64,
    /// Shares that remain; never 0.
    pub(super) shares: u32,
    /// The side in the lowest bit, the generation above it.
    side_and_generation: u32,
}

impl Order {
    #[inline]
    pub(super) fn new(price: i64, shares: u32, side: Side, generation: u32) -> Self {
        Self { price, shares, side_and_generation: generation << 1 | side as u32 }
    }

    #[inline]
    pub(super) fn side(&self) -> Side {
        if self.side_and_generation & 1 == 0 { Side::Bid } else { Side::Ask }
    }

    #[inline]
    fn generation(&self) -> u32 {
        self.side_and_generation >> 1
    }

    #[inline]
    fn is_of(&self, generation: u32) -> bool {
        self.generation() == generation << 1 >> 1
    }
}

/// Dead orders that are not worth a sweep.
const FEW: u64 = 1024;

/// The orders of all instruments.
pub(super) struct Orders {
    orders: KeyedMap<OrderKey, Order>,
    /// Live orders of all instruments. Not state: the instruments know it.
    live: u64,
}

impl Orders {
    /// Registers the state; `instruments` says how many of the restored orders are live.
    pub(super) fn open(state: &mut Arena, instruments: &KeyedMap<u32, Instrument>) -> Result<Self, StateError> {
        let orders = KeyedMap::open(state, "book.orders", 1)?;
        let mut live = 0;
        instruments.for_each(state, |_, instrument| live += instrument.book.live);
        Ok(Self { orders, live })
    }

    /// The order, if it is live in `generation`.
    #[inline]
    pub(super) fn get(&self, state: &Arena, key: OrderKey, generation: u32) -> Option<Order> {
        self.orders.get(state, &key).copied().filter(|order| order.is_of(generation))
    }

    /// Puts an order in, unless one of the same reference is live; says whether it is in.
    #[inline]
    pub(super) fn put(&mut self, state: &mut Arena, key: OrderKey, order: Order) -> Result<bool, StateError> {
        // One search instead of two: a live order in the way is the exception, and is put back.
        match self.orders.insert(state, key, order)? {
            Some(before) if before.is_of(order.generation()) => {
                self.orders.insert(state, key, before)?;
                Ok(false)
            }
            _ => {
                self.live += 1;
                Ok(true)
            }
        }
    }

    /// Sets the shares of an order that is there.
    #[inline]
    pub(super) fn set_shares(&mut self, state: &mut Arena, key: OrderKey, shares: u32) -> Result<(), StateError> {
        self.orders.modify(state, &key, |order| order.shares = shares).map(|_| ())
    }

    /// Takes an order out, if it is live in `generation`.
    #[inline]
    pub(super) fn take(
        &mut self,
        state: &mut Arena,
        key: OrderKey,
        generation: u32,
    ) -> Result<Option<Order>, StateError> {
        // A dead one is gone with it, which is as well.
        let order = self.orders.remove(state, &key)?.filter(|order| order.is_of(generation));
        self.live -= u64::from(order.is_some());
        Ok(order)
    }

    /// `count` orders have died: the generation of their instrument, as `instruments` has it, is over.
    pub(super) fn bury(
        &mut self,
        state: &mut Arena,
        instruments: &KeyedMap<u32, Instrument>,
        count: u64,
    ) -> Result<(), StateError> {
        self.live -= count;
        let dead = self.orders.len() - self.live;
        if dead > self.live.max(FEW) { self.sweep(state, instruments) } else { Ok(()) }
    }

    /// Removes the dead orders of all key groups.
    #[cold]
    fn sweep(&mut self, state: &mut Arena, instruments: &KeyedMap<u32, Instrument>) -> Result<(), StateError> {
        let mut current = HashMap::new();
        instruments.for_each(state, |&id, instrument| {
            current.insert(id, (instrument.book.generation, instrument.book.key_group));
        });
        let mut dead = Vec::new();
        self.orders.for_each(state, |key, order| {
            // Every order's instrument is there; it is put in with its first order.
            if let Some(&(generation, key_group)) = current.get(&key.instrument)
                && !order.is_of(generation)
            {
                dead.push((key_group, *key));
            }
        });
        let at_hand = state.key_group();
        let mut removed = Ok(());
        for (key_group, key) in dead {
            removed = state.set_key_group(key_group).and_then(|()| self.orders.remove(state, &key).map(|_| ()));
            if removed.is_err() {
                break;
            }
        }
        state.set_key_group(at_hand)?;
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{market::symbol::SymbolCode, state::ArenaOptions};

    #[test]
    fn dead_orders_are_swept_out_and_live_ones_of_all_key_groups_stay() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut instruments: KeyedMap<u32, Instrument> = KeyedMap::open(&mut state, "instruments", 1).unwrap();
        let mut orders = Orders::open(&mut state, &instruments).unwrap();
        let add = |state: &mut Arena, orders: &mut Orders, instrument: u32, reference, generation| {
            state.set_key_group(instrument as u16).unwrap();
            let order = Order::new(1, 1, Side::Ask, generation);
            assert!(orders.put(state, OrderKey::new(instrument, reference), order).unwrap());
        };
        for instrument in [3, 4] {
            state.set_key_group(instrument as u16).unwrap();
            let new = Instrument::new(SymbolCode::of_instrument(instrument), instrument as u16);
            instruments.insert(&mut state, instrument, new).unwrap();
        }
        (0..100).for_each(|reference| add(&mut state, &mut orders, 4, reference, 0));
        for round in 0..50_u32 {
            for reference in 0..100 {
                add(&mut state, &mut orders, 3, u64::from(round) * 60 + reference, round);
            }
            instruments.modify(&mut state, &3, |instrument| instrument.book.generation = round + 1).unwrap();
            orders.bury(&mut state, &instruments, 100).unwrap();
            assert_eq!((orders.live, state.key_group()), (100, 3));
            assert!(orders.orders.len() <= 100 + FEW, "{}", orders.orders.len());
        }
        assert!(orders.take(&mut state, OrderKey::new(3, 49 * 60), 50).unwrap().is_none());
        state.set_key_group(4).unwrap();
        for reference in 0..100 {
            assert!(orders.take(&mut state, OrderKey::new(4, reference), 0).unwrap().is_some());
        }
        assert_eq!(orders.live, 0);
    }

    #[test]
    fn a_live_order_is_not_overwritten_and_a_dead_one_is() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let instruments = KeyedMap::open(&mut state, "instruments", 1).unwrap();
        let mut orders = Orders::open(&mut state, &instruments).unwrap();
        let (key, order) = (OrderKey::new(1, u64::MAX), Order::new(5, 6, Side::Bid, 0));
        assert!(orders.put(&mut state, key, order).unwrap());
        assert!(!orders.put(&mut state, key, Order::new(7, 8, Side::Ask, 0)).unwrap());
        assert_eq!(orders.get(&state, key, 0), Some(order));
        assert_eq!(orders.get(&state, key, 1), None);
        assert!(orders.put(&mut state, key, Order::new(7, 8, Side::Ask, 1)).unwrap());
        assert_eq!(orders.get(&state, key, 1).map(|order| (order.price, order.side())), Some((7, Side::Ask)));
    }
}
