//! A growable slice per key and key group, in pages.

use std::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::bucket::Layout;
use super::descriptor::{StateDescriptor, StateKind};
use super::keyed_map::check_entry;
use super::slabs::{MAX_RUN, Run, Slabs};
use super::table::{At, Table};
use super::{Arena, Plain, StateError};

/// What the index keeps of a list.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Handle {
    page: u32,
    len: u32,
    line: u8,
    order: u8,
    unused: [u8; 2],
}

impl Handle {
    fn new(run: Run, len: usize) -> Self {
        Self { page: run.page, len: len as u32, line: run.line, order: run.order, unused: [0; 2] }
    }

    fn run(self) -> Run {
        Run { page: self.page, line: self.line, order: self.order }
    }

    fn len(self) -> usize {
        self.len as usize
    }
}

/// Keys, each with a contiguous growable list of fixed-size elements, as plain bytes in the pages of an arena: price
/// levels, window buffers.
///
/// Every operation concerns the arena's current key group ([`Arena::set_key_group`]), except where it says otherwise.
/// A list is a slice to read, in place; it is changed through the operations here, each of which marks the lines that
/// it changes: inserting near the end of a sorted list costs little, at its front it shifts and marks the rest. A list
/// takes a power of two of 64-byte lines and at most 256 KiB; it moves when it outgrows its place, and space that it
/// leaves is used again by other lists of the key group.
///
/// ```
/// use isobar::state::{Arena, ArenaOptions, KeyedList};
///
/// let mut arena = Arena::new(ArenaOptions::default())?;
/// let mut bids = KeyedList::<u64, [i64; 2]>::open(&mut arena, "bids", 1)?;
/// bids.push(&mut arena, 7, [1000, 5])?;
/// bids.push(&mut arena, 7, [1010, 3])?;
/// let at = bids.get(&arena, &7).partition_point(|level| level[0] < 1005);
/// bids.insert(&mut arena, 7, at, [1005, 1])?;
/// bids.modify(&mut arena, &7, 2, |best| best[1] += 4)?;
/// assert_eq!(bids.get(&arena, &7), [[1000, 5], [1005, 1], [1010, 7]]);
/// assert_eq!(bids.remove(&mut arena, &7, 0)?, Some([1000, 5]));
/// assert!(bids.get(&arena, &8).is_empty());
/// # Ok::<(), isobar::state::StateError>(())
/// ```
///
/// # Errors
/// Operations that write fail with [`StateError::MemoryFull`] when the arena has reached its limit; the list is then
/// as it was before.
///
/// # Panics
/// All operations, if the arena is not the one on which the list was opened.
pub struct KeyedList<K, V> {
    index: Table<K, Handle>,
    slabs: Slabs,
    _elements: std::marker::PhantomData<fn() -> V>,
}

impl<K: Plain, V: Plain> KeyedList<K, V> {
    /// The largest number of elements of a list.
    pub const MAX_LEN: usize = MAX_RUN / Self::ELEMENT;

    const ELEMENT: usize = {
        assert!(size_of::<V>() > 0, "list elements have at least one byte");
        size_of::<V>()
    };

    /// Opens the list state `name`: a new one, or the one that was restored. `version` is the user's own number for
    /// what the types mean; raise it when that changes.
    ///
    /// # Errors
    /// If the name is taken, the restored state has other types or another version, or its pages are damaged, or
    /// a key or element is aligned to more than 16, or a key is larger than a page.
    pub fn open(arena: &mut Arena, name: &str, version: u32) -> Result<Self, StateError> {
        check_entry::<K, Handle>(name)?;
        let align = Layout::<K, Handle>::ALIGN.max(align_of::<V>());
        if align > super::bucket::MAX_ALIGN {
            return Err(StateError::EntryTooLarge {
                name: name.into(),
                bytes: Self::ELEMENT,
                align,
                max_bytes: MAX_RUN,
            });
        }
        let opened = arena.open_state(StateDescriptor {
            id: 0,
            name: name.into(),
            kind: StateKind::List,
            key_size: size_of::<K>() as u32,
            value_size: Self::ELEMENT as u32,
            align: align as u32,
            version,
        })?;
        let (slab_pages, index_pages): (Vec<_>, Vec<_>) =
            opened.pages.into_iter().partition(|&(id, _)| Slabs::owns(id));
        let index = Table::open(arena, opened.id, index_pages.into_iter())
            .map_err(|(key_group, what)| StateError::Damaged { name: name.into(), key_group, what: what.into() })?;
        let slabs = Slabs::open(arena, name, opened.id, slab_pages.into_iter())?;
        let list = Self { index, slabs, _elements: std::marker::PhantomData };
        list.check_handles(arena, name)?;
        Ok(list)
    }

    /// Whether every restored list lies where the slabs have something.
    fn check_handles(&self, arena: &Arena, name: &str) -> Result<(), StateError> {
        let mut damaged = None;
        self.index.for_each(arena, |group, _, handle| {
            let fits = self.slabs.is_used(arena, group, handle.run())
                && handle.len().saturating_mul(Self::ELEMENT) <= handle.run().bytes();
            if !fits {
                damaged = Some(arena.key_groups().start + group as u16);
            }
        });
        match damaged {
            Some(key_group) => {
                let what = "a list lies outside the slabs".into();
                Err(StateError::Damaged { name: name.into(), key_group, what })
            }
            None => Ok(()),
        }
    }

    /// A key's list; empty if it has none.
    #[inline]
    pub fn get<'a>(&self, arena: &'a Arena, key: &K) -> &'a [V] {
        match self.find(arena, key) {
            Some((_, handle)) => self.elements(arena, arena.group_index(), handle),
            None => &[],
        }
    }

    /// Whether the key has a list, empty or not.
    pub fn contains_key(&self, arena: &Arena, key: &K) -> bool {
        self.find(arena, key).is_some()
    }

    #[inline]
    fn find(&self, arena: &Arena, key: &K) -> Option<(At, Handle)> {
        let at = self.index.find(arena, Table::<K, Handle>::hash(key), key)?;
        Some((at, *self.index.value(arena, at)))
    }

    #[inline]
    fn elements<'a>(&self, arena: &'a Arena, group: usize, handle: Handle) -> &'a [V] {
        let bytes = self.slabs.bytes(arena, group, handle.run(), Self::range(0..handle.len()));
        match <[V]>::ref_from_bytes(bytes) {
            Ok(elements) => elements,
            // Runs start at lines of 64 bytes, elements are aligned to 16 at most, and the range is a multiple of one.
            Err(_) => unreachable!("a list of {} elements is misaligned", handle.len),
        }
    }

    /// The bytes of a range of elements.
    #[inline]
    fn range(elements: Range<usize>) -> Range<usize> {
        elements.start * Self::ELEMENT..elements.end * Self::ELEMENT
    }

    /// Appends an element; the key gets a list if it has none.
    ///
    /// # Errors
    /// [`StateError::ListTooLong`] if the list has [`KeyedList::MAX_LEN`] elements.
    #[inline]
    pub fn push(&mut self, arena: &mut Arena, key: K, value: V) -> Result<(), StateError> {
        let found = self.find(arena, &key);
        let len = found.map_or(0, |(_, handle)| handle.len());
        self.insert_at(arena, key, found, len, value)
    }

    /// Inserts an element before position `index`, which may be the list's end; the key gets a list if it has none.
    ///
    /// # Errors
    /// [`StateError::Index`] if `index` is behind the end, [`StateError::ListTooLong`] if the list has
    /// [`KeyedList::MAX_LEN`] elements.
    pub fn insert(&mut self, arena: &mut Arena, key: K, index: usize, value: V) -> Result<(), StateError> {
        let found = self.find(arena, &key);
        self.insert_at(arena, key, found, index, value)
    }

    fn insert_at(
        &mut self,
        arena: &mut Arena,
        key: K,
        found: Option<(At, Handle)>,
        index: usize,
        value: V,
    ) -> Result<(), StateError> {
        let len = found.map_or(0, |(_, handle)| handle.len());
        if index > len {
            return Err(StateError::Index { index, len });
        }
        if len >= Self::MAX_LEN {
            return Err(StateError::ListTooLong { len: len + 1, element_bytes: Self::ELEMENT, max_bytes: MAX_RUN });
        }
        let Some((mut at, handle)) = found else {
            return self.start_list(arena, &key, value);
        };
        // The index's line first, so that nothing can fail once elements have moved.
        self.index.value_mut(arena, &mut at)?;
        let run = if Self::range(0..len + 1).end <= handle.run().bytes() {
            let bytes = self.slabs.write(arena, handle.run(), Self::range(index..len + 1))?;
            bytes.copy_within(..Self::range(index..len).len(), Self::ELEMENT);
            handle.run()
        } else {
            self.move_list(arena, handle, index)?
        };
        self.slabs.write(arena, run, Self::range(index..index + 1))?.copy_from_slice(value.as_bytes());
        *self.index.value_mut(arena, &mut at)? = Handle::new(run, len + 1);
        Ok(())
    }

    fn start_list(&mut self, arena: &mut Arena, key: &K, value: V) -> Result<(), StateError> {
        let run = self.slabs.allocate(arena, Run::order_for(Self::ELEMENT), Self::ELEMENT)?;
        self.slabs.write(arena, run, 0..Self::ELEMENT)?.copy_from_slice(value.as_bytes());
        let hash = Table::<K, Handle>::hash(key);
        match self.index.insert_new(arena, hash, key, &Handle::new(run, 1)) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.slabs.free(arena, run);
                Err(error)
            }
        }
    }

    /// Moves a list that is full to a run with room, with a gap of one element at `index`.
    #[cold]
    fn move_list(&mut self, arena: &mut Arena, handle: Handle, index: usize) -> Result<Run, StateError> {
        let (old, len) = (handle.run(), handle.len());
        let bytes = Self::range(0..len + 1).end;
        self.slabs.prepare_free(arena, old)?;
        let new = self.slabs.allocate(arena, Run::order_for(bytes), bytes)?;
        self.slabs.copy(arena, (old, Self::range(0..index)), (new, 0));
        self.slabs.copy(arena, (old, Self::range(index..len)), (new, Self::range(0..index + 1).end));
        self.slabs.free(arena, old);
        Ok(new)
    }

    /// Removes the element at position `index` and returns it; `None` if there is none.
    pub fn remove(&mut self, arena: &mut Arena, key: &K, index: usize) -> Result<Option<V>, StateError> {
        let Some((mut at, handle)) = self.find(arena, key).filter(|(_, handle)| index < handle.len()) else {
            return Ok(None);
        };
        let elements = self.elements(arena, arena.group_index(), handle);
        let (removed, last) = (elements[index], elements[elements.len() - 1]);
        self.index.value_mut(arena, &mut at)?;
        let kept = Self::range(index..handle.len() - 1);
        if !kept.is_empty() {
            // The element behind the new end is left as it is, so its line need not be marked.
            let bytes = self.slabs.write(arena, handle.run(), kept)?;
            bytes.copy_within(Self::ELEMENT.., 0);
            let end = bytes.len() - Self::ELEMENT;
            bytes[end..].copy_from_slice(last.as_bytes());
        }
        self.index.value_mut(arena, &mut at)?.len -= 1;
        Ok(Some(removed))
    }

    /// Changes the element at position `index` in place, and returns what `change` returns; `None` if there is none.
    #[inline]
    pub fn modify<R>(
        &mut self,
        arena: &mut Arena,
        key: &K,
        index: usize,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>, StateError> {
        let Some((_, handle)) = self.find(arena, key).filter(|(_, handle)| index < handle.len()) else {
            return Ok(None);
        };
        let bytes = self.slabs.write(arena, handle.run(), Self::range(index..index + 1))?;
        match V::mut_from_bytes(bytes) {
            Ok(element) => Ok(Some(change(element))),
            // As in `elements`.
            Err(_) => unreachable!("element {index} of a list is misaligned"),
        }
    }

    /// Shortens a list to its first `len` elements; a shorter one stays as it is. The key and the space stay.
    pub fn truncate(&mut self, arena: &mut Arena, key: &K, len: usize) -> Result<(), StateError> {
        match self.find(arena, key) {
            Some((mut at, handle)) if len < handle.len() => {
                self.index.value_mut(arena, &mut at)?.len = len as u32;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Empties a list. The key and the space stay; see [`KeyedList::remove_key`].
    pub fn clear(&mut self, arena: &mut Arena, key: &K) -> Result<(), StateError> {
        self.truncate(arena, key, 0)
    }

    /// Removes a key with its list, and returns whether there was one. Other lists of the key group may use the space.
    pub fn remove_key(&mut self, arena: &mut Arena, key: &K) -> Result<bool, StateError> {
        let Some((at, handle)) = self.find(arena, key) else {
            return Ok(false);
        };
        self.slabs.prepare_free(arena, handle.run())?;
        self.index.remove(arena, Table::<K, Handle>::hash(key), at)?;
        self.slabs.free(arena, handle.run());
        Ok(true)
    }

    /// Keys with a list, in all key groups of the arena.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether no key group has a list.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with every key and list of all key groups, in no particular order.
    pub fn for_each(&self, arena: &Arena, mut f: impl FnMut(&K, &[V])) {
        self.index.for_each(arena, |group, key, handle| f(key, self.elements(arena, group, *handle)));
    }

    /// Bytes of memory that the state uses outside the arena's pages.
    pub fn directory_bytes(&self) -> usize {
        self.index.directory_bytes() + self.slabs.directory_bytes()
    }
}
