//! A store in memory that can fail on demand and rebuild what a crash would have left.
//!
//! It holds the same bytes as a directory would and, if asked, a journal of every operation. [`MemoryStore::crash`]
//! replays a part of the journal as a disk with a volatile cache would keep it: what was synced is there, of what was not, the
//! caller decides sector by sector.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::buffer::Buffer;
use super::disk::{Disk, SECTOR_BYTES, Step, overwrite};
use super::error::StoreError;
use super::store::{Completion, SegmentIo, Store, WriterInfo};

/// A step that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A segment is created.
    Create,
    /// A buffer is written.
    Write,
    /// A segment is made durable.
    Sync,
    /// A segment is cut or removed.
    Trim,
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

#[derive(Default)]
struct Inner {
    manifest: Option<Vec<u8>>,
    segments: BTreeMap<u32, Vec<u8>>,
    /// `None`: not kept, since it holds every byte that was ever written.
    journal: Option<Vec<Step>>,
    faults: Option<Faults>,
}

impl Inner {
    fn log(&mut self, step: Step) {
        if let Some(journal) = &mut self.journal {
            journal.push(step);
        }
    }

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

    /// An empty store that keeps a journal, for [`crash`](Self::crash).
    pub fn journaled() -> Self {
        let inner = Inner { journal: Some(Vec::new()), ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A store that holds what is durable on `disk`, with a journal.
    fn on(disk: Disk) -> Self {
        let journal = Some(disk.journal());
        let inner = Inner { manifest: disk.manifest, segments: disk.durable, journal, faults: None };
        Self { inner: Arc::new(Mutex::new(inner)) }
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

    /// How many operations the journal holds; 0 without one.
    pub fn steps(&self) -> usize {
        self.lock().journal.as_ref().map_or(0, Vec::len)
    }

    /// The store as a crash after the first `steps` operations would leave it. `survives(segment, sector)` says
    /// whether a sector (512 bytes) that was written but not synced has reached the disk. The new store's journal
    /// begins with what is there. Without a journal nothing survives.
    pub fn crash(&self, steps: usize, mut survives: impl FnMut(u32, u64) -> bool) -> MemoryStore {
        let mut disk = Disk::default();
        for step in self.lock().journal.iter().flatten().take(steps) {
            disk.apply(step);
        }
        disk.power_failure(&mut survives);
        Self::on(disk)
    }

    /// Segment numbers and lengths, for tests that damage them.
    pub fn lens(&self) -> Vec<(u32, usize)> {
        self.lock().segments.iter().map(|(&segment, bytes)| (segment, bytes.len())).collect()
    }

    /// A copy with a journal of its own, whose segment bytes (or, for `None`, manifest bytes) `change` may edit.
    pub fn altered(&self, segment: Option<u32>, change: impl FnOnce(&mut Vec<u8>)) -> MemoryStore {
        let inner = self.lock();
        let mut disk = Disk::of(inner.manifest.clone(), inner.segments.clone());
        drop(inner);
        match segment {
            Some(segment) => change(disk.durable.entry(segment).or_default()),
            None => change(disk.manifest.get_or_insert_default()),
        }
        Self::on(disk)
    }

    /// Removes a segment.
    pub fn remove(&self, segment: u32) {
        self.lock().segments.remove(&segment);
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
        inner.log(Step::Manifest(Arc::new(bytes.to_vec())));
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
        inner.fault(Operation::Trim).map_err(StoreError::io("cut", format!("segment {segment} in memory")))?;
        if let Some(file) = inner.segments.get_mut(&segment) {
            file.truncate(len as usize);
            inner.log(Step::Trim { segment, len });
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
        inner.log(Step::Create { segment, bytes });
        self.segment = segment;
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        if keep > 0 {
            let _ = self.store.trim(self.segment, keep);
        } else {
            let mut inner = self.store.lock();
            if inner.fault(Operation::Trim).is_ok() {
                inner.segments.remove(&self.segment);
                inner.log(Step::Remove { segment: self.segment });
            }
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
            inner.log(Step::Write { segment: self.segment, offset, bytes });
        }
        self.completions.push(Completion::Write { buffer, result });
    }

    fn sync(&mut self) {
        let mut inner = self.store.lock();
        let segment = self.segment;
        let result = inner.fault(Operation::Sync);
        inner.log(if result.is_ok() { Step::Sync { segment } } else { Step::LostSync { segment } });
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
        let store = MemoryStore::journaled();
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
        let store = MemoryStore::journaled();
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
