//! The reading end of a ring.

use std::{fmt, mem::ManuallyDrop, ptr};

use super::{
    Batch, Frame, Sharing,
    reader::Reader,
    ring::{AnyCore, AnyPointer, CrossCore, SameCore},
};
use crate::sync::Ordering;

/// The reading end of a ring; see [`ring()`](super::ring()).
///
/// It can be sent to another thread where the ring is between threads, but never shared.
pub struct Consumer<T, S: Sharing = CrossCore> {
    reader: Reader<T>,
    shared: S::Pointer<T>,
}

// SAFETY: the slots that the reader points to are kept alive by `shared`, which is `Send` itself for `T: Send`.
unsafe impl<T: Send> Send for Consumer<T, CrossCore> {}

impl<T, S: Sharing> Consumer<T, S> {
    pub(super) fn from_parts(reader: Reader<T>, shared: S::Pointer<T>) -> Self {
        Self { reader, shared }
    }

    /// The next frame, in place.
    #[inline]
    pub fn peek(&self) -> Option<Frame<&T>> {
        self.reader.frame(0)
    }

    /// The frame `offset` behind the next one, in place; `None` if it is not there (yet).
    #[inline]
    pub fn peek_at(&self, offset: usize) -> Option<Frame<&T>> {
        self.reader.frame(offset as u64)
    }

    /// Whether no frame is there. Together with [`Consumer::is_disconnected`], asked before, it is final.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.reader.sees(0)
    }

    /// A cursor over the next frames, at most `max`, which are consumed when it is dropped, as far as they were taken.
    ///
    /// ```
    /// use isobar::channel::{Frame, Record, ring};
    ///
    /// let (mut producer, mut consumer) = ring::<u64>(8);
    /// for value in [2, 3] {
    ///     let record = Record { ingest_ns: 0, event_ns: 0, key_group: 0, value };
    ///     assert!(producer.push(Frame::Record(record)).is_ok());
    /// }
    /// assert!(producer.push(Frame::Watermark(7)).is_ok());
    ///
    /// let mut batch = consumer.batch(64);
    /// let mut sum = 0;
    /// while let Some(record) = batch.next_record() {
    ///     sum += record.value;
    /// }
    /// assert_eq!((sum, batch.taken()), (5, 2));
    /// assert_eq!(batch.next_control(), Some(Frame::Watermark(7)));
    /// drop(batch);
    /// assert!(producer.is_empty());
    /// ```
    #[inline(always)]
    pub fn batch(&mut self, max: usize) -> Batch<'_, T> {
        Batch::new(&mut self.reader, &self.shared.head, max as u64)
    }

    /// Drops the next `count` frames and gives their slots back to the producer.
    ///
    /// # Panics
    /// If fewer frames are there. Whoever consumes what it has seen with [`Consumer::peek_at`] is safe from that.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let end = self.reader.position().wrapping_add(count as u64);
        let ready = count == 0 || self.reader.sees(count as u64 - 1);
        assert!(ready, "{count} frames were to be consumed, but fewer are in the ring: consume what was seen only");
        self.reader.discard_to(end);
        self.give_back();
    }

    /// Tells the producer how far the reader is.
    #[inline(always)]
    fn give_back(&self) {
        self.shared.head.store(self.reader.position(), Ordering::Release);
    }

    /// Takes the next frame out.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame<T>> {
        let frame = self.reader.take()?;
        self.give_back();
        Some(frame)
    }

    /// The ring's capacity in frames.
    pub fn capacity(&self) -> usize {
        self.reader.slots().capacity() as usize
    }

    /// The position of the next frame. Positions grow by one a frame and wrap at 2^64.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Whether the producer was dropped. What it pushed before is still there, and nothing comes after.
    pub fn is_disconnected(&self) -> bool {
        self.shared.producer_gone.load(Ordering::Acquire)
    }

    /// In debug builds, panics where the ring's invariants do not hold.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let head = self.shared.head.load(Ordering::Relaxed);
            assert_eq!(head, self.reader.position(), "the head is not where the consumer is");
            self.reader.check_invariants();
        }
    }
}

impl<T, S: Sharing> Drop for Consumer<T, S> {
    fn drop(&mut self) {
        // A run may have been read in part: whoever drops the rest has to know where the next one begins.
        self.shared.seen.store(self.reader.seen(), Ordering::Relaxed);
        self.give_back();
        self.shared.consumer_gone.store(true, Ordering::Release);
    }
}

impl<T, S: Sharing> fmt::Debug for Consumer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("position", &self.position()).field("capacity", &self.capacity()).finish()
    }
}

/// The reading end of a ring of either kind; see [`Sender`](super::Sender).
pub type Receiver<T> = Consumer<T, AnyCore>;

impl<T, S: Sharing> Consumer<T, S> {
    fn into_any(self, pointer: impl FnOnce(S::Pointer<T>) -> AnyPointer<T>) -> Receiver<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so each field is moved out exactly once.
        let (reader, shared) = unsafe { (ptr::read(&this.reader), ptr::read(&this.shared)) };
        Consumer::from_parts(reader, pointer(shared))
    }
}

impl<T> From<Consumer<T, CrossCore>> for Receiver<T> {
    fn from(consumer: Consumer<T, CrossCore>) -> Self {
        consumer.into_any(AnyPointer::CrossCore)
    }
}

impl<T> From<Consumer<T, SameCore>> for Receiver<T> {
    fn from(consumer: Consumer<T, SameCore>) -> Self {
        consumer.into_any(AnyPointer::SameCore)
    }
}
