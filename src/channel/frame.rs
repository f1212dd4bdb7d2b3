//! What travels through a channel: records, and the control frames that keep their order among them.

use std::convert::Infallible;

/// One record with the two times and the key group that travel with it.
///
/// `V` is the owned value while a record is produced, and a reference into the ring's slot while it is read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<V> {
    /// When the record was due to enter the job, in ns of the job's monotonic clock. Latency counts from here.
    pub ingest_ns: u64,
    /// Event time in ns since the Unix epoch, or 0 where the source has none.
    pub event_ns: i64,
    /// The key group of the record's key; 0 on edges that are not keyed.
    pub key_group: u16,
    /// The user's value.
    pub value: V,
}

impl<V> Record<V> {
    /// The same record with another value: times and key group are kept.
    #[inline]
    pub fn with<U>(&self, value: U) -> Record<U> {
        Record { ingest_ns: self.ingest_ns, event_ns: self.event_ns, key_group: self.key_group, value }
    }

    /// Maps the value, keeping times and key group.
    #[inline]
    pub fn map<U>(self, f: impl FnOnce(V) -> U) -> Record<U> {
        Record { ingest_ns: self.ingest_ns, event_ns: self.event_ns, key_group: self.key_group, value: f(self.value) }
    }

    /// A view of the record with its value by reference.
    #[inline]
    pub fn as_ref(&self) -> Record<&V> {
        self.with(&self.value)
    }
}

/// Why a barrier was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BarrierKind {
    /// A periodic or requested checkpoint.
    Checkpoint = 0,
    /// A self-contained snapshot that the user owns.
    Savepoint = 1,
}

/// A checkpoint barrier: the cut between the records that belong to `checkpoint` and those that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint's id; ids of one job only grow.
    pub checkpoint: u64,
    /// When the coordinator triggered it, in ns of the job's monotonic clock.
    pub trigger_ns: u64,
    /// Why it was sent.
    pub kind: BarrierKind,
}

/// One slot's worth of a channel. `Frame<T>` is pushed, `Frame<&T>` is what a consumer peeks at in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<V> {
    /// A record.
    Record(Record<V>),
    /// Event time has reached this ns since the Unix epoch on this channel.
    Watermark(i64),
    /// A checkpoint barrier. It never overtakes a record.
    Barrier(Barrier),
    /// Nothing will come for a while: do not wait for this channel's watermark.
    Idle,
    /// No more records; one more barrier may follow.
    EndOfData,
    /// Nothing follows.
    End,
}

impl<V> Frame<V> {
    /// A view of the frame with a record's value by reference.
    #[inline]
    pub fn as_ref(&self) -> Frame<&V> {
        match self {
            Self::Record(record) => Frame::Record(record.as_ref()),
            Self::Watermark(event_ns) => Frame::Watermark(*event_ns),
            Self::Barrier(barrier) => Frame::Barrier(*barrier),
            Self::Idle => Frame::Idle,
            Self::EndOfData => Frame::EndOfData,
            Self::End => Frame::End,
        }
    }

    /// The frame as a control frame; `None` for a record.
    #[inline]
    pub fn control(&self) -> Option<Control> {
        match self {
            Self::Record(_) => None,
            Self::Watermark(event_ns) => Some(Frame::Watermark(*event_ns)),
            Self::Barrier(barrier) => Some(Frame::Barrier(*barrier)),
            Self::Idle => Some(Frame::Idle),
            Self::EndOfData => Some(Frame::EndOfData),
            Self::End => Some(Frame::End),
        }
    }

    /// A control frame as a frame of a channel of `V`.
    #[inline]
    pub fn from_control(control: Control) -> Self {
        match control {
            Frame::Watermark(event_ns) => Self::Watermark(event_ns),
            Frame::Barrier(barrier) => Self::Barrier(barrier),
            Frame::Idle => Self::Idle,
            Frame::EndOfData => Self::EndOfData,
            Frame::End => Self::End,
        }
    }
}

/// A frame that is no record. Nothing can make its `Record` variant, so a `match` need not name it.
pub type Control = Frame<Infallible>;
