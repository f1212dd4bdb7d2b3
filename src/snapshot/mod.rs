//! Snapshots on disk: one append-only checkpoint log a job, and the way back from it.
//!
//! Subtasks freeze their state at a barrier and hand the frozen pages over. The [`Writer`] packs the changed lines into
//! delta blocks, appends them, and when all of a checkpoint's are there, appends its commit record and makes both
//! durable with one fdatasync. [`CheckpointLog::open`] finds out what is complete after a crash, and
//! [`CheckpointLog::restore`] hands the lines of any complete checkpoint out again. The formats are drawn in
//! `docs/format.md` and at the types.
//!
//! **Invariants.** A checkpoint is complete when the sync behind its commit record has returned, never before. No
//! changed line is lost to a checkpoint that failed. A segment in which a sync failed is never written to again.
//! Damage to what had been complete is an error; only what was being written when the process died is cut. The
//! writer knows nothing of operators, barriers or clocks: it is told.
//!
//! ```
//! use std::sync::Arc;
//! use isobar::snapshot::*;
//!
//! /// One page whose first line changed.
//! struct OnePage(Option<Box<[u8; PAGE_BYTES]>>, Box<[u8; PAGE_BYTES]>);
//! impl FrozenPages for OnePage {
//!     fn next(&mut self) -> Option<FrozenPage<'_>> {
//!         self.1 = self.0.take()?;
//!         Some(FrozenPage { id: PageId { state: 0, key_group: 3, index: 0 }, mask: 1, bytes: &self.1 })
//!     }
//! }
//!
//! let book = OperatorId::from_name("book");
//! let store = Arc::new(MemoryStore::new());
//! let operators = vec![OperatorEntry { id: book, name: "book".into(), parallelism: 1, states: vec![] }];
//! let log = CheckpointLog::create(store.clone(), Manifest::new("example", 128, operators))?;
//!
//! let mut writer = log.writer(None, WriterConfig::default())?;
//! let pages = Box::new(OnePage(Some(Box::new([7; PAGE_BYTES])), Box::new([0; PAGE_BYTES])));
//! writer.command(Command::Delta { checkpoint: 1, operator: book, subtask: 0, pages });
//! writer.command(Command::Commit(CommitParts { checkpoint: 1, ..CommitParts::default() }));
//! while writer.turn(64) != Progress::Idle {
//!     writer.wait();
//! }
//! assert!(matches!(writer.event(), Some(Event::Durable(done)) if done.checkpoint == 1));
//!
//! let log = CheckpointLog::open(store, &OpenOptions::default())?;
//! let mut lines = 0;
//! log.restore(1, |page| { lines += page.lines.len() / LINE_BYTES; Ok::<(), LogError>(()) })?;
//! assert_eq!(lines, 1);
//! # Ok::<(), LogError>(())
//! ```

mod block;
mod blocks;
mod buffer;
mod command;
mod commit;
mod directory;
mod disk;
mod error;
mod frozen;
mod history;
mod identity;
mod log;
mod manifest;
mod memory;
mod packing;
mod pwrite;
mod record;
mod restore;
mod scan;
mod segment_file;
mod store;
mod tail;
mod thread;
mod uring;
mod writer;

pub use buffer::Buffer;
pub use command::{Clock, Command, Event, Progress, WriterConfig};
pub use commit::{BlockRef, CommitParts, CommitRecord, Completed, Cut, EncodeError, PhaseTimes, SubtaskCommit};
pub use directory::DirectoryStore;
pub use error::{FailReason, LogError, StoreError};
pub use frozen::{FrozenPage, FrozenPages, LINE_BYTES, PAGE_BYTES, PageId};
pub use history::TornTail;
pub use identity::{OperatorId, StoreId};
pub use log::{CheckpointLog, OpenOptions};
pub use manifest::{ImageEntry, Manifest, Mismatch, OperatorEntry, StateEntry};
pub use memory::{Fault, MemoryStore, Operation};
pub use restore::RestoredPage;
pub use store::{Completion, SegmentIo, Store, WriterInfo};
pub use thread::WriterThread;
pub use writer::Writer;
