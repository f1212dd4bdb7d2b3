//! A thread that reads and decompresses ahead of the pipeline, so that a source's poll neither blocks nor enters the
//! kernel: chunks go back and forth through two bounded channels, and only the reading thread ever sleeps.

use super::{
    InputError,
    codec::{Bytes, Codec},
    feed::Refill,
};
use crate::market::itch::MAX_FRAME;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Uncompressed bytes of a chunk.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks on their way: some milliseconds of a pipeline at full speed.
const CHUNKS: usize = 8;
/// Room in front of a chunk's bytes for the cut message that the chunk before ended with.
const HEADROOM: usize = MAX_FRAME.next_multiple_of(64);
/// How long the reading thread sleeps when all chunks are full. It is not woken: that would be a system call of the
/// consumer's.
const NAP: Duration = Duration::from_millis(1);

/// Bytes of the input between `start` and `end`.
struct Chunk {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Chunk {
    fn empty() -> Self {
        Self { bytes: vec![0; HEADROOM + CHUNK_BYTES].into(), start: HEADROOM, end: HEADROOM }
    }
}

/// What the reading thread sends.
enum Delivery {
    Chunk(Chunk),
    End,
    Failed(InputError),
}

/// The consumer's end. Dropping it stops the thread and waits for it.
pub(in crate::market) struct ReadAhead {
    path: PathBuf,
    chunk: Chunk,
    /// The offset of the window's first byte in the uncompressed input.
    offset: u64,
    ended: bool,
    full: Receiver<Delivery>,
    empty: SyncSender<Chunk>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Starts to read `path` from `position`, in uncompressed bytes.
    pub(super) fn start(path: PathBuf, codec: Codec, position: u64) -> Result<Self, InputError> {
        // One place more than chunks: the end or an error always finds room, so sending never blocks.
        let (full_sender, full) = sync_channel(CHUNKS + 1);
        let (empty, empty_receiver) = sync_channel(CHUNKS + 1);
        let stop = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            path: path.clone(),
            codec,
            position,
            full: full_sender,
            empty: empty_receiver,
            stop: stop.clone(),
        };
        let error = |reason: String| InputError::Thread { path: path.clone(), reason };
        for _ in 0..CHUNKS {
            empty.try_send(Chunk::empty()).map_err(|sent| error(sent.to_string()))?;
        }
        let thread = thread::Builder::new().name("isobar-input".into()).spawn(move || reader.run());
        let thread = Some(thread.map_err(|source| error(source.to_string()))?);
        Ok(Self { path, chunk: Chunk::empty(), offset: position, ended: false, full, empty, stop, thread })
    }

    /// The bytes at hand.
    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        &self.chunk.bytes[self.chunk.start..self.chunk.end]
    }

    /// Moves past the window's first `bytes`, at most all.
    #[inline]
    pub(super) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.chunk.end - self.chunk.start);
        self.chunk.start += bytes;
        self.offset += bytes as u64;
    }

    /// The offset of the window's first byte in the uncompressed input.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends the next chunk to the window, which must be shorter than the longest frame.
    pub(super) fn refill(&mut self) -> Result<Refill, InputError> {
        if self.ended {
            return Ok(Refill::End);
        }
        match self.full.try_recv() {
            Ok(Delivery::Chunk(mut next)) => {
                let tail = self.window();
                debug_assert!(tail.len() < MAX_FRAME);
                next.start = HEADROOM - tail.len();
                next.bytes[next.start..HEADROOM].copy_from_slice(tail);
                let used = std::mem::replace(&mut self.chunk, next);
                // The channel has room for every chunk there is; if the thread has ended, nobody needs this one.
                let _ = self.empty.try_send(used);
                Ok(Refill::More)
            }
            Ok(Delivery::End) => {
                self.ended = true;
                Ok(Refill::End)
            }
            Ok(Delivery::Failed(error)) => Err(error),
            Err(TryRecvError::Empty) => Ok(Refill::Pending),
            Err(TryRecvError::Disconnected) => {
                Err(InputError::Thread { path: self.path.clone(), reason: "it ended before the input did".into() })
            }
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic by itself; if a decoder made it, there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// The reading thread.
struct Reader {
    path: PathBuf,
    codec: Codec,
    position: u64,
    full: SyncSender<Delivery>,
    empty: Receiver<Chunk>,
    stop: Arc<AtomicBool>,
}

impl Reader {
    fn run(self) {
        let last = match self.deliver_all() {
            Ok(()) => Delivery::End,
            Err(error) => Delivery::Failed(error),
        };
        // The consumer may be gone; then nobody asks.
        let _ = self.full.try_send(last);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn deliver_all(&self) -> Result<(), InputError> {
        let mut bytes = Bytes::open_at(&self.path, self.codec, self.position, || self.stopped())?;
        while !self.stopped() {
            let mut chunk = match self.empty.try_recv() {
                Ok(chunk) => chunk,
                Err(TryRecvError::Empty) => {
                    thread::park_timeout(NAP);
                    continue;
                }
                Err(TryRecvError::Disconnected) => break,
            };
            let before = bytes.offset();
            let outcome = bytes.fill(&mut chunk.bytes[HEADROOM..]);
            // Also what was decoded before an error is delivered.
            (chunk.start, chunk.end) = (HEADROOM, HEADROOM + (bytes.offset() - before) as usize);
            if chunk.end > chunk.start && self.full.try_send(Delivery::Chunk(chunk)).is_err() {
                break;
            }
            if outcome? == 0 {
                break;
            }
        }
        Ok(())
    }
}
