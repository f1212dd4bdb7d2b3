//! One place of a ring: a tag that publishes it, and room for a frame.
//!
//! ```text
//!  byte  0         8            16           24
//!        ┌─────────┬────────────┬────────────┬──────────────┐
//!        │ tag     │ first      │ second     │ value: T ... │     Frame<[u64; 5]>: 64 bytes, one cache line
//!        └─────────┴────────────┴────────────┴──────────────┘
//!  tag     63 ........ 32   31 .. 16   15 .... 0
//!          lap              kind       detail
//!
//!  kind        detail         first        second
//!  Record      key_group      ingest_ns    event_ns
//!  Watermark                               event time
//!  Barrier     BarrierKind    checkpoint   trigger_ns
//!  others
//! ```
//!
//! A slot is used once a lap. It holds the frame of position p when its tag carries the lap of p; the tag of any
//! earlier lap means that it is free. Laps are compared for equality only, so their wrap after 2^32 is harmless.

use std::{mem::MaybeUninit, ptr};

use super::{Barrier, BarrierKind, Frame, Record};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// What a slot holds and on which lap; see the module's picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

impl Tag {
    const RECORD: u16 = 0;
    const WATERMARK: u16 = 1;
    const BARRIER: u16 = 2;
    const IDLE: u16 = 3;
    const END_OF_DATA: u16 = 4;
    const END: u16 = 5;

    #[inline(always)]
    fn new(lap: u32, kind: u16, detail: u16) -> Self {
        Self(u64::from(lap) << 32 | u64::from(kind) << 16 | u64::from(detail))
    }

    #[inline(always)]
    pub(super) fn lap(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn kind(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    fn detail(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(super) fn is_record(self) -> bool {
        self.kind() == Self::RECORD
    }
}

#[repr(C)]
struct Body<T> {
    first: u64,
    second: u64,
    value: MaybeUninit<T>,
}

#[repr(C)]
pub(super) struct Slot<T> {
    tag: AtomicU64,
    body: UnsafeCell<Body<T>>,
}

#[cfg(not(isobar_loom))]
const _: () = assert!(size_of::<Slot<[u64; 5]>>() == 64, "a frame of five words fills one cache line");

impl<T> Slot<T> {
    /// A free slot whose last use was on `lap`.
    pub(super) fn free(lap: u32) -> Self {
        let body = Body { first: 0, second: 0, value: MaybeUninit::uninit() };
        Self { tag: AtomicU64::new(Tag::new(lap, Tag::END, 0).0), body: UnsafeCell::new(body) }
    }

    /// The tag; whoever sees a lap in it also sees the frame that was written on that lap.
    #[inline(always)]
    pub(super) fn tag(&self) -> Tag {
        Tag(self.tag.load(Ordering::Acquire))
    }

    /// Writes the frame and publishes it under `lap`.
    ///
    /// # Safety
    /// Only the producer may call this, and only while the slot is free: the consumer has given its last frame back.
    #[inline(always)]
    pub(super) unsafe fn publish(&self, lap: u32, frame: Frame<T>) {
        let tag = match frame {
            Frame::Record(record) => {
                let key_group = record.key_group;
                // SAFETY: the slot is free, so no one else touches its body.
                self.body.with_mut(|body| unsafe {
                    (*body).first = record.ingest_ns;
                    (*body).second = record.event_ns as u64;
                    (*body).value.write(record.value);
                });
                Tag::new(lap, Tag::RECORD, key_group)
            }
            Frame::Watermark(event_ns) => {
                // SAFETY: as above.
                unsafe { self.write_words(0, event_ns as u64) };
                Tag::new(lap, Tag::WATERMARK, 0)
            }
            Frame::Barrier(barrier) => {
                // SAFETY: as above.
                unsafe { self.write_words(barrier.checkpoint, barrier.trigger_ns) };
                Tag::new(lap, Tag::BARRIER, barrier.kind as u16)
            }
            Frame::Idle => Tag::new(lap, Tag::IDLE, 0),
            Frame::EndOfData => Tag::new(lap, Tag::END_OF_DATA, 0),
            Frame::End => Tag::new(lap, Tag::END, 0),
        };
        self.tag.store(tag.0, Ordering::Release);
    }

    /// # Safety
    /// As [`Slot::publish`].
    #[inline(always)]
    unsafe fn write_words(&self, first: u64, second: u64) {
        // SAFETY: the caller owns the free slot.
        self.body.with_mut(|body| unsafe {
            (*body).first = first;
            (*body).second = second;
        });
    }

    /// The frame in place.
    ///
    /// # Safety
    /// `tag` was read from this slot, it is of the lap that the caller expects, and the slot is not given back while
    /// the frame is in use.
    #[inline(always)]
    pub(super) unsafe fn frame(&self, tag: Tag) -> Frame<&T> {
        if tag.is_record() {
            // SAFETY: the caller's promise, and the tag is a record's.
            Frame::Record(unsafe { self.record(tag) })
        } else {
            // SAFETY: what was published under the tag is visible, and not written again before it is given back.
            self.body.with(|body| control(unsafe { &*body }, tag))
        }
    }

    /// The record in place.
    ///
    /// # Safety
    /// As [`Slot::frame`], and the tag is a record's.
    #[inline(always)]
    pub(super) unsafe fn record(&self, tag: Tag) -> Record<&T> {
        // SAFETY: what was published under the tag is visible, and not written again before it is given back.
        let body = self.body.with(|body| unsafe { &*body });
        Record {
            ingest_ns: body.first,
            event_ns: body.second as i64,
            key_group: tag.detail(),
            // SAFETY: publishing a record initialises its value.
            value: unsafe { body.value.assume_init_ref() },
        }
    }

    /// Moves the frame out; the slot keeps nothing that needs dropping.
    ///
    /// # Safety
    /// As [`Slot::frame`], and the frame is neither read nor dropped again.
    #[inline(always)]
    pub(super) unsafe fn take(&self, tag: Tag) -> Frame<T> {
        if tag.is_record() {
            // SAFETY: the caller's promise, and the tag is a record's.
            Frame::Record(unsafe { self.take_record(tag) })
        } else {
            // SAFETY: as in `frame`.
            self.body.with(|body| control(unsafe { &*body }, tag))
        }
    }

    /// Moves a record out.
    ///
    /// # Safety
    /// As [`Slot::take`], and the tag is a record's.
    #[inline(always)]
    pub(super) unsafe fn take_record(&self, tag: Tag) -> Record<T> {
        // SAFETY: the caller promises that the value is moved out this once.
        unsafe {
            let record = self.record(tag);
            record.with(ptr::read(record.value))
        }
    }

    /// Drops the value of a record in place.
    ///
    /// # Safety
    /// As [`Slot::take`].
    #[inline(always)]
    pub(super) unsafe fn drop_value(&self, tag: Tag) {
        if tag.is_record() {
            // SAFETY: a published record has a value, and the caller is its only owner.
            self.body.with_mut(|body| unsafe { (*body).value.assume_init_drop() });
        }
    }
}

/// The control frame that was published under `tag`.
#[inline(always)]
fn control<T, V>(body: &Body<T>, tag: Tag) -> Frame<V> {
    match tag.kind() {
        Tag::WATERMARK => Frame::Watermark(body.second as i64),
        Tag::BARRIER => {
            let kind = if tag.detail() == BarrierKind::Savepoint as u16 {
                BarrierKind::Savepoint
            } else {
                BarrierKind::Checkpoint
            };
            Frame::Barrier(Barrier { checkpoint: body.first, trigger_ns: body.second, kind })
        }
        Tag::IDLE => Frame::Idle,
        Tag::END_OF_DATA => Frame::EndOfData,
        _ => Frame::End,
    }
}
