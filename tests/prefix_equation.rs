//! The prefix equation at one gate: the state of snapshot n is the fold of exactly the records before barrier n on
//! every channel,
//!
//! ```text
//! S(C_n) = f({ r in R_i : index(r) < index(barrier n on channel i), for all i })
//! ```
//!
//! for exactly-once alignment, and of no fewer for at-least-once; whatever the skew, the interleaving, the channels that
//! end early, the aborts and the barriers that never come.

use isobar::checkpoint::{Aligner, AlignmentMode, Decision};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record,
    Barrier(u64),
}

/// One channel's content: `segments[n]` records, then barrier n + 1 unless it is missing. The channel ends behind the
/// last item.
#[derive(Clone, Debug)]
struct Channel {
    items: Vec<Item>,
}

impl Channel {
    fn new(segments: &[(u8, bool)]) -> Self {
        let mut items = Vec::new();
        for (n, &(records, has_barrier)) in segments.iter().enumerate() {
            items.extend((0..records).map(|_| Item::Record));
            if has_barrier {
                items.push(Item::Barrier(n as u64 + 1));
            }
        }
        Self { items }
    }

    /// How many records lie before barrier n: all of them on a channel that ends before it. `None` if the channel goes
    /// on to a newer barrier without ever bringing n.
    fn records_before(&self, checkpoint: u64) -> Option<usize> {
        let mut records = 0;
        for item in &self.items {
            match *item {
                Item::Record => records += 1,
                Item::Barrier(id) if id == checkpoint => return Some(records),
                Item::Barrier(id) if id > checkpoint => return None,
                Item::Barrier(_) => {}
            }
        }
        Some(records)
    }
}

/// An order-sensitive fold of one channel's records, so that a lost, doubled or reordered one shows.
fn fold(channel: usize, records: usize) -> u64 {
    (0..records as u64).fold(channel as u64, |state, index| state.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Read the next item of the n-th readable channel.
    Read(prop::sample::Index),
    /// The coordinator aborts a checkpoint.
    Abort(u64),
}

struct Gate {
    channels: Vec<Channel>,
    aligner: Aligner,
    position: Vec<usize>,
    /// Per channel, the fold of what was consumed, and how many records that is.
    state: Vec<(u64, usize)>,
    aborted: Vec<u64>,
    taken: Vec<u64>,
    superseded: Vec<u64>,
    now_ns: u64,
}

impl Gate {
    fn new(mode: AlignmentMode, channels: Vec<Channel>) -> Self {
        Self {
            aligner: Aligner::new(mode, channels.len()),
            position: vec![0; channels.len()],
            state: (0..channels.len()).map(|channel| (fold(channel, 0), 0)).collect(),
            channels,
            aborted: Vec::new(),
            taken: Vec::new(),
            superseded: Vec::new(),
            now_ns: 0,
        }
    }

    fn readable(&self) -> Vec<usize> {
        (0..self.channels.len()).filter(|&c| !self.aligner.is_ended(c) && !self.aligner.is_stopped(c)).collect()
    }

    fn read(&mut self, channel: usize) {
        self.now_ns += 1;
        match self.channels[channel].items.get(self.position[channel]) {
            Some(Item::Record) => {
                let (state, records) = &mut self.state[channel];
                *state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ *records as u64;
                *records += 1;
            }
            Some(&Item::Barrier(checkpoint)) => {
                self.aligner.barrier(channel, checkpoint, (), self.now_ns);
            }
            None => self.aligner.ended(channel, self.now_ns),
        }
        self.position[channel] += 1;
        self.settle();
    }

    fn abort(&mut self, checkpoint: u64) {
        let over = self.taken.contains(&checkpoint) || self.superseded.contains(&checkpoint);
        let news = self.aligner.abort(checkpoint);
        assert!(!(news && (over || self.aborted.contains(&checkpoint))), "an abort took effect twice, or too late");
        self.aborted.push(checkpoint);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(decision) = self.aligner.decide() {
            let (checkpoint, log) = match decision {
                Decision::Snapshot(snapshot) => {
                    assert!(snapshot.first_barrier_ns + snapshot.t_align_ns == self.now_ns, "booked on another id");
                    self.check_equation(snapshot.checkpoint);
                    (snapshot.checkpoint, &mut self.taken)
                }
                Decision::Superseded { checkpoint, by } => {
                    assert!(by > checkpoint);
                    (checkpoint, &mut self.superseded)
                }
            };
            assert!(!self.aborted.contains(&checkpoint), "{checkpoint} was aborted before");
            log.push(checkpoint);
            assert!(log.is_sorted_by(|a, b| a < b), "an older id after a newer one: {log:?}");
        }
    }

    fn check_equation(&self, checkpoint: u64) {
        for (index, channel) in self.channels.iter().enumerate() {
            let before = channel.records_before(checkpoint).expect("taken although a channel never brings its barrier");
            let (state, records) = self.state[index];
            match self.aligner.mode() {
                AlignmentMode::ExactlyOnce => assert_eq!(state, fold(index, before), "channel {index}, {checkpoint}"),
                _ => assert!(records >= before && state == fold(index, records), "channel {index}, {checkpoint}"),
            }
        }
    }

    /// Reads on until every channel has ended.
    fn finish(&mut self) {
        while let Some(&channel) = self.readable().first() {
            self.read(channel);
        }
        assert!(self.aligner.all_ended(), "deadlock: {:?}", self.aligner);
        for (channel, content) in self.channels.iter().enumerate() {
            let all = content.items.iter().filter(|item| **item == Item::Record).count();
            assert_eq!(self.state[channel].1, all, "records left behind on channel {channel}");
        }
    }

    /// Every checkpoint of which a barrier exists has one outcome, and it is the right one.
    fn check_outcomes(&self, checkpoints: u64) {
        for id in 1..=checkpoints {
            let exists = self.channels.iter().any(|channel| channel.items.contains(&Item::Barrier(id)));
            let possible = exists && self.channels.iter().all(|channel| channel.records_before(id).is_some());
            let taken = self.taken.contains(&id);
            let given_up = self.superseded.contains(&id) || self.aborted.contains(&id);
            assert!(!(taken && self.superseded.contains(&id)), "{id} was taken and superseded");
            assert!(!taken || possible, "{id} was taken");
            assert!(!possible || taken || given_up, "{id} was forgotten");
            assert!(!possible || !self.superseded.contains(&id), "{id} was given up although every barrier came");
        }
    }
}

const CHECKPOINTS: usize = 6;

/// Channels of up to `CHECKPOINTS` segments: different lengths are channels that end early; one barrier in 16 is missing.
fn channels(count: usize, missing: bool) -> impl Strategy<Value = Vec<Channel>> {
    let barrier = prop::bool::weighted(if missing { 15.0 / 16.0 } else { 1.0 });
    let segment = (prop_oneof![Just(0u8), 0..4u8, 0..40u8], barrier);
    prop::collection::vec(prop::collection::vec(segment, 0..=CHECKPOINTS), count)
        .prop_map(|channels| channels.iter().map(|segments| Channel::new(segments)).collect())
}

fn steps(aborts: bool) -> impl Strategy<Value = Vec<Step>> {
    let abort_weight = u32::from(aborts);
    let step = prop_oneof![
        30 => any::<prop::sample::Index>().prop_map(Step::Read),
        abort_weight => (1..=CHECKPOINTS as u64).prop_map(Step::Abort),
    ];
    prop::collection::vec(step, 0..400)
}

fn run(mode: AlignmentMode, channels: Vec<Channel>, steps: &[Step]) -> Gate {
    let mut gate = Gate::new(mode, channels);
    for step in steps {
        match step {
            Step::Read(index) => {
                let readable = gate.readable();
                if !readable.is_empty() {
                    gate.read(readable[index.index(readable.len())]);
                }
            }
            Step::Abort(checkpoint) => gate.abort(*checkpoint),
        }
    }
    gate.finish();
    gate.check_outcomes(CHECKPOINTS as u64);
    gate
}

fn modes() -> impl Strategy<Value = AlignmentMode> {
    prop_oneof![Just(AlignmentMode::ExactlyOnce), Just(AlignmentMode::AtLeastOnce)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn holds_on_one_channel(mode in modes(), channels in channels(1, true), steps in steps(true)) {
        run(mode, channels, &steps);
    }

    #[test]
    fn holds_on_two_channels(mode in modes(), channels in channels(2, true), steps in steps(true)) {
        run(mode, channels, &steps);
    }

    #[test]
    fn holds_on_five_channels(mode in modes(), channels in channels(5, true), steps in steps(true)) {
        run(mode, channels, &steps);
    }

    /// Without aborts and missing barriers every checkpoint that any channel brings is taken, in both modes.
    #[test]
    fn every_checkpoint_is_taken_when_nothing_goes_wrong(
        mode in modes(),
        channels in channels(3, false),
        steps in steps(false),
    ) {
        let longest = channels.iter().map(|c| c.items.iter().filter(|i| **i != Item::Record).count()).max();
        let gate = run(mode, channels, &steps);
        prop_assert_eq!(gate.taken, (1..=longest.unwrap_or(0) as u64).collect::<Vec<_>>());
    }
}

/// The case in the paper's figure: one channel far ahead of the other.
#[test]
fn a_channel_far_ahead_waits_at_its_barrier() {
    let ahead = Channel::new(&[(3, true), (1_0, true)]);
    let behind = Channel::new(&[(200, true), (0, true)]);
    let mut gate = Gate::new(AlignmentMode::ExactlyOnce, vec![ahead, behind]);
    while gate.readable().contains(&0) {
        gate.read(0);
    }
    assert_eq!(gate.state[0].1, 3, "the records behind the barrier stay where they are");
    gate.finish();
    assert_eq!(gate.taken, [1, 2]);
}

/// At-least-once really is weaker: the same reads put records from behind the barrier into the snapshot.
#[test]
fn at_least_once_takes_records_from_behind_the_barrier() {
    let ahead = Channel::new(&[(3, true), (10, false)]);
    let behind = Channel::new(&[(5, true)]);
    let mut gate = Gate::new(AlignmentMode::AtLeastOnce, vec![ahead, behind]);
    (0..14).for_each(|_| gate.read(0));
    assert!(gate.taken.is_empty());
    (0..6).for_each(|_| gate.read(1));
    assert_eq!(gate.taken, [1]);
    assert_eq!(gate.state[0].1, 13);
}
