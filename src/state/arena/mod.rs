//! The arena: one subtask's state as pages, with freeze ([`super::epoch`]) and restore.

mod pages;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::descriptor::StateDescriptor;
use super::epoch::Epochs;
use super::extents::{Extent, Extents, SparePolicy};
use super::page::{PAGE_BYTES, PageId};
use super::{FreezeDeclined, FrozenList, StateError};

/// How large an arena may become, and which key groups it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ArenaOptions {
    /// The key groups of the subtask; a source's state lies in group 0, so a source has `0..1`.
    pub key_groups: Range<u16>,
    /// The most that pages of state may occupy, in bytes. Only address space is reserved for it, 1 +
    /// `max_waiting_lists` times as much, so that no number of pages held by the writer makes a write fail.
    pub max_bytes: u64,
    /// Spare memory for copy-on-write as a share of the state, 0 to 1.
    pub spare_ratio: f64,
    /// Spare memory at least, in bytes; but never more than `max_waiting_lists` times the state, which is all that
    /// can be used, so that an empty state costs nothing.
    pub spare_min_bytes: u64,
    /// Frozen lists that may wait for the writer at a time, 1 to 64.
    pub max_waiting_lists: usize,
}

impl Default for ArenaOptions {
    /// 128 key groups, 16 GiB, 10 % and at least 16 MiB of spares, 4 lists.
    fn default() -> Self {
        Self {
            key_groups: 0..128,
            max_bytes: 16 << 30,
            spare_ratio: 0.1,
            spare_min_bytes: 16 << 20,
            max_waiting_lists: 4,
        }
    }
}

impl ArenaOptions {
    fn check(&self) -> Result<(), StateError> {
        let fail = |option, value: String, expected| Err(StateError::Options { option, value: value.into(), expected });
        if self.key_groups.is_empty() {
            return fail("key_groups", format!("{:?}", self.key_groups), "a range of at least one group");
        }
        if !(0.0..=1.0).contains(&self.spare_ratio) {
            return fail("spare_ratio", self.spare_ratio.to_string(), "between 0 and 1");
        }
        if !(1..=64).contains(&self.max_waiting_lists) {
            return fail("max_waiting_lists", self.max_waiting_lists.to_string(), "between 1 and 64");
        }
        let extents = (self.max_bytes / PAGE_BYTES as u64).saturating_mul(1 + self.max_waiting_lists as u64);
        if !(1..u64::from(u32::MAX)).contains(&extents) {
            return fail(
                "max_bytes",
                self.max_bytes.to_string(),
                "at least one page and at most 16 TiB / (1 + max_waiting_lists)",
            );
        }
        Ok(())
    }
}

/// Where an arena stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Pages of state.
    pub pages: u32,
    /// Pages written since the last freeze: the length of the next frozen list.
    pub dirty_pages: u32,
    /// Pages that copy-on-write has moved so far.
    pub copied_pages: u64,
    /// Spare pages that are free.
    pub spare_pages: u32,
    /// Frozen lists that the writer is not through with, as far as the owner has noticed.
    pub waiting_lists: usize,
    /// Bytes of the pages of state and of what the arena keeps about each.
    pub state_bytes: u64,
    /// Bytes that the arena occupies: the above, spares, and pages that the writer still holds.
    pub bytes: u64,
}

/// Numbers the arenas of the process, so that a state used with another arena than its own is found out. (No part of
/// the protocol that loom checks, and loom has no static atomics.)
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

struct State {
    descriptor: StateDescriptor,
    open: bool,
    /// Pages restored and not yet taken over by `open`.
    restored: HashMap<PageId, Extent>,
}

/// All state of one subtask, in pages of 4 KiB of which the lines written since the last freeze are known.
///
/// [`Arena::freeze`] gives those to the writer in O(1) and lets the owner go on at once: pages that the writer has not
/// read yet are moved aside when they are first written to. States are opened on an arena and are given it for each
/// operation, which concerns the *current key group* alone:
///
/// ```
/// use isobar::state::{Arena, ArenaOptions, KeyedMap};
///
/// let mut arena = Arena::new(ArenaOptions::default())?;
/// let mut shares = KeyedMap::<u64, i64>::open(&mut arena, "shares", 1)?;
/// arena.set_key_group(7)?;
/// shares.insert(&mut arena, 42, 100)?;
///
/// let mut frozen = arena.freeze()?;
/// shares.modify(&mut arena, &42, |shares| *shares += 1)?; // not in the frozen list
/// let page = frozen.next().expect("one page is dirty");
/// assert_eq!(page.id.key_group, 7);
///
/// assert_eq!(shares.get(&arena, &42), Some(&101));
/// arena.set_key_group(8)?;
/// assert_eq!(shares.get(&arena, &42), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Arena {
    id: u64,
    epochs: Epochs,
    extents: Extents,
    key_groups: Range<u16>,
    /// Index of the current key group in `key_groups`.
    group: usize,
    pages: u32,
    max_pages: u32,
    states: Vec<State>,
}

impl Arena {
    /// An empty arena. Reserves address space and touches no memory.
    ///
    /// # Errors
    /// [`StateError::Options`] for options out of range, [`StateError::Reserve`] if the system has no address space.
    pub fn new(options: ArenaOptions) -> Result<Self, StateError> {
        options.check()?;
        let pages = |bytes: u64| u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX);
        let max_pages = pages(options.max_bytes);
        let copies = options.max_waiting_lists as u32;
        let capacity = max_pages * (1 + copies);
        let policy = SparePolicy { ratio: options.spare_ratio, min_pages: pages(options.spare_min_bytes), copies };
        let epochs = Epochs::reserve(capacity, max_pages, options.max_waiting_lists)?;
        let extents = Extents::reserve(capacity, policy)?;
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            epochs,
            extents,
            key_groups: options.key_groups,
            group: 0,
            pages: 0,
            max_pages,
            states: Vec::new(),
        })
    }

    /// Makes `key_group` the one that all following operations on states concern.
    ///
    /// # Errors
    /// [`StateError::KeyGroup`] if the subtask does not own it; the current group stays.
    #[inline]
    pub fn set_key_group(&mut self, key_group: u16) -> Result<(), StateError> {
        if !self.key_groups.contains(&key_group) {
            return Err(self.foreign_group(key_group));
        }
        self.group = usize::from(key_group - self.key_groups.start);
        Ok(())
    }

    #[cold]
    fn foreign_group(&self, key_group: u16) -> StateError {
        StateError::KeyGroup { key_group, start: self.key_groups.start, end: self.key_groups.end }
    }

    /// The current key group; at first the lowest that the subtask owns.
    #[inline]
    pub fn key_group(&self) -> u16 {
        self.key_groups.start + self.group as u16
    }

    /// The key groups that the arena holds.
    pub fn key_groups(&self) -> Range<u16> {
        self.key_groups.clone()
    }

    /// Ends the running epoch and hands over the pages that were written in it, as they are now. O(1): no page is
    /// copied, marked or looked at. The list may be empty.
    ///
    /// # Errors
    /// Declined if the writer is behind, with what to do about it; the epoch then goes on.
    pub fn freeze(&mut self) -> Result<FrozenList, FreezeDeclined> {
        self.epochs.freeze(&mut self.extents)
    }

    /// Where the arena stands.
    pub fn stats(&self) -> ArenaStats {
        // Page, meta, id and link of an extent.
        let extent_bytes = (PAGE_BYTES + 16 + size_of::<PageId>() + 4) as u64;
        ArenaStats {
            pages: self.pages,
            dirty_pages: self.epochs.running(),
            copied_pages: self.epochs.moved_pages(),
            spare_pages: self.extents.free_pages(),
            waiting_lists: self.epochs.waiting(),
            state_bytes: u64::from(self.pages) * extent_bytes,
            bytes: u64::from(self.extents.used()) * extent_bytes,
        }
    }

    /// The states that were opened or restored, for the manifest.
    pub fn descriptors(&self) -> impl Iterator<Item = &StateDescriptor> {
        self.states.iter().map(|state| &state.descriptor)
    }

    /// The states that were restored and that nobody opened: an operator that dropped a state, or renamed it.
    pub fn unopened(&self) -> impl Iterator<Item = &StateDescriptor> {
        self.states.iter().filter(|state| !state.open).map(|state| &state.descriptor)
    }

    /// Number of the arena within the process.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Index of the current key group, from 0.
    #[inline(always)]
    pub(crate) fn group_index(&self) -> usize {
        self.group
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("key_groups", &self.key_groups)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
