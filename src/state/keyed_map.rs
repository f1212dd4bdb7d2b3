//! A map per key group, in pages.

use super::bucket::{Layout, MAX_ENTRY};
use super::descriptor::{StateDescriptor, StateKind};
use super::table::Table;
use super::{Arena, Plain, StateError};

/// Keys whose cache misses overlap in [`KeyedMap::modify_batch`].
const BATCH: usize = 16;

/// Keys and fixed-size values, as plain bytes in the pages of an arena.
///
/// Every operation concerns the arena's current key group ([`Arena::set_key_group`]), except where it says otherwise.
/// A map grows one page at a time: no insert waits for a rehash, also while a snapshot is being written. At 16 bytes a
/// key and value, an entry occupies 23 bytes, tags, headers and directories included (see `benches/state.rs`). It
/// does not shrink; removed entries' space is used again.
///
/// Values are changed in place, through the map alone:
///
/// ```
/// use isobar::state::{Arena, ArenaOptions, KeyedMap};
///
/// let mut arena = Arena::new(ArenaOptions::default())?;
/// let mut counts = KeyedMap::<u64, u64>::open(&mut arena, "counts", 1)?;
/// assert_eq!(counts.upsert(&mut arena, 7, 0, |n| { *n += 1; *n })?, 1);
/// assert_eq!(counts.modify(&mut arena, &7, |n| { *n += 1; *n })?, Some(2));
/// assert_eq!(counts.modify(&mut arena, &8, |n| { *n += 1; *n })?, None);
/// assert_eq!(counts.insert(&mut arena, 7, 10)?, Some(2));
/// assert_eq!(counts.remove(&mut arena, &7)?, Some(10));
/// assert_eq!(counts.get(&arena, &7), None);
/// # Ok::<(), isobar::state::StateError>(())
/// ```
///
/// # Errors
/// Operations that write fail with [`StateError::MemoryFull`] when the arena has reached its limit; the map is then as
/// it was before.
///
/// # Panics
/// All operations, if the arena is not the one on which the map was opened.
pub struct KeyedMap<K, V> {
    table: Table<K, V>,
}

impl<K: Plain, V: Plain> KeyedMap<K, V> {
    /// Opens the map `name`: a new one, or the one that was restored. `version` is the user's own number for what the
    /// types mean; raise it when that changes.
    ///
    /// # Errors
    /// If the name is taken, the restored map has other types or another version, or its pages are damaged, or an
    /// entry is larger than 4,064 bytes or aligned to more than 16.
    pub fn open(arena: &mut Arena, name: &str, version: u32) -> Result<Self, StateError> {
        check_entry::<K, V>(name)?;
        let opened = arena.open_state(StateDescriptor {
            id: 0,
            name: name.into(),
            kind: StateKind::Map,
            key_size: size_of::<K>() as u32,
            value_size: size_of::<V>() as u32,
            align: Layout::<K, V>::ALIGN as u32,
            version,
        })?;
        let table = Table::open(arena, opened.id, opened.pages.into_iter())
            .map_err(|(key_group, what)| StateError::Damaged { name: name.into(), key_group, what: what.into() })?;
        Ok(Self { table })
    }

    /// The value of a key.
    #[inline]
    pub fn get<'a>(&self, arena: &'a Arena, key: &K) -> Option<&'a V> {
        let at = self.table.find(arena, Table::<K, V>::hash(key), key)?;
        Some(self.table.value(arena, at))
    }

    /// Whether the key has a value.
    #[inline]
    pub fn contains_key(&self, arena: &Arena, key: &K) -> bool {
        self.table.find(arena, Table::<K, V>::hash(key), key).is_some()
    }

    /// Changes the values of many keys in place, in order. `key_of` gives each item's key group and key, and `change` gets
    /// the item and the key's value, `None` if it has none. The arena's current key group is the last item's afterwards.
    ///
    /// The cache misses of 16 keys at a time overlap: at 64 MiB of state and more, this is twice as fast as one
    /// [`KeyedMap::modify`] after another (`benches/state.rs`).
    ///
    /// # Errors
    /// As [`KeyedMap::modify`], or [`StateError::KeyGroup`] for a key group that the subtask does not own; the items
    /// before are done.
    pub fn modify_batch<T>(
        &mut self,
        arena: &mut Arena,
        items: &[T],
        key_of: impl Fn(&T) -> (u16, K),
        mut change: impl FnMut(&T, Option<&mut V>),
    ) -> Result<(), StateError> {
        for batch in items.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            for (item, hash) in batch.iter().zip(&mut hashes) {
                let (group, key) = key_of(item);
                *hash = Table::<K, V>::hash(&key);
                if arena.set_key_group(group).is_ok() {
                    self.table.prefetch_tags(arena, *hash);
                }
            }
            for (item, hash) in batch.iter().zip(&hashes) {
                if arena.set_key_group(key_of(item).0).is_ok() {
                    self.table.prefetch_entry(arena, *hash);
                }
            }
            for (item, hash) in batch.iter().zip(&hashes) {
                let (group, key) = key_of(item);
                arena.set_key_group(group)?;
                if self.table.modify(arena, *hash, &key, |value| change(item, Some(value)))?.is_none() {
                    change(item, None);
                }
            }
        }
        Ok(())
    }

    /// Sets the value of a key and returns the one that it had.
    #[inline]
    pub fn insert(&mut self, arena: &mut Arena, key: K, value: V) -> Result<Option<V>, StateError> {
        let hash = Table::<K, V>::hash(&key);
        match self.table.find(arena, hash, &key) {
            Some(mut at) => Ok(Some(std::mem::replace(self.table.value_mut(arena, &mut at)?, value))),
            None => self.table.insert_new(arena, hash, &key, &value).map(|_| None),
        }
    }

    /// Changes the value of a key in place, and returns what `change` returns; `None` if the key has no value.
    #[inline(always)]
    pub fn modify<R>(
        &mut self,
        arena: &mut Arena,
        key: &K,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>, StateError> {
        self.table.modify(arena, Table::<K, V>::hash(key), key, change)
    }

    /// Changes the value of a key in place, `default` if it has none yet, and returns what `change` returns.
    #[inline]
    pub fn upsert<R>(
        &mut self,
        arena: &mut Arena,
        key: K,
        default: V,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let hash = Table::<K, V>::hash(&key);
        let mut at = match self.table.find(arena, hash, &key) {
            Some(at) => at,
            None => self.table.insert_new(arena, hash, &key, &default)?,
        };
        Ok(change(self.table.value_mut(arena, &mut at)?))
    }

    /// Removes a key and returns its value.
    #[inline]
    pub fn remove(&mut self, arena: &mut Arena, key: &K) -> Result<Option<V>, StateError> {
        let hash = Table::<K, V>::hash(key);
        match self.table.find(arena, hash, key) {
            Some(at) => self.table.remove(arena, hash, at).map(Some),
            None => Ok(None),
        }
    }

    /// Entries of all key groups of the arena.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether no key group has an entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with every key and value of all key groups, in no particular order.
    pub fn for_each(&self, arena: &Arena, mut f: impl FnMut(&K, &V)) {
        self.table.for_each(arena, |_, key, value| f(key, value));
    }

    /// Bytes of memory that the map uses outside the arena's pages.
    pub fn directory_bytes(&self) -> usize {
        self.table.directory_bytes()
    }
}

/// Whether keys and values fit the pages of a table.
pub(super) fn check_entry<K: Plain, V: Plain>(name: &str) -> Result<(), StateError> {
    if Layout::<K, V>::FITS {
        return Ok(());
    }
    let (bytes, align) = (Layout::<K, V>::STRIDE, Layout::<K, V>::ALIGN);
    Err(StateError::EntryTooLarge { name: name.into(), bytes, align, max_bytes: MAX_ENTRY })
}
