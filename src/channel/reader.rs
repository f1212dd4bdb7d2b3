//! The consumer's own part of a ring: what it has seen published, and how far it has read.

use std::{cell::Cell, mem};

use super::{Frame, buffer::Slots};

/// The consumer's own, unshared part.
///
/// It is valid as long as the ring's buffer: its owner holds on to that.
pub(super) struct Reader<T> {
    slots: Slots<T>,
    /// The next frame whose value has not been dropped or moved out. The shared head follows it: at once in the calls
    /// of [`Consumer`], at the end of a [`Batch`], and at the latest when the consumer is dropped, so that no value is
    /// dropped twice where a batch is forgotten or a destructor panics.
    position: u64,
    /// All frames from `position` to here were seen published; here a run begins, or will.
    seen: Cell<u64>,
}

impl<T> Reader<T> {
    /// `seen` is where a run begins, at `position` or behind it, and what lies between is published.
    pub(super) fn new(slots: Slots<T>, position: u64, seen: u64) -> Self {
        Self { slots, position, seen: Cell::new(seen) }
    }

    #[inline(always)]
    pub(super) fn slots(&self) -> Slots<T> {
        self.slots
    }

    #[inline(always)]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    #[inline(always)]
    pub(super) fn seen(&self) -> u64 {
        self.seen.get()
    }

    /// Looks for the next run; whether there is one.
    #[inline(always)]
    pub(super) fn see_more(&self) -> bool {
        let start = self.seen.get();
        // SAFETY: the buffer is alive as long as the reader.
        let tag = unsafe { self.slots.at(start) }.observe();
        let published = tag.is_of(self.slots.lap(start));
        if published {
            self.seen.set(start.wrapping_add(tag.run()));
        }
        published
    }

    /// Whether the frame `offset` behind the next one is there.
    #[inline(always)]
    pub(super) fn sees(&self, offset: u64) -> bool {
        while self.seen.get().wrapping_sub(self.position) <= offset {
            // With a whole lap in view, the next slot is the first one's again.
            if offset >= self.slots.capacity() || !self.see_more() {
                return false;
            }
        }
        true
    }

    /// The frame `offset` behind the next one, in place.
    #[inline(always)]
    pub(super) fn frame(&self, offset: u64) -> Option<Frame<&T>> {
        if !self.sees(offset) {
            return None;
        }
        // SAFETY: the buffer is alive; the frame was seen, and is given back through `&mut self` only.
        unsafe {
            let slot = self.slots.at(self.position.wrapping_add(offset));
            Some(slot.frame(slot.tag()))
        }
    }

    /// Moves the next frame out.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<Frame<T>> {
        if !self.sees(0) {
            return None;
        }
        let position = self.position;
        self.position = position.wrapping_add(1);
        // SAFETY: the buffer is alive; the frame was seen, not given back yet, and the reader has moved past it.
        unsafe {
            let slot = self.slots.at(position);
            Some(slot.take(slot.tag()))
        }
    }

    /// Moves past the next frame, whose value the caller takes.
    #[inline(always)]
    pub(super) fn pass(&mut self) {
        self.position = self.position.wrapping_add(1);
    }

    /// Moves to `position`, which lies between here and what was seen, dropping the values on the way.
    #[inline(always)]
    pub(super) fn discard_to(&mut self, position: u64) {
        if mem::needs_drop::<T>() {
            while self.position != position {
                self.discard();
            }
        }
        self.position = position;
    }

    /// Drops the next frame, if there is one.
    fn discard(&mut self) -> bool {
        if !self.sees(0) {
            return false;
        }
        let position = self.position;
        // Advance first: a destructor that panics must not run twice.
        self.position = position.wrapping_add(1);
        // SAFETY: the buffer is alive; the frame was seen, not given back yet, and the reader has moved past it.
        unsafe {
            let slot = self.slots.at(position);
            slot.drop_value(slot.tag());
        }
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

    /// In debug builds, panics where the reader's invariants do not hold.
    pub(super) fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let seen = self.seen().wrapping_sub(self.position);
            assert!(seen <= self.slots.capacity(), "{seen} frames seen in a ring of {}", self.slots.capacity());
            for position in (0..seen).map(|offset| self.position.wrapping_add(offset)) {
                // SAFETY: the buffer is alive as long as the reader.
                let tag = unsafe { self.slots.at(position) }.tag();
                assert!(tag.is_of(self.slots.lap(position)), "slot {position} was seen, but is of another lap");
            }
        }
    }
}
