//! The producer's own part of a ring: where it writes next, and how far it may.

use super::{
    Frame,
    buffer::Slots,
    slot::{RUN_MAX, Slot, Tag},
};

/// How many slots ahead of the one being written a line is asked for: its last reader has it, and to get it from there
/// takes longer than to write several slots.
const PREFETCH_SLOTS: u64 = 8;

/// The producer's own, unshared part.
pub(super) struct Writer<T> {
    slots: Slots<T>,
    /// Where the next frame goes.
    position: u64,
    /// The consumer's head as last read; it can be stale, never ahead.
    head_seen: u64,
}

impl<T> Writer<T> {
    pub(super) fn new(slots: Slots<T>, position: u64) -> Self {
        Self { slots, position, head_seen: position }
    }

    #[inline(always)]
    pub(super) fn slots(&self) -> Slots<T> {
        self.slots
    }

    #[inline(always)]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Takes note of the consumer's head, read with Acquire.
    #[inline(always)]
    pub(super) fn see_head(&mut self, head: u64) {
        self.head_seen = head;
    }

    /// The number of slots that are known to be free.
    #[inline(always)]
    pub(super) fn room(&self) -> u64 {
        self.slots.capacity() - self.position.wrapping_sub(self.head_seen)
    }

    /// Writes one frame and publishes it.
    ///
    /// # Safety
    /// There is room, and the buffer is alive.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, frame: Frame<T>) {
        let Self { slots, position, .. } = *self;
        // SAFETY: there is room, so the consumer has given the slot back, and that was read with Acquire.
        unsafe {
            let slot = slots.at(position);
            slot.publish(slot.write(slots.lap(position), frame));
        }
        if self.room() > PREFETCH_SLOTS {
            slots.prefetch_for_write(position.wrapping_add(PREFETCH_SLOTS));
        }
        self.position = position.wrapping_add(1);
    }

    /// The most frames that the next run can take: those that have room, up to the end of the buffer, so that all are of
    /// one lap.
    #[inline(always)]
    pub(super) fn run_len_max(&self) -> u64 {
        self.room().min(self.slots.capacity() - self.slots.index(self.position)).min(RUN_MAX)
    }

    /// Writes frames, at most `len_max`, and publishes them together; returns their number.
    ///
    /// # Safety
    /// `len_max` is at most [`Writer::run_len_max`], and the buffer is alive.
    #[inline(always)]
    pub(super) unsafe fn push_run(&mut self, len_max: u64, frames: &mut impl Iterator<Item = Frame<T>>) -> u64 {
        if len_max == 0 {
            return 0;
        }
        let Some(first) = frames.next() else { return 0 };
        let Self { slots, position, .. } = *self;
        let (lap, index) = (slots.lap(position), slots.index(position));
        // SAFETY: there is room, so the consumer has given the slots back, and that was read with Acquire; the run's
        // limit keeps its indices below the capacity.
        unsafe {
            let slot = slots.at_index(index);
            let tag = slot.write(lap, first);
            let mut run = Run { writer: self, slot, tag, len: 1 };
            while run.len < len_max {
                let Some(frame) = frames.next() else { break };
                // The run's limit, not its end: what is free behind it will be the next run's.
                if run.len + PREFETCH_SLOTS < len_max {
                    slots.prefetch_for_write(position.wrapping_add(run.len + PREFETCH_SLOTS));
                }
                let slot = slots.at_index(index + run.len);
                slot.set_tag(slot.write(lap, frame));
                run.len += 1;
            }
            run.len
        }
    }

    /// In debug builds, panics where the ring's invariants do not hold with the consumer at `head` or behind it.
    pub(super) fn check_invariants(&self, head: u64) {
        if cfg!(debug_assertions) {
            let Self { slots, position, head_seen } = *self;
            let in_use = position.wrapping_sub(head);
            assert!(in_use <= slots.capacity(), "{in_use} frames in a ring of {}", slots.capacity());
            assert!(position.wrapping_sub(head_seen) >= in_use, "the head seen, {head_seen}, is ahead of {head}");
            // SAFETY: the buffer is alive as long as the writer.
            let tag = unsafe { slots.at(position) }.tag();
            assert!(!tag.is_of(slots.lap(position)), "slot {position} was published before it was written");
        }
    }
}

/// A run that is being written, published when this is dropped: also where the iterator that gives its frames panics,
/// so that those it gave are not lost.
struct Run<'a, T> {
    writer: &'a mut Writer<T>,
    slot: &'a Slot<T>,
    tag: Tag,
    len: u64,
}

impl<T> Drop for Run<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.slot.publish(self.tag.with_run(self.len));
        self.writer.position = self.writer.position.wrapping_add(self.len);
    }
}
