//! A cursor over a ring's next frames.

use std::fmt;

use super::{
    Control, Frame, Record,
    buffer::Slots,
    reader::Reader,
    slot::{Slot, Tag},
};
use crate::sync::{AtomicU64, Ordering};

/// A cursor over the next frames of a ring, read where they lie; see [`Consumer::batch`].
///
/// Dropping it consumes the frames that were taken, all at once. If it is forgotten instead, what was lent out comes
/// again, what was moved out does not.
pub struct Batch<'a, T> {
    slots: Slots<T>,
    start: u64,
    /// The next frame to be taken. What lies between the reader's position and this one was lent out.
    position: u64,
    /// What is before this was seen published.
    ready: u64,
    end: u64,
    reader: &'a mut Reader<T>,
    head: &'a AtomicU64,
}

impl<'a, T> Batch<'a, T> {
    #[inline(always)]
    pub(super) fn new(reader: &'a mut Reader<T>, head: &'a AtomicU64, max: u64) -> Self {
        let slots = reader.slots();
        let max = max.min(slots.capacity());
        let start = reader.position();
        let ready = reader.seen().wrapping_sub(start).min(max);
        let (ready, end) = (start.wrapping_add(ready), start.wrapping_add(max));
        Self { slots, start, position: start, ready, end, reader, head }
    }

    /// Takes the next frame if it is a record, and lends its value out where it lies. `None`: the batch's limit, a
    /// control frame, or nothing there.
    #[inline(always)]
    pub fn next_record(&mut self) -> Option<Record<&T>> {
        let (slot, tag) = self.next_slot()?;
        if !tag.is_record() {
            return None;
        }
        self.position = self.position.wrapping_add(1);
        // SAFETY: the slot is published with a record, and given back when the batch is dropped.
        Some(unsafe { slot.record(tag) })
    }

    /// As [`Batch::next_record`], but moves the value out.
    #[inline(always)]
    pub fn take_record(&mut self) -> Option<Record<T>> {
        let (slot, tag) = self.next_slot()?;
        if !tag.is_record() {
            return None;
        }
        self.reader.discard_to(self.position);
        self.reader.pass();
        self.position = self.reader.position();
        // SAFETY: the slot is published with a record, not given back yet, and the reader has moved past it.
        Some(unsafe { slot.take_record(tag) })
    }

    /// The next slot and its tag, if there is one within the batch's limit.
    #[inline(always)]
    fn next_slot(&mut self) -> Option<(&'a Slot<T>, Tag)> {
        if self.position == self.ready && !self.see_more() {
            return None;
        }
        // SAFETY: the buffer is alive as long as the reader, which this borrows for `'a`.
        let slot = unsafe { self.slots.at(self.position) };
        Some((slot, slot.tag()))
    }

    #[inline(always)]
    fn see_more(&mut self) -> bool {
        if self.ready == self.end || !self.reader.see_more() {
            return false;
        }
        let ready = self.reader.seen().wrapping_sub(self.start);
        self.ready = self.start.wrapping_add(ready.min(self.end.wrapping_sub(self.start)));
        true
    }

    /// Takes the next frame if it is a control frame. `None`: the batch's limit, a record, or nothing there.
    #[inline]
    pub fn next_control(&mut self) -> Option<Control> {
        let (slot, tag) = self.next_slot()?;
        // SAFETY: the slot is published, and given back when the batch is dropped.
        let control = unsafe { slot.frame(tag) }.control()?;
        self.position = self.position.wrapping_add(1);
        Some(control)
    }

    /// The next frame, in place, without taking it.
    #[inline]
    pub fn peek(&mut self) -> Option<Frame<&T>> {
        let (slot, tag) = self.next_slot()?;
        // SAFETY: the slot is published, and given back when the batch is dropped.
        Some(unsafe { slot.frame(tag) })
    }

    /// The number of frames taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.position.wrapping_sub(self.start) as usize
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
