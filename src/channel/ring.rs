//! A bounded single-producer single-consumer ring of [`Frame`]s that never waits.
//!
//! A slot's own tag publishes it, so that one cache line moves per hop and not two (tail index, then data). Frames that
//! are pushed together form a *run*, which its first slot's tag publishes as a whole: the consumer learns from one line
//! how far it may read. It gives slots back by advancing its head, on a cache line of its own, which the producer reads
//! again only when the ring looks full: once a lap where the consumer keeps up. Lines of free slots, which the consumer's
//! core still has, are asked for some slots ahead of the write.
//!
//! Invariants, where `head` is the consumer's position and `tail` the producer's:
//! - `head <= tail <= head + capacity`, up to the wrap of the positions at 2^64;
//! - a slot of `head..tail` carries the lap of its position, and runs follow each other without a gap;
//! - the producer writes free slots only, the bodies and tags of a run first and then the tag of its first slot
//!   (Release); the consumer reads that tag (Acquire), then the run; it gives slots back with the head (Release), which
//!   the producer reads (Acquire) before it writes there again;
//! - at the start of a run that is not published, the tag is of an earlier lap;
//! - a run lies on one lap: what goes beyond the buffer's end is the next run.
//!
//! # What was tried
//! Ratios to rtrb's chunks in one run of `cargo bench --bench ring` (batches of 64, one core to another, medians of 11 to
//! 31 rounds, two virtual cores of an AMD EPYC):
//! - every slot published by its own tag: 0.7, since the consumer runs into lines that are being written;
//! - a run published by its first slot: 0.9;
//! - and lines asked for with `prefetchw`, 4 slots ahead: 1.21, 8 ahead: 1.26 (kept);
//! - the consumer's reads prefetched, 4 or 8 slots ahead, and the first frame of a run written last, so that a waiting
//!   consumer takes its line once and not twice: no difference, not kept.
//!
//! Three runs of what was kept: batches 1.12 to 1.31 of rtrb's chunks, one by one 1.3 to 2.3 of its push and pop, hops at
//! 1 M/s (p50) 0.69 to 0.76 of its own. A hop takes 1.27 and 1.35 times half the round trip of a cache line where that
//! is 205 ns, and 1.6 times where the host gives cores that are 55 ns apart; 1.25 was the aim. The clock's reading is in
//! a hop as a whole, in half a round trip by half.

use std::{ops::Deref, rc::Rc};

use crossbeam_utils::CachePadded;

use super::{
    Consumer, Producer,
    buffer::{Buffer, Slots},
    reader::Reader,
    writer::Writer,
};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// The largest capacity of a ring; what asks for more gets this.
pub const CAPACITY_MAX: usize = 1 << 30;

/// A ring between two threads. `capacity`, in frames, is rounded up to a power of two between 1 and [`CAPACITY_MAX`].
///
/// ```
/// use isobar::channel::{Frame, Record, ring};
///
/// let (mut producer, mut consumer) = ring::<u64>(2);
/// let record = Record { ingest_ns: 1, event_ns: 2, key_group: 3, value: 4 };
/// assert!(producer.push(Frame::Record(record)).is_ok());
/// assert!(producer.push(Frame::Watermark(2)).is_ok());
/// assert_eq!(producer.push(Frame::End).unwrap_err().0, Frame::End); // full: the frame comes back
///
/// assert_eq!(consumer.peek(), Some(Frame::Record(record.as_ref()))); // in place
/// assert_eq!(consumer.pop(), Some(Frame::Record(record)));
/// assert_eq!(consumer.pop(), Some(Frame::Watermark(2)));
/// assert_eq!(consumer.pop(), None);
/// ```
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    ring_at(capacity, 0)
}

/// A ring between two subtasks of one core, which cannot leave their thread. The API is that of [`ring()`].
///
/// It runs the same loads and stores, which on one core cost what plain ones do (see benches/ring); what it saves
/// is the bound `T: Send`.
///
/// ```
/// use isobar::channel::{Frame, local_ring};
///
/// let (mut producer, mut consumer) = local_ring::<std::rc::Rc<str>>(4);
/// assert!(producer.push(Frame::Idle).is_ok());
/// drop(producer);
/// assert!(consumer.is_disconnected());
/// assert_eq!(consumer.pop(), Some(Frame::Idle)); // what was pushed is still there
/// ```
pub fn local_ring<T>(capacity: usize) -> (Producer<T, SameCore>, Consumer<T, SameCore>) {
    local_ring_at(capacity, 0)
}

/// [`ring()`] that starts at a position other than 0, for tests of the wraps.
#[doc(hidden)]
pub fn ring_at<T: Send>(capacity: usize, position: u64) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared::new(capacity, position));
    let (writer, reader) = shared.ends();
    (Producer::from_parts(writer, Arc::clone(&shared)), Consumer::from_parts(reader, shared))
}

/// [`local_ring`] that starts at a position other than 0, for tests of the wraps.
#[doc(hidden)]
pub fn local_ring_at<T>(capacity: usize, position: u64) -> (Producer<T, SameCore>, Consumer<T, SameCore>) {
    let shared = Rc::new(Shared::new(capacity, position));
    let (writer, reader) = shared.ends();
    (Producer::from_parts(writer, Rc::clone(&shared)), Consumer::from_parts(reader, shared))
}

/// How the two ends of a ring hold what they share.
pub trait Sharing: sealed::Sharing {}
impl<S: sealed::Sharing> Sharing for S {}

/// The ends may be on different threads.
#[derive(Debug)]
pub enum CrossCore {}

/// Both ends stay on one thread.
#[derive(Debug)]
pub enum SameCore {}

/// Either, decided at run time: what [`Sender`](super::Sender) and [`Receiver`](super::Receiver) are made of.
#[derive(Debug)]
pub enum AnyCore {}

pub(super) mod sealed {
    use super::*;

    pub trait Sharing {
        type Pointer<T>: Deref<Target = Shared<T>>;
    }

    impl Sharing for CrossCore {
        type Pointer<T> = Arc<Shared<T>>;
    }

    impl Sharing for SameCore {
        type Pointer<T> = Rc<Shared<T>>;
    }

    impl Sharing for AnyCore {
        type Pointer<T> = AnyPointer<T>;
    }
}

pub enum AnyPointer<T> {
    CrossCore(Arc<Shared<T>>),
    SameCore(Rc<Shared<T>>),
}

impl<T> Deref for AnyPointer<T> {
    type Target = Shared<T>;

    #[inline]
    fn deref(&self) -> &Shared<T> {
        match self {
            Self::CrossCore(shared) => shared,
            Self::SameCore(shared) => shared,
        }
    }
}

/// What both ends of a ring hold.
pub struct Shared<T> {
    /// The consumer's position: all slots before it are given back. Written by the consumer alone.
    pub(super) head: CachePadded<AtomicU64>,
    pub(super) producer_gone: AtomicBool,
    pub(super) consumer_gone: AtomicBool,
    /// Where the first run begins that the consumer has not seen; written when the consumer is dropped.
    pub(super) seen: AtomicU64,
    buffer: Buffer<T>,
}

// SAFETY: the two ends divide the slots between them by the module's invariants, and a value crosses over only where
// `T: Send`. No reference to a value is given to two threads at once: each end is `!Sync`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new(capacity: usize, start: u64) -> Self {
        let capacity = capacity.clamp(1, CAPACITY_MAX).next_power_of_two();
        Self {
            head: CachePadded::new(AtomicU64::new(start)),
            producer_gone: AtomicBool::new(false),
            consumer_gone: AtomicBool::new(false),
            seen: AtomicU64::new(start),
            buffer: Buffer::new(capacity, start),
        }
    }

    fn ends(&self) -> (Writer<T>, Reader<T>) {
        let start = self.head.load(Ordering::Relaxed);
        (Writer::new(self.slots(), start), Reader::new(self.slots(), start, start))
    }

    pub(super) fn slots(&self) -> Slots<T> {
        self.buffer.slots()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both ends are gone: the last one's release of the pointer happened before this.
        let (head, seen) = (self.head.load(Ordering::Relaxed), self.seen.load(Ordering::Relaxed));
        let mut unread = Reader::new(self.slots(), head, seen);
        unread.discard_all();
    }
}
