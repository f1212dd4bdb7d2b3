//! The reading end of a ring.

use std::{cell::Cell, fmt, marker::PhantomData, mem, mem::ManuallyDrop, ptr};

use super::{
    Control, Frame, Record, Sharing,
    buffer::Slots,
    ring::{AnyCore, AnyPointer, CrossCore, SameCore},
    slot::Tag,
};
use crate::sync::{AtomicU64, Ordering};

/// The reading end of a ring; see [`ring()`](super::ring()).
///
/// It can be sent to another thread where the ring is between threads, but never shared.
pub struct Consumer<T, S: Sharing = CrossCore> {
    reader: Reader<T>,
    shared: S::Pointer<T>,
    /// One thread at a time.
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the slots that the reader points to are kept alive by `shared`, which is `Send` itself for `T: Send`.
unsafe impl<T: Send> Send for Consumer<T, CrossCore> {}

/// The consumer's own, unshared part.
///
/// It is valid as long as the ring's buffer: its owner holds on to that.
pub(super) struct Reader<T> {
    slots: Slots<T>,
    /// The next frame whose value has not been dropped or moved out. The shared head follows it: at once in the calls
    /// of [`Consumer`], at the end of a [`Batch`], and at the latest when the consumer is dropped, so that no value is
    /// dropped twice where a batch is forgotten or a destructor panics.
    position: u64,
}

impl<T> Reader<T> {
    pub(super) fn new(slots: Slots<T>, position: u64) -> Self {
        Self { slots, position }
    }

    /// The tag at `position` if a frame is there. The caller has looked at all positions from the head up to this one,
    /// or it lies less than a capacity ahead of the head.
    #[inline(always)]
    fn published(&self, position: u64) -> Option<Tag> {
        // SAFETY: the buffer is alive as long as the reader.
        let tag = unsafe { self.slots.at(position) }.tag();
        (tag.lap() == self.slots.lap(position)).then_some(tag)
    }

    #[inline(always)]
    fn frame(&self, position: u64) -> Option<Frame<&T>> {
        let tag = self.published(position)?;
        // SAFETY: the tag is of this lap, and the slot is given back through `&mut self` only.
        Some(unsafe { self.slots.at(position).frame(tag) })
    }

    /// Moves to `position`, dropping the values on the way. All of these frames are there.
    #[inline(always)]
    fn discard_to(&mut self, position: u64) {
        if mem::needs_drop::<T>() {
            while self.position != position && self.discard() {}
        }
        self.position = position;
    }

    /// Drops the next frame, if there is one.
    fn discard(&mut self) -> bool {
        let Some(tag) = self.published(self.position) else { return false };
        // SAFETY: the buffer is alive as long as the reader.
        let slot = unsafe { self.slots.at(self.position) };
        // Advance first: a destructor that panics must not run twice.
        self.position = self.position.wrapping_add(1);
        // SAFETY: the tag is of this lap, and the position has moved past the value.
        unsafe { slot.drop_value(tag) };
        true
    }

    /// Drops all frames that are there.
    pub(super) fn discard_all(&mut self) {
        if mem::needs_drop::<T>() {
            for _ in 0..self.slots.capacity() {
                if !self.discard() {
                    break;
                }
            }
        }
    }
}

impl<T, S: Sharing> Consumer<T, S> {
    pub(super) fn from_parts(reader: Reader<T>, shared: S::Pointer<T>) -> Self {
        Self { reader, shared, _not_sync: PhantomData }
    }

    /// The next frame, in place.
    #[inline]
    pub fn peek(&self) -> Option<Frame<&T>> {
        self.reader.frame(self.reader.position)
    }

    /// The frame `offset` behind the next one, in place; `None` if it is not there (yet).
    #[inline]
    pub fn peek_at(&self, offset: usize) -> Option<Frame<&T>> {
        if offset as u64 >= self.reader.slots.capacity() {
            return None;
        }
        self.reader.frame(self.reader.position.wrapping_add(offset as u64))
    }

    /// Whether no frame is there. Together with [`Consumer::is_disconnected`], asked before, it is final.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reader.published(self.reader.position).is_none()
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
        let max = (max as u64).min(self.reader.slots.capacity());
        let start = self.reader.position;
        let end = start.wrapping_add(max);
        Batch { reader: &mut self.reader, head: &self.shared.head, start, position: start, end }
    }

    /// Drops the next `count` frames and gives their slots back to the producer.
    ///
    /// # Panics
    /// If fewer frames are there. Whoever consumes what it has seen with [`Consumer::peek_at`] is safe from that.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let end = self.reader.position.wrapping_add(count as u64);
        // Slots are published in order: if the last one is there, all are.
        let ready = count == 0 || count <= self.capacity() && self.reader.published(end.wrapping_sub(1)).is_some();
        assert!(ready, "{count} frames were to be consumed, but fewer are in the ring: consume what was seen only");
        self.reader.discard_to(end);
        self.give_back();
    }

    /// Tells the producer how far the reader is.
    #[inline(always)]
    fn give_back(&self) {
        self.shared.head.store(self.reader.position, Ordering::Release);
    }

    /// Takes the next frame out.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame<T>> {
        let position = self.reader.position;
        let tag = self.reader.published(position)?;
        // SAFETY: `shared` keeps the buffer alive; the tag is of this lap; the position moves past the frame.
        let frame = unsafe { self.reader.slots.at(position).take(tag) };
        self.reader.position = position.wrapping_add(1);
        self.give_back();
        Some(frame)
    }

    /// The ring's capacity in frames.
    pub fn capacity(&self) -> usize {
        self.reader.slots.capacity() as usize
    }

    /// The position of the next frame. Positions grow by one a frame and wrap at 2^64.
    pub fn position(&self) -> u64 {
        self.reader.position
    }

    /// Whether the producer was dropped. What it pushed before is still there, and nothing comes after.
    pub fn is_disconnected(&self) -> bool {
        self.shared.producer_gone.load(Ordering::Acquire)
    }

    /// In debug builds, panics where the ring's invariants do not hold. Looks at every slot.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let Reader { slots, position } = self.reader;
            assert_eq!(self.shared.head.load(Ordering::Relaxed), position, "the head is not where the consumer is");
            let mut in_order = true;
            for offset in (0..slots.capacity()).rev() {
                // From the far end: what is published later may be seen, what was published before must be.
                let published = self.reader.published(position.wrapping_add(offset)).is_some();
                assert!(published || in_order, "slot {offset} behind the head was passed over");
                in_order = !published && in_order;
            }
        }
    }
}

impl<T, S: Sharing> Drop for Consumer<T, S> {
    fn drop(&mut self) {
        self.give_back();
        self.shared.consumer_gone.store(true, Ordering::Release);
    }
}

impl<T, S: Sharing> fmt::Debug for Consumer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("position", &self.position()).field("capacity", &self.capacity()).finish()
    }
}

/// A cursor over the next frames of a ring, read where they lie; see [`Consumer::batch`].
///
/// Dropping it consumes the frames that were taken, all at once. If it is forgotten instead, what was lent out comes
/// again, what was moved out does not.
pub struct Batch<'a, T> {
    reader: &'a mut Reader<T>,
    head: &'a AtomicU64,
    start: u64,
    /// The next frame to be taken. What lies between the reader's position and this one was lent out.
    position: u64,
    end: u64,
}

impl<T> Batch<'_, T> {
    /// Takes the next frame if it is a record, and lends its value out where it lies. `None`: the batch's limit, a
    /// control frame, or nothing there.
    #[inline(always)]
    pub fn next_record(&mut self) -> Option<Record<&T>> {
        let tag = self.next_tag()?;
        if !tag.is_record() {
            return None;
        }
        // SAFETY: the buffer is alive as long as the reader.
        let slot = unsafe { self.reader.slots.at(self.position) };
        self.position = self.position.wrapping_add(1);
        // SAFETY: the tag is a record's and of this lap; the slot is given back through `&mut self` only.
        Some(unsafe { slot.record(tag) })
    }

    /// As [`Batch::next_record`], but moves the value out.
    #[inline(always)]
    pub fn take_record(&mut self) -> Option<Record<T>> {
        let tag = self.next_tag()?;
        if !tag.is_record() {
            return None;
        }
        self.reader.discard_to(self.position);
        // SAFETY: the buffer is alive as long as the reader.
        let slot = unsafe { self.reader.slots.at(self.position) };
        self.position = self.position.wrapping_add(1);
        self.reader.position = self.position;
        // SAFETY: the tag is a record's and of this lap, and the reader has moved past the value.
        Some(unsafe { slot.take_record(tag) })
    }

    /// Takes the next frame if it is a control frame. `None`: the batch's limit, a record, or nothing there.
    #[inline]
    pub fn next_control(&mut self) -> Option<Control> {
        let control = self.peek()?.control()?;
        self.position = self.position.wrapping_add(1);
        Some(control)
    }

    /// The next frame, in place, without taking it.
    #[inline]
    pub fn peek(&self) -> Option<Frame<&T>> {
        self.next_tag()?;
        self.reader.frame(self.position)
    }

    /// The number of frames taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.position.wrapping_sub(self.start) as usize
    }

    #[inline(always)]
    fn next_tag(&self) -> Option<Tag> {
        if self.position == self.end { None } else { self.reader.published(self.position) }
    }
}

impl<T> Drop for Batch<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.position != self.start {
            self.reader.discard_to(self.position);
            self.head.store(self.position, Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("taken", &self.taken()).finish_non_exhaustive()
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
