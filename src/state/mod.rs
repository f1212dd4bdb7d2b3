//! Keyed state in a paged arena that is snapshotted by copy-on-write.
//!
//! One [`Arena`] per subtask holds all its states, in pages of 4 KiB. Writing to a page marks its dirty lines of
//! 64 bytes. [`Arena::freeze`] hands the pages written since the last freeze to the writer's thread as a
//! [`FrozenList`], in O(1), and the owner goes on at once: a page that the writer has not read yet is moved aside at
//! the first write to it (the protocol is in `epoch.rs`). Base plus all frozen lists, applied in order to a new arena
//! with [`Arena::apply`], give the state back.
//!
//! The states themselves are [`KeyedMap`] (hash tables that grow page by page) and [`KeyedList`] (a growable slice
//! for each key), both of plain bytes ([`Plain`]), both scoped to the arena's current key group, so that a
//! restore can hand whole key groups to another number of subtasks.
//!
//! **Invariants.** Nothing in here does I/O, waits, or locks. No step takes longer for a larger state. A value is
//! changed through its state alone, so no change escapes the dirty mask. Pages, once allocated, stay with their
//! state and key group: freed space is used again by the same group, and an arena does not shrink.

mod arena;
mod bucket;
mod descriptor;
mod epoch;
mod error;
mod extents;
mod frozen;
mod keyed_list;
mod keyed_map;
mod page;
mod plain;
mod region;
mod slabs;
mod spiral;
mod table;
mod tags;

pub use arena::{Arena, ArenaOptions, ArenaStats};
pub use descriptor::{StateDescriptor, StateKind};
pub use error::{FreezeDeclined, StateError};
pub use frozen::{FrozenList, FrozenPage};
pub use keyed_list::KeyedList;
pub use keyed_map::KeyedMap;
pub use page::{LINE_BYTES, PAGE_BYTES, PageId};
pub use plain::Plain;
