//! What the log needs from the place where it lies.

use std::io;

use super::buffer::Buffer;
use super::error::StoreError;

/// A place that holds one job's manifest and segments. Implementations: [`DirectoryStore`](super::DirectoryStore)
/// and [`MemoryStore`](super::MemoryStore), with the same bytes in both.
///
/// A store is owned by one process at a time; opening it takes its lock.
pub trait Store: Send + Sync {
    /// Names the store in messages.
    fn place(&self) -> String;

    /// Names the manifest in messages.
    fn manifest_place(&self) -> String;

    /// Names a segment in messages.
    fn segment_place(&self, segment: u32) -> String;

    /// The manifest's bytes, `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn read_manifest(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces the manifest, durably and as a whole: after a crash there is the old one or the new one.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the old one is then still there, or the new one is and may not be durable.
    fn replace_manifest(&self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Numbers of all segments, in ascending order.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn segments(&self) -> Result<Vec<u32>, StoreError>;

    /// Reads from `offset` of a segment until `bytes` is full or the segment ends, and returns how many were read.
    ///
    /// # Errors
    /// [`StoreError::Io`], also if there is no such segment.
    fn read(&self, segment: u32, offset: u64, bytes: &mut [u8]) -> Result<usize, StoreError>;

    /// Cuts a segment to `len` bytes if it is longer: gives space back that nothing will be written to.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn trim(&self, segment: u32, len: u64) -> Result<(), StoreError>;

    /// The writing side. Called on the thread that will use it, since a ring belongs to one thread.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn segment_io(&self) -> Result<Box<dyn SegmentIo>, StoreError>;
}

/// The writing side of a store: asynchronous writes to one segment at a time.
///
/// Dropping it waits for what is in flight.
pub trait SegmentIo {
    /// How writing works here.
    fn info(&self) -> &WriterInfo;

    /// Offsets and lengths of writes must be multiples of this power of two, at least 64. Known after the first
    /// [`create`](Self::create).
    fn alignment(&self) -> usize;

    /// Creates a segment of `bytes` zeros, durable as a name, and makes it the one that is written to. Nothing may
    /// be in flight. Leaves nothing behind if it fails.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&mut self, segment: u32, bytes: u64) -> io::Result<()>;

    /// Gives the current segment up and tries to cut it to `keep` bytes, or to remove it if that is 0. Nothing may be
    /// in flight.
    fn abandon(&mut self, keep: u64);

    /// Starts writing all of `buffer` at `offset` of the current segment. Comes back as [`Completion::Write`].
    fn write(&mut self, offset: u64, buffer: Buffer);

    /// Starts making everything durable whose write has completed. Comes back as [`Completion::Sync`].
    fn sync(&mut self);

    /// The next completion; with `wait` it is waited for, if anything is in flight.
    fn poll(&mut self, wait: bool) -> Option<Completion>;
}

/// Something that was in flight has ended.
#[derive(Debug)]
pub enum Completion {
    /// A write. A short one is an error.
    Write {
        /// The buffer that was written.
        buffer: Buffer,
        /// Whether all of it was.
        result: io::Result<()>,
    },
    /// A sync.
    Sync(io::Result<()>),
}

/// How a writer reaches its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterInfo {
    /// `io_uring`, `pwrite` or `memory`.
    pub backend: &'static str,
    /// Whether writes bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// Alignment of offsets and lengths, in bytes.
    pub alignment: usize,
    /// One line that says why a better way is not used, if that is so.
    pub reason: Option<String>,
}
