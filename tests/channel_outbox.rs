//! The outbox against a model: per target one unbounded queue, whatever the ring holds and the spill.

use std::collections::VecDeque;

use isobar::channel::{
    Barrier, BarrierKind, Control, Frame, Outbox, OutboxError, Receiver, Record, Sender, local_ring, ring,
};
use isobar::hash::subtask_of;
use proptest::prelude::*;

const MAX_PARALLELISM: u16 = 16;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Forward,
    KeyGroups,
    Broadcast,
}

#[derive(Clone, Debug)]
enum Operation {
    Emit(u16),
    Barrier,
    Watermark,
    Drain,
    Receive { target: usize, count: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..MAX_PARALLELISM).prop_map(Operation::Emit),
        1 => Just(Operation::Barrier),
        1 => Just(Operation::Watermark),
        3 => Just(Operation::Drain),
        4 => (0usize..5, 1usize..8).prop_map(|(target, count)| Operation::Receive { target, count }),
    ]
}

fn record(value: u64, key_group: u16) -> Record<String> {
    Record { ingest_ns: value, event_ns: 5, key_group, value: value.to_string() }
}

struct Harness {
    outbox: Outbox<String>,
    receivers: Vec<Receiver<String>>,
    kind: Kind,
    model: Vec<VecDeque<Frame<String>>>,
    next: u64,
    frames: u64,
}

impl Harness {
    fn new(kind: Kind, targets: usize, capacity: usize) -> Self {
        let targets = if matches!(kind, Kind::Forward) { 1 } else { targets };
        let pair = |target| -> (Sender<String>, Receiver<String>) {
            if target % 2 == 0 {
                let (producer, consumer) = ring(capacity);
                (producer.into(), consumer.into())
            } else {
                let (producer, consumer) = local_ring(capacity);
                (producer.into(), consumer.into())
            }
        };
        let (mut senders, receivers): (Vec<_>, _) = (0..targets).map(pair).unzip();
        let outbox = match kind {
            Kind::Forward => Outbox::forward(senders.remove(0)),
            Kind::KeyGroups => Outbox::key_groups(senders, MAX_PARALLELISM).expect("there are targets"),
            Kind::Broadcast => Outbox::broadcast(senders).expect("there are targets"),
        };
        Self { outbox, receivers, kind, model: vec![VecDeque::new(); targets], next: 0, frames: 0 }
    }

    fn apply(&mut self, operation: &Operation) {
        self.next += 1;
        match *operation {
            Operation::Emit(key_group) => self.emit(key_group),
            Operation::Barrier => {
                let kind = BarrierKind::Checkpoint;
                self.control(Frame::Barrier(Barrier { checkpoint: self.next, trigger_ns: 1, kind }));
            }
            Operation::Watermark => self.control(Frame::Watermark(self.next as i64)),
            Operation::Drain => assert_eq!(self.outbox.drain(), self.outbox.is_blocked()),
            Operation::Receive { target, count } => {
                let target = target % self.receivers.len();
                for _ in 0..count {
                    let Some(frame) = self.receivers[target].pop() else { break };
                    assert_eq!(Some(frame), self.model[target].pop_front());
                }
            }
        }
        self.check();
    }

    fn emit(&mut self, key_group: u16) {
        let record = record(self.next, key_group);
        let targets = self.model.len();
        let owners = match self.kind {
            Kind::Forward => 0..1,
            Kind::KeyGroups => {
                let owner = subtask_of(key_group, MAX_PARALLELISM, targets);
                owner..owner + 1
            }
            Kind::Broadcast => 0..targets,
        };
        self.frames += owners.len() as u64;
        self.model[owners].iter_mut().for_each(|queue| queue.push_back(Frame::Record(record.clone())));
        self.outbox.emit(record);
    }

    fn control(&mut self, control: Control) {
        self.outbox.send_control(control);
        self.model.iter_mut().for_each(|queue| queue.push_back(Frame::from_control(control)));
        self.frames += self.model.len() as u64;
    }

    fn check(&self) {
        self.outbox.check_invariants();
        let mut waiting = 0;
        for (target, queue) in self.model.iter().enumerate() {
            let in_ring = self.outbox.sender(target).expect("the target exists").len();
            let spilled: Vec<_> = self.outbox.spilled(target).collect();
            assert!(spilled.iter().eq(queue.iter().skip(in_ring).map(Frame::as_ref).collect::<Vec<_>>().iter()));
            waiting += spilled.len();
        }
        assert_eq!(self.outbox.spill_len(), waiting);
        assert_eq!(self.outbox.is_blocked(), waiting > 0);
        let stats = self.outbox.stats();
        assert_eq!(stats.frames, self.frames);
        assert!(stats.spill_len_max >= waiting && stats.spilled_frames >= stats.spill_len_max as u64);
    }

    fn finish(mut self) {
        while self.model.iter().any(|queue| !queue.is_empty()) {
            self.outbox.drain();
            for (receiver, queue) in self.receivers.iter_mut().zip(&mut self.model) {
                while let Some(frame) = receiver.pop() {
                    assert_eq!(Some(frame), queue.pop_front());
                }
            }
        }
        assert!(!self.outbox.drain());
    }
}

proptest! {
    #[test]
    fn every_target_gets_its_frames_in_order(
        kind in prop_oneof![Just(Kind::Forward), Just(Kind::KeyGroups), Just(Kind::Broadcast)],
        targets in 1usize..5,
        capacity in 1usize..9,
        operations in prop::collection::vec(operation(), 0..200),
    ) {
        let mut harness = Harness::new(kind, targets, capacity);
        for operation in &operations {
            harness.apply(operation);
        }
        harness.finish();
    }
}

#[test]
fn a_barrier_waits_behind_the_records_that_were_spilled() {
    let mut harness = Harness::new(Kind::KeyGroups, 2, 2);
    // Key group 0 belongs to target 0, whose ring is full after two; target 1 has room.
    (0..3).for_each(|_| harness.apply(&Operation::Emit(0)));
    harness.apply(&Operation::Barrier);
    assert!(matches!(harness.receivers[1].pop(), Some(Frame::Barrier(_))));
    // Room in the ring does not let anything pass what waits.
    harness.receivers[0].pop();
    harness.outbox.emit(record(99, 0));
    let waiting: Vec<_> = harness.outbox.spilled(0).map(|frame| frame.control().is_some()).collect();
    assert_eq!(waiting, [false, true, false]);
    assert!(harness.outbox.drain());
    assert_eq!(harness.outbox.spill_len(), 2);
}

#[test]
fn a_target_that_died_is_found() {
    let mut harness = Harness::new(Kind::Broadcast, 3, 2);
    assert_eq!(harness.outbox.lost_target(), None);
    harness.receivers.remove(1);
    assert_eq!(harness.outbox.lost_target(), Some(1));
}

#[test]
fn an_exchange_without_targets_or_with_too_many_is_an_error() {
    let senders = |count| (0..count).map(|_| Sender::from(ring::<String>(1).0)).collect::<Vec<_>>();
    assert_eq!(Outbox::broadcast(senders(0)).err(), Some(OutboxError::NoTarget));
    assert_eq!(Outbox::key_groups(senders(0), 4).err(), Some(OutboxError::NoTarget));
    assert!(Outbox::key_groups(senders(4), 4).is_ok());
    let error = Outbox::key_groups(senders(5), 4).map(|_| ()).expect_err("five targets cannot share four groups");
    assert_eq!(error, OutboxError::TooFewKeyGroups { targets: 5, max_parallelism: 4 });
    assert!(error.to_string().contains("5 target subtasks cannot share 4 key groups"));
}
