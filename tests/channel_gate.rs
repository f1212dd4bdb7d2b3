//! The input gate against a model: one queue and two flags per channel.

use std::collections::{BTreeSet, VecDeque};

use isobar::channel::{Frame, InputGate, Receiver, Record, Sender, local_ring, ring};
use proptest::prelude::*;

const CAPACITY: usize = 8;

#[derive(Clone, Debug)]
enum Operation {
    Send { channel: usize, records: usize, control: bool },
    Read { max: usize, take: usize },
    Stop(usize),
    Resume(usize),
    End(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    // Channels past the last one are asked for as well: they must be refused, not hit something else.
    let channel = || 0usize..7;
    prop_oneof![
        6 => (channel(), 0usize..6, any::<bool>())
            .prop_map(|(channel, records, control)| Operation::Send { channel, records, control }),
        8 => (1usize..10, 0usize..10).prop_map(|(max, take)| Operation::Read { max, take }),
        2 => channel().prop_map(Operation::Stop),
        2 => channel().prop_map(Operation::Resume),
        1 => channel().prop_map(Operation::End),
    ]
}

fn record(value: u64) -> Frame<u64> {
    Frame::Record(Record { ingest_ns: value, event_ns: -(value as i64), key_group: value as u16, value })
}

#[derive(Default)]
struct Channel {
    queue: VecDeque<Frame<u64>>,
    stopped: bool,
    ended: bool,
}

struct Harness {
    senders: Vec<Sender<u64>>,
    gate: InputGate<u64>,
    model: Vec<Channel>,
    next_value: u64,
    /// The channels that had a frame at every look since they were last read, with the number of such looks.
    passed_over: Vec<usize>,
}

impl Harness {
    fn new(channels: usize) -> Self {
        let pair = |channel| -> (Sender<u64>, Receiver<u64>) {
            if channel % 2 == 0 {
                let (producer, consumer) = ring(CAPACITY);
                (producer.into(), consumer.into())
            } else {
                let (producer, consumer) = local_ring(CAPACITY);
                (producer.into(), consumer.into())
            }
        };
        let (senders, receivers) = (0..channels).map(pair).unzip();
        let model = (0..channels).map(|_| Channel::default()).collect();
        Self { senders, gate: InputGate::new(receivers), model, next_value: 0, passed_over: vec![0; channels] }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Send { channel, records, control } => self.send(channel, records, control),
            Operation::Read { max, take } => self.read(max, take),
            Operation::Stop(channel) => {
                let changed = self.model.get_mut(channel).is_some_and(|c| !std::mem::replace(&mut c.stopped, true));
                assert_eq!(self.gate.stop(channel), changed);
            }
            Operation::Resume(channel) => {
                let changed = self.model.get_mut(channel).is_some_and(|c| std::mem::replace(&mut c.stopped, false));
                assert_eq!(self.gate.resume(channel), changed);
            }
            Operation::End(channel) => {
                let changed = self.model.get_mut(channel).is_some_and(|c| !std::mem::replace(&mut c.ended, true));
                assert_eq!(self.gate.end(channel), changed);
            }
        }
        self.check();
    }

    fn send(&mut self, channel: usize, records: usize, control: bool) {
        let Some(sender) = self.senders.get_mut(channel) else { return };
        let control = control.then_some(Frame::Watermark(self.next_value as i64));
        let frames: Vec<_> = (self.next_value..).map(record).take(records).chain(control).collect();
        let sent = sender.push_batch(&mut frames.iter().copied());
        self.next_value += records as u64;
        self.model[channel].queue.extend(&frames[..sent]);
    }

    fn ready(&self) -> BTreeSet<usize> {
        let ready = |c: &Channel| !c.stopped && !c.ended && !c.queue.is_empty();
        (0..self.model.len()).filter(|&i| ready(&self.model[i])).collect()
    }

    /// Takes `take` records at most, and the control frame behind them.
    fn read(&mut self, max: usize, take: usize) {
        let ready = self.ready();
        let Some((channel, mut batch)) = self.gate.next_batch(max) else {
            assert!(ready.is_empty(), "{ready:?} have frames");
            return;
        };
        assert!(ready.contains(&channel), "channel {channel} must not be read");
        let queue = &mut self.model[channel].queue;
        let records = queue.iter().take_while(|frame| matches!(frame, Frame::Record(_))).count();
        let expected = records.min(max).min(take);
        for _ in 0..expected {
            let seen = batch.next_record().map(|r| Frame::Record(r.map(|v| *v)));
            assert_eq!(seen, queue.pop_front());
        }
        if expected < take {
            assert!(batch.next_record().is_none());
            let control = queue.front().filter(|_| expected < max).and_then(Frame::control);
            assert_eq!(batch.next_control(), control);
            queue.drain(..usize::from(control.is_some()));
        }
        drop(batch);
        self.check_turns(channel, &ready);
    }

    /// Round robin: no channel that has frames is passed over while another one is read twice.
    fn check_turns(&mut self, read: usize, ready: &BTreeSet<usize>) {
        for (channel, passed_over) in self.passed_over.iter_mut().enumerate() {
            *passed_over = if ready.contains(&channel) && channel != read { *passed_over + 1 } else { 0 };
            assert!(*passed_over < self.model.len(), "channel {channel} starves");
        }
    }

    fn check(&self) {
        self.gate.check_invariants();
        assert_eq!(self.gate.live(), self.model.iter().filter(|c| !c.ended).count());
        assert_eq!(self.gate.is_ready(), !self.ready().is_empty());
        for (channel, model) in self.model.iter().enumerate() {
            assert_eq!(self.gate.is_stopped(channel), model.stopped);
            assert_eq!(self.gate.is_ended(channel), model.ended);
            // Nothing was copied aside: all that was not read is in the ring.
            assert_eq!(self.senders[channel].len(), model.queue.len());
        }
        assert!(!self.gate.is_stopped(self.model.len()) && !self.gate.is_ended(self.model.len()));
    }
}

proptest! {
    #[test]
    fn a_gate_reads_each_channel_in_order_and_none_that_is_stopped(
        channels in 0usize..6,
        operations in prop::collection::vec(operation(), 0..200),
    ) {
        let mut harness = Harness::new(channels);
        for operation in &operations {
            harness.apply(operation);
        }
    }
}

#[test]
fn a_stopped_channel_keeps_its_turn_for_later() {
    let mut harness = Harness::new(3);
    for channel in 0..3 {
        harness.send(channel, 6, false);
    }
    let mut order = Vec::new();
    let mut read = |gate: &mut InputGate<u64>| {
        let (channel, mut batch) = gate.next_batch(1).expect("a channel has records");
        assert!(batch.next_record().is_some());
        drop(batch);
        order.push(channel);
    };
    read(&mut harness.gate);
    harness.gate.stop(0);
    (0..3).for_each(|_| read(&mut harness.gate));
    harness.gate.resume(0);
    (0..3).for_each(|_| read(&mut harness.gate));
    assert_eq!(order, [0, 1, 2, 1, 2, 0, 1]);
}

#[test]
fn a_producer_that_dies_without_an_end_is_found() {
    let mut harness = Harness::new(2);
    harness.send(1, 1, false);
    harness.senders.clear();
    assert_eq!(harness.gate.lost_channel(), Some(0));
    harness.gate.end(0);
    assert_eq!(harness.gate.lost_channel(), None, "channel 1 still has a record");
    let (channel, mut batch) = harness.gate.next_batch(8).expect("channel 1 has a record");
    assert!(channel == 1 && batch.next_record().is_some());
    drop(batch);
    assert_eq!(harness.gate.lost_channel(), Some(1));
}
