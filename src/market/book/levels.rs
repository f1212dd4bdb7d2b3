//! Price levels: per instrument and side a sorted list with the best level at its end, where changes are frequent, so
//! that little has to move.
//!
//! A side begins as one list, a leaf. A leaf that outgrows [`LEAF_LEVELS`] is split in two, and from then on a
//! directory says which leaf has which prices; so the size of a book is not bounded by that of one list.

use crate::{
    market::event::Side,
    state::{Arena, KeyedList, StateError},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Levels of a full leaf: one page.
pub(super) const LEAF_LEVELS: usize = 256;

/// One price level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Level {
    pub(super) price: i64,
    /// Shares of all orders at the price; never 0.
    pub(super) shares: u64,
}

/// A leaf of an instrument's side, or with leaf 0 the side's directory.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct LeafKey {
    instrument: u32,
    side_and_leaf: u32,
}

/// One leaf in a directory: it has the ranks from `from` to that of the next leaf.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Child {
    from: i64,
    leaf: u32,
    zero: u32,
}

/// One side of one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BookSide {
    pub(super) instrument: u32,
    pub(super) side: Side,
}

impl BookSide {
    fn key(self, leaf: u32) -> LeafKey {
        LeafKey { instrument: self.instrument, side_and_leaf: (self.side as u32) << 31 | leaf }
    }

    /// Prices in the order of their lists: the better, the greater.
    #[inline]
    pub(super) fn rank(self, price: i64) -> i64 {
        match self.side {
            Side::Bid => price,
            Side::Ask => !price,
        }
    }
}

/// The price levels of all instruments.
pub(super) struct Levels {
    leaves: KeyedList<LeafKey, Level>,
    directories: KeyedList<LeafKey, Child>,
}

impl Levels {
    pub(super) fn open(state: &mut Arena) -> Result<Self, StateError> {
        Ok(Self {
            leaves: KeyedList::open(state, "book.levels", 1)?,
            directories: KeyedList::open(state, "book.level_directories", 1)?,
        })
    }

    /// Adds `shares` at `price` and gives the level's sum. `leaves` is the number of leaves the side has had so far,
    /// 0 at first; it is kept by the caller.
    pub(super) fn add(
        &mut self,
        state: &mut Arena,
        side: BookSide,
        leaves: &mut u32,
        price: i64,
        shares: u64,
    ) -> Result<u64, StateError> {
        let rank = side.rank(price);
        let mut leaf = self.leaf_of(state, side, *leaves, rank);
        let levels = self.leaves.get(state, &side.key(leaf));
        let mut at = match search(levels, side, rank) {
            Ok(at) => {
                let add = |level: &mut Level| {
                    level.shares += shares;
                    level.shares
                };
                return Ok(self.leaves.modify(state, &side.key(leaf), at, add)?.unwrap_or(shares));
            }
            Err(at) => at,
        };
        if levels.len() >= LEAF_LEVELS {
            self.split(state, side, leaves, leaf)?;
            leaf = self.leaf_of(state, side, *leaves, rank);
            at = search(self.leaves.get(state, &side.key(leaf)), side, rank).unwrap_or_else(|at| at);
        }
        self.leaves.insert(state, side.key(leaf), at, Level { price, shares })?;
        *leaves = (*leaves).max(1);
        Ok(shares)
    }

    /// Takes `shares` off the level at `price` and gives what is left; at 0 the level goes.
    pub(super) fn take(
        &mut self,
        state: &mut Arena,
        side: BookSide,
        leaves: u32,
        price: i64,
        shares: u64,
    ) -> Result<u64, StateError> {
        let rank = side.rank(price);
        let leaf = self.leaf_of(state, side, leaves, rank);
        let key = side.key(leaf);
        let levels = self.leaves.get(state, &key);
        // Every live order is in its level's sum, so the level is there and holds at least its shares.
        let Ok(at) = search(levels, side, rank) else { return Ok(0) };
        let left = levels[at].shares.saturating_sub(shares);
        if left > 0 {
            self.leaves.modify(state, &key, at, |level| level.shares = left)?;
        } else if levels.len() == 1 && leaves > 1 {
            self.drop_leaf(state, side, leaf)?;
        } else {
            self.leaves.remove(state, &key, at)?;
        }
        Ok(left)
    }

    /// The best level.
    #[inline]
    pub(super) fn best(&self, state: &Arena, side: BookSide, leaves: u32) -> Option<Level> {
        let leaf = self.leaf_of(state, side, leaves, i64::MAX);
        self.leaves.get(state, &side.key(leaf)).last().copied()
    }

    /// Drops all levels of a side.
    pub(super) fn clear(&mut self, state: &mut Arena, side: BookSide, leaves: &mut u32) -> Result<(), StateError> {
        for child in self.directories.get(state, &side.key(0)).to_vec() {
            self.leaves.remove_key(state, &side.key(child.leaf))?;
        }
        self.directories.remove_key(state, &side.key(0))?;
        self.leaves.remove_key(state, &side.key(0))?;
        *leaves = 0;
        Ok(())
    }

    /// The leaf that has `rank`, or would have it.
    #[inline]
    fn leaf_of(&self, state: &Arena, side: BookSide, leaves: u32, rank: i64) -> u32 {
        if leaves <= 1 {
            return 0;
        }
        let children = self.directories.get(state, &side.key(0));
        children.get(child_of(children, rank)).map_or(0, |child| child.leaf)
    }

    /// Moves the better half of a full leaf into a new one.
    #[cold]
    fn split(&mut self, state: &mut Arena, side: BookSide, leaves: &mut u32, leaf: u32) -> Result<(), StateError> {
        let directory = side.key(0);
        if *leaves <= 1 {
            self.directories.push(state, directory, Child { from: i64::MIN, leaf: 0, zero: 0 })?;
            *leaves = 1;
        }
        let upper = self.leaves.get(state, &side.key(leaf))[LEAF_LEVELS / 2..].to_vec();
        let Some(first) = upper.first() else { return Ok(()) };
        let from = side.rank(first.price);
        let at = child_of(self.directories.get(state, &directory), from) + 1;
        self.directories.insert(state, directory, at, Child { from, leaf: *leaves, zero: 0 })?;
        for level in upper {
            self.leaves.push(state, side.key(*leaves), level)?;
        }
        self.leaves.truncate(state, &side.key(leaf), LEAF_LEVELS / 2)?;
        *leaves += 1;
        Ok(())
    }

    /// Removes a leaf that is to become empty; the last leaf of a side stays. What the leaf had goes to its neighbour.
    #[cold]
    fn drop_leaf(&mut self, state: &mut Arena, side: BookSide, leaf: u32) -> Result<(), StateError> {
        let directory = side.key(0);
        let children = self.directories.get(state, &directory);
        if children.len() > 1
            && let Some(at) = children.iter().position(|child| child.leaf == leaf)
        {
            self.directories.remove(state, &directory, at)?;
            self.leaves.remove_key(state, &side.key(leaf))?;
        } else {
            self.leaves.truncate(state, &side.key(leaf), 0)?;
        }
        Ok(())
    }
}

/// The place of the child that has `rank`.
fn child_of(children: &[Child], rank: i64) -> usize {
    children.partition_point(|child| child.from <= rank).saturating_sub(1)
}

/// Levels at the end of a list that are looked at one by one before the rest is halved: most changes are near the touch.
const NEAR_TOUCH: usize = 8;

/// The place of the level of `rank`, or the one at which it would have to be inserted.
#[inline]
fn search(levels: &[Level], side: BookSide, rank: i64) -> Result<usize, usize> {
    let far = levels.len().saturating_sub(NEAR_TOUCH);
    for (at, level) in levels.iter().enumerate().skip(far).rev() {
        let of_level = side.rank(level.price);
        if of_level == rank {
            return Ok(at);
        }
        if of_level < rank {
            return Err(at + 1);
        }
    }
    levels[..far].binary_search_by_key(&rank, |level| side.rank(level.price))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ArenaOptions;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn check_against_a_tree(side: Side, changes: &[(i64, bool)]) {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut levels = Levels::open(&mut state).unwrap();
        let (book, mut leaves) = (BookSide { instrument: 7, side }, 0);
        let mut model: BTreeMap<i64, u64> = BTreeMap::new();
        for &(price, add) in changes {
            let rank = book.rank(price);
            match model.get(&rank).copied() {
                Some(shares) if !add => {
                    assert_eq!(levels.take(&mut state, book, leaves, price, shares).unwrap(), 0);
                    model.remove(&rank);
                }
                present => {
                    let sum = levels.add(&mut state, book, &mut leaves, price, 3).unwrap();
                    assert_eq!(sum, present.unwrap_or(0) + 3);
                    model.insert(rank, sum);
                }
            }
            let best = levels.best(&state, book, leaves).map(|level| (book.rank(level.price), level.shares));
            assert_eq!(best, model.last_key_value().map(|(&rank, &shares)| (rank, shares)));
        }
        for (&rank, &shares) in &model {
            assert_eq!(levels.take(&mut state, book, leaves, book.rank(rank), 1).unwrap(), shares - 1);
        }
        levels.clear(&mut state, book, &mut leaves).unwrap();
        assert_eq!((levels.best(&state, book, leaves), leaves), (None, 0));
    }

    proptest! {
        #[test]
        fn small_books_equal_a_tree(ask in any::<bool>(), changes in prop::collection::vec((-20_i64..20, any::<bool>()), 0..300)) {
            check_against_a_tree(if ask { Side::Ask } else { Side::Bid }, &changes);
        }
    }

    #[test]
    fn books_of_many_leaves_equal_a_tree_while_they_grow_and_shrink() {
        for side in [Side::Bid, Side::Ask] {
            let scattered = (0..4 * LEAF_LEVELS as i64).map(|i| (i * 7919 % 100_003 - 50_000, true));
            let again = (0..4 * LEAF_LEVELS as i64).rev().map(|i| (i * 7919 % 100_003 - 50_000, false));
            let ends = [(i64::MIN, true), (i64::MAX - 1, true), (0, true)];
            let refill = (0..2 * LEAF_LEVELS as i64).map(|i| (i, true));
            check_against_a_tree(side, &scattered.chain(ends).chain(again).chain(refill).collect::<Vec<_>>());
        }
    }
}
