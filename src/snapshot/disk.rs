//! A disk with a volatile cache, as a journal of operations leaves it: the model behind
//! [`MemoryStore::crash`](super::MemoryStore::crash).

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that a disk writes as a whole.
pub(super) const SECTOR_BYTES: usize = 512;

/// An entry of the journal.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Create {
        segment: u32,
        bytes: u64,
    },
    Write {
        segment: u32,
        offset: u64,
        bytes: Arc<Vec<u8>>,
    },
    Sync {
        segment: u32,
    },
    /// A failed sync: what was written before will not become durable by a later one.
    LostSync {
        segment: u32,
    },
    Trim {
        segment: u32,
        len: u64,
    },
    Remove {
        segment: u32,
    },
    Manifest(Arc<Vec<u8>>),
}

/// Durable bytes and what is only in the disk's cache.
#[derive(Default)]
pub(super) struct Disk {
    pub manifest: Option<Vec<u8>>,
    pub durable: BTreeMap<u32, Vec<u8>>,
    cached: Vec<(u32, u64, Arc<Vec<u8>>)>,
}

impl Disk {
    /// A disk on which all of this is durable.
    pub fn of(manifest: Option<Vec<u8>>, segments: BTreeMap<u32, Vec<u8>>) -> Self {
        Self { manifest, durable: segments, cached: Vec::new() }
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Create { segment, bytes } => {
                self.durable.insert(*segment, vec![0; *bytes as usize]);
            }
            Step::Write { segment, offset, bytes } => self.cached.push((*segment, *offset, Arc::clone(bytes))),
            Step::Sync { segment } => {
                for (_, offset, bytes) in self.cached.extract_if(.., |(written, ..)| written == segment) {
                    if let Some(durable) = self.durable.get_mut(segment) {
                        overwrite(durable, offset as usize, &bytes);
                    }
                }
            }
            Step::LostSync { segment } => self.cached.retain(|(written, ..)| written != segment),
            Step::Remove { segment } => {
                self.durable.remove(segment);
                self.cached.retain(|(written, ..)| written != segment);
            }
            Step::Trim { segment, len } => {
                if let Some(durable) = self.durable.get_mut(segment) {
                    durable.truncate(*len as usize);
                }
            }
            Step::Manifest(bytes) => self.manifest = Some(bytes.to_vec()),
        }
    }

    /// The power fails: of what is in the cache, the sectors stay that `survives(segment, sector)` names.
    pub fn power_failure(&mut self, survives: &mut dyn FnMut(u32, u64) -> bool) {
        for (segment, offset, bytes) in std::mem::take(&mut self.cached) {
            let Some(durable) = self.durable.get_mut(&segment) else { continue };
            for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let offset = offset as usize + at * SECTOR_BYTES;
                if survives(segment, (offset / SECTOR_BYTES) as u64) {
                    overwrite(durable, offset, sector);
                }
            }
        }
    }

    /// A journal that leads to what is durable now.
    pub fn journal(&self) -> Vec<Step> {
        let mut journal = Vec::new();
        for (&segment, bytes) in &self.durable {
            journal.push(Step::Create { segment, bytes: bytes.len() as u64 });
            journal.push(Step::Write { segment, offset: 0, bytes: Arc::new(bytes.clone()) });
            journal.push(Step::Sync { segment });
        }
        journal.extend(self.manifest.clone().map(|bytes| Step::Manifest(Arc::new(bytes))));
        journal
    }
}

/// Writes at `offset`, as far as the file reaches.
pub(super) fn overwrite(file: &mut [u8], offset: usize, bytes: &[u8]) {
    let len = file.len();
    if let Some(target) = file.get_mut(offset..len.min(offset + bytes.len())) {
        target.copy_from_slice(&bytes[..target.len()]);
    }
}
