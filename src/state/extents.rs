//! Which extents are free: the owner's bookkeeping of memory for pages, and of the spares that copy-on-write lives on.

use super::region::Region;
use super::{FreezeDeclined, StateError};

/// Number of a page-sized piece of the arena's memory. The page that lies in it may move to another one.
pub(crate) type Extent = u32;

/// Block sizes are 2^order pages; the largest is 64 pages, 256 KiB.
pub(crate) const ORDERS: usize = 7;

const NONE: u32 = u32::MAX;

/// Blocks of one order, linked through [`Extents::links`]: two chains are joined in O(1), however long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
    blocks: u32,
}

impl Chain {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, blocks: 0 };
}

/// How many spares to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparePolicy {
    /// Share of the state's pages.
    pub ratio: f64,
    /// At least as many, in pages...
    pub min_pages: u32,
    /// ... but no more than this many times the state's pages: each waiting list can condemn a page once.
    pub copies: u32,
}

/// Free extents: never used ones behind a bump index, and used ones in a chain per order.
pub(crate) struct Extents {
    links: Region<u32>,
    fresh: u32,
    capacity: u32,
    free: [Chain; ORDERS],
    free_pages: u32,
    low_water: u32,
    policy: SparePolicy,
}

impl Extents {
    pub fn reserve(capacity: u32, policy: SparePolicy) -> Result<Self, StateError> {
        let links = Region::reserve(capacity)?;
        Ok(Self { links, fresh: 0, capacity, free: [Chain::EMPTY; ORDERS], free_pages: 0, low_water: 0, policy })
    }

    /// Takes a free block of 2^order pages whose memory has been touched before, splitting a larger one if need be.
    pub fn take_free(&mut self, order: usize) -> Option<Extent> {
        let found = (order..ORDERS).find(|&o| self.free[o].blocks > 0)?;
        let block = self.pop(found);
        for half in (order..found).rev() {
            self.give(half, block + (1 << half));
        }
        Some(block)
    }

    /// Takes a block of never used memory; it is zero.
    pub fn take_fresh(&mut self, order: usize) -> Option<Extent> {
        let pages = 1u32 << order;
        let end = self.fresh.checked_add(pages).filter(|&end| end <= self.capacity)?;
        Some(std::mem::replace(&mut self.fresh, end))
    }

    /// Puts one free block back.
    pub fn give(&mut self, order: usize, block: Extent) {
        let mut chain = Chain::EMPTY;
        self.push(&mut chain, block);
        self.give_chain(order, chain);
    }

    /// Appends a block to a chain that lies outside the free ones (the condemned extents of a frozen list).
    pub fn push(&mut self, chain: &mut Chain, block: Extent) {
        self.set_link(block, chain.head);
        if chain.blocks == 0 {
            chain.tail = block;
        }
        chain.head = block;
        chain.blocks += 1;
    }

    /// Makes a whole chain free, in O(1).
    pub fn give_chain(&mut self, order: usize, chain: Chain) {
        if chain.blocks == 0 {
            return;
        }
        let free = self.free[order];
        self.set_link(chain.tail, free.head);
        let tail = if free.blocks == 0 { chain.tail } else { free.tail };
        self.free[order] = Chain { head: chain.head, tail, blocks: free.blocks + chain.blocks };
        self.free_pages += chain.blocks << order;
    }

    fn pop(&mut self, order: usize) -> Extent {
        let block = self.free[order].head;
        let next = self.links.read(block, |link| {
            // SAFETY: links are touched by the arena's owner alone, which `&mut self` stands for.
            unsafe { *link }
        });
        let chain = &mut self.free[order];
        chain.head = next;
        chain.blocks -= 1;
        self.free_pages -= 1 << order;
        block
    }

    fn set_link(&mut self, block: Extent, next: u32) {
        // SAFETY: as in `pop`.
        self.links.write(block, |link| unsafe { *link = next });
    }

    /// Pages in free blocks.
    pub fn free_pages(&self) -> u32 {
        self.free_pages
    }

    /// Extents ever used: what the arena occupies, spares and all.
    pub fn used(&self) -> u32 {
        self.fresh
    }

    /// Spares that a state of `pages` pages should have.
    pub fn spare_target(&self, pages: u32) -> u32 {
        let share = (f64::from(pages) * self.policy.ratio) as u32;
        share.max(self.policy.min_pages).min(pages.saturating_mul(self.policy.copies))
    }

    /// Notes how many pages the state has: the low-water mark is a quarter of the spares that it should have. What
    /// lies below is the reserve for the time until the writer is through.
    pub fn note_pages(&mut self, pages: u32) {
        self.low_water = self.spare_target(pages) / 4;
    }

    /// Whether fewer spares are free than a freeze needs.
    #[inline(always)]
    pub fn spares_low(&self) -> bool {
        self.free_pages < self.low_water
    }

    /// As [`Extents::spares_low`], with the figures.
    pub fn check_spares(&self) -> Result<(), FreezeDeclined> {
        if self.spares_low() {
            return Err(FreezeDeclined::SparesLow { free: self.free_pages, low_water: self.low_water });
        }
        Ok(())
    }

    /// One fresh extent more, while spares are short of the target.
    pub fn next_spare(&mut self, pages: u32) -> Option<Extent> {
        if self.free_pages >= self.spare_target(pages) {
            return None;
        }
        self.take_fresh(0)
    }

    /// How many spares to add at most for each page that the state grows by.
    pub fn spares_per_page(&self) -> u32 {
        self.policy.copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(capacity: u32) -> Extents {
        Extents::reserve(capacity, SparePolicy { ratio: 0.1, min_pages: 16, copies: 4 }).unwrap()
    }

    #[test]
    fn blocks_are_handed_out_once_and_split_when_larger() {
        let mut extents = extents(64);
        let block = extents.take_fresh(3).unwrap();
        extents.give(3, block);
        assert_eq!(extents.free_pages(), 8);
        let mut seen: Vec<_> = std::iter::from_fn(|| extents.take_free(0)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
        assert_eq!(extents.free_pages(), 0);
    }

    #[test]
    fn fresh_memory_ends_at_the_capacity() {
        let mut extents = extents(5);
        assert_eq!(extents.take_fresh(2), Some(0));
        assert_eq!(extents.take_fresh(1), None);
        assert_eq!(extents.take_fresh(0), Some(4));
        assert_eq!(extents.take_fresh(0), None);
    }

    #[test]
    fn chains_join_without_losing_a_block() {
        let mut extents = extents(64);
        let blocks: Vec<_> = (0..10).map(|_| extents.take_fresh(1).unwrap()).collect();
        let (mut a, mut b) = (Chain::EMPTY, Chain::EMPTY);
        for (i, &block) in blocks.iter().enumerate() {
            extents.push(if i % 3 == 0 { &mut a } else { &mut b }, block);
        }
        extents.give_chain(1, a);
        extents.give_chain(1, b);
        extents.give_chain(1, Chain::EMPTY);
        assert_eq!(extents.free_pages(), 20);
        let mut seen: Vec<_> = std::iter::from_fn(|| extents.take_free(1)).collect();
        seen.sort_unstable();
        assert_eq!(seen, blocks);
    }

    #[test]
    fn spares_follow_the_state_from_nothing_on() {
        let extents = extents(64);
        assert_eq!(extents.spare_target(0), 0, "an empty state costs nothing");
        assert_eq!(extents.spare_target(2), 8);
        assert_eq!(extents.spare_target(100), 16);
        assert_eq!(extents.spare_target(1000), 100);
    }
}
