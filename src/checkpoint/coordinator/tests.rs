//! One test per rule of the coordinator. Random events in any order are in `tests/checkpoint_coordinator.rs`.

use std::time::Duration;

use super::*;

const MS: u64 = 1_000_000;

/// A coordinator at work: two sources (0 and 1), one operator (2), started at 0, a checkpoint every 10 ms.
struct Job {
    coordinator: Coordinator,
}

fn every_10_ms() -> CheckpointConfig {
    CheckpointConfig::every(Duration::from_millis(10))
}

impl Job {
    fn start(config: CheckpointConfig) -> Self {
        let mut coordinator = Coordinator::new(config, &[true, true, false], 1).unwrap();
        coordinator.restored(None, &[], 0);
        Self { coordinator }
    }

    fn from(&self, subtask: usize) -> Origin {
        Origin { attempt: self.coordinator.attempt(), subtask }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.coordinator.next_action()).collect()
    }

    fn tick(&mut self, now_ns: u64) -> Vec<Action> {
        self.coordinator.tick(now_ns);
        self.actions()
    }

    fn acknowledge(&mut self, subtask: usize, checkpoint: u64, last: bool, now_ns: u64) -> Acknowledgement {
        self.coordinator.acknowledge(self.from(subtask), checkpoint, last, now_ns)
    }

    fn acknowledge_all(&mut self, checkpoint: u64, now_ns: u64) -> Vec<Action> {
        for subtask in 0..3 {
            self.acknowledge(subtask, checkpoint, false, now_ns);
        }
        self.actions()
    }

    fn durable(&mut self, checkpoint: u64, now_ns: u64) -> Vec<Action> {
        self.coordinator.durable(checkpoint, now_ns);
        self.actions()
    }

    /// Takes `checkpoint` from its acknowledgements to its end.
    fn complete(&mut self, checkpoint: u64, now_ns: u64) -> Vec<Action> {
        self.acknowledge_all(checkpoint, now_ns);
        self.durable(checkpoint, now_ns)
    }
}

fn trigger(checkpoint: u64, trigger_ns: u64, cause: Cause) -> Action {
    Action::Trigger(Trigger { checkpoint, attempt: 1, trigger_ns, cause, sources: vec![0, 1] })
}

fn periodic(checkpoint: u64, trigger_ns: u64) -> Action {
    trigger(checkpoint, trigger_ns, Cause::Periodic)
}

fn commit(checkpoint: u64) -> Action {
    Action::Commit { checkpoint, ended: vec![] }
}

fn abort(checkpoint: u64, reason: AbortReason) -> Action {
    Action::Abort { checkpoint, reason }
}

fn failed(what: &str) -> DeclineReason {
    DeclineReason::Failed(what.into())
}

#[test]
fn a_checkpoint_goes_from_trigger_to_commit_to_completion() {
    let mut job = Job::start(every_10_ms());
    assert_eq!(job.coordinator.next_deadline(), Some(10 * MS));
    assert_eq!(job.tick(10 * MS - 1), []);
    assert_eq!(job.tick(10 * MS), [periodic(1, 10 * MS)]);
    assert_eq!(job.acknowledge(2, 1, false, 11 * MS), Acknowledgement::Accepted);
    assert_eq!(job.acknowledge(0, 1, false, 11 * MS), Acknowledgement::Accepted);
    assert_eq!(job.actions(), []);
    assert_eq!(job.acknowledge(1, 1, false, 12 * MS), Acknowledgement::Accepted);
    assert_eq!(job.actions(), [commit(1)]);
    let completion = Completion { checkpoint: 1, trigger_ns: 10 * MS, acknowledged_ns: 12 * MS, durable_ns: 13 * MS };
    assert_eq!(job.durable(1, 13 * MS), [Action::Completed(completion)]);
    assert_eq!(completion.end_to_end_ns(), 3 * MS);
    let expected = CheckpointStatistics { triggered: 1, completed: 1, ..Default::default() };
    assert_eq!(job.coordinator.statistics(), expected);
}

#[test]
fn nothing_is_triggered_before_the_start_or_with_checkpointing_off() {
    let mut coordinator = Coordinator::new(every_10_ms(), &[true], 1).unwrap();
    coordinator.tick(1_000 * MS);
    assert_eq!(coordinator.next_action(), None);
    assert_eq!(coordinator.next_deadline(), None);
    assert_eq!(coordinator.trigger_now(0), Err(TriggerError::Restoring));

    let mut job = Job::start(CheckpointConfig::default());
    assert_eq!(job.tick(1_000_000 * MS), []);
    assert_eq!(job.coordinator.trigger_now(1_000_000 * MS), Err(TriggerError::Off));
    assert_eq!(job.coordinator.statistics().refused, 1);
    assert_eq!(job.coordinator.next_deadline(), None);
}

#[test]
fn the_beat_of_the_interval_is_kept_and_missed_beats_are_not_made_up_for() {
    let mut job = Job::start(every_10_ms());
    assert_eq!(job.tick(10 * MS + 300), [periodic(1, 10 * MS + 300)]);
    job.complete(1, 12 * MS);
    assert_eq!(job.coordinator.next_deadline(), Some(20 * MS));
    assert_eq!(job.tick(57 * MS), [periodic(2, 57 * MS)], "a driver that overslept gets one, not four");
    job.complete(2, 58 * MS);
    assert_eq!(job.coordinator.next_deadline(), Some(67 * MS));
    assert_eq!(job.coordinator.statistics().delayed, 0, "nothing stood in the way of these");
}

#[test]
fn a_checkpoint_slower_than_the_interval_delays_the_next_one_and_is_reported() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    assert_eq!(job.tick(35 * MS), []);
    assert_eq!(job.coordinator.statistics().delayed, 1);
    assert_ne!(job.coordinator.next_deadline(), Some(20 * MS), "or the driver would spin");
    job.acknowledge_all(1, 36 * MS);
    let actions = job.durable(1, 37 * MS);
    assert_eq!(actions[1..], [periodic(2, 37 * MS)]);
    assert_eq!(job.coordinator.statistics().delayed, 1);
    job.complete(2, 55 * MS);
    assert_eq!(job.coordinator.statistics().delayed, 2, "also if nobody ticked while it was late");
}

#[test]
fn the_pause_is_kept_after_completion_and_after_failure() {
    let config = CheckpointConfig { min_pause: Duration::from_millis(30), max_concurrent: 4, ..every_10_ms() };
    let mut job = Job::start(config);
    job.tick(10 * MS);
    assert_eq!(job.tick(25 * MS), [], "a pause implies one at a time");
    job.complete(1, 26 * MS);
    assert_eq!(job.coordinator.next_deadline(), Some(56 * MS));
    assert_eq!(job.tick(56 * MS - 1), []);
    assert_eq!(job.tick(56 * MS), [periodic(2, 56 * MS)]);
    job.coordinator.write_failed(2, "disk full", 60 * MS);
    job.actions();
    assert_eq!(job.coordinator.next_deadline(), Some(90 * MS));
}

#[test]
fn no_more_are_in_flight_than_allowed_and_commits_follow_the_ids() {
    let mut job = Job::start(CheckpointConfig { max_concurrent: 2, ..every_10_ms() });
    assert_eq!(job.tick(10 * MS), [periodic(1, 10 * MS)]);
    assert_eq!(job.tick(20 * MS), [periodic(2, 20 * MS)]);
    assert_eq!(job.tick(30 * MS), []);
    assert_eq!(job.acknowledge_all(1, 31 * MS), [commit(1)]);
    assert_eq!(job.acknowledge_all(2, 32 * MS), [], "1 is with the writer");
    let actions = job.durable(1, 33 * MS);
    assert!(matches!(actions[0], Action::Completed(Completion { checkpoint: 1, .. })));
    assert_eq!(actions[1..], [commit(2), periodic(3, 33 * MS)]);
}

#[test]
fn a_checkpoint_that_all_acknowledged_subsumes_older_ones_that_wait() {
    let mut job = Job::start(CheckpointConfig { max_concurrent: 3, ..every_10_ms() });
    job.tick(10 * MS);
    job.tick(20 * MS);
    job.acknowledge(0, 1, false, 21 * MS);
    assert_eq!(job.acknowledge_all(2, 22 * MS), [abort(1, AbortReason::Subsumed { by: 2 }), commit(2)]);
    assert_eq!(job.acknowledge(1, 1, false, 23 * MS), Acknowledgement::Unknown);
    let statistics = job.coordinator.statistics();
    assert_eq!((statistics.aborted, statistics.failed, statistics.ignored), (1, 0, 1));
}

#[test]
fn a_checkpoint_without_its_acknowledgements_expires_and_the_next_one_still_comes() {
    let mut job = Job::start(CheckpointConfig { timeout: Duration::from_millis(15), ..every_10_ms() });
    job.tick(10 * MS);
    job.acknowledge(0, 1, false, 11 * MS);
    assert_eq!(job.coordinator.next_deadline(), Some(25 * MS));
    assert_eq!(job.tick(25 * MS), [abort(1, AbortReason::Expired { missing: 2 }), periodic(2, 25 * MS)]);
    assert_eq!(job.acknowledge(1, 1, false, 26 * MS), Acknowledgement::Unknown);
    assert_eq!(job.coordinator.statistics().failed, 1);
}

#[test]
fn the_timeout_does_not_touch_what_the_writer_has() {
    let mut job = Job::start(CheckpointConfig { timeout: Duration::from_millis(15), ..every_10_ms() });
    job.tick(10 * MS);
    job.acknowledge_all(1, 11 * MS);
    assert_eq!(job.tick(500 * MS), []);
    assert!(matches!(job.durable(1, 501 * MS)[0], Action::Completed(_)));
}

#[test]
fn a_declined_checkpoint_is_given_up_for_all() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    job.acknowledge(0, 1, false, 11 * MS);
    job.coordinator.decline(job.from(2), 1, DeclineReason::WriterBehind, 12 * MS);
    let reason = AbortReason::Declined { subtask: 2, reason: DeclineReason::WriterBehind };
    assert_eq!(job.actions(), [abort(1, reason)]);
    job.coordinator.decline(job.from(1), 1, failed("late"), 13 * MS);
    assert_eq!(job.actions(), []);
    let statistics = job.coordinator.statistics();
    assert_eq!((statistics.declined, statistics.failed, statistics.ignored), (1, 0, 1));
}

#[test]
fn more_failures_in_a_row_than_tolerated_fail_the_job_once() {
    let mut job = Job::start(CheckpointConfig { tolerable_failures: 1, ..every_10_ms() });
    let fail = |job: &mut Job, checkpoint, now_ns| {
        job.tick(now_ns);
        job.coordinator.write_failed(checkpoint, "no space left on device", now_ns);
        job.actions()
    };
    let reason = AbortReason::WriteFailed("no space left on device".into());
    assert_eq!(fail(&mut job, 1, 10 * MS), [abort(1, reason.clone())]);
    job.tick(20 * MS);
    job.complete(2, 21 * MS);
    assert_eq!(fail(&mut job, 3, 30 * MS), [abort(3, reason.clone())], "a completed one starts the count again");
    let failure = JobFailure { failures: 2, tolerable: 1, checkpoint: 4, reason: reason.clone() };
    let text = failure.to_string();
    assert_eq!(fail(&mut job, 4, 40 * MS), [abort(4, reason), Action::FailJob(failure)]);
    assert!(text.contains("2 checkpoints in a row") && text.contains("no space left"), "{text}");
    assert_eq!(job.tick(900 * MS), []);
    assert_eq!(job.coordinator.trigger_now(900 * MS), Err(TriggerError::Ended));
    // A restart begins anew.
    assert_eq!(job.coordinator.restoring(901 * MS), 2);
    job.coordinator.restored(Some(2), &[], 902 * MS);
    job.actions();
    assert!(matches!(job.tick(912 * MS)[0], Action::Trigger(_)));
}

#[test]
fn what_passes_by_itself_does_not_count_towards_the_tolerated_failures() {
    let mut job = Job::start(CheckpointConfig { tolerable_failures: 0, ..every_10_ms() });
    for n in 1..=5 {
        job.tick(n * 10 * MS);
        let reason = if n % 2 == 0 { DeclineReason::WriterBehind } else { DeclineReason::Superseded { by: n + 1 } };
        job.coordinator.decline(job.from(2), n, reason, n * 10 * MS);
    }
    assert!(!job.actions().iter().any(|action| matches!(action, Action::FailJob(_))));
    job.tick(60 * MS);
    job.coordinator.decline(job.from(2), 6, failed("a bug"), 61 * MS);
    assert!(job.actions().iter().any(|action| matches!(action, Action::FailJob(_))));
}

#[test]
fn a_requested_checkpoint_comes_at_once_or_when_there_is_room() {
    let mut job = Job::start(CheckpointConfig { min_pause: Duration::from_secs(1), ..every_10_ms() });
    assert_eq!(job.coordinator.trigger_now(MS), Ok(1));
    assert_eq!(job.actions(), [trigger(1, MS, Cause::Manual)]);
    assert_eq!(job.coordinator.trigger_now(2 * MS), Ok(2));
    assert_eq!(job.coordinator.trigger_now(3 * MS), Ok(2), "requests that wait are served by one");
    assert_eq!(job.actions(), []);
    assert_eq!(job.complete(1, 4 * MS)[1..], [trigger(2, 4 * MS, Cause::Manual)]);
    assert_eq!(job.complete(2, 5 * MS).len(), 2, "completed, retired the older one, and no third");
}

#[test]
fn old_checkpoints_are_retired_in_order() {
    let mut job = Job::start(CheckpointConfig { retained: 2, ..every_10_ms() });
    let mut retired = Vec::new();
    for n in 1..=4 {
        job.tick(n * 10 * MS);
        for action in job.complete(n, n * 10 * MS + 1) {
            if let Action::Retire { checkpoint } = action {
                retired.push(checkpoint);
            }
        }
    }
    assert_eq!(retired, [1, 2]);
    assert_eq!(job.coordinator.retained().collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn ids_go_on_behind_everything_the_store_ever_held() {
    let mut coordinator = Coordinator::new(every_10_ms(), &[true], 7).unwrap();
    coordinator.continue_from(&[17, 16], 20);
    coordinator.restored(Some(16), &[], 0);
    assert_eq!(coordinator.next_action(), Some(Action::Retire { checkpoint: 17 }), "it lies behind the cut");
    assert_eq!(coordinator.trigger_now(1), Ok(21));
    assert_eq!(coordinator.retained().collect::<Vec<_>>(), [16]);
}

#[test]
fn a_restore_fences_off_the_old_attempt_and_refuses_triggers() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    let old = [0, 1, 2].map(|subtask| job.from(subtask));
    assert_eq!(job.coordinator.restoring(11 * MS), 2);
    assert_eq!(job.actions(), [abort(1, AbortReason::Restoring)]);
    assert_eq!(job.coordinator.trigger_now(12 * MS), Err(TriggerError::Restoring));
    assert_eq!(job.coordinator.stop(12 * MS), Err(TriggerError::Restoring));
    assert_eq!(job.tick(30 * MS), []);
    job.coordinator.restored(None, &[], 31 * MS);
    assert_eq!(job.coordinator.trigger_now(32 * MS), Ok(2));
    job.actions();
    let before = job.coordinator.clone().statistics();
    for origin in old {
        assert_eq!(job.coordinator.acknowledge(origin, 2, true, 33 * MS), Acknowledgement::Stale);
        job.coordinator.decline(origin, 2, failed("old"), 33 * MS);
        job.coordinator.end_of_data(origin, 33 * MS);
        job.coordinator.subtask_finished(origin, 33 * MS);
    }
    assert_eq!(job.actions(), []);
    let after = job.coordinator.statistics();
    assert_eq!(after, CheckpointStatistics { stale: before.stale + 12, ..before });
    assert_eq!(job.acknowledge_all(2, 34 * MS), [commit(2)]);
}

#[test]
fn a_request_that_a_restore_overtakes_is_answered() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    assert_eq!(job.coordinator.trigger_now(11 * MS), Ok(2));
    job.coordinator.restoring(12 * MS);
    assert_eq!(job.actions(), [abort(2, AbortReason::Restoring), abort(1, AbortReason::Restoring)]);
    job.coordinator.restored(None, &[], 13 * MS);
    assert_eq!(job.coordinator.trigger_now(14 * MS), Ok(3), "an id is never used twice");
}

#[test]
fn a_checkpoint_with_the_writer_during_a_restore_ends_as_the_writer_or_the_restore_says() {
    let in_doubt = || {
        let mut job = Job::start(every_10_ms());
        job.tick(10 * MS);
        job.acknowledge_all(1, 11 * MS);
        job.coordinator.restoring(12 * MS);
        assert_eq!(job.actions(), []);
        job
    };
    // The writer answers in time.
    let mut job = in_doubt();
    assert!(matches!(job.durable(1, 13 * MS)[..], [Action::Completed(_)]));
    job.coordinator.restored(Some(1), &[], 14 * MS);
    assert_eq!(job.actions(), []);
    // It never answers, but the log has the record.
    let mut job = in_doubt();
    job.coordinator.restored(Some(1), &[], 14 * MS);
    assert!(matches!(job.actions()[..], [Action::Completed(Completion { checkpoint: 1, .. })]));
    // Nor is it counted twice among the retained if the store was read again.
    let mut job = in_doubt();
    job.coordinator.continue_from(&[1], 1);
    job.coordinator.restored(Some(1), &[], 14 * MS);
    assert_eq!(job.coordinator.retained().collect::<Vec<_>>(), [1]);
    // It never answers, and the log does not have it. The late answer has no effect.
    let mut job = in_doubt();
    job.coordinator.restored(None, &[], 14 * MS);
    assert_eq!(job.actions(), [abort(1, AbortReason::Restoring)]);
    assert_eq!(job.durable(1, 15 * MS), []);
    assert_eq!(job.coordinator.statistics().ignored, 1);
}

#[test]
fn repeated_and_unknown_messages_are_harmless_and_counted() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    assert_eq!(job.acknowledge(0, 1, false, 11 * MS), Acknowledgement::Accepted);
    assert_eq!(job.acknowledge(0, 1, false, 11 * MS), Acknowledgement::Duplicate);
    assert_eq!(job.acknowledge(9, 1, false, 11 * MS), Acknowledgement::Unknown);
    assert_eq!(job.acknowledge(0, 99, false, 11 * MS), Acknowledgement::Unknown);
    assert_eq!(job.durable(1, 12 * MS), [], "it was never committed");
    job.coordinator.write_failed(99, "unknown", 12 * MS);
    job.coordinator.end_of_data(job.from(2), 12 * MS); // not a source
    job.coordinator.end_of_data(job.from(9), 12 * MS);
    job.coordinator.subtask_finished(job.from(9), 12 * MS);
    job.coordinator.restored(None, &[], 12 * MS); // nobody was restoring
    assert_eq!(job.actions(), []);
    assert_eq!(job.coordinator.statistics().ignored, 9);
    for subtask in [1, 2] {
        job.acknowledge(subtask, 1, false, 13 * MS);
    }
    assert_eq!(job.actions(), [commit(1)]);
    assert_eq!(job.durable(1, 14 * MS).len(), 1);
    assert_eq!(job.durable(1, 15 * MS), []);
}

mod end_of_input;
