//! A hash table in pages: what [`super::KeyedMap`] is, and the index of [`super::KeyedList`].
//!
//! Each key group has a table of its own: bucket pages addressed by [`super::spiral`], laid out by [`super::bucket`],
//! and overflow pages shared by the group's fullest buckets ([`overflow`]). A table grows one bucket at a time
//! ([`growth`]). In memory there is only a directory (the extent of each page); all else lies in the pages.

mod growth;
mod overflow;

use std::marker::PhantomData;

use self::overflow::Overflow;
use super::bucket::{self, HEADER_LINE, Layout, Lookup};
use super::extents::Extent;
use super::page::{Page, PageId};
use super::spiral::Spiral;
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

/// A table of all key groups of an arena.
pub(crate) struct Table<K, V> {
    arena: u64,
    state: u16,
    groups: Box<[Group]>,
    _entries: PhantomData<fn(K) -> V>,
}

/// The directory of one key group's table.
struct Group {
    spiral: Spiral,
    buckets: Vec<Extent>,
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
                BUCKETS => group.buckets.push(extent),
                _ => group.overflow.push(extent, Layout::<K, V>::taken(arena.page(extent)).count()),
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
        let &extent = group.buckets.get(index as usize)?;
        match Layout::<K, V>::find_home(arena.page(extent), hash, key) {
            Some(slot) => Some(At { index, extent, slot }),
            None => Self::find_further(group, arena, (index, extent), hash, key),
        }
    }

    #[inline(never)]
    fn find_further(group: &Group, arena: &Arena, bucket: (u32, Extent), hash: u64, key: &K) -> Option<At> {
        let (index, extent) = bucket;
        match Layout::<K, V>::find(arena.page(extent), hash, key) {
            Lookup::Hit(slot) => Some(At { index, extent, slot }),
            Lookup::Miss => None,
            Lookup::Beyond => overflow::find::<K, V>(group, arena, extent, hash, key),
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
        let Some(&extent) = group.buckets.get(index as usize) else { return Ok(None) };
        if let Some(slot) = Layout::<K, V>::find_home(arena.page(extent), hash, key)
            && let Some(page) = arena.write_running(extent, Layout::<K, V>::value_lines(slot))
        {
            return Ok(Some(change(Layout::<K, V>::value_mut(page, slot))));
        }
        self.modify_further(arena, hash, key, change)
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

    /// Starts loading what a lookup reads first.
    #[inline(always)]
    pub fn prefetch(&self, arena: &Arena, hash: u64) {
        let group = self.group(arena);
        if let Some(&extent) = group.buckets.get(group.spiral.page(hash) as usize) {
            Layout::<K, V>::prefetch(arena.page(extent), hash);
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
        let index = group.spiral.page(hash);
        let extent = group.buckets[index as usize];
        let at = match Layout::<K, V>::vacant(arena.page(extent), hash) {
            Some(slot) => At { index, extent: self.touch(arena, index, Layout::<K, V>::put_lines(hash, slot))?, slot },
            None => self.spill(arena, hash, index)?,
        };
        Layout::<K, V>::put(arena.rewrite(at.extent, 0), hash, at.slot, key, value);
        self.count(arena, |entries| entries + 1);
        Ok(at)
    }

    /// Removes the entry at a place that `find` gave.
    pub fn remove(&mut self, arena: &mut Arena, hash: u64, at: At) -> Result<V, StateError> {
        self.touch(arena, FIRST_PAGE, HEADER_LINE)?;
        let bucket = self.group(arena).spiral.page(hash);
        if at.index != bucket {
            self.touch(arena, bucket, Layout::<K, V>::TAG_LINES)?;
        }
        let extent = self.touch(arena, at.index, Layout::<K, V>::take_lines(hash, at.slot))?;
        let page = arena.rewrite(extent, 0);
        let value = *Layout::<K, V>::value(page, at.slot);
        Layout::<K, V>::take(page, hash, at.slot);
        if at.index != bucket {
            let group = self.group_mut(arena);
            group.overflow.freed(at.index & NUMBER);
            let extent = group.buckets[bucket as usize];
            Layout::<K, V>::unpass_all(arena.rewrite(extent, 0));
        }
        self.count(arena, |entries| entries - 1);
        Ok(value)
    }

    /// Changes the number of entries; the first page's header line is marked.
    fn count(&mut self, arena: &mut Arena, change: impl Fn(u64) -> u64) {
        let group = self.group_mut(arena);
        group.entries = change(group.entries);
        let (entries, first) = (group.entries, group.buckets[FIRST_PAGE as usize]);
        *bucket::count_mut(arena.rewrite(first, 0)) = entries;
    }

    /// Entries of all key groups.
    pub fn len(&self) -> u64 {
        self.groups.iter().map(|group| group.entries).sum()
    }

    /// Bytes of the directories.
    pub fn directory_bytes(&self) -> usize {
        let pages = |group: &Group| group.buckets.capacity() * size_of::<Extent>() + group.overflow.bytes();
        self.groups.len() * size_of::<Group>() + self.groups.iter().map(pages).sum::<usize>()
    }

    /// Calls `f` with every entry of every key group and the group's index.
    pub fn for_each(&self, arena: &Arena, mut f: impl FnMut(usize, &K, &V)) {
        assert!(self.arena == arena.id(), "a state was used with another arena than it was opened on");
        for (i, group) in self.groups.iter().enumerate() {
            for extent in group.buckets.iter().copied().chain(group.overflow.extents()) {
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
            buckets: Vec::new(),
            overflow: Overflow::default(),
            entries: 0,
            limit: growth::limit::<K, V>(spiral),
        }
    }

    /// Takes up restored pages.
    fn reopen<K: Plain, V: Plain>(&mut self, arena: &Arena) -> Result<(), String> {
        let Some(&first) = self.buckets.first() else {
            return if self.overflow.len() == 0 { Ok(()) } else { Err("overflow pages without buckets".into()) };
        };
        self.spiral = Spiral::new(self.buckets.len() as u32);
        self.limit = growth::limit::<K, V>(self.spiral);
        self.entries = bucket::count(arena.page(first));
        let slots = (self.buckets.len() + self.overflow.len()) * Layout::<K, V>::SLOTS;
        if self.entries > slots as u64 {
            return Err(format!("{} entries are counted where at most {slots} fit", self.entries));
        }
        Ok(())
    }

    fn extent_mut(&mut self, index: u32) -> &mut Extent {
        match index >> SPACE_SHIFT {
            BUCKETS => &mut self.buckets[index as usize],
            _ => self.overflow.extent_mut(index & NUMBER),
        }
    }

    fn bucket_page<'a>(&self, arena: &'a Arena, number: u32) -> &'a Page {
        arena.page(self.buckets[number as usize])
    }
}
