//! Overflow pages: where a key group's fullest buckets keep what does not fit their page.
//!
//! By design that is about one entry in a hundred, of the buckets that are split next. An overflow page is shared by
//! the buckets whose chain leads to it; chains lead to pages with higher numbers only, so they end.

use super::{At, BUCKETS, Group, NUMBER, OVERFLOW, SPACE_SHIFT, Table};
use crate::state::bucket::{self, HEADER_LINE, Layout, Lookup};
use crate::state::extents::Extent;
use crate::state::page::PageId;
use crate::state::{Arena, Plain, StateError};

struct OverflowPage {
    extent: Extent,
    taken: u32,
}

/// The overflow pages of a key group.
#[derive(Default)]
pub(super) struct Overflow {
    pages: Vec<OverflowPage>,
    /// All pages before this one are full.
    roomy: usize,
}

impl Overflow {
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<OverflowPage>()
    }

    pub fn push(&mut self, extent: Extent, taken: usize) {
        self.pages.push(OverflowPage { extent, taken: taken as u32 });
    }

    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.pages.iter().map(|page| page.extent)
    }

    pub fn extent_mut(&mut self, number: u32) -> &mut Extent {
        &mut self.pages[number as usize].extent
    }

    /// An entry of the page was removed.
    pub fn freed(&mut self, number: u32) {
        self.pages[number as usize].taken -= 1;
        self.roomy = self.roomy.min(number as usize);
    }

    /// The first page from `from` on with a free slot.
    fn find_room(&mut self, from: usize, slots: u32) -> Option<u32> {
        while self.pages.get(self.roomy).is_some_and(|page| page.taken == slots) {
            self.roomy += 1;
        }
        let from = from.max(self.roomy);
        let found = self.pages.get(from..)?.iter().position(|page| page.taken < slots)?;
        Some((from + found) as u32)
    }

    /// The page that follows number `after` in a chain: damaged links, backward or to nowhere, end it.
    pub fn follow(&self, after: Option<u32>, link: Option<u32>) -> Option<(u32, Extent)> {
        let number = link.filter(|&number| after.is_none_or(|after| number > after))?;
        self.pages.get(number as usize).map(|page| (number, page.extent))
    }
}

/// Looks a key up in the chain of its bucket's page.
#[cold]
pub(super) fn find<K: Plain, V: Plain>(group: &Group, arena: &Arena, bucket: Extent, hash: u64, key: &K) -> Option<At> {
    let mut next = group.overflow.follow(None, bucket::chain(arena.page(bucket)));
    while let Some((number, extent)) = next {
        let page = arena.page(extent);
        if let Lookup::Hit(slot) = Layout::<K, V>::find(page, hash, key) {
            return Some(At { index: OVERFLOW << SPACE_SHIFT | number, extent, slot });
        }
        next = group.overflow.follow(Some(number), bucket::chain(page));
    }
    None
}

/// Where a key that does not fit its bucket's page goes.
enum Room {
    /// To a page of the chain.
    InChain(u32),
    /// To a page with room that the chain's last page must be linked to.
    Linked { tail: u32, number: u32 },
    /// To a new page.
    New { tail: u32 },
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// Finds a slot in an overflow page for a key of a full bucket page, and makes all that is written writable.
    #[cold]
    pub(super) fn spill(&mut self, arena: &mut Arena, hash: u64, bucket: u32) -> Result<At, StateError> {
        self.touch(arena, bucket, Layout::<K, V>::TAG_LINES)?;
        let at = match self.find_room(arena, bucket) {
            Room::InChain(number) => self.overflow_slot(arena, hash, number)?,
            Room::Linked { tail, number } => {
                self.touch(arena, tail, HEADER_LINE)?;
                let at = self.overflow_slot(arena, hash, number)?;
                self.link(arena, tail, number);
                at
            }
            Room::New { tail } => {
                self.touch(arena, tail, HEADER_LINE)?;
                let number = self.add_overflow(arena)?;
                self.link(arena, tail, number);
                self.overflow_slot(arena, hash, number)?
            }
        };
        let group = self.group_mut(arena);
        group.overflow.pages[(at.index & NUMBER) as usize].taken += 1;
        let extent = group.buckets[bucket as usize];
        Layout::<K, V>::pass_all(arena.rewrite(extent, 0));
        Ok(at)
    }

    fn find_room(&mut self, arena: &Arena, bucket: u32) -> Room {
        let slots = Layout::<K, V>::SLOTS as u32;
        let group = self.group_mut(arena);
        let mut tail = BUCKETS << SPACE_SHIFT | bucket;
        let mut last = None;
        let mut next = group.overflow.follow(None, bucket::chain(group.bucket_page(arena, bucket)));
        while let Some((number, extent)) = next {
            if group.overflow.pages[number as usize].taken < slots {
                return Room::InChain(number);
            }
            tail = OVERFLOW << SPACE_SHIFT | number;
            last = Some(number);
            next = group.overflow.follow(last, bucket::chain(arena.page(extent)));
        }
        match group.overflow.find_room(last.map_or(0, |last| last as usize + 1), slots) {
            Some(number) => Room::Linked { tail, number },
            None => Room::New { tail },
        }
    }

    /// A slot in an overflow page with room, made writable.
    fn overflow_slot(&mut self, arena: &mut Arena, hash: u64, number: u32) -> Result<At, StateError> {
        let index = OVERFLOW << SPACE_SHIFT | number;
        let extent = *self.group_mut(arena).overflow.extent_mut(number);
        // The page has a free slot: it counts what it holds, and `vacant` tries every group.
        let slot = Layout::<K, V>::vacant(arena.page(extent), hash).unwrap_or_default();
        let extent = self.touch(arena, index, Layout::<K, V>::put_lines(hash, slot))?;
        Ok(At { index, extent, slot })
    }

    fn add_overflow(&mut self, arena: &mut Arena) -> Result<u32, StateError> {
        let number = self.group(arena).overflow.len() as u32;
        let index = OVERFLOW << SPACE_SHIFT | number;
        let id = PageId { index, state: self.state, key_group: arena.key_group() };
        let extent = arena.allocate(id, 0, HEADER_LINE)?;
        self.group_mut(arena).overflow.push(extent, 0);
        Ok(number)
    }

    /// Continues a page, which is writable, by an overflow page.
    fn link(&mut self, arena: &mut Arena, tail: u32, number: u32) {
        let extent = *self.group_mut(arena).extent_mut(tail);
        bucket::set_chain(arena.rewrite(extent, HEADER_LINE), Some(number));
    }
}
