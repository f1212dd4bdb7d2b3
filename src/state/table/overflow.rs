//! Overflow pages: where a key group's fullest buckets keep what does not fit their page.
//!
//! By design that is about one entry in a hundred, of the buckets that are split next. An overflow page is shared by
//! the buckets whose chain leads to it; chains lead to pages with higher numbers only, so they end.

use super::directory::Directory;
use super::{At, BUCKETS, Group, OVERFLOW, SPACE_SHIFT, Table};
use crate::state::bucket::{self, HEADER_LINE, Layout, Lookup};
use crate::state::extents::Extent;
use crate::state::page::PageId;
use crate::state::{Arena, Plain, StateError};

/// The overflow pages of a key group.
#[derive(Default)]
pub(super) struct Overflow {
    pub pages: Directory,
    /// Entries of each.
    taken: Vec<u32>,
    /// All pages before this one are full.
    roomy: usize,
}

impl Overflow {
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn bytes(&self) -> usize {
        self.pages.bytes() + self.taken.capacity() * 4
    }

    pub fn push(&mut self, extent: Extent, groups: usize) {
        self.pages.push(extent, groups);
        self.taken.push(0);
    }

    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.pages.extents()
    }

    /// An entry of the page was added.
    pub fn filled(&mut self, number: u32) {
        self.taken[number as usize] += 1;
    }

    /// An entry of the page was removed.
    pub fn freed(&mut self, number: u32) {
        self.taken[number as usize] -= 1;
        self.roomy = self.roomy.min(number as usize);
    }

    /// The first page from `from` on with a free slot.
    fn find_room(&mut self, from: usize, slots: u32) -> Option<u32> {
        while self.taken.get(self.roomy).is_some_and(|&taken| taken == slots) {
            self.roomy += 1;
        }
        let from = from.max(self.roomy);
        let found = self.taken.get(from..)?.iter().position(|&taken| taken < slots)?;
        Some((from + found) as u32)
    }

    /// The page that follows number `after` in a chain: damaged links, backward or to nowhere, end it.
    pub fn follow(&self, after: Option<u32>, link: Option<u32>) -> Option<(u32, Extent)> {
        let number = link.filter(|&number| after.is_none_or(|after| number > after))?;
        self.pages.get(number).map(|extent| (number, extent))
    }
}

impl Group {
    /// The overflow pages of a bucket, in the order of its chain.
    pub(super) fn chain<'a>(&'a self, arena: &'a Arena, bucket: Extent) -> impl Iterator<Item = (u32, Extent)> + 'a {
        let first = self.overflow.follow(None, bucket::chain(arena.page(bucket)));
        std::iter::successors(first, |&(number, extent)| {
            self.overflow.follow(Some(number), bucket::chain(arena.page(extent)))
        })
    }

    /// Looks a key up in the chain of its bucket's page.
    #[cold]
    pub(super) fn find_in_chain<K: Plain, V: Plain>(
        &self,
        arena: &Arena,
        bucket: Extent,
        hash: u64,
        key: &K,
    ) -> Option<At> {
        self.chain(arena, bucket).find_map(|(number, extent)| {
            let tags = self.overflow.pages.tags(number, Layout::<K, V>::GROUPS);
            match Layout::<K, V>::find(tags, arena.page(extent), hash, key) {
                Lookup::Hit(slot) => Some(At { index: OVERFLOW << SPACE_SHIFT | number, extent, slot }),
                Lookup::Miss | Lookup::Beyond => None,
            }
        })
    }

    /// Makes the tags of restored overflow pages, and lets their entries' buckets know of them. Returns how many there
    /// are.
    pub(super) fn reopen_overflow<K: Plain, V: Plain>(&mut self, arena: &Arena) -> u64 {
        let groups = Layout::<K, V>::GROUPS;
        let mut found = 0;
        for number in 0..self.overflow.len() as u32 {
            let page = arena.page(self.overflow.pages.extent(number));
            for slot in Layout::<K, V>::taken(page) {
                let hash = Table::<K, V>::hash(Layout::<K, V>::key(page, slot));
                Layout::<K, V>::tag_slot(self.overflow.pages.tags_mut(number, groups), hash, slot);
                bucket::pass_all(self.buckets.tags_mut(self.spiral.page(hash), groups));
                self.overflow.filled(number);
                found += 1;
            }
        }
        found
    }
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
    /// Finds a slot in an overflow page, which is linked to the full bucket page, for a key. Returns page and slot.
    #[cold]
    pub(super) fn spill(&mut self, arena: &mut Arena, hash: u64, bucket: u32) -> Result<(u32, usize), StateError> {
        let number = match self.find_room(arena, bucket) {
            Room::InChain(number) => number,
            Room::Linked { tail, number } => {
                self.link(arena, tail, number)?;
                number
            }
            Room::New { tail } => {
                self.touch(arena, tail, HEADER_LINE)?;
                let number = self.add_overflow(arena)?;
                self.link(arena, tail, number)?;
                number
            }
        };
        let tags = self.group(arena).overflow.pages.tags(number, Self::GROUPS);
        // The page has a free slot: it counts what it holds, and `vacant` tries every group.
        let slot = Layout::<K, V>::vacant(tags, hash).unwrap_or_default();
        Ok((OVERFLOW << SPACE_SHIFT | number, slot))
    }

    fn find_room(&mut self, arena: &Arena, bucket: u32) -> Room {
        let slots = Layout::<K, V>::SLOTS as u32;
        let group = self.group_mut(arena);
        let mut last = None;
        for (number, _) in group.chain(arena, group.buckets.extent(bucket)) {
            if group.overflow.taken[number as usize] < slots {
                return Room::InChain(number);
            }
            last = Some(number);
        }
        let tail = last.map_or(BUCKETS << SPACE_SHIFT | bucket, |number| OVERFLOW << SPACE_SHIFT | number);
        match group.overflow.find_room(last.map_or(0, |last| last as usize + 1), slots) {
            Some(number) => Room::Linked { tail, number },
            None => Room::New { tail },
        }
    }

    fn add_overflow(&mut self, arena: &mut Arena) -> Result<u32, StateError> {
        let number = self.group(arena).overflow.len() as u32;
        let index = OVERFLOW << SPACE_SHIFT | number;
        let id = PageId { index, state: self.state, key_group: arena.key_group() };
        let extent = arena.allocate(id, 0, HEADER_LINE)?;
        self.group_mut(arena).overflow.push(extent, Self::GROUPS);
        Ok(number)
    }

    /// Continues a page by an overflow page.
    fn link(&mut self, arena: &mut Arena, tail: u32, number: u32) -> Result<(), StateError> {
        let extent = self.touch(arena, tail, HEADER_LINE)?;
        bucket::set_chain(arena.rewrite(extent, 0), Some(number));
        Ok(())
    }
}
