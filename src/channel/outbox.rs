//! The output side of a subtask: one sender per target, a way to choose among them, and a spill for what does not fit.

use std::collections::VecDeque;

use super::{Control, Frame, Record, Sender};
use crate::hash::subtask_of;

/// Why an outbox could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboxError {
    /// There is nothing to send to.
    #[error(
        "an exchange needs at least one target subtask, but got none: give the receiving operator a parallelism of 1 or more"
    )]
    NoTarget,
    /// Some targets would never get a record.
    #[error(
        "{targets} target subtasks cannot share {max_parallelism} key groups: lower the parallelism or raise the max parallelism"
    )]
    TooFewKeyGroups {
        /// The number of target subtasks.
        targets: usize,
        /// The number of key groups.
        max_parallelism: u16,
    },
}

/// Counters of an outbox since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Frames given to the outbox, counted once per target that they go to.
    pub frames: u64,
    /// Of these, the frames that went through a spill.
    pub spilled_frames: u64,
    /// The most frames that were in the spills at one time.
    pub spill_len_max: usize,
}

/// Sends a subtask's output to the subtasks behind it, and never blocks: a frame that does not fit into its target's
/// ring goes to that target's spill, and everything later for that target behind it, so that a barrier never overtakes
/// a record. While [`Outbox::is_blocked`], its owner takes no new input and calls [`Outbox::drain`] in its turns; so
/// a spill holds at most the output of one input record and the control frames that went with it.
///
/// ```
/// use isobar::channel::{Frame, Outbox, Record, Sender, ring};
///
/// let (producer, mut consumer) = ring::<u64>(2);
/// let mut outbox = Outbox::forward(Sender::from(producer));
/// for value in 0..3 {
///     outbox.emit(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value });
/// }
/// outbox.send_control(Frame::Watermark(9));
/// assert!(outbox.is_blocked()); // two fit, two wait
///
/// let values: Vec<_> = std::iter::from_fn(|| {
///     outbox.drain();
///     consumer.pop()
/// })
/// .collect();
/// assert!(matches!(values[2], Frame::Record(record) if record.value == 2));
/// assert_eq!(values[3], Frame::Watermark(9));
/// assert!(!outbox.is_blocked());
/// ```
#[derive(Debug)]
pub struct Outbox<T> {
    targets: Vec<Target<T>>,
    partitioning: Partitioning<T>,
    /// The frames in all spills.
    spill_len: usize,
    /// What has left the spills, and their high-water mark.
    stats: OutboxStats,
}

#[derive(Debug)]
struct Target<T> {
    sender: Sender<T>,
    /// What comes after all that is in the ring, in order.
    spill: VecDeque<Frame<T>>,
    /// The sender's position when the outbox was made.
    start: u64,
}

#[derive(Debug)]
enum Partitioning<T> {
    /// One target gets all.
    Forward,
    /// The target of each key group.
    KeyGroups(Box<[u32]>),
    /// Every target gets a copy. Held as a function so that the other kinds need no `T: Clone`.
    Broadcast(fn(&T) -> T),
}

impl<T> Outbox<T> {
    /// Sends every record to the one target.
    pub fn forward(sender: Sender<T>) -> Self {
        Self::with(vec![sender], Partitioning::Forward)
    }

    /// Sends a record to the subtask that owns its key group; `senders[i]` leads to subtask i.
    ///
    /// # Errors
    /// If there is no sender, or there are more senders than key groups.
    pub fn key_groups(senders: Vec<Sender<T>>, max_parallelism: u16) -> Result<Self, OutboxError> {
        let targets = senders.len();
        if targets == 0 {
            return Err(OutboxError::NoTarget);
        }
        if targets > usize::from(max_parallelism) {
            return Err(OutboxError::TooFewKeyGroups { targets, max_parallelism });
        }
        let owners = (0..max_parallelism).map(|group| subtask_of(group, max_parallelism, targets) as u32).collect();
        Ok(Self::with(senders, Partitioning::KeyGroups(owners)))
    }

    /// Sends a copy of every record to every target.
    ///
    /// # Errors
    /// If there is no sender.
    pub fn broadcast(senders: Vec<Sender<T>>) -> Result<Self, OutboxError>
    where
        T: Clone,
    {
        if senders.is_empty() {
            return Err(OutboxError::NoTarget);
        }
        Ok(Self::with(senders, Partitioning::Broadcast(T::clone)))
    }

    fn with(senders: Vec<Sender<T>>, partitioning: Partitioning<T>) -> Self {
        let target = |sender: Sender<T>| Target { start: sender.position(), sender, spill: VecDeque::new() };
        let targets = senders.into_iter().map(target).collect();
        Self { targets, partitioning, spill_len: 0, stats: OutboxStats::default() }
    }

    /// Makes room for `frames` in each spill, so that none allocates before it holds more.
    pub fn reserve_spill(&mut self, frames: usize) {
        for target in &mut self.targets {
            target.spill.reserve(frames);
        }
    }

    /// Sends a record to the target, or targets, that it belongs to.
    ///
    /// # Panics
    /// If the exchange is by key group and the record's is not below the max parallelism: a record sent elsewhere would
    /// corrupt the state of a key.
    #[inline]
    pub fn emit(&mut self, record: Record<T>) {
        match &self.partitioning {
            Partitioning::Forward => self.send(0, Frame::Record(record)),
            Partitioning::KeyGroups(owners) => {
                let target = owners[usize::from(record.key_group)] as usize;
                self.send(target, Frame::Record(record));
            }
            Partitioning::Broadcast(clone) => {
                let clone = *clone;
                let last = self.targets.len() - 1;
                for target in 0..last {
                    self.send(target, Frame::Record(record.with(clone(&record.value))));
                }
                self.send(last, Frame::Record(record));
            }
        }
    }

    /// Sends a control frame to every target, behind all that was sent before.
    pub fn send_control(&mut self, control: Control) {
        for target in 0..self.targets.len() {
            self.send(target, Frame::from_control(control));
        }
    }

    #[inline(always)]
    fn send(&mut self, target: usize, frame: Frame<T>) {
        let Target { sender, spill, .. } = &mut self.targets[target];
        // Behind a spill that is not empty everything waits, also where the ring has room again.
        let frame = if spill.is_empty() { sender.push(frame).err().map(|full| full.0) } else { Some(frame) };
        if let Some(frame) = frame {
            self.spill(target, frame);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill(&mut self, target: usize, frame: Frame<T>) {
        self.targets[target].spill.push_back(frame);
        self.spill_len += 1;
        self.stats.spilled_frames += 1;
        self.stats.spill_len_max = self.stats.spill_len_max.max(self.spill_len);
    }

    /// Whether frames wait in a spill. Until they are gone the owner takes no new input.
    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.spill_len > 0
    }

    /// Moves as much as fits from the spills into the rings; returns whether frames are still waiting.
    #[inline]
    pub fn drain(&mut self) -> bool {
        if self.spill_len > 0 {
            self.drain_spills();
        }
        self.is_blocked()
    }

    #[cold]
    fn drain_spills(&mut self) {
        for Target { sender, spill, .. } in &mut self.targets {
            self.spill_len -= sender.push_batch(&mut std::iter::from_fn(|| spill.pop_front()));
        }
        self.check_invariants();
    }

    /// The number of targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    /// The number of frames that wait in all spills.
    pub fn spill_len(&self) -> usize {
        self.spill_len
    }

    /// The frames that wait for `target` behind what is in its ring, in order; none for a target that does not exist.
    pub fn spilled(&self, target: usize) -> impl Iterator<Item = Frame<&T>> {
        self.targets.get(target).into_iter().flat_map(|target| target.spill.iter().map(Frame::as_ref))
    }

    /// A target's sender, to look at its position or its fill; `None` for a target that does not exist.
    pub fn sender(&self, target: usize) -> Option<&Sender<T>> {
        self.targets.get(target).map(|target| &target.sender)
    }

    /// The first target whose consumer is gone.
    pub fn lost_target(&self) -> Option<usize> {
        self.targets.iter().position(|target| target.sender.is_disconnected())
    }

    /// The counters.
    pub fn stats(&self) -> OutboxStats {
        // Counted by the rings themselves, so that sending a frame touches no counter.
        let pushed = self.targets.iter().map(|target| target.sender.position().wrapping_sub(target.start));
        let frames = pushed.fold(0, u64::wrapping_add).wrapping_add(self.spill_len as u64);
        OutboxStats { frames, ..self.stats }
    }

    /// In debug builds, panics where the outbox's invariants do not hold.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            assert_eq!(self.spill_len, self.targets.iter().map(|target| target.spill.len()).sum::<usize>());
            self.targets.iter().for_each(|target| target.sender.check_invariants());
        }
    }
}
