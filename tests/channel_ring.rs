//! The ring of both kinds against a `VecDeque`, at positions around every wrap, and between two threads.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use isobar::channel::{
    Barrier, BarrierKind, Consumer, Frame, Producer, Receiver, Record, Sender, Sharing, local_ring, local_ring_at,
    ring, ring_at,
};
use proptest::prelude::*;

/// A value that counts how many of its kind are alive.
#[derive(Debug)]
struct Counted {
    id: u64,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(id: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { id, alive: Arc::clone(alive) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "value {} was dropped twice", self.id);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Push(u8),
    PushBatch(usize),
    Pop,
    Consume(usize),
    PeekAt(usize),
    Batch { max: usize, steps: Vec<Step>, forget: bool },
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lend,
    Take,
    Control,
}

fn operation() -> impl Strategy<Value = Operation> {
    let step = prop_oneof![4 => Just(Step::Lend), 2 => Just(Step::Take), 2 => Just(Step::Control)];
    prop_oneof![
        8 => (0u8..12).prop_map(Operation::Push),
        3 => (0usize..20).prop_map(Operation::PushBatch),
        3 => Just(Operation::Pop),
        2 => (0usize..10).prop_map(Operation::Consume),
        1 => (0usize..20).prop_map(Operation::PeekAt),
        4 => (0usize..20, prop::collection::vec(step, 0..12), prop::bool::weighted(0.1))
            .prop_map(|(max, steps, forget)| Operation::Batch { max, steps, forget }),
    ]
}

/// Any kind of frame; every field differs from frame to frame.
fn frame<V>(id: u64, kind: u8, value: impl FnOnce(u64) -> V) -> Frame<V> {
    match kind {
        0 => Frame::Watermark(-(id as i64)),
        1 => Frame::Barrier(Barrier { checkpoint: id, trigger_ns: !id, kind: BarrierKind::Checkpoint }),
        2 => Frame::Barrier(Barrier { checkpoint: id, trigger_ns: !id, kind: BarrierKind::Savepoint }),
        3 => Frame::Idle,
        4 => Frame::EndOfData,
        5 => Frame::End,
        _ => {
            let (ingest_ns, event_ns, key_group) = (id * 3, i64::MIN + id as i64, (id * 7) as u16);
            Frame::Record(Record { ingest_ns, event_ns, key_group, value: value(id) })
        }
    }
}

fn id_of(frame: &Frame<impl std::borrow::Borrow<Counted>>) -> Frame<u64> {
    match frame {
        Frame::Record(record) => Frame::Record(record.with(record.value.borrow().id)),
        other => Frame::from_control(other.control().expect("no record")),
    }
}

/// The ring and the model side by side.
struct Harness<S: Sharing> {
    producer: Producer<Counted, S>,
    consumer: Consumer<Counted, S>,
    model: VecDeque<Frame<u64>>,
    capacity: usize,
    next_id: u64,
    alive: Arc<AtomicUsize>,
}

impl<S: Sharing> Harness<S> {
    fn new((producer, consumer): (Producer<Counted, S>, Consumer<Counted, S>)) -> Self {
        let capacity = producer.capacity();
        Self { producer, consumer, model: VecDeque::new(), capacity, next_id: 1, alive: Arc::default() }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Push(kind) => self.push(kind),
            Operation::PushBatch(count) => self.push_batch(count),
            Operation::Pop => {
                let popped = self.consumer.pop();
                assert_eq!(popped.as_ref().map(id_of), self.model.pop_front());
            }
            Operation::Consume(count) => {
                let count = count.min(self.model.len());
                self.consumer.consume(count);
                self.model.drain(..count);
            }
            Operation::PeekAt(offset) => {
                assert_eq!(self.consumer.peek_at(offset).as_ref().map(id_of), self.model.get(offset).copied());
            }
            Operation::Batch { max, ref steps, forget } => self.batch(max, steps, forget),
        }
        self.check();
    }

    fn push(&mut self, kind: u8) {
        let expected = frame(self.next_id, kind, |id| id);
        let pushed = self.producer.push(frame(self.next_id, kind, |id| Counted::new(id, &self.alive)));
        self.next_id += 1;
        match pushed {
            Ok(()) => self.model.push_back(expected),
            Err(full) => {
                assert_eq!(self.model.len(), self.capacity, "not full");
                assert_eq!(id_of(&full.0), expected);
            }
        }
    }

    fn push_batch(&mut self, count: usize) {
        let ids = self.next_id..self.next_id + count as u64;
        let alive = Arc::clone(&self.alive);
        let mut frames = ids.clone().map(|id| frame(id, (id % 9) as u8, |id| Counted::new(id, &alive)));
        let pushed = self.producer.push_batch(&mut frames);
        assert_eq!(pushed, count.min(self.capacity - self.model.len()));
        self.model.extend(ids.map(|id| frame(id, (id % 9) as u8, |id| id)).take(pushed));
        self.next_id += count as u64;
    }

    fn batch(&mut self, max: usize, steps: &[Step], forget: bool) {
        let mut batch = self.consumer.batch(max);
        let mut taken = 0;
        for step in steps {
            let next = if taken < max { self.model.front().copied() } else { None };
            assert_eq!(batch.peek().as_ref().map(id_of), next);
            let record = next.filter(|frame| matches!(frame, Frame::Record(_)));
            let seen = match step {
                Step::Lend => batch.next_record().map(|r| Frame::Record(r.with(r.value.id))),
                Step::Take => batch.take_record().map(|r| Frame::Record(r.with(r.value.id))),
                Step::Control => batch.next_control().map(Frame::from_control),
            };
            let expected = if matches!(step, Step::Control) { next.filter(|_| record.is_none()) } else { record };
            assert_eq!(seen, expected);
            if seen.is_some() {
                taken += 1;
                self.model.pop_front();
            }
            assert_eq!(batch.taken(), taken);
        }
        if !forget {
            return;
        }
        // What a forgotten batch lent out comes again, what was moved out does not, and nothing is dropped twice.
        std::mem::forget(batch);
        let mut again = VecDeque::new();
        while let Some(frame) = self.consumer.peek_at(again.len()) {
            again.push_back(id_of(&frame));
        }
        assert!(again.iter().rev().zip(self.model.iter().rev()).all(|(a, b)| a == b));
        assert!((self.model.len()..=self.model.len() + taken).contains(&again.len()));
        self.model = again;
        // The producer is told with the next call.
        self.consumer.consume(0);
    }

    fn check(&mut self) {
        self.consumer.check_invariants();
        assert_eq!(self.producer.len(), self.model.len());
        assert_eq!(self.producer.free_slots(), self.capacity - self.model.len());
        self.producer.check_invariants();
        assert_eq!(self.consumer.is_empty(), self.model.is_empty());
        assert_eq!(self.consumer.peek().as_ref().map(id_of), self.model.front().copied());
        let records = self.model.iter().filter(|frame| matches!(frame, Frame::Record(_))).count();
        assert_eq!(self.alive.load(Ordering::Relaxed), records, "values alive that are not in the ring");
    }

    fn finish(self, producer_first: bool) {
        let Self { producer, consumer, alive, .. } = self;
        if producer_first {
            assert!(!consumer.is_disconnected());
            drop(producer);
            assert!(consumer.is_disconnected());
            drop(consumer);
        } else {
            assert!(!producer.is_disconnected());
            drop(consumer);
            assert!(producer.is_disconnected());
            drop(producer);
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0, "unread values must be dropped with the ring");
    }
}

/// Where a ring may start: at 0, and shortly before its lap counter (32 bits) or its position (64 bits) wraps.
fn start(capacity_log2: u32, which: u8, before: u64) -> u64 {
    match which {
        0 => 0,
        1 => (1u64 << (32 + capacity_log2)).wrapping_sub(before),
        2 => u64::MAX - before,
        _ => before.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    }
}

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue(
        operations in prop::collection::vec(operation(), 0..150),
        capacity_log2 in 0u32..5,
        which in 0u8..4,
        before in 0u64..40,
        producer_first: bool,
    ) {
        let (capacity, start) = (1 << capacity_log2, start(capacity_log2, which, before));
        let mut shared = Harness::new(ring_at(capacity, start));
        let mut local = Harness::new(local_ring_at(capacity, start));
        let (sender, receiver) = ring_at(capacity, start);
        let mut any = Harness::new((Sender::from(sender), Receiver::from(receiver)));
        for operation in &operations {
            shared.apply(operation);
            local.apply(operation);
            any.apply(operation);
        }
        shared.finish(producer_first);
        local.finish(producer_first);
        any.finish(producer_first);
    }
}

#[test]
fn capacities_are_rounded_up_to_powers_of_two() {
    for (asked, given) in [(0, 1), (1, 1), (2, 2), (3, 4), (1000, 1024)] {
        assert_eq!(ring::<u8>(asked).0.capacity(), given);
        assert_eq!(local_ring::<u8>(asked).1.capacity(), given);
    }
}

#[test]
fn every_size_and_alignment_of_value_comes_through() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(128))]
    struct Wide([u64; 20]);

    fn check<T: Copy + PartialEq + std::fmt::Debug + Send>(value: impl Fn(u64) -> T) {
        let (mut producer, mut consumer) = ring::<T>(4);
        for id in 0..20 {
            assert!(producer.push(frame(id, 9, &value)).is_ok());
            let Some(Frame::Record(record)) = consumer.peek() else { panic!("a record was pushed") };
            assert!(std::ptr::from_ref(record.value).is_aligned());
            assert_eq!(consumer.pop(), Some(frame(id, 9, &value)));
        }
    }
    check(|_| ());
    check(|id| id as u8);
    check(|id| [id; 5]);
    check(|id| [id; 6]);
    check(u128::from);
    check(|id| Wide([id; 20]));
}

#[test]
#[should_panic(expected = "3 frames were to be consumed, but fewer are in the ring")]
fn more_than_is_there_cannot_be_consumed() {
    let (mut producer, mut consumer) = ring::<u64>(4);
    for _ in 0..2 {
        producer.push(Frame::Idle).expect("room");
    }
    consumer.consume(3);
}

proptest! {
    /// Runs of every length, read in parts of every length, in rings that hold several of the longest; what is left is
    /// dropped with the ring.
    #[test]
    fn runs_are_read_in_parts(
        turns in prop::collection::vec((0usize..700, 0usize..700, any::<bool>()), 1..12),
        capacity_log2 in 7u32..11,
        which in 0u8..4,
        before in 0u64..2000,
        producer_first: bool,
    ) {
        let capacity = 1 << capacity_log2;
        let mut harness = Harness::new(ring_at(capacity, start(capacity_log2, which, before)));
        for &(pushed, read, in_place) in &turns {
            harness.apply(&Operation::PushBatch(pushed));
            if in_place {
                let steps = (0..read).map(|i| if i % 2 == 0 { Step::Lend } else { Step::Control }).collect();
                harness.apply(&Operation::Batch { max: read, steps, forget: false });
            } else {
                harness.apply(&Operation::PeekAt(read));
                harness.apply(&Operation::Consume(read));
            }
        }
        harness.finish(producer_first);
    }
}

/// One tag publishes 256 slots at the most.
#[test]
fn long_batches_arrive_whole() {
    let (mut producer, mut consumer) = ring_at::<u64>(1024, u64::MAX - 700);
    for count in [255, 256, 257, 512, 1000, 1024, 3000] {
        let frames: Vec<_> = (0..count).map(|id| frame(id, (id % 9) as u8, |id| id)).collect();
        let fit = frames.len().min(1024);
        assert_eq!(producer.push_batch(&mut frames.iter().copied()), fit);
        assert_eq!(consumer.peek_at(fit - 1), Some(frames[fit - 1].as_ref()));
        assert_eq!(consumer.peek_at(fit), None);
        assert!(frames[..fit].iter().all(|&frame| consumer.pop() == Some(frame)));
        assert_eq!(consumer.pop(), None);
    }
}

#[test]
fn what_an_iterator_gave_before_it_panicked_is_not_lost() {
    let (mut producer, mut consumer) = ring::<Box<u64>>(8);
    let mut frames = (0..5).map(|id| {
        assert!(id < 3, "the source breaks");
        frame(id, 9, Box::new)
    });
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| producer.push_batch(&mut frames)));
    assert!(broken.is_err());
    assert!((0..3).all(|id| consumer.pop() == Some(frame(id, 9, Box::new))));
    assert_eq!(consumer.pop(), None);
    assert!(producer.push(Frame::End).is_ok() && consumer.pop() == Some(Frame::End));
}

#[test]
fn a_destructor_that_panics_runs_once() {
    struct Fuse(Arc<AtomicUsize>, bool);
    impl Drop for Fuse {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(!self.1, "the fuse blows");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (mut producer, mut consumer) = ring(4);
    for blows in [false, true, false] {
        let record = Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: Fuse(Arc::clone(&dropped), blows) };
        assert!(producer.push(Frame::Record(record)).is_ok());
    }
    let blown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| consumer.consume(3)));
    assert!(blown.is_err());
    drop((consumer, producer));
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

/// Waits for something that another thread brings about, also where both share one core.
fn wait(mut ready: impl FnMut() -> bool) {
    while !ready() {
        thread::yield_now();
    }
}

fn produce(mut producer: Producer<Box<u64>>, count: u64) {
    let mut id = 0;
    while id < count {
        // One by one and in batches, in turn.
        if id % 100 < 50 {
            let mut waiting = Some(frame(id, 9, Box::new));
            wait(|| {
                let Some(frame) = waiting.take() else { return true };
                waiting = producer.push(frame).err().map(|full| full.0);
                waiting.is_none()
            });
            id += 1;
        } else {
            let mut frames = (id..count.min(id + 50)).map(|id| frame(id, 9, Box::new));
            let pushed = producer.push_batch(&mut frames);
            id += pushed as u64;
            if pushed == 0 {
                thread::yield_now();
            }
        }
    }
}

/// Small enough for ThreadSanitizer.
#[test]
fn two_threads_see_the_same_frames() {
    const COUNT: u64 = 20_000;
    let (producer, mut consumer) = ring_at::<Box<u64>>(64, (1 << 38) - 5_000);
    let feeder = thread::spawn(move || produce(producer, COUNT));
    let mut next = 0;
    while next < COUNT {
        wait(|| !consumer.is_empty());
        let mut check = |record: Record<u64>| {
            assert_eq!(Frame::Record(record), frame(next, 9, |id| id));
            next += 1;
        };
        let mut batch = consumer.batch(16);
        for turn in 0.. {
            let lent = turn % 3 > 0;
            let record = if lent {
                batch.next_record().map(|r| r.map(|v| **v))
            } else {
                batch.take_record().map(|r| r.map(|v| *v))
            };
            let Some(record) = record else { break };
            check(record);
        }
        drop(batch);
        if let Some(Frame::Record(record)) = consumer.pop() {
            check(record.map(|value| *value));
        }
    }
    feeder.join().expect("the producer ran to its end");
    assert!(consumer.is_disconnected() && consumer.is_empty());
}

#[test]
fn the_consumers_end_is_seen_by_a_blocked_producer() {
    let (mut producer, consumer) = ring::<Box<u64>>(4);
    let reader = thread::spawn(move || {
        wait(|| consumer.peek_at(3).is_some());
        drop(consumer);
    });
    let mut pushed = 0;
    wait(|| {
        pushed += producer.push_batch(&mut (0..8).map(|id| frame(id, 9, Box::new)));
        producer.is_disconnected()
    });
    reader.join().expect("the consumer ran to its end");
    assert_eq!(pushed, 4);
}
