//! One place of a ring: a tag that publishes it, and room for a frame.
//!
//! ```text
//!  byte  0         8            16           24
//!        ┌─────────┬────────────┬────────────┬──────────────┐
//!        │ tag     │ first      │ second     │ value: T ... │     Frame<[u64; 5]>: 64 bytes, one cache line
//!        └─────────┴────────────┴────────────┴──────────────┘
//!  tag     63 ........ 32   31 .. 16   15 .. 8   7 .. 0
//!          lap              detail     run - 1   kind
//!
//!  kind        detail         first        second
//!  Record      key_group      ingest_ns    event_ns
//!  Watermark                               event time
//!  Barrier     BarrierKind    checkpoint   trigger_ns
//!  others
//! ```
//!
//! A slot is used once a lap, and its tag carries the lap of the frame that it holds. The tag of the first slot of a
//! *run* publishes `run` slots at once, which is why it is written last. Laps are compared for equality only, so their
//! wrap after 2^32 is harmless.

use std::{mem::MaybeUninit, ptr};

use super::{Barrier, BarrierKind, Frame, Record};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// The most slots that one tag publishes.
pub(super) const RUN_MAX: u64 = 256;

/// What a slot holds and on which lap, and how many slots it publishes; see the module's picture.
#[derive(Clone, Copy)]
pub(super) struct Tag(u64);

impl Tag {
    const RECORD: u8 = 0;
    const WATERMARK: u8 = 1;
    const BARRIER: u8 = 2;
    const IDLE: u8 = 3;
    const END_OF_DATA: u8 = 4;
    const END: u8 = 5;

    #[inline(always)]
    fn new(lap: u32, kind: u8, detail: u16) -> Self {
        Self(u64::from(lap) << 32 | u64::from(detail) << 16 | u64::from(kind))
    }

    /// The tag of the first of `run` slots, 1 to [`RUN_MAX`].
    #[inline(always)]
    pub(super) fn with_run(self, run: u64) -> Self {
        debug_assert!((1..=RUN_MAX).contains(&run) && self.run() == 1);
        Self(self.0 | (run - 1) << 8)
    }

    #[inline(always)]
    pub(super) fn run(self) -> u64 {
        (self.0 >> 8 & 0xFF) + 1
    }

    #[inline(always)]
    pub(super) fn is_of(self, lap: u32) -> bool {
        (self.0 >> 32) as u32 == lap
    }

    #[inline(always)]
    fn kind(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    fn detail(self) -> u16 {
        (self.0 >> 16) as u16
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

/// The producer's side.
impl<T> Slot<T> {
    /// A free slot whose last use was on `lap`.
    pub(super) fn free(lap: u32) -> Self {
        let body = Body { first: 0, second: 0, value: MaybeUninit::uninit() };
        Self { tag: AtomicU64::new(Tag::new(lap, Tag::END, 0).0), body: UnsafeCell::new(body) }
    }

    /// Writes a frame, and returns the tag to set for it.
    ///
    /// # Safety
    /// Only the producer may call this, and only while the slot is free: the consumer has given its last frame back.
    #[inline(always)]
    pub(super) unsafe fn write(&self, lap: u32, frame: Frame<T>) -> Tag {
        match frame {
            Frame::Record(record) => {
                // SAFETY: the slot is free, so no one else touches its body.
                self.body.with_mut(|body| unsafe {
                    (*body).first = record.ingest_ns;
                    (*body).second = record.event_ns as u64;
                    (*body).value.write(record.value);
                });
                Tag::new(lap, Tag::RECORD, record.key_group)
            }
            Frame::Watermark(event_ns) => {
                // SAFETY: as above.
                self.body.with_mut(|body| unsafe { (*body).second = event_ns as u64 });
                Tag::new(lap, Tag::WATERMARK, 0)
            }
            Frame::Barrier(barrier) => {
                // SAFETY: as above.
                self.body.with_mut(|body| unsafe {
                    (*body).first = barrier.checkpoint;
                    (*body).second = barrier.trigger_ns;
                });
                Tag::new(lap, Tag::BARRIER, barrier.kind as u16)
            }
            Frame::Idle => Tag::new(lap, Tag::IDLE, 0),
            Frame::EndOfData => Tag::new(lap, Tag::END_OF_DATA, 0),
            Frame::End => Tag::new(lap, Tag::END, 0),
        }
    }

    /// Sets the tag of a slot behind the first of its run, which that one publishes.
    #[inline(always)]
    pub(super) fn set_tag(&self, tag: Tag) {
        self.tag.store(tag.0, Ordering::Relaxed);
    }

    /// Sets the tag of the first slot of a run: the consumer sees all of the run.
    #[inline(always)]
    pub(super) fn publish(&self, tag: Tag) {
        self.tag.store(tag.0, Ordering::Release);
    }
}

/// The consumer's side.
impl<T> Slot<T> {
    /// The tag of a slot that may be the first of a run; whoever sees its lap there also sees all of the run.
    #[inline(always)]
    pub(super) fn observe(&self) -> Tag {
        Tag(self.tag.load(Ordering::Acquire))
    }

    /// The tag of a slot that is known to be published.
    #[inline(always)]
    pub(super) fn tag(&self) -> Tag {
        Tag(self.tag.load(Ordering::Relaxed))
    }

    /// The frame in place.
    ///
    /// # Safety
    /// The slot is published, `tag` is its tag, and it is not given back while the frame is in use.
    #[inline(always)]
    pub(super) unsafe fn frame(&self, tag: Tag) -> Frame<&T> {
        // SAFETY: the caller's promise, and the tag says what is there.
        unsafe { if tag.is_record() { Frame::Record(self.record(tag)) } else { self.control(tag) } }
    }

    /// The record in place.
    ///
    /// # Safety
    /// As [`Slot::frame`], and the tag is a record's.
    #[inline(always)]
    pub(super) unsafe fn record(&self, tag: Tag) -> Record<&T> {
        // SAFETY: what was published is visible, and not written again before it is given back.
        let body = self.body.with(|body| unsafe { &*body });
        // SAFETY: publishing a record initialises its value.
        let value = unsafe { body.value.assume_init_ref() };
        Record { ingest_ns: body.first, event_ns: body.second as i64, key_group: tag.detail(), value }
    }

    /// The control frame.
    ///
    /// # Safety
    /// As [`Slot::frame`].
    #[inline]
    unsafe fn control<V>(&self, tag: Tag) -> Frame<V> {
        // SAFETY: what was published is visible, and not written again before it is given back.
        let (first, second) = self.body.with(|body| unsafe { ((*body).first, (*body).second) });
        match tag.kind() {
            Tag::WATERMARK => Frame::Watermark(second as i64),
            Tag::BARRIER => {
                let savepoint = tag.detail() == BarrierKind::Savepoint as u16;
                let kind = if savepoint { BarrierKind::Savepoint } else { BarrierKind::Checkpoint };
                Frame::Barrier(Barrier { checkpoint: first, trigger_ns: second, kind })
            }
            Tag::IDLE => Frame::Idle,
            Tag::END_OF_DATA => Frame::EndOfData,
            _ => Frame::End,
        }
    }

    /// Moves the frame out; the slot keeps nothing that needs dropping.
    ///
    /// # Safety
    /// As [`Slot::frame`], and the frame is neither read nor dropped again.
    #[inline(always)]
    pub(super) unsafe fn take(&self, tag: Tag) -> Frame<T> {
        // SAFETY: the caller's promise, and the tag says what is there.
        unsafe { if tag.is_record() { Frame::Record(self.take_record(tag)) } else { self.control(tag) } }
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

    /// Drops the value, if the frame is a record.
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
