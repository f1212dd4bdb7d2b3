//! Random runs: whatever fails, crashes or loses its power, the parts hold exactly the committed lines, once and in
//! order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::name::FileName;
use super::super::{FileSinkOptions, NewerOutput, Outputs};
use super::disk::{Disk, Fault};
use crate::channel::Record;
use crate::operator::{OperatorError, Sink, SinkState};

/// A sink of numbered lines. Each subtask's lines carry the key that it owns.
pub(super) type LineSink = super::super::FileSink<Line, fn(&Record<Line>, &mut Vec<u8>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub key: usize,
    pub number: u64,
}

fn format(record: &Record<Line>, out: &mut Vec<u8>) {
    out.extend(format!("{},{}\n", record.value.key, record.value.number).bytes());
}

pub(super) fn open(
    disk: &Disk,
    options: &FileSinkOptions,
    states: &[SinkState],
    parallelism: usize,
    checkpoint: u64,
) -> Result<Vec<LineSink>, OperatorError> {
    let outputs = Outputs::in_folder(Arc::new(disk.clone()), options.clone());
    let mut sinks = Vec::new();
    for subtask in 0..parallelism {
        let mut sink = outputs.sink(format as fn(&Record<Line>, &mut Vec<u8>));
        let mine: Vec<_> = states.iter().skip(subtask).step_by(parallelism).cloned().collect();
        sink.open(subtask, &mine, checkpoint)?;
        sinks.push(sink);
    }
    Ok(sinks)
}

pub(super) fn write(sink: &mut LineSink, key: usize, number: u64) {
    sink.write(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: Line { key, number } }).unwrap();
}

pub(super) fn settled(sink: &mut LineSink, checkpoint: u64) -> Result<(), OperatorError> {
    loop {
        if sink.pre_committed(checkpoint)? {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

/// The lines of each key in the public parts, in order of checkpoint.
pub(super) fn public(disk: &Disk) -> BTreeMap<usize, Vec<u64>> {
    let part = |name: String| match FileName::parse(&name) {
        Some(FileName::Part { checkpoint, subtask }) => Some(((checkpoint, subtask), disk.bytes(&name)?)),
        _ => None,
    };
    let parts: BTreeMap<_, _> = disk.names().into_iter().filter_map(part).collect();
    let mut lines: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (id, bytes) in parts {
        assert!(!bytes.is_empty(), "part {id:?} is empty");
        for line in String::from_utf8(bytes).unwrap().lines() {
            let (key, number) = line.split_once(',').unwrap();
            lines.entry(key.parse().unwrap()).or_default().push(number.parse().unwrap());
        }
    }
    lines
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Fault(Fault),
    /// A barrier; whether the checkpoint then completes, where the sinks allow.
    Barrier {
        completes: bool,
    },
    /// A barrier whose outcome comes later.
    Overlap,
    /// The process dies, or the machine does, and the newest complete checkpoint is restored.
    Crash {
        power: bool,
        parallelism: usize,
        roll: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Append),
        Just(Fault::SyncFile),
        Just(Fault::SyncFolder),
        Just(Fault::Rename),
        Just(Fault::Create),
        Just(Fault::Prepare)
    ];
    prop_oneof![
        6 => (1..40u64).prop_map(Step::Write),
        2 => fault.prop_map(Step::Fault),
        4 => prop::bool::weighted(0.8).prop_map(|completes| Step::Barrier { completes }),
        1 => Just(Step::Overlap),
        2 => (any::<bool>(), 1..4usize, any::<bool>()).prop_map(|(power, parallelism, roll)| Step::Crash { power, parallelism, roll }),
    ]
}

/// The job around the sinks: four keys, each a stream of numbers, and the checkpoints.
struct Job {
    disk: Disk,
    sinks: Vec<LineSink>,
    written: [u64; 4],
    states: Vec<SinkState>,
    committed: [u64; 4],
    restored: u64,
    last: u64,
    overlapping: Option<(u64, Vec<SinkState>, [u64; 4])>,
}

impl Job {
    fn write(&mut self, lines: u64) {
        for n in 0..lines {
            let key = (n % 4) as usize;
            let parallelism = self.sinks.len();
            write(&mut self.sinks[key % parallelism], key, self.written[key]);
            self.written[key] += 1;
        }
    }

    fn barrier(&mut self) -> (u64, Vec<SinkState>, [u64; 4]) {
        self.last += 1;
        let states = self.sinks.iter_mut().map(|sink| sink.pre_commit(self.last).unwrap()).collect();
        (self.last, states, self.written)
    }

    /// Completes a checkpoint, if every sink has its lines.
    fn complete(&mut self, (checkpoint, states, written): (u64, Vec<SinkState>, [u64; 4])) -> bool {
        let results: Vec<_> = self.sinks.iter_mut().map(|sink| settled(sink, checkpoint)).collect();
        if results.iter().any(Result::is_err) {
            return false;
        }
        self.sinks.iter_mut().for_each(|sink| sink.commit(checkpoint).unwrap());
        (self.states, self.committed, self.restored) = (states, written, checkpoint);
        true
    }

    fn crash(&mut self, power: bool, parallelism: usize, roll: bool) {
        // What the sinks' threads do from here on comes too late.
        self.disk = self.disk.killed();
        self.sinks.clear();
        self.overlapping = None;
        if power {
            self.disk.lose_power();
        }
        let options = options(roll);
        // Without a complete checkpoint the run begins anew: nothing can be public.
        self.sinks = open(&self.disk, &options, &self.states, parallelism, self.restored).unwrap();
        if power {
            // Even if the power fails again right after the start.
            self.disk.lose_power();
        }
        self.written = self.committed;
        let expected = (0..4).filter(|&key| self.committed[key] > 0);
        let expected: BTreeMap<_, _> = expected.map(|key| (key, (0..self.committed[key]).collect())).collect();
        assert_eq!(public(&self.disk), expected, "a restore makes all committed lines public, and no others");
    }
}

fn options(roll: bool) -> FileSinkOptions {
    let roll = if roll { Duration::ZERO } else { Duration::from_secs(86_400) };
    FileSinkOptions { roll, memory_bytes_max: 1 << 20, newer_output: NewerOutput::Refuse }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parts_hold_exactly_the_committed_lines_once(
        steps in prop::collection::vec(step(), 1..40),
        parallelism in 1..4usize,
        roll in any::<bool>(),
    ) {
        let disk = Disk::default();
        let sinks = open(&disk, &options(roll), &[], parallelism, 0).unwrap();
        let mut job = Job {
            disk, sinks, written: [0; 4], states: Vec::new(), committed: [0; 4], restored: 0, last: 0, overlapping: None,
        };
        for step in steps {
            match step {
                Step::Write(lines) => job.write(lines),
                Step::Fault(fault) => job.disk.fail_once(fault),
                Step::Overlap if job.overlapping.is_none() => job.overlapping = Some(job.barrier()),
                Step::Overlap => {}
                Step::Barrier { completes } => {
                    let barrier = job.barrier();
                    if let Some(earlier) = job.overlapping.take() {
                        job.complete(earlier);
                    }
                    if completes {
                        job.complete(barrier);
                    }
                }
                Step::Crash { power, parallelism, roll } => job.crash(power, parallelism, roll),
            }
            for (key, lines) in public(&job.disk) {
                let gapless: Vec<u64> = (0..lines.len() as u64).collect();
                prop_assert_eq!(&lines, &gapless, "key {}", key);
                prop_assert!(lines.len() as u64 <= job.committed[key]);
            }
        }
        job.disk.heal();
        // A broken file is repaired at the next barrier, which the checkpoint that finds it broken may be too early for;
        // a failed publication is tried again after a while.
        let complete = (0..1000).any(|_| {
            let barrier = job.barrier();
            let complete = job.complete(barrier);
            if !complete {
                std::thread::sleep(Duration::from_millis(1));
            }
            complete
        });
        prop_assert!(complete, "the disk is well again");
        let written = job.written;
        for mut sink in std::mem::take(&mut job.sinks) {
            sink.close().unwrap();
        }
        let hidden = |name: &String| name.starts_with('.');
        prop_assert_eq!(job.disk.names().into_iter().find(hidden), None, "nothing is left behind");
        job.disk.lose_power();
        let expected: BTreeMap<usize, Vec<u64>> =
            (0..4).filter(|&key| written[key] > 0).map(|key| (key, (0..written[key]).collect())).collect();
        prop_assert_eq!(public(&job.disk), expected);
    }
}
