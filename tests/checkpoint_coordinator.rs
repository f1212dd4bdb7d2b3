//! The coordinator under random events in any order, against what must hold whatever happens.
//!
//! The world sends what subtasks and the writer could send, and a good deal that they should not: late, repeated and
//! foreign messages, answers of the writer that nobody asked for, messages of attempts that are over. A model that knows
//! nothing of the coordinator's insides follows its actions and checks them one by one.

use std::{collections::BTreeMap, time::Duration};

use isobar::checkpoint::{
    AbortReason, Acknowledgement, Action, Cause, CheckpointConfig, Coordinator, DeclineReason, Origin, SubtaskPhase,
    Trigger,
};
use proptest::prelude::*;

const SOURCES: usize = 2;
const SUBTASKS: usize = 4;
const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, and the coordinator is told.
    Tick {
        after_ns: u64,
    },
    /// Time passes until the coordinator's own deadline.
    Deadline,
    /// A subtask acknowledges a checkpoint `back` ids behind the newest.
    Acknowledge {
        subtask: usize,
        back: u64,
        attempts_ago: u64,
    },
    /// Every subtask does.
    AcknowledgeAll {
        back: u64,
    },
    Decline {
        subtask: usize,
        back: u64,
        attempts_ago: u64,
        failed: bool,
    },
    /// The writer answers for the checkpoint it was asked to commit.
    Durable,
    WriteFailed,
    /// The writer answers for one it was perhaps never asked about.
    StrayDurable {
        back: u64,
    },
    StrayWriteFailed {
        back: u64,
    },
    EndOfData {
        subtask: usize,
        attempts_ago: u64,
    },
    Finished {
        subtask: usize,
        attempts_ago: u64,
    },
    TriggerNow,
    Stop,
    /// A restore begins, and with `back` it ends at the back-th newest retained checkpoint.
    Restoring,
    Restored {
        back: usize,
    },
}

/// What the model knows of a checkpoint in flight.
#[derive(Clone, Debug)]
struct InFlight {
    cause: Cause,
    attempt: u64,
    acknowledged: Vec<usize>,
    committing: bool,
}

struct World {
    coordinator: Coordinator,
    now_ns: u64,
    started: bool,
    in_flight: BTreeMap<u64, InFlight>,
    newest: u64,
    completed: Vec<u64>,
    retained: Vec<u64>,
    /// Outcomes by the reason's kind.
    failed: u64,
    declined: u64,
    aborted: u64,
    failures_in_a_row: u32,
    last_end_ns: Option<u64>,
    is_over: bool,
    last_commit: u64,
    ended_sources: Vec<usize>,
    dry_sources: Vec<usize>,
}

impl World {
    fn new(config: CheckpointConfig) -> Self {
        let is_source: Vec<_> = (0..SUBTASKS).map(|subtask| subtask < SOURCES).collect();
        let mut world = Self {
            coordinator: Coordinator::new(config, &is_source, 1).unwrap(),
            now_ns: 1,
            started: true,
            in_flight: BTreeMap::new(),
            newest: 0,
            completed: Vec::new(),
            retained: Vec::new(),
            failed: 0,
            declined: 0,
            aborted: 0,
            failures_in_a_row: 0,
            last_end_ns: None,
            is_over: false,
            last_commit: 0,
            ended_sources: Vec::new(),
            dry_sources: Vec::new(),
        };
        world.coordinator.restored(None, &[], 1);
        world.check_actions();
        world
    }

    fn origin(&self, subtask: usize, attempts_ago: u64) -> Origin {
        Origin { attempt: self.coordinator.attempt().saturating_sub(attempts_ago), subtask }
    }

    fn apply(&mut self, event: Event) {
        self.now_ns += 1;
        let before = (self.coordinator.statistics(), self.coordinator.in_flight().collect::<Vec<_>>());
        let now_ns = self.now_ns;
        let is_from_the_past = match event {
            Event::Acknowledge { attempts_ago, .. }
            | Event::Decline { attempts_ago, .. }
            | Event::EndOfData { attempts_ago, .. }
            | Event::Finished { attempts_ago, .. } => attempts_ago > 0,
            _ => false,
        };
        self.send(event, now_ns);
        if is_from_the_past {
            let after = (self.coordinator.statistics(), self.coordinator.in_flight().collect::<Vec<_>>());
            assert_eq!(after.0.stale, before.0.stale + 1, "{event:?}");
            assert_eq!(after.1, before.1, "{event:?} had an effect");
            assert_eq!(self.coordinator.next_action(), None, "{event:?} had an effect");
        }
        self.check_actions();
        if self.coordinator.next_deadline().is_some_and(|deadline| deadline <= self.now_ns) {
            self.coordinator.tick(self.now_ns); // the driver's next step, at once
            self.check_actions();
        }
        self.check_state();
    }

    fn send(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Tick { after_ns } => {
                self.now_ns += after_ns;
                self.coordinator.tick(self.now_ns);
            }
            Event::Deadline => {
                if let Some(deadline) = self.coordinator.next_deadline() {
                    self.now_ns = self.now_ns.max(deadline);
                    self.coordinator.tick(self.now_ns);
                }
            }
            Event::Acknowledge { subtask, back, attempts_ago } => self.acknowledge(subtask, back, attempts_ago),
            Event::AcknowledgeAll { back } => {
                (0..SUBTASKS).for_each(|subtask| self.acknowledge(subtask, back, 0));
            }
            Event::Decline { subtask, back, attempts_ago, failed } => {
                let reason = if failed { DeclineReason::Failed("a bug".into()) } else { DeclineReason::WriterBehind };
                let checkpoint = self.newest.saturating_sub(back);
                self.coordinator.decline(self.origin(subtask, attempts_ago), checkpoint, reason, now_ns);
            }
            Event::Durable => {
                if let Some(checkpoint) = self.committing() {
                    self.coordinator.durable(checkpoint, now_ns);
                }
            }
            Event::WriteFailed => {
                if let Some(checkpoint) = self.committing() {
                    self.coordinator.write_failed(checkpoint, "EIO", now_ns);
                }
            }
            Event::StrayDurable { back } => {
                let checkpoint = self.newest.saturating_sub(back);
                // The writer can say that of nothing it was not asked for; the coordinator has to bear it all the same.
                self.coordinator.durable(checkpoint, now_ns);
            }
            Event::StrayWriteFailed { back } => {
                self.coordinator.write_failed(self.newest.saturating_sub(back), "EIO", now_ns);
            }
            Event::EndOfData { subtask, attempts_ago } => {
                self.coordinator.end_of_data(self.origin(subtask, attempts_ago), now_ns);
                if attempts_ago == 0 && subtask < SOURCES && !self.dry_sources.contains(&subtask) {
                    self.dry_sources.push(subtask);
                }
            }
            Event::Finished { subtask, attempts_ago } => {
                self.coordinator.subtask_finished(self.origin(subtask, attempts_ago), now_ns);
            }
            Event::TriggerNow => {
                if let Ok(checkpoint) = self.coordinator.trigger_now(now_ns) {
                    assert!(self.started && checkpoint > self.newest);
                }
            }
            Event::Stop => {
                let accepted = self.coordinator.stop(now_ns).is_ok();
                assert!(self.started || !accepted, "a stop during a restore");
            }
            Event::Restoring => self.restoring(now_ns),
            Event::Restored { back } => self.restored(back, now_ns),
        }
    }

    fn committing(&self) -> Option<u64> {
        self.in_flight.iter().find(|(_, flight)| flight.committing).map(|(&checkpoint, _)| checkpoint)
    }

    fn acknowledge(&mut self, subtask: usize, back: u64, attempts_ago: u64) {
        let origin = self.origin(subtask, attempts_ago);
        let checkpoint = self.newest.saturating_sub(back);
        // As a runtime would: a dry source says `last`, and an operator once all sources are dry.
        let last =
            if subtask < SOURCES { self.dry_sources.contains(&subtask) } else { self.dry_sources.len() == SOURCES };
        let outcome = self.coordinator.acknowledge(origin, checkpoint, last, self.now_ns);
        match (outcome, self.in_flight.get_mut(&checkpoint)) {
            (Acknowledgement::Accepted, Some(flight)) => {
                assert_eq!(origin.attempt, flight.attempt);
                assert!(!flight.acknowledged.contains(&subtask), "counted twice");
                flight.acknowledged.push(subtask);
            }
            (Acknowledgement::Accepted, None) => panic!("accepted for {checkpoint}, which is not in flight"),
            (Acknowledgement::Duplicate, flight) => assert!(flight.unwrap().acknowledged.contains(&subtask)),
            (Acknowledgement::Stale, _) => assert!(attempts_ago > 0 && origin.attempt < self.coordinator.attempt()),
            (Acknowledgement::Unknown, _) => {}
        }
    }

    fn restoring(&mut self, now_ns: u64) {
        let attempt = self.coordinator.attempt();
        assert_eq!(self.coordinator.restoring(now_ns), attempt + 1);
        self.started = false;
        self.dry_sources.clear();
        self.ended_sources.clear();
    }

    /// Ends a restore at a retained checkpoint (or at the start), where the writer has answered for everything, or not.
    fn restored(&mut self, back: usize, now_ns: u64) {
        if self.started {
            return;
        }
        let checkpoint = self.retained.iter().rev().nth(back).copied();
        self.coordinator.restored(checkpoint, &[], now_ns);
        self.started = true;
        self.is_over = false;
        self.check_actions();
        self.failures_in_a_row = 0;
        self.last_end_ns = None;
    }

    fn check_actions(&mut self) {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Trigger(trigger) => self.check_trigger(&trigger),
                Action::Abort { checkpoint, reason } => self.check_abort(checkpoint, &reason),
                Action::Commit { checkpoint, .. } => self.check_commit(checkpoint),
                Action::Completed(completion) => self.check_completed(completion.checkpoint),
                Action::Retire { checkpoint } => {
                    let place = self.retained.iter().position(|&kept| kept == checkpoint);
                    self.retained.remove(place.expect("retired something that is not kept"));
                }
                Action::SendEnd { subtask } => {
                    assert!(self.dry_sources.contains(&subtask), "source {subtask} has records left");
                    assert!(!self.ended_sources.contains(&subtask), "told twice");
                    self.ended_sources.push(subtask);
                }
                Action::Stop { checkpoint } => {
                    assert_eq!(checkpoint, self.completed.last().copied());
                    self.is_over = true;
                }
                Action::StopFailed { .. } => {}
                Action::FailJob(failure) => {
                    assert!(!self.is_over, "failed twice");
                    assert_eq!(failure.failures, self.failures_in_a_row);
                    assert!(failure.failures > failure.tolerable);
                    self.is_over = true;
                }
            }
        }
    }

    fn check_trigger(&mut self, trigger: &Trigger) {
        let config = self.coordinator.config();
        assert!(self.started && !self.is_over);
        assert!(trigger.checkpoint > self.newest, "ids only grow");
        assert_eq!(trigger.attempt, self.coordinator.attempt());
        assert_eq!(trigger.trigger_ns, self.now_ns);
        assert!(!trigger.sources.is_empty());
        assert!(trigger.sources.iter().all(|source| !self.ended_sources.contains(source)));
        if let (Cause::Periodic, Some(end_ns)) = (trigger.cause, self.last_end_ns) {
            assert!(self.now_ns >= end_ns + config.min_pause.as_nanos() as u64, "the pause was not kept");
        }
        let stop_in_flight = self.in_flight.values().any(|flight| flight.cause == Cause::Stop);
        assert!(!stop_in_flight, "triggered behind the barrier of a stop");
        self.newest = trigger.checkpoint;
        let flight =
            InFlight { cause: trigger.cause, attempt: trigger.attempt, acknowledged: vec![], committing: false };
        self.in_flight.insert(trigger.checkpoint, flight);
        assert!(self.in_flight.len() <= config.in_flight_max());
    }

    fn check_commit(&mut self, checkpoint: u64) {
        assert!(checkpoint > self.last_commit, "commits follow the ids");
        assert!(self.committing().is_none(), "two at a time");
        self.last_commit = checkpoint;
        let (&oldest, flight) = self.in_flight.iter_mut().next().expect("it is in flight");
        assert_eq!(oldest, checkpoint, "an older one could still complete behind it");
        flight.committing = true;
    }

    fn check_completed(&mut self, checkpoint: u64) {
        let flight = self.in_flight.remove(&checkpoint).expect("each checkpoint ends exactly once");
        assert!(flight.committing, "completed without its commit");
        assert!(self.completed.last().is_none_or(|&last| last < checkpoint), "completed ids strictly grow");
        self.completed.push(checkpoint);
        self.retained.push(checkpoint);
        self.failures_in_a_row = 0;
        self.last_end_ns = Some(self.now_ns);
    }

    fn check_abort(&mut self, checkpoint: u64, reason: &AbortReason) {
        let Some(flight) = self.in_flight.remove(&checkpoint) else {
            assert!(checkpoint > self.newest, "each checkpoint ends exactly once");
            self.newest = checkpoint; // a request that was not begun: its id is used up
            return;
        };
        let writer_or_restore = matches!(reason, AbortReason::WriteFailed(_) | AbortReason::Restoring);
        assert!(!flight.committing || writer_or_restore, "taken back from the writer: {reason}");
        match reason {
            reason if reason.is_failure() => {
                self.failed += 1;
                self.failures_in_a_row += 1;
            }
            AbortReason::Declined { .. } => self.declined += 1,
            _ => self.aborted += 1,
        }
        self.last_end_ns = Some(self.now_ns);
    }

    fn check_state(&self) {
        let statistics = self.coordinator.statistics();
        let in_flight: Vec<_> = self.coordinator.in_flight().collect();
        assert_eq!(in_flight, self.in_flight.keys().copied().collect::<Vec<_>>());
        assert_eq!(statistics.completed, self.completed.len() as u64);
        assert_eq!(
            (statistics.failed, statistics.declined, statistics.aborted),
            (self.failed, self.declined, self.aborted)
        );
        assert_eq!(statistics.triggered, statistics.ended() + in_flight.len() as u64);
        assert_eq!(self.coordinator.retained().collect::<Vec<_>>(), self.retained);
        assert!(self.retained.len() <= self.coordinator.config().retained);
        if let Some(deadline) = self.coordinator.next_deadline() {
            assert!(deadline > self.now_ns, "the driver would spin at {} for {deadline}", self.now_ns);
        }
    }

    /// Runs a well-behaved job whose source n runs dry at turn `dry_at[n]`, and whose n-th commit fails if `failures[n]`.
    fn run_to_end(&mut self, dry_at: &[u32], failures: &[bool]) -> bool {
        let mut failures = failures.iter();
        for turn in 0..2_000 {
            for source in (0..SOURCES).filter(|&source| dry_at[source] == turn) {
                self.apply(Event::EndOfData { subtask: source, attempts_ago: 0 });
            }
            for back in (0..4).rev() {
                self.apply(Event::AcknowledgeAll { back });
                let fails = failures.next() == Some(&true);
                self.apply(if fails { Event::WriteFailed } else { Event::Durable });
            }
            if self.ended_sources.len() == SOURCES && self.in_flight.is_empty() {
                (0..SUBTASKS).for_each(|subtask| self.apply(Event::Finished { subtask, attempts_ago: 0 }));
                return true;
            }
            self.apply(Event::Deadline);
        }
        false
    }

    /// From wherever the events have led: if the world behaves from now on, a checkpoint completes or the job ends.
    fn check_that_it_goes_on(&mut self) {
        if !self.started {
            self.restored(0, self.now_ns);
            self.check_actions();
        }
        let completed = self.completed.len();
        for _ in 0..50 {
            let over = self.is_over
                || (0..SOURCES).all(|source| {
                    let phase = self.coordinator.subtask_phase(source);
                    matches!(phase, Some(SubtaskPhase::Ended | SubtaskPhase::Finished))
                });
            if over || self.completed.len() > completed + 1 {
                return;
            }
            for back in (0..8).rev() {
                self.apply(Event::AcknowledgeAll { back });
                self.apply(Event::Durable);
            }
            self.apply(Event::Deadline);
        }
        panic!("no checkpoint completes any more: {:?}", self.coordinator);
    }
}

fn configs() -> impl Strategy<Value = CheckpointConfig> {
    let ms = |range: std::ops::Range<u64>| range.prop_map(Duration::from_millis);
    (
        ms(1..30),
        ms(5..80),
        prop_oneof![Just(Duration::ZERO), ms(1..40)],
        1..4usize,
        1..4usize,
        prop_oneof![0..4u32, Just(100)],
    )
        .prop_map(|(interval, timeout, min_pause, max_concurrent, retained, tolerable_failures)| {
            CheckpointConfig {
                timeout,
                min_pause,
                max_concurrent,
                retained,
                tolerable_failures,
                ..CheckpointConfig::every(interval)
            }
        })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let subtask = 0..SUBTASKS + 1; // one more than there is
    let back = prop_oneof![6 => 0..2u64, 1 => 2..6u64];
    let ago = prop_oneof![12 => Just(0u64), 1 => Just(1u64)];
    let event = prop_oneof![
        20 => (0..15 * MS).prop_map(|after_ns| Event::Tick { after_ns }),
        30 => Just(Event::Deadline),
        30 => back.clone().prop_map(|back| Event::AcknowledgeAll { back }),
        60 => (subtask.clone(), back.clone(), ago.clone())
            .prop_map(|(subtask, back, attempts_ago)| Event::Acknowledge { subtask, back, attempts_ago }),
        2 => (subtask.clone(), back.clone(), ago.clone(), any::<bool>())
            .prop_map(|(subtask, back, attempts_ago, failed)| Event::Decline { subtask, back, attempts_ago, failed }),
        60 => Just(Event::Durable),
        2 => Just(Event::WriteFailed),
        2 => back.clone().prop_map(|back| Event::StrayDurable { back }),
        1 => back.prop_map(|back| Event::StrayWriteFailed { back }),
        1 => (subtask.clone(), ago.clone())
            .prop_map(|(subtask, attempts_ago)| Event::EndOfData { subtask, attempts_ago }),
        1 => (subtask, ago).prop_map(|(subtask, attempts_ago)| Event::Finished { subtask, attempts_ago }),
        2 => Just(Event::TriggerNow),
        1 => Just(Event::Stop),
        1 => Just(Event::Restoring),
        6 => (0..3usize).prop_map(|back| Event::Restored { back }),
    ];
    prop::collection::vec(event, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn whatever_happens_every_checkpoint_ends_once_and_the_next_one_comes(config in configs(), events in events()) {
        let mut world = World::new(config);
        for event in events {
            world.apply(event);
        }
        world.check_that_it_goes_on();
    }

    /// A well-behaved bounded job, whose checkpoints fail now and then, always ends, with its last positions committed.
    #[test]
    fn a_bounded_job_ends_with_a_checkpoint_that_holds_its_last_positions(
        config in configs(),
        dry_at in prop::collection::vec(0..200u32, SOURCES),
        failures in prop::collection::vec(prop::bool::weighted(0.3), 200),
    ) {
        let mut world = World::new(CheckpointConfig { tolerable_failures: u32::MAX, ..config });
        prop_assert!(world.run_to_end(&dry_at, &failures), "it never ends: {:?}", world.coordinator);
        prop_assert!(world.coordinator.is_finished());
        prop_assert_eq!(world.coordinator.next_deadline(), None);
        prop_assert!(world.completed.last().is_some(), "the last positions are in no checkpoint");
    }
}
