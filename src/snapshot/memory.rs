//! A store in memory that can fail on demand and rebuild what a crash would have left.
//!
//! It holds the same bytes as a directory would, and a journal of every operation. [`MemoryStore::crash`] replays a
//! part of the journal as a disk with a volatile cache would keep it: what was synced is there, of what was not, the
//! caller decides sector by sector.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::buffer::Buffer;
use super::error::StoreError;
use super::store::{Completion, SegmentIo, Store, WriterInfo};

/// Bytes that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A step that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A segment is created.
    Create,
    /// A buffer is written.
    Write,
    /// A segment is made durable.
    Sync,
    /// The manifest is replaced.
    ReplaceManifest,
    /// A segment or the manifest is read.
    Read,
}

/// How a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error. A write leaves nothing, a sync nothing durable, now or later.
    Io,
    /// The disk is full.
    Full,
    /// A write stops halfway.
    Short,
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Fault::Io => io::Error::from_raw_os_error(5),
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::Short => io::Error::new(io::ErrorKind::WriteZero, "only a part was written"),
        }
    }
}

type Faults = Box<dyn FnMut(Operation) -> Option<Fault> + Send>;

/// An entry of the journal.
#[derive(Clone, Debug)]
enum Step {
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

#[derive(Default)]
struct Inner {
    manifest: Option<Vec<u8>>,
    segments: BTreeMap<u32, Vec<u8>>,
    journal: Vec<Step>,
    faults: Option<Faults>,
}

impl Inner {
    fn fault(&mut self, operation: Operation) -> io::Result<()> {
        match self.faults.as_mut().and_then(|faults| faults(operation)) {
            Some(fault) => Err(fault.error()),
            None => Ok(()),
        }
    }
}

/// A store in memory. Clones share their contents.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every method leaves the contents whole, so a panic in a test's fault function poisons nothing.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Asks `faults` before every operation whether it is to fail.
    pub fn set_faults(&self, faults: impl FnMut(Operation) -> Option<Fault> + Send + 'static) {
        self.lock().faults = Some(Box::new(faults));
    }

    /// Lets everything succeed again.
    pub fn clear_faults(&self) {
        self.lock().faults = None;
    }

    /// How many operations the journal holds.
    pub fn steps(&self) -> usize {
        self.lock().journal.len()
    }

    /// The store as a crash after the first `steps` operations would leave it. `survives(segment, sector)` says
    /// whether a sector (512 bytes) that was written but not synced has reached the disk. The new store's journal
    /// begins with what is there.
    pub fn crash(&self, steps: usize, mut survives: impl FnMut(u32, u64) -> bool) -> MemoryStore {
        let mut disk = Disk::default();
        for step in self.lock().journal.iter().take(steps) {
            disk.apply(step);
        }
        disk.into_store(&mut survives)
    }

    /// Segment numbers and lengths, for tests that damage them.
    pub fn lens(&self) -> Vec<(u32, usize)> {
        self.lock().segments.iter().map(|(&segment, bytes)| (segment, bytes.len())).collect()
    }

    /// A copy with a journal of its own, whose segment bytes (or, for `None`, manifest bytes) `change` may edit.
    pub fn altered(&self, segment: Option<u32>, change: impl FnOnce(&mut Vec<u8>)) -> MemoryStore {
        let inner = self.lock();
        let mut disk = Disk { manifest: inner.manifest.clone(), ..Disk::default() };
        disk.durable.clone_from(&inner.segments);
        drop(inner);
        match segment {
            Some(segment) => change(disk.durable.entry(segment).or_default()),
            None => change(disk.manifest.get_or_insert_default()),
        }
        disk.into_store(&mut |_, _| false)
    }

    /// Removes a segment.
    pub fn remove(&self, segment: u32) {
        self.lock().segments.remove(&segment);
    }
}

/// Durable bytes and what is only in the disk's cache.
#[derive(Default)]
struct Disk {
    manifest: Option<Vec<u8>>,
    durable: BTreeMap<u32, Vec<u8>>,
    cached: Vec<(u32, u64, Arc<Vec<u8>>)>,
}

impl Disk {
    fn apply(&mut self, step: &Step) {
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

    fn into_store(mut self, survives: &mut dyn FnMut(u32, u64) -> bool) -> MemoryStore {
        for (segment, offset, bytes) in self.cached {
            let Some(durable) = self.durable.get_mut(&segment) else { continue };
            for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let offset = offset as usize + at * SECTOR_BYTES;
                if survives(segment, (offset / SECTOR_BYTES) as u64) {
                    overwrite(durable, offset, sector);
                }
            }
        }
        let mut journal = Vec::new();
        for (&segment, bytes) in &self.durable {
            journal.push(Step::Create { segment, bytes: bytes.len() as u64 });
            journal.push(Step::Write { segment, offset: 0, bytes: Arc::new(bytes.clone()) });
            journal.push(Step::Sync { segment });
        }
        journal.extend(self.manifest.clone().map(|bytes| Step::Manifest(Arc::new(bytes))));
        let inner = Inner { manifest: self.manifest, segments: self.durable, journal, faults: None };
        MemoryStore { inner: Arc::new(Mutex::new(inner)) }
    }
}

/// Writes at `offset`, as far as the file reaches.
fn overwrite(file: &mut [u8], offset: usize, bytes: &[u8]) {
    let len = file.len();
    if let Some(target) = file.get_mut(offset..len.min(offset + bytes.len())) {
        target.copy_from_slice(&bytes[..target.len()]);
    }
}

impl Store for MemoryStore {
    fn place(&self) -> String {
        "the store in memory".into()
    }

    fn manifest_place(&self) -> String {
        "the manifest in memory".into()
    }

    fn segment_place(&self, segment: u32) -> String {
        format!("segment {segment} in memory")
    }

    fn read_manifest(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut inner = self.lock();
        inner.fault(Operation::Read).map_err(StoreError::io("read", "the manifest in memory"))?;
        Ok(inner.manifest.clone())
    }

    fn replace_manifest(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.fault(Operation::ReplaceManifest).map_err(StoreError::io("replace", "the manifest in memory"))?;
        inner.manifest = Some(bytes.to_vec());
        inner.journal.push(Step::Manifest(Arc::new(bytes.to_vec())));
        Ok(())
    }

    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        Ok(self.lock().segments.keys().copied().collect())
    }

    fn read(&self, segment: u32, offset: u64, bytes: &mut [u8]) -> Result<usize, StoreError> {
        let mut inner = self.lock();
        let read = |error| StoreError::io("read", format!("segment {segment} in memory"))(error);
        inner.fault(Operation::Read).map_err(read)?;
        let file = inner.segments.get(&segment).ok_or_else(|| read(io::ErrorKind::NotFound.into()))?;
        let rest = file.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn trim(&self, segment: u32, len: u64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some(file) = inner.segments.get_mut(&segment) {
            file.truncate(len as usize);
            inner.journal.push(Step::Trim { segment, len });
        }
        Ok(())
    }

    fn segment_io(&self) -> Result<Box<dyn SegmentIo>, StoreError> {
        let info = WriterInfo { backend: "memory", direct: false, alignment: SECTOR_BYTES, reason: None };
        Ok(Box::new(MemoryIo { store: self.clone(), segment: 0, completions: Vec::new(), info }))
    }
}

/// Carries everything out at once, and reports it at the next poll.
struct MemoryIo {
    store: MemoryStore,
    segment: u32,
    completions: Vec<Completion>,
    info: WriterInfo,
}

impl SegmentIo for MemoryIo {
    fn info(&self) -> &WriterInfo {
        &self.info
    }

    fn alignment(&self) -> usize {
        self.info.alignment
    }

    fn create(&mut self, segment: u32, bytes: u64) -> io::Result<()> {
        let mut inner = self.store.lock();
        inner.fault(Operation::Create)?;
        if inner.segments.contains_key(&segment) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        inner.segments.insert(segment, vec![0; bytes as usize]);
        inner.journal.push(Step::Create { segment, bytes });
        self.segment = segment;
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        if keep > 0 {
            let _ = self.store.trim(self.segment, keep);
        } else {
            let mut inner = self.store.lock();
            inner.segments.remove(&self.segment);
            inner.journal.push(Step::Remove { segment: self.segment });
        }
    }

    fn write(&mut self, offset: u64, buffer: Buffer) {
        let mut inner = self.store.lock();
        let result = inner.fault(Operation::Write);
        let written = match &result {
            Ok(()) => buffer.filled().len(),
            Err(error) if error.kind() == io::ErrorKind::WriteZero => buffer.filled().len() / 2,
            Err(_) => 0,
        };
        let bytes = Arc::new(buffer.filled()[..written].to_vec());
        if let Some(file) = inner.segments.get_mut(&self.segment) {
            overwrite(file, offset as usize, &bytes);
            inner.journal.push(Step::Write { segment: self.segment, offset, bytes });
        }
        self.completions.push(Completion::Write { buffer, result });
    }

    fn sync(&mut self) {
        let mut inner = self.store.lock();
        let segment = self.segment;
        let result = inner.fault(Operation::Sync);
        inner.journal.push(if result.is_ok() { Step::Sync { segment } } else { Step::LostSync { segment } });
        self.completions.push(Completion::Sync(result));
    }

    fn poll(&mut self, _wait: bool) -> Option<Completion> {
        (!self.completions.is_empty()).then(|| self.completions.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(io: &mut dyn SegmentIo, offset: u64, byte: u8) -> io::Result<()> {
        let mut buffer = Buffer::new(4096, 0).unwrap();
        buffer.put(&[byte; 1024]);
        io.write(offset, buffer);
        match io.poll(true) {
            Some(Completion::Write { result, .. }) => result,
            other => panic!("{other:?}"),
        }
    }

    fn sync(io: &mut dyn SegmentIo) -> io::Result<()> {
        io.sync();
        match io.poll(true) {
            Some(Completion::Sync(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    fn bytes(store: &MemoryStore) -> [u8; 2048] {
        let mut bytes = [0xff; 2048];
        store.read(1, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_the_sectors_that_survive() {
        let store = MemoryStore::new();
        let mut io = store.segment_io().unwrap();
        io.create(1, 2048).unwrap();
        write(&mut *io, 0, 1).unwrap();
        sync(&mut *io).unwrap();
        write(&mut *io, 1024, 2).unwrap();
        let crashed = bytes(&store.crash(store.steps(), |_, sector| sector == 3));
        assert!(crashed[..1024].iter().all(|&b| b == 1));
        assert!(crashed[1024..1536].iter().all(|&b| b == 0));
        assert!(crashed[1536..].iter().all(|&b| b == 2));
        assert_eq!(bytes(&store.crash(2, |_, _| false)), [0; 2048]);
    }

    #[test]
    fn what_a_failed_sync_lost_no_later_one_brings_back() {
        let store = MemoryStore::new();
        let mut io = store.segment_io().unwrap();
        io.create(1, 2048).unwrap();
        write(&mut *io, 0, 1).unwrap();
        store.set_faults(|operation| (operation == Operation::Sync).then_some(Fault::Io));
        assert!(sync(&mut *io).is_err());
        store.clear_faults();
        sync(&mut *io).unwrap();
        assert_eq!(bytes(&store)[0], 1, "the running system sees its cache");
        assert_eq!(bytes(&store.crash(store.steps(), |_, _| true)), [0; 2048]);
    }
}
