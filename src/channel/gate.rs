//! The input side of a subtask: one cursor per input channel, read in turn.

use super::{Batch, Receiver};

/// Reads a subtask's input channels round robin, records in place. A channel whose cursor is stopped keeps its frames
/// in its ring, where they exert backpressure; nothing is copied aside.
///
/// The gate knows nothing of checkpoints: whoever decides on alignment stops and resumes its cursors.
///
/// ```
/// use isobar::channel::{Frame, InputGate, Receiver, Record, ring};
///
/// let (mut producers, consumers): (Vec<_>, Vec<_>) = (0..2).map(|_| ring::<u64>(8)).unzip();
/// let mut gate = InputGate::new(consumers.into_iter().map(Receiver::from).collect());
/// for producer in &mut producers {
///     let record = Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: 1 };
///     assert!(producer.push(Frame::Record(record)).is_ok());
///     assert!(producer.push(Frame::End).is_ok());
/// }
///
/// let mut sum = 0;
/// loop {
///     let Some((channel, mut batch)) = gate.next_batch(64) else { break };
///     while let Some(record) = batch.next_record() {
///         sum += record.value;
///     }
///     let control = batch.next_control();
///     drop(batch); // consumes what was taken
///     if control == Some(Frame::End) {
///         gate.end(channel);
///     }
/// }
/// assert_eq!((sum, gate.live()), (2, 0));
/// ```
#[derive(Debug)]
pub struct InputGate<T> {
    inputs: Vec<Input<T>>,
    /// The channels that may be read, in ascending order: those neither stopped nor ended.
    readable: Vec<usize>,
    /// Where in `readable` the next look begins; may equal its length.
    next: usize,
    /// The number of channels that have not ended.
    live: usize,
}

#[derive(Debug)]
struct Input<T> {
    receiver: Receiver<T>,
    stopped: bool,
    ended: bool,
}

impl<T> InputGate<T> {
    /// A gate over these channels, which are numbered in this order from 0.
    pub fn new(receivers: Vec<Receiver<T>>) -> Self {
        let live = receivers.len();
        let inputs = receivers.into_iter().map(|receiver| Input { receiver, stopped: false, ended: false }).collect();
        Self { inputs, readable: (0..live).collect(), next: 0, live }
    }

    /// The next readable channel in turn that has a frame, and a cursor over its frames, at most `max`; what the caller
    /// takes is consumed when it drops the batch. `None` if no readable channel has any.
    ///
    /// A caller takes records until there is none, then at most one control frame, and acts on that before it asks for
    /// the next batch: a barrier's channel may have to be stopped.
    #[inline]
    pub fn next_batch(&mut self, max: usize) -> Option<(usize, Batch<'_, T>)> {
        let channel = self.next_ready()?;
        Some((channel, self.inputs[channel].receiver.batch(max)))
    }

    #[inline]
    fn next_ready(&mut self) -> Option<usize> {
        for _ in 0..self.readable.len() {
            if self.next >= self.readable.len() {
                self.next = 0;
            }
            let channel = self.readable[self.next];
            self.next += 1;
            if !self.inputs[channel].receiver.is_empty() {
                return Some(channel);
            }
        }
        None
    }

    /// Stops a channel's cursor: its frames stay where they are. Returns whether that changed anything.
    pub fn stop(&mut self, channel: usize) -> bool {
        self.update(channel, |input| input.stopped = true)
    }

    /// Lets a stopped cursor go on. Returns whether that changed anything.
    pub fn resume(&mut self, channel: usize) -> bool {
        self.update(channel, |input| input.stopped = false)
    }

    /// Marks a channel as ended: it is never read again. Returns whether that changed anything.
    pub fn end(&mut self, channel: usize) -> bool {
        self.update(channel, |input| input.ended = true)
    }

    fn update(&mut self, channel: usize, change: impl FnOnce(&mut Input<T>)) -> bool {
        let Some(input) = self.inputs.get_mut(channel) else { return false };
        let (was_stopped, was_ended) = (input.stopped, input.ended);
        change(input);
        let (stopped, ended) = (input.stopped, input.ended);
        self.live -= usize::from(ended && !was_ended);
        match (!was_stopped && !was_ended, !stopped && !ended) {
            (true, false) => self.remove_readable(channel),
            (false, true) => self.insert_readable(channel),
            _ => {}
        }
        self.check_invariants();
        (was_stopped, was_ended) != (stopped, ended)
    }

    fn remove_readable(&mut self, channel: usize) {
        if let Ok(index) = self.readable.binary_search(&channel) {
            self.readable.remove(index);
            // The turn stays with the channel that had it.
            self.next -= usize::from(index < self.next);
        }
    }

    fn insert_readable(&mut self, channel: usize) {
        if let Err(index) = self.readable.binary_search(&channel) {
            self.readable.insert(index, channel);
            self.next += usize::from(index < self.next);
        }
    }

    /// Whether a channel's cursor is stopped; `false` for a channel that does not exist.
    pub fn is_stopped(&self, channel: usize) -> bool {
        self.inputs.get(channel).is_some_and(|input| input.stopped)
    }

    /// Whether a channel has ended; `false` for a channel that does not exist.
    pub fn is_ended(&self, channel: usize) -> bool {
        self.inputs.get(channel).is_some_and(|input| input.ended)
    }

    /// The number of channels.
    pub fn channels(&self) -> usize {
        self.inputs.len()
    }

    /// The number of channels that have not ended, stopped ones included.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Whether a readable channel has a frame.
    pub fn is_ready(&self) -> bool {
        self.readable.iter().any(|&channel| !self.inputs[channel].receiver.is_empty())
    }

    /// A channel's receiver, to peek at frames that are still in flight; `None` for a channel that does not exist.
    pub fn receiver(&self, channel: usize) -> Option<&Receiver<T>> {
        self.inputs.get(channel).map(|input| &input.receiver)
    }

    /// The first channel that has not ended although its producer is gone and all its frames are read: whoever should
    /// have sent `End` there has died.
    pub fn lost_channel(&self) -> Option<usize> {
        // Asked in this order: after the disconnection nothing comes, so empty is final.
        self.inputs.iter().position(|i| !i.ended && i.receiver.is_disconnected() && i.receiver.is_empty())
    }

    /// In debug builds, panics where the gate's invariants do not hold.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            let readable = |&(_, input): &(usize, &Input<T>)| !input.stopped && !input.ended;
            assert!(self.inputs.iter().enumerate().filter(readable).map(|(i, _)| i).eq(self.readable.iter().copied()));
            assert_eq!(self.live, self.inputs.iter().filter(|input| !input.ended).count());
            assert!(self.next <= self.readable.len());
        }
    }
}
