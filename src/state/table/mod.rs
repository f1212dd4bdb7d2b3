//! A hash table in pages: what [`super::KeyedMap`] is, and the index of [`super::KeyedList`].
//!
//! Each key group has a table of its own: bucket pages addressed by [`super::spiral`], laid out by [`super::bucket`],
//! and overflow pages shared by the group's fullest buckets ([`overflow`]). A table grows one bucket at a time
//! ([`growth`]). What it keeps in memory besides, the extent and the tags of each page ([`directory`]), follows from
//! the pages and is made again when a restored table is opened.

mod directory;
mod growth;
mod overflow;

use std::marker::PhantomData;

use self::directory::Directory;
use self::overflow::Overflow;
use super::bucket::{self, HEADER_LINE, Layout, Lookup};
use super::extents::Extent;
use super::page::PageId;
use super::spiral::Spiral;
use super::tags::prefetch;
use super::{Arena, Plain, StateError};
use crate::hash::stable_hash;

/// What the upper two bits of [`PageId::index`] say.
pub(crate) const SPACE_SHIFT: u32 = 30;
/// The bits of a page's number within its space.
pub(crate) const NUMBER: u32 = (1 << SPACE_SHIFT) - 1;
const BUCKETS: u32 = 0;
const OVERFLOW: u32 = 1;
/// Spaces that a table leaves to others.
pub(crate) const FIRST_FREE_SPACE: u32 = 2;

/// The bucket page that every table has first; its header counts the entries.
const FIRST_PAGE: u32 = 0;

/// A table for each key group of an arena.
pub(crate) struct Table<K, V> {
    arena: u64,
    state: u16,
    groups: Box<[Group]>,
    _entries: PhantomData<fn(K) -> V>,
}

/// One key group's table.
#[repr(C)]
struct Group {
    buckets: Directory,
    spiral: Spiral,
    overflow: Overflow,
    entries: u64,
    /// The entries that fit before the next split.
    limit: u64,
}

/// Where an entry lies.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// Page index: space and number.
    index: u32,
    extent: Extent,
    slot: usize,
}

impl<K: Plain, V: Plain> Table<K, V> {
    const GROUPS: usize = Layout::<K, V>::GROUPS;

    /// A table over a state's restored pages, ascending by key group and index; none for a new one.
    pub fn open(
        arena: &Arena,
        state: u16,
        pages: impl Iterator<Item = (PageId, Extent)>,
    ) -> Result<Self, (u16, String)> {
        let first_group = arena.key_groups().start;
        let mut groups: Box<[Group]> = arena.key_groups().map(|_| Group::new::<K, V>()).collect();
        for (id, extent) in pages {
            let group = &mut groups[usize::from(id.key_group - first_group)];
            let (space, number) = (id.index >> SPACE_SHIFT, (id.index & NUMBER) as usize);
            let expected = match space {
                BUCKETS => group.buckets.len(),
                _ => group.overflow.len(),
            };
            if space > OVERFLOW || number != expected || number >= Spiral::MAX_BUCKETS as usize {
                return Err((id.key_group, format!("page {number} of space {space} where page {expected} should be")));
            }
            match space {
                BUCKETS => group.buckets.push(extent, Self::GROUPS),
                _ => group.overflow.push(extent, Self::GROUPS),
            }
        }
        for (group, key_group) in groups.iter_mut().zip(first_group..) {
            group.reopen::<K, V>(arena).map_err(|what| (key_group, what))?;
        }
        Ok(Self { arena: arena.id(), state, groups, _entries: PhantomData })
    }

    #[inline(always)]
    pub fn hash(key: &K) -> u64 {
        stable_hash(key.as_bytes())
    }

    #[inline(always)]
    fn group_index(&self, arena: &Arena) -> usize {
        assert!(self.arena == arena.id(), "a state was used with another arena than it was opened on");
        arena.group_index()
    }

    #[inline(always)]
    fn group(&self, arena: &Arena) -> &Group {
        &self.groups[self.group_index(arena)]
    }

    #[inline(always)]
    fn group_mut(&mut self, arena: &Arena) -> &mut Group {
        &mut self.groups[self.group_index(arena)]
    }

    /// Looks a key up in the current key group.
    #[inline(always)]
    pub fn find(&self, arena: &Arena, hash: u64, key: &K) -> Option<At> {
        let group = self.group(arena);
        let index = group.spiral.page(hash);
        let extent = group.buckets.get(index)?;
        match group.find_home::<K, V>(arena, (index, extent), hash, key) {
            Some(slot) => Some(At { index, extent, slot }),
            None => group.find_further::<K, V>(arena, (index, extent), hash, key),
        }
    }

    /// Changes the value of a key in place; `None` if the key has none.
    ///
    /// What counts here is how few instructions lie between the cache misses of two operations: the processor overlaps
    /// as many operations as fit its window. So the path of most keys is inlined, and everything else is not.
    #[inline(always)]
    pub fn modify<R>(
        &mut self,
        arena: &mut Arena,
        hash: u64,
        key: &K,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>, StateError> {
        let group = self.group(arena);
        let index = group.spiral.page(hash);
        let Some(extent) = group.buckets.get(index) else { return Ok(None) };
        match group.find_home::<K, V>(arena, (index, extent), hash, key) {
            Some(slot) => Ok(Some(change(self.value_mut(arena, &mut At { index, extent, slot })?))),
            None => self.modify_further(arena, hash, key, change),
        }
    }

    #[inline(never)]
    fn modify_further<R>(
        &mut self,
        arena: &mut Arena,
        hash: u64,
        key: &K,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>, StateError> {
        match self.find(arena, hash, key) {
            Some(mut at) => Ok(Some(change(self.value_mut(arena, &mut at)?))),
            None => Ok(None),
        }
    }

    /// Starts loading the tags of a key.
    #[inline(always)]
    pub fn prefetch_tags(&self, arena: &Arena, hash: u64) {
        let group = self.group(arena);
        let index = group.spiral.page(hash);
        if (index as usize) < group.buckets.len() {
            prefetch(group.buckets.group(index, Self::GROUPS, Layout::<K, V>::home(hash)));
        }
    }

    /// Starts loading the entry of a key, whose tags are there, and what a write to it looks at.
    #[inline(always)]
    pub fn prefetch_entry(&self, arena: &Arena, hash: u64) {
        let group = self.group(arena);
        let index = group.spiral.page(hash);
        if let Some(extent) = group.buckets.get(index) {
            let home = Layout::<K, V>::home(hash);
            let tags = group.buckets.group(index, Self::GROUPS, home);
            Layout::<K, V>::prefetch_home(home, tags, arena.page(extent), hash);
            arena.prefetch_meta(extent);
        }
    }

    /// The value at a place that `find` gave.
    #[inline(always)]
    pub fn value<'a>(&self, arena: &'a Arena, at: At) -> &'a V {
        Layout::<K, V>::value(arena.page(at.extent), at.slot)
    }

    /// As [`Table::value`], for writing; notes where the entry is now.
    #[inline(always)]
    pub fn value_mut<'a>(&mut self, arena: &'a mut Arena, at: &mut At) -> Result<&'a mut V, StateError> {
        let group = arena.group_index();
        let (extent, page) = arena.write(at.extent, Layout::<K, V>::value_lines(at.slot))?;
        if extent != at.extent {
            self.relocate(group, at, extent);
        }
        Ok(Layout::<K, V>::value_mut(page, at.slot))
    }

    #[cold]
    fn relocate(&mut self, group: usize, at: &mut At, extent: Extent) {
        *self.groups[group].extent_mut(at.index) = extent;
        at.extent = extent;
    }

    /// Makes a page writable, marks lines of it, and notes where it is now.
    fn touch(&mut self, arena: &mut Arena, index: u32, lines: u64) -> Result<Extent, StateError> {
        let slot = self.group_mut(arena).extent_mut(index);
        *slot = arena.write(*slot, lines)?.0;
        Ok(*slot)
    }

    /// Stores a key that the current key group does not have.
    pub fn insert_new(&mut self, arena: &mut Arena, hash: u64, key: &K, value: &V) -> Result<At, StateError> {
        // All that can fail comes first: growing, and making the pages writable.
        self.make_room(arena)?;
        self.touch(arena, FIRST_PAGE, HEADER_LINE)?;
        let group = self.group(arena);
        let bucket = group.spiral.page(hash);
        let (index, slot) = match Layout::<K, V>::vacant(group.buckets.tags(bucket, Self::GROUPS), hash) {
            Some(slot) => (BUCKETS << SPACE_SHIFT | bucket, slot),
            None => self.spill(arena, hash, bucket)?,
        };
        let extent = self.touch(arena, index, Layout::<K, V>::put_lines(slot))?;
        let group = self.group_mut(arena);
        if index != bucket {
            group.overflow.filled(index & NUMBER);
            bucket::pass_all(group.buckets.tags_mut(bucket, Self::GROUPS));
        }
        let tags = group.tags_mut(index, Self::GROUPS);
        Layout::<K, V>::put(tags, arena.rewrite(extent, 0), hash, slot, key, value);
        self.count(arena, |entries| entries + 1);
        Ok(At { index, extent, slot })
    }

    /// Removes the entry at a place that `find` gave.
    pub fn remove(&mut self, arena: &mut Arena, hash: u64, at: At) -> Result<V, StateError> {
        self.touch(arena, FIRST_PAGE, HEADER_LINE)?;
        let extent = self.touch(arena, at.index, Layout::<K, V>::take_lines(at.slot))?;
        let group = self.group_mut(arena);
        let bucket = group.spiral.page(hash);
        if at.index != bucket {
            group.overflow.freed(at.index & NUMBER);
            bucket::unpass_all(group.buckets.tags_mut(bucket, Self::GROUPS));
        }
        let page = arena.rewrite(extent, 0);
        let value = *Layout::<K, V>::value(page, at.slot);
        Layout::<K, V>::take(group.tags_mut(at.index, Self::GROUPS), page, hash, at.slot);
        self.count(arena, |entries| entries.saturating_sub(1));
        Ok(value)
    }

    /// Changes the number of entries; the first page's header line is marked.
    fn count(&mut self, arena: &mut Arena, change: impl Fn(u64) -> u64) {
        let group = self.group_mut(arena);
        group.entries = change(group.entries);
        let (entries, first) = (group.entries, group.buckets.extent(FIRST_PAGE));
        *bucket::count_mut(arena.rewrite(first, 0)) = entries;
    }

    /// Entries of all key groups.
    pub fn len(&self) -> u64 {
        self.groups.iter().map(|group| group.entries).sum()
    }

    /// Bytes of the directories.
    pub fn directory_bytes(&self) -> usize {
        let bytes = |group: &Group| size_of::<Group>() + group.buckets.bytes() + group.overflow.bytes();
        self.groups.iter().map(bytes).sum()
    }

    /// Calls `f` with every entry of every key group and the group's index.
    pub fn for_each(&self, arena: &Arena, mut f: impl FnMut(usize, &K, &V)) {
        assert!(self.arena == arena.id(), "a state was used with another arena than it was opened on");
        for (i, group) in self.groups.iter().enumerate() {
            for extent in group.buckets.extents().chain(group.overflow.extents()) {
                let page = arena.page(extent);
                for slot in Layout::<K, V>::taken(page) {
                    f(i, Layout::<K, V>::key(page, slot), Layout::<K, V>::value(page, slot));
                }
            }
        }
    }
}

impl Group {
    fn new<K: Plain, V: Plain>() -> Self {
        let spiral = Spiral::new(0);
        Self {
            spiral,
            buckets: Directory::default(),
            overflow: Overflow::default(),
            entries: 0,
            limit: growth::limit::<K, V>(spiral),
        }
    }

    /// Takes up restored pages.
    fn reopen<K: Plain, V: Plain>(&mut self, arena: &Arena) -> Result<(), String> {
        let Some(first) = self.buckets.get(FIRST_PAGE) else {
            return if self.overflow.len() == 0 { Ok(()) } else { Err("overflow pages without buckets".into()) };
        };
        self.spiral = Spiral::new(self.buckets.len() as u32);
        self.limit = growth::limit::<K, V>(self.spiral);
        self.entries = bucket::count(arena.page(first));
        let mut found = 0;
        for number in 0..self.buckets.len() as u32 {
            let page = arena.page(self.buckets.extent(number));
            let tags = self.buckets.tags_mut(number, Layout::<K, V>::GROUPS);
            for slot in Layout::<K, V>::taken(page) {
                Layout::<K, V>::tag_slot(tags, Table::<K, V>::hash(Layout::<K, V>::key(page, slot)), slot);
                found += 1;
            }
        }
        found += self.reopen_overflow::<K, V>(arena);
        if self.entries != found {
            return Err(format!("{} entries are counted, {found} are there", self.entries));
        }
        Ok(())
    }

    #[inline(always)]
    fn find_home<K: Plain, V: Plain>(
        &self,
        arena: &Arena,
        (number, extent): (u32, Extent),
        hash: u64,
        key: &K,
    ) -> Option<usize> {
        let home = Layout::<K, V>::home(hash);
        let tags = self.buckets.group(number, Layout::<K, V>::GROUPS, home);
        Layout::<K, V>::find_home(home, tags, arena.page(extent), hash, key)
    }

    #[inline(never)]
    fn find_further<K: Plain, V: Plain>(
        &self,
        arena: &Arena,
        (index, extent): (u32, Extent),
        hash: u64,
        key: &K,
    ) -> Option<At> {
        let tags = self.buckets.tags(index, Layout::<K, V>::GROUPS);
        match Layout::<K, V>::find(tags, arena.page(extent), hash, key) {
            Lookup::Hit(slot) => Some(At { index, extent, slot }),
            Lookup::Miss => None,
            Lookup::Beyond => self.find_in_chain::<K, V>(arena, extent, hash, key),
        }
    }

    fn extent_mut(&mut self, index: u32) -> &mut Extent {
        match index >> SPACE_SHIFT {
            BUCKETS => self.buckets.extent_mut(index),
            _ => self.overflow.pages.extent_mut(index & NUMBER),
        }
    }

    fn tags_mut(&mut self, index: u32, groups: usize) -> &mut [super::tags::Group] {
        match index >> SPACE_SHIFT {
            BUCKETS => self.buckets.tags_mut(index, groups),
            _ => self.overflow.pages.tags_mut(index & NUMBER, groups),
        }
    }
}
