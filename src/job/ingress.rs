//! Records pushed into a job by the thread that embeds it.

use std::sync::{Mutex, PoisonError};

use crate::channel::{Consumer, Frame, Producer, Record, ring};
use crate::job::stream::SourceHead;
use crate::operator::{OperatorError, Polled, Source};
use crate::state::Arena;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// Why a record was not accepted. The record comes back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T> {
    /// The ring is full: the job is behind. Try again, or drop.
    #[error("the ingress ring is full")]
    Full(T),
    /// The job went back to a checkpoint: send again from record `resume_from` on. The record was not taken, the next
    /// push gets number `resume_from`.
    #[error("the job went back to an earlier checkpoint: send again from record {resume_from} on")]
    Rewound {
        /// The record.
        value: T,
        /// The number that the next push gets.
        resume_from: u64,
    },
    /// The job has ended.
    #[error("the job has ended")]
    Closed(T),
}

/// What both sides know.
#[derive(Debug, Default)]
struct Shared {
    /// Counts the times that the source was opened at a position other than where it stood.
    epoch: AtomicU64,
    /// The number that the first record of this epoch gets.
    resume_from: AtomicU64,
    opened: AtomicBool,
    closed: AtomicBool,
}

/// Closes the ingress when the job that holds it is gone.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
    }
}

/// The embedding thread's end: pushes records into the job without a lock or system call. Dropping it ends the input:
/// the source gives what was pushed, then the end of data.
///
/// Each accepted record has a sequence number. What a checkpoint has made durable is told to the callback given to
/// [`JobBuilder::ingress`](crate::job::JobBuilder::ingress); after a restart the feeder sends again from there, which
/// is where [`Ingress::next_sequence`] then stands.
#[derive(Debug)]
pub struct Ingress<T> {
    producer: Producer<(u64, T)>,
    shared: Arc<Shared>,
    epoch: u64,
    next: u64,
}

/// The source at the other end. Each execution attempt takes the consumer over from the one before.
pub struct IngressSource<T> {
    slot: ConsumerSlot<T>,
    consumer: Option<Consumer<(u64, T)>>,
    shared: Arc<Shared>,
    epoch: u64,
    next: u64,
}

type ConsumerSlot<T> = Arc<Mutex<Option<Consumer<(u64, T)>>>>;

type MakeIngressSource<T> = Box<dyn Fn(usize) -> IngressSource<T> + Send + Sync>;

/// The head of the stream that an [`Ingress`] feeds.
pub type IngressHead<T> = SourceHead<IngressSource<T>, MakeIngressSource<T>>;

/// An ingress with room for `capacity` records, and what makes its source for each attempt.
pub(crate) fn ingress<T: Send + 'static>(capacity: usize) -> (Ingress<T>, MakeIngressSource<T>) {
    let (producer, consumer) = ring(capacity);
    let shared = Arc::new(Shared::default());
    let slot = Arc::new(Mutex::new(Some(consumer)));
    let ours = Ingress { producer, shared: Arc::clone(&shared), epoch: 0, next: 0 };
    let closing = CloseOnDrop(shared);
    let make = move |_| IngressSource {
        slot: Arc::clone(&slot),
        consumer: slot.lock().unwrap_or_else(PoisonError::into_inner).take(),
        shared: Arc::clone(&closing.0),
        epoch: 0,
        next: 0,
    };
    (ours, Box::new(make))
}

/// The epoch lies in a record's upper bits, so that the source can tell records pushed before a rewind.
const EPOCH_SHIFT: u32 = 48;
const SEQUENCE: u64 = (1 << EPOCH_SHIFT) - 1;

impl<T: Send + 'static> Ingress<T> {
    /// Takes one record and gives its sequence number.
    ///
    /// # Errors
    /// [`PushError::Full`] where the job is behind, [`PushError::Rewound`] once after each restore,
    /// [`PushError::Closed`] when the job has ended.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<u64, PushError<T>> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(PushError::Closed(value));
        }
        if self.shared.epoch.load(Ordering::Acquire) != self.epoch {
            let expected = self.next;
            let resume_from = self.next_sequence();
            if resume_from != expected {
                return Err(PushError::Rewound { value, resume_from });
            }
        }
        let sequence = self.next;
        let tagged = (self.epoch << EPOCH_SHIFT | sequence, value);
        let record = Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: tagged };
        match self.producer.push(Frame::Record(record)) {
            Ok(()) => {
                self.next += 1;
                Ok(sequence)
            }
            Err(full) => match full.0 {
                Frame::Record(record) => Err(PushError::Full(record.value.1)),
                _ => unreachable!("a record was pushed"),
            },
        }
    }

    /// The sequence number that the next accepted record gets. After [`JobBuilder::start`](crate::job::Job::start)
    /// returned on a restored job this is the first record that the restored checkpoint does not hold.
    pub fn next_sequence(&mut self) -> u64 {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.next = self.shared.resume_from.load(Ordering::Acquire);
        }
        self.next
    }
}

impl<T: Send + 'static> Source for IngressSource<T> {
    type Out = T;

    fn open(&mut self, _state: &mut Arena, position: Option<u64>) -> Result<(), OperatorError> {
        if self.consumer.is_none() {
            return Err("the ingress is still held by an earlier attempt".into());
        }
        self.next = position.unwrap_or(0);
        self.shared.resume_from.store(self.next, Ordering::Release);
        // The very first start keeps what was pushed before it, if it starts at number 0.
        let first = !self.shared.opened.swap(true, Ordering::Relaxed) && self.next == 0;
        self.epoch = self.shared.epoch.load(Ordering::Relaxed) + u64::from(!first);
        self.shared.epoch.store(self.epoch, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn poll(&mut self, _state: &mut Arena) -> Result<Polled<T>, OperatorError> {
        let Some(consumer) = &mut self.consumer else { return Ok(Polled::EndOfData) };
        loop {
            // Looked at before the ring, so that what was pushed before the feeder left is not missed.
            let disconnected = consumer.is_disconnected();
            let Some(frame) = consumer.pop() else {
                return Ok(if disconnected { Polled::EndOfData } else { Polled::Pending });
            };
            let Frame::Record(record) = frame else { continue };
            if record.value.0 >> EPOCH_SHIFT != self.epoch {
                continue;
            }
            self.next = (record.value.0 & SEQUENCE) + 1;
            return Ok(Polled::Record(record.map(|(_, value)| value)));
        }
    }

    fn position(&self) -> u64 {
        self.next
    }
}

impl<T> Drop for IngressSource<T> {
    fn drop(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.consumer.take();
    }
}
