//! The writing end of a ring.

use std::{fmt, mem::ManuallyDrop, ptr};

use super::{
    Frame, Sharing,
    ring::{AnyCore, AnyPointer, CrossCore, SameCore},
    writer::Writer,
};
use crate::sync::Ordering;

/// The ring was full; the frame comes back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ring is full: the consumer is behind by its whole capacity; push again when it has consumed")]
pub struct Full<T>(pub Frame<T>);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

/// The writing end of a ring; see [`ring()`](super::ring()).
///
/// It can be sent to another thread where the ring is between threads, but never shared.
pub struct Producer<T, S: Sharing = CrossCore> {
    writer: Writer<T>,
    shared: S::Pointer<T>,
}

// SAFETY: the slots that the writer points to are kept alive by `shared`, which is `Send` itself for `T: Send`.
unsafe impl<T: Send> Send for Producer<T, CrossCore> {}

impl<T, S: Sharing> Producer<T, S> {
    pub(super) fn from_parts(writer: Writer<T>, shared: S::Pointer<T>) -> Self {
        Self { writer, shared }
    }

    /// Puts a frame into the ring, where the consumer sees it at once.
    ///
    /// # Errors
    /// [`Full`] gives the frame back when the ring has no free slot.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame<T>) -> Result<(), Full<T>> {
        if self.writer.room() == 0 && self.refresh() == 0 {
            return Err(Full(frame));
        }
        // SAFETY: there is room, and `shared` keeps the buffer alive.
        unsafe { self.writer.push(frame) };
        Ok(())
    }

    /// Takes frames from `frames` as long as there are free slots, and says how many. It takes none that does not fit.
    ///
    /// ```
    /// use isobar::channel::{Frame, ring};
    ///
    /// let (mut producer, mut consumer) = ring::<u64>(4);
    /// let mut frames = (0..6).map(Frame::Watermark);
    /// assert_eq!(producer.push_batch(&mut frames), 4);
    /// assert_eq!(consumer.pop(), Some(Frame::Watermark(0)));
    /// assert_eq!(producer.push_batch(&mut frames), 1);
    /// assert_eq!(frames.next(), Some(Frame::Watermark(5))); // nothing was lost
    /// ```
    #[inline]
    pub fn push_batch(&mut self, frames: &mut impl Iterator<Item = Frame<T>>) -> usize {
        let mut pushed = 0;
        loop {
            if !self.has_room() {
                return pushed;
            }
            let len_max = self.writer.run_len_max();
            // SAFETY: that is its limit, and `shared` keeps the buffer alive.
            let run = unsafe { self.writer.push_run(len_max, frames) };
            pushed += run as usize;
            if run < len_max {
                return pushed;
            }
        }
    }

    /// Reads the consumer's head again; returns the number of free slots.
    #[cold]
    #[inline(never)]
    fn refresh(&mut self) -> u64 {
        self.writer.see_head(self.shared.head.load(Ordering::Acquire));
        self.check_invariants();
        self.writer.room()
    }

    /// The number of frames that can be pushed now at the least; the consumer may free more at any time.
    pub fn free_slots(&mut self) -> usize {
        self.refresh() as usize
    }

    /// Whether a frame can be pushed now. Reads the consumer's head only where the ring looks full.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.writer.room() > 0 || self.refresh() > 0
    }

    /// The number of frames in the ring at the most; the consumer may take some at any time.
    pub fn len(&self) -> usize {
        self.writer.position().wrapping_sub(self.shared.head.load(Ordering::Acquire)) as usize
    }

    /// Whether everything pushed has been consumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ring's capacity in frames.
    pub fn capacity(&self) -> usize {
        self.writer.slots().capacity() as usize
    }

    /// The position that the next frame gets. Positions grow by one a frame and wrap at 2^64.
    pub fn position(&self) -> u64 {
        self.writer.position()
    }

    /// Whether the consumer was dropped: what is pushed from now on is never read.
    pub fn is_disconnected(&self) -> bool {
        self.shared.consumer_gone.load(Ordering::Acquire)
    }

    /// In debug builds, panics where the ring's invariants do not hold.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            // Relaxed, lest a check stand in for an ordering that release builds miss.
            self.writer.check_invariants(self.shared.head.load(Ordering::Relaxed));
        }
    }
}

impl<T, S: Sharing> Drop for Producer<T, S> {
    fn drop(&mut self) {
        self.shared.producer_gone.store(true, Ordering::Release);
    }
}

impl<T, S: Sharing> fmt::Debug for Producer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("position", &self.position()).field("capacity", &self.capacity()).finish()
    }
}

/// The writing end of a ring of either kind.
///
/// ```
/// use isobar::channel::{Frame, Receiver, Sender, local_ring, ring};
///
/// let (near, far) = (local_ring::<u64>(8), ring::<u64>(8));
/// let mut senders = [Sender::from(near.0), Sender::from(far.0)];
/// let mut receivers = [Receiver::from(near.1), Receiver::from(far.1)];
/// assert!(senders.iter_mut().all(|s| s.push(Frame::End).is_ok()));
/// assert!(receivers.iter_mut().all(|r| r.pop() == Some(Frame::End)));
/// ```
pub type Sender<T> = Producer<T, AnyCore>;

impl<T, S: Sharing> Producer<T, S> {
    fn into_any(self, pointer: impl FnOnce(S::Pointer<T>) -> AnyPointer<T>) -> Sender<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so each field is moved out exactly once.
        let (writer, shared) = unsafe { (ptr::read(&this.writer), ptr::read(&this.shared)) };
        Producer::from_parts(writer, pointer(shared))
    }
}

impl<T> From<Producer<T, CrossCore>> for Sender<T> {
    fn from(producer: Producer<T, CrossCore>) -> Self {
        producer.into_any(AnyPointer::CrossCore)
    }
}

impl<T> From<Producer<T, SameCore>> for Sender<T> {
    fn from(producer: Producer<T, SameCore>) -> Self {
        producer.into_any(AnyPointer::SameCore)
    }
}
