//! Pending files that are made before they are needed.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::folder::{AppendFile, Folder};
use super::name::FileName;
use crate::failpoint::{self, Failpoint};

/// What the first pending file of a run is prepared for, in bytes.
const FIRST_BYTES: u64 = 4 << 20;
const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 64 << 20;

/// How many bytes to prepare a file for when the one before it came to `last` (`None`: there was none).
pub(super) fn prepared_bytes(last: Option<u64>) -> u64 {
    last.map_or(FIRST_BYTES, |bytes| (bytes + bytes / 2).clamp(BYTES_MIN, BYTES_MAX))
}

/// The files of one subtask that no line has been written to. At most one is ready; it is reserved by its sequence
/// where lines are counted, and taken by that sequence where they are written.
#[derive(Default)]
pub(super) struct Spares(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    ready: Option<Spare>,
    reserved: Vec<Spare>,
}

struct Spare {
    sequence: u64,
    file: Box<dyn AppendFile>,
}

impl Spares {
    /// Makes a file ready, its name and its zeros durable, unless there is one.
    pub fn make(&self, folder: &dyn Folder, subtask: u32, sequence: u64, bytes: u64) -> io::Result<()> {
        if self.slots().ready.is_some() {
            return Ok(());
        }
        let name = FileName::Pending { subtask, sequence }.to_string();
        let made = folder.create(&name, bytes).and_then(|file| {
            folder.sync()?;
            failpoint::hit(Failpoint::SinkAfterPrepare)?;
            Ok(file)
        });
        match made {
            Ok(file) => self.slots().ready = Some(Spare { sequence, file }),
            Err(error) => {
                // Best effort: what stays is swept after the next start.
                let _ = folder.remove(&name);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The sequence of the file that is ready, if there is one; it is the caller's from then on.
    pub fn reserve(&self) -> Option<u64> {
        let mut slots = self.slots();
        let spare = slots.ready.take()?;
        let sequence = spare.sequence;
        slots.reserved.push(spare);
        Some(sequence)
    }

    /// The reserved file of this sequence.
    pub fn take(&self, sequence: u64) -> Option<Box<dyn AppendFile>> {
        let mut slots = self.slots();
        let index = slots.reserved.iter().position(|spare| spare.sequence == sequence)?;
        Some(slots.reserved.swap_remove(index).file)
    }

    /// Removes the file that is ready: it will not be needed.
    pub fn discard(&self, folder: &dyn Folder, subtask: u32) {
        if let Some(spare) = self.slots().ready.take() {
            // Best effort: what stays is swept after the next start.
            let _ = folder.remove(&FileName::Pending { subtask, sequence: spare.sequence }.to_string());
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
