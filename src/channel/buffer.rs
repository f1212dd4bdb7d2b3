//! The memory of a ring: slots that never straddle a cache line they could lie within.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::slot::Slot;

const CACHE_LINE_BYTES: usize = 64;

/// A view of a ring's slots by position. Positions only grow (and wrap at 2^64); slots are used in turn.
///
/// It is valid as long as the [`Buffer`] that it was taken from, which whoever keeps one has to see to.
pub(super) struct Slots<T> {
    base: NonNull<Slot<T>>,
    mask: u64,
    lap_shift: u32,
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slots<T> {}

impl<T> Slots<T> {
    /// Up to half a line, slots share lines evenly; from 33 to 64 bytes each has a line of its own; larger ones start
    /// on a line of their own.
    const STRIDE_BYTES: usize = {
        let bytes = size_of::<Slot<T>>();
        if bytes <= CACHE_LINE_BYTES {
            bytes.next_power_of_two()
        } else {
            bytes.next_multiple_of(if align_of::<Slot<T>>() > CACHE_LINE_BYTES {
                align_of::<Slot<T>>()
            } else {
                CACHE_LINE_BYTES
            })
        }
    };

    #[inline(always)]
    pub(super) fn capacity(self) -> u64 {
        self.mask + 1
    }

    /// The lap that publishes `position`.
    #[inline(always)]
    pub(super) fn lap(self, position: u64) -> u32 {
        (position >> self.lap_shift) as u32
    }

    /// The index of the slot that `position` lies in.
    #[inline(always)]
    pub(super) fn index(self, position: u64) -> u64 {
        position & self.mask
    }

    /// The slot of `position`.
    ///
    /// # Safety
    /// The buffer is alive for `'a`.
    #[inline(always)]
    pub(super) unsafe fn at<'a>(self, position: u64) -> &'a Slot<T> {
        // SAFETY: the masked index is below the capacity, and the buffer is alive.
        unsafe { self.at_index(self.index(position)) }
    }

    /// Asks for the first cache line of `position`'s slot ahead of a write to it, where the processor has an instruction
    /// for that. Taking a line that the consumer still reads would slow both down: only for a slot that is free.
    #[inline(always)]
    pub(super) fn prefetch_for_write(self, position: u64) {
        let slot = self.base.as_ptr().wrapping_byte_add(self.index(position) as usize * Self::STRIDE_BYTES);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which touches no memory and never faults; `_mm_prefetch` makes one for reading of it unless
        // the build is for processors that are known to have it. Those that do not have it, take it for a no-op.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = slot;
    }

    /// The slot at `index`, which spares a run of one lap the mask.
    ///
    /// # Safety
    /// The index is below the capacity, and the buffer is alive for `'a`.
    #[inline(always)]
    pub(super) unsafe fn at_index<'a>(self, index: u64) -> &'a Slot<T> {
        debug_assert!(index < self.capacity());
        // SAFETY: the index is below the capacity, every slot was initialised, and the buffer is alive.
        unsafe { self.base.byte_add(index as usize * Self::STRIDE_BYTES).as_ref() }
    }
}

/// Owns the memory of a ring's slots. It does not drop what they hold: the ring knows which are in use.
pub(super) struct Buffer<T> {
    slots: Slots<T>,
    layout: Layout,
}

impl<T> Buffer<T> {
    /// `capacity` is a power of two; no slot is published on the lap of `start` or on the one after it.
    pub(super) fn new(capacity: usize, start: u64) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let align = align_of::<Slot<T>>().max(CACHE_LINE_BYTES);
        let layout =
            capacity.checked_mul(Slots::<T>::STRIDE_BYTES).and_then(|n| Layout::from_size_align(n, align).ok());
        let Some(layout) = layout else {
            // No machine has this much memory: the same end as an allocator that says no.
            handle_alloc_error(Layout::new::<Slot<T>>())
        };
        // SAFETY: the layout is not empty, a slot having a tag and a capacity being at least 1.
        let Some(base) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let slots = Slots { base: base.cast(), mask: capacity as u64 - 1, lap_shift: capacity.trailing_zeros() };
        let lap_before = slots.lap(start).wrapping_sub(1);
        for index in 0..capacity {
            // SAFETY: the place lies within the allocation and is aligned for a slot.
            unsafe { slots.base.byte_add(index * Slots::<T>::STRIDE_BYTES).write(Slot::free(lap_before)) };
        }
        Self { slots, layout }
    }

    pub(super) fn slots(&self) -> Slots<T> {
        self.slots
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        for index in 0..self.slots.capacity() as usize {
            // Nothing to do in production; loom's cells want to be dropped.
            // SAFETY: each slot was initialised, and nobody looks at it after this.
            unsafe { self.slots.base.byte_add(index * Slots::<T>::STRIDE_BYTES).drop_in_place() };
        }
        // SAFETY: allocated with this very layout.
        unsafe { dealloc(self.slots.base.as_ptr().cast(), self.layout) };
    }
}
