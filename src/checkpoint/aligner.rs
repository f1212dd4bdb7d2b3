//! The aligner: decides, at one subtask's input gate, which channel waits and when the snapshot is due.
//!
//! It is a pure state machine after Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows"
//! (arXiv 1506.08603, algorithm 1): events go in, decisions come out. It does no I/O, reads no clock, knows no
//! channel but by its index, and allocates nothing after construction as long as its decisions are asked for.

use std::collections::VecDeque;

/// What the snapshot promises about the records that it contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AlignmentMode {
    /// A channel that has reached the barrier waits for the others. The snapshot contains exactly the records before
    /// the barrier, on every channel.
    #[default]
    ExactlyOnce,
    /// No channel waits. The snapshot, taken at the last barrier, also contains records from behind the barrier, which
    /// are processed again after a restore.
    AtLeastOnce,
}

/// What the owner of the gate has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<B = ()> {
    /// Take the snapshot and forward the barrier, before another frame is read.
    Snapshot(Snapshot<B>),
    /// `checkpoint` cannot be taken at this gate any more, because barrier `by` came where it was missing: decline it.
    Superseded {
        /// The checkpoint that is given up.
        checkpoint: u64,
        /// The newer one that was met instead.
        by: u64,
    },
}

/// A checkpoint whose barrier has come on every live channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot<B = ()> {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// When its first barrier was seen at the gate, in ns of the clock that the events were stamped with.
    pub first_barrier_ns: u64,
    /// From the first barrier to the last one (or to the end of the last channel), in ns. Never negative: 0 if the
    /// stamps run backwards.
    pub t_align_ns: u64,
    /// What the first barrier carried beside its id.
    pub carried: B,
}

/// What became of a barrier on its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It counts. [`Aligner::is_stopped`] says whether the channel waits now.
    Counted,
    /// It is a duplicate, or its checkpoint is over here (taken, superseded or aborted): read on as if it were not there.
    PassedOver,
}

/// The most checkpoints a gate keeps track of. Past it the oldest one is superseded, so that a channel that lags for
/// ever cannot make the aligner grow. Flink's tracker of at-least-once barriers stops at 50.
pub const TRACKED_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// Id of the newest barrier that came here; 0 before the first.
    reached: u64,
    /// The checkpoint whose barrier this channel waits at.
    stopped_at: Option<u64>,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Aligning,
    Superseded { by: u64 },
    Aborted,
}

#[derive(Clone, Copy, Debug)]
struct Tracked<B> {
    checkpoint: u64,
    first_barrier_ns: u64,
    last_barrier_ns: u64,
    /// `None` only for a checkpoint that was aborted before its first barrier came.
    carried: Option<B>,
    fate: Fate,
}

/// The state machine of one input gate. `B` is whatever a barrier carries beside its id; the aligner hands it back with
/// the snapshot and does not look at it.
///
/// The owner reports every barrier and end that it reads, in the order of each channel; after each report it calls
/// [`Aligner::decide`] until `None`, does what was decided, and brings its cursors in line with [`Aligner::is_stopped`]
/// before it reads on. It does not read from a channel that is stopped.
///
/// Channel indices at or above the number given to [`Aligner::new`] panic: they are mistakes of the program, not input.
///
/// ```
/// use isobar::checkpoint::{Aligner, AlignmentMode, Decision};
///
/// let mut aligner = Aligner::new(AlignmentMode::ExactlyOnce, 2);
/// aligner.barrier(0, 1, (), 1_000); // barrier 1 on channel 0, at 1 us
/// assert!(aligner.is_stopped(0)); // what lies behind the barrier stays in its ring
/// assert_eq!(aligner.decide(), None);
///
/// aligner.barrier(1, 1, (), 5_000); // and on channel 1: every channel has reached it
/// let Some(Decision::Snapshot(snapshot)) = aligner.decide() else { panic!("the snapshot is due") };
/// assert_eq!((snapshot.checkpoint, snapshot.t_align_ns), (1, 4_000));
/// assert!(!aligner.is_stopped(0));
/// ```
///
/// **Ids.** On one channel the ids of barriers only grow, and an id may be missing (a checkpoint that was aborted
/// upstream). Hence a barrier m on a channel that did not bring n < m says that n will never come there: n cannot be
/// taken at this gate any more and is superseded. So an older id is never executed after a newer one.
#[derive(Clone, Debug)]
pub struct Aligner<B = ()> {
    mode: AlignmentMode,
    channels: Box<[Channel]>,
    /// Checkpoints that are neither taken nor known to be over, by ascending id.
    tracked: VecDeque<Tracked<B>>,
    /// Every checkpoint up to this id is over at this gate.
    closed: u64,
}

impl<B: Copy> Aligner<B> {
    /// An aligner for a gate of `channels` inputs, all live, before any barrier.
    pub fn new(mode: AlignmentMode, channels: usize) -> Self {
        Self {
            mode,
            channels: vec![Channel::default(); channels].into_boxed_slice(),
            // One more than may stay, so that the newest has a place while the oldest waits for `decide`.
            tracked: VecDeque::with_capacity(TRACKED_MAX + 1),
            closed: 0,
        }
    }

    /// Barrier `checkpoint` (1 or above) was read at the head of `channel`, at `now_ns`.
    pub fn barrier(&mut self, channel: usize, checkpoint: u64, carried: B, now_ns: u64) -> Arrival {
        let before = self.channels[channel];
        if before.ended || checkpoint <= before.reached {
            return Arrival::PassedOver;
        }
        self.channels[channel].reached = checkpoint;
        self.channels[channel].stopped_at = None;
        self.supersede_skipped(before, checkpoint);
        if checkpoint <= self.closed {
            return Arrival::PassedOver;
        }
        let index = self.track(checkpoint, carried, now_ns);
        match self.tracked[index].fate {
            Fate::Aborted | Fate::Superseded { .. } => Arrival::PassedOver,
            Fate::Aligning => {
                if self.mode == AlignmentMode::ExactlyOnce {
                    self.channels[channel].stopped_at = Some(checkpoint);
                }
                Arrival::Counted
            }
        }
    }

    /// Nothing follows on `channel`: from now on it counts as aligned with every checkpoint that it did not skip.
    /// Reporting an end twice is harmless.
    pub fn ended(&mut self, channel: usize, now_ns: u64) {
        let state = &mut self.channels[channel];
        if state.ended {
            return;
        }
        state.ended = true;
        state.stopped_at = None;
        let reached = state.reached;
        for tracked in self.tracked.iter_mut().filter(|tracked| tracked.checkpoint > reached) {
            tracked.last_barrier_ns = now_ns;
        }
    }

    /// The coordinator gave `checkpoint` up: the channels that wait for it go on, and its barriers that still come are
    /// passed over. Says whether it was news. May come before, between and after the barriers, and any number of times.
    pub fn abort(&mut self, checkpoint: u64) -> bool {
        if checkpoint <= self.closed {
            return false;
        }
        match self.tracked.binary_search_by_key(&checkpoint, |tracked| tracked.checkpoint) {
            Ok(index) if self.tracked[index].fate == Fate::Aborted => false,
            Ok(index) => {
                self.tracked[index].fate = Fate::Aborted;
                self.release(checkpoint);
                true
            }
            Err(index) => {
                self.insert(
                    index,
                    Tracked { checkpoint, first_barrier_ns: 0, last_barrier_ns: 0, carried: None, fate: Fate::Aborted },
                );
                true
            }
        }
    }

    /// What is to be done next, oldest checkpoint first; `None` when that is nothing. An end can complete several
    /// checkpoints at once in at-least-once mode, and a barrier can supersede several: call until `None`.
    pub fn decide(&mut self) -> Option<Decision<B>> {
        while let Some(&oldest) = self.tracked.front() {
            let crowded = self.tracked.len() > TRACKED_MAX;
            let complete = self.is_complete(oldest.checkpoint);
            let decision = match (oldest.fate, oldest.carried) {
                (Fate::Superseded { by }, _) => Some(Decision::Superseded { checkpoint: oldest.checkpoint, by }),
                (Fate::Aligning, Some(carried)) if complete => Some(Decision::Snapshot(Snapshot {
                    checkpoint: oldest.checkpoint,
                    first_barrier_ns: oldest.first_barrier_ns,
                    t_align_ns: oldest.last_barrier_ns.saturating_sub(oldest.first_barrier_ns),
                    carried,
                })),
                (Fate::Aligning, _) if crowded => {
                    Some(Decision::Superseded { checkpoint: oldest.checkpoint, by: self.newest() })
                }
                (Fate::Aborted, _) if complete || crowded => None,
                _ => return None,
            };
            self.close_oldest();
            if decision.is_some() {
                return decision;
            }
        }
        None
    }

    /// Whether `channel` waits at a barrier.
    #[inline]
    pub fn is_stopped(&self, channel: usize) -> bool {
        self.channels[channel].stopped_at.is_some()
    }

    /// Whether `channel` has ended.
    #[inline]
    pub fn is_ended(&self, channel: usize) -> bool {
        self.channels[channel].ended
    }

    /// Whether every channel has ended (true for a gate without channels).
    pub fn all_ended(&self) -> bool {
        self.channels.iter().all(|channel| channel.ended)
    }

    /// The checkpoint that channels are aligning for at the moment, the oldest one if there are several.
    pub fn aligning(&self) -> Option<u64> {
        self.tracked.iter().find(|tracked| tracked.fate == Fate::Aligning).map(|tracked| tracked.checkpoint)
    }

    /// The number of channels, ended ones included.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The mode it was made with.
    pub fn mode(&self) -> AlignmentMode {
        self.mode
    }

    /// A channel went from its last barrier to `checkpoint`: whatever lies between will never come there. What it was
    /// stopped for is lost as well, if the owner has read past the stop.
    fn supersede_skipped(&mut self, before: Channel, checkpoint: u64) {
        let overrun = before.stopped_at;
        for index in 0..self.tracked.len() {
            let id = self.tracked[index].checkpoint;
            let skipped = id > before.reached && id < checkpoint;
            if self.tracked[index].fate == Fate::Aligning && (skipped || overrun == Some(id)) {
                self.tracked[index].fate = Fate::Superseded { by: checkpoint };
                self.release(id);
            }
        }
    }

    /// The place of `checkpoint` among the tracked, entered if this is its first barrier, its last stamp brought up to date.
    fn track(&mut self, checkpoint: u64, carried: B, now_ns: u64) -> usize {
        match self.tracked.binary_search_by_key(&checkpoint, |tracked| tracked.checkpoint) {
            Ok(index) => {
                self.tracked[index].last_barrier_ns = now_ns;
                index
            }
            Err(index) => {
                // A channel beyond `checkpoint` that never brought it has skipped it: over before it began.
                let skipped_by = self.channels.iter().map(|c| c.reached).filter(|&r| r > checkpoint).min();
                let fate = skipped_by.map_or(Fate::Aligning, |by| Fate::Superseded { by });
                self.insert(
                    index,
                    Tracked {
                        checkpoint,
                        first_barrier_ns: now_ns,
                        last_barrier_ns: now_ns,
                        carried: Some(carried),
                        fate,
                    },
                );
                index
            }
        }
    }

    fn insert(&mut self, index: usize, tracked: Tracked<B>) {
        debug_assert!(self.tracked.len() <= TRACKED_MAX, "decide() was not called until None after an earlier event");
        self.tracked.insert(index, tracked);
    }

    fn close_oldest(&mut self) {
        if let Some(oldest) = self.tracked.pop_front() {
            self.closed = oldest.checkpoint;
            self.release(oldest.checkpoint);
        }
    }

    fn release(&mut self, checkpoint: u64) {
        for channel in &mut self.channels {
            if channel.stopped_at == Some(checkpoint) {
                channel.stopped_at = None;
            }
        }
    }

    fn is_complete(&self, checkpoint: u64) -> bool {
        self.channels.iter().all(|channel| channel.ended || channel.reached >= checkpoint)
    }

    fn newest(&self) -> u64 {
        self.tracked.back().map_or(self.closed, |tracked| tracked.checkpoint)
    }
}

#[cfg(test)]
mod tests;
