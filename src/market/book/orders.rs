//! The live orders of all instruments.
//!
//! An order belongs to a generation of its instrument's book. Clearing a book begins the next generation and leaves
//! the old orders where they are, dead; a key group's dead orders are swept out once there may be as many of them as
//! orders that outlived the sweep before, so that a clear costs no more than the adds before it.

use super::instrument::Instrument;
use crate::{
    market::event::Side,
    state::{Arena, KeyedMap, StateError},
};
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
    fn is_of(&self, generation: u32) -> bool {
        self.side_and_generation >> 1 == generation << 1 >> 1
    }
}

/// A key group's account of dead orders.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Sweep {
    /// Orders that died since the last sweep; some may have been overwritten since.
    dead: u64,
    /// Orders that outlived the last sweep.
    survivors: u64,
}

/// The one key of [`Orders::sweeps`].
const SWEEP: u32 = 0;
/// Dead orders that are not worth a sweep.
const FEW: u64 = 1024;

/// The orders of all instruments.
pub(super) struct Orders {
    orders: KeyedMap<OrderKey, Order>,
    sweeps: KeyedMap<u32, Sweep>,
}

impl Orders {
    pub(super) fn open(state: &mut Arena) -> Result<Self, StateError> {
        Ok(Self { orders: KeyedMap::open(state, "book.orders", 1)?, sweeps: KeyedMap::open(state, "book.sweeps", 1)? })
    }

    /// The order, if it is live in `generation`.
    #[inline]
    pub(super) fn get(&self, state: &Arena, key: OrderKey, generation: u32) -> Option<Order> {
        self.orders.get(state, &key).copied().filter(|order| order.is_of(generation))
    }

    /// Puts an order in, in the place of a dead one of the same reference if there is one.
    #[inline]
    pub(super) fn put(&self, state: &mut Arena, key: OrderKey, order: Order) -> Result<(), StateError> {
        self.orders.insert(state, key, order).map(|_| ())
    }

    /// Sets the shares of an order that is there.
    #[inline]
    pub(super) fn set_shares(&self, state: &mut Arena, key: OrderKey, shares: u32) -> Result<(), StateError> {
        self.orders.modify(state, &key, |order| order.shares = shares).map(|_| ())
    }

    #[inline]
    pub(super) fn remove(&self, state: &mut Arena, key: OrderKey) -> Result<(), StateError> {
        self.orders.remove(state, &key).map(|_| ())
    }

    /// `count` orders of the current key group have died.
    pub(super) fn bury(
        &self,
        state: &mut Arena,
        instruments: &KeyedMap<u32, Instrument>,
        count: u64,
    ) -> Result<(), StateError> {
        let due = self.sweeps.upsert(state, SWEEP, Sweep::default(), |sweep| {
            sweep.dead += count;
            sweep.dead > sweep.survivors.max(FEW)
        })?;
        if due { self.sweep(state, instruments) } else { Ok(()) }
    }

    /// Removes the current key group's dead orders.
    #[cold]
    fn sweep(&self, state: &mut Arena, instruments: &KeyedMap<u32, Instrument>) -> Result<(), StateError> {
        let (mut dead, mut survivors) = (Vec::new(), 0);
        self.orders.for_each_in_group(state, |key, order| match instruments.get(state, &key.instrument) {
            Some(instrument) if order.is_of(instrument.generation) => survivors += 1,
            _ => dead.push(*key),
        });
        for key in dead {
            self.orders.remove(state, &key)?;
        }
        self.sweeps.insert(state, SWEEP, Sweep { dead: 0, survivors }).map(|_| ())
    }

    /// Orders in the map, dead ones included.
    #[cfg(test)]
    pub(super) fn len(&self, state: &Arena) -> usize {
        self.orders.len(state)
    }
}
