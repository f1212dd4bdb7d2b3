//! How a job ends: sources that run dry, the last checkpoint, and stops.

use super::*;

fn send_end(subtask: usize) -> Action {
    Action::SendEnd { subtask }
}

fn completed(action: &Action) -> Option<u64> {
    match action {
        Action::Completed(completion) => Some(completion.checkpoint),
        _ => None,
    }
}

#[test]
fn a_source_that_runs_dry_ends_with_the_next_complete_checkpoint() {
    let mut job = Job::start(every_10_ms());
    job.coordinator.end_of_data(job.from(0), 5 * MS);
    assert_eq!(job.actions(), [], "source 1 is still running: the interval decides");
    assert_eq!(job.coordinator.subtask_phase(0), Some(SubtaskPhase::EndOfData));
    assert_eq!(job.tick(10 * MS), [periodic(1, 10 * MS)]);
    job.acknowledge(0, 1, true, 11 * MS);
    job.acknowledge(1, 1, false, 11 * MS);
    job.acknowledge(2, 1, false, 11 * MS);
    assert_eq!(job.actions(), [Action::Commit { checkpoint: 1, ended: vec![0] }]);
    let actions = job.durable(1, 12 * MS);
    assert_eq!(completed(&actions[0]), Some(1));
    assert_eq!(actions[1..], [send_end(0)]);

    // From now on it is neither triggered nor waited for.
    let only_source_1 =
        Trigger { checkpoint: 2, attempt: 1, trigger_ns: 20 * MS, cause: Cause::Periodic, sources: vec![1] };
    assert_eq!(job.tick(20 * MS), [Action::Trigger(only_source_1)]);
    job.coordinator.subtask_finished(job.from(0), 21 * MS);
    job.acknowledge(1, 2, false, 22 * MS);
    job.acknowledge(2, 2, false, 22 * MS);
    assert_eq!(job.actions(), [Action::Commit { checkpoint: 2, ended: vec![0] }]);
}

#[test]
fn the_last_checkpoint_is_triggered_at_once_and_the_job_ends_behind_it() {
    let mut job = Job::start(CheckpointConfig { min_pause: Duration::from_secs(9), ..every_10_ms() });
    job.coordinator.end_of_data(job.from(1), 3 * MS);
    job.coordinator.end_of_data(job.from(0), 4 * MS);
    assert_eq!(job.actions(), [trigger(1, 4 * MS, Cause::EndOfData)]);
    for subtask in 0..3 {
        job.acknowledge(subtask, 1, true, 5 * MS);
    }
    assert_eq!(job.actions(), [Action::Commit { checkpoint: 1, ended: vec![0, 1, 2] }]);
    let actions = job.durable(1, 6 * MS);
    assert_eq!(actions[1..], [send_end(0), send_end(1)]);
    assert_eq!(job.coordinator.subtask_phase(2), Some(SubtaskPhase::Ended));
    assert_eq!(job.tick(500 * MS), []);
    assert_eq!(job.coordinator.trigger_now(500 * MS), Err(TriggerError::Ended));
    for subtask in 0..3 {
        assert!(!job.coordinator.is_finished());
        job.coordinator.subtask_finished(job.from(subtask), 501 * MS);
    }
    assert!(job.coordinator.is_finished());
    assert_eq!(job.coordinator.next_deadline(), None);
}

#[test]
fn the_checkpoint_in_flight_may_be_the_last_one_already() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    for source in [0, 1] {
        job.coordinator.end_of_data(job.from(source), 11 * MS);
    }
    for subtask in 0..3 {
        job.acknowledge(subtask, 1, true, 12 * MS);
    }
    let actions = job.durable(1, 13 * MS);
    assert!(!actions.iter().any(|action| matches!(action, Action::Trigger(_))), "{actions:?}");
    assert_eq!(job.tick(900 * MS), []);
}

#[test]
fn a_checkpoint_in_flight_that_came_too_early_is_followed_by_the_last_one() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    job.acknowledge(0, 1, false, 11 * MS);
    for source in [0, 1] {
        job.coordinator.end_of_data(job.from(source), 12 * MS);
    }
    job.acknowledge(1, 1, true, 13 * MS);
    job.acknowledge(2, 1, false, 13 * MS);
    job.actions();
    let actions = job.durable(1, 14 * MS);
    let only_source_0 =
        Trigger { checkpoint: 2, attempt: 1, trigger_ns: 14 * MS, cause: Cause::EndOfData, sources: vec![0] };
    assert_eq!(actions[1..], [send_end(1), Action::Trigger(only_source_0)]);
}

#[test]
fn a_last_checkpoint_that_fails_is_tried_again_after_a_pause() {
    let mut job = Job::start(CheckpointConfig::every(Duration::from_secs(600)));
    for source in [0, 1] {
        job.coordinator.end_of_data(job.from(source), 4 * MS);
    }
    job.actions();
    job.coordinator.write_failed(1, "EIO", 5 * MS);
    assert_eq!(job.actions().len(), 1, "aborted, nothing ended");
    assert_eq!(job.coordinator.next_deadline(), Some(1_005 * MS), "a second, not ten minutes");
    assert_eq!(job.tick(1_005 * MS), [trigger(2, 1_005 * MS, Cause::EndOfData)]);
}

#[test]
fn a_job_whose_last_checkpoint_always_fails_ends_with_an_error() {
    let mut job = Job::start(CheckpointConfig { tolerable_failures: 5, ..every_10_ms() });
    for source in [0, 1] {
        job.coordinator.end_of_data(job.from(source), 4 * MS);
    }
    let mut checkpoint = 0;
    while let Some(deadline) = job.coordinator.next_deadline() {
        checkpoint += 1;
        job.coordinator.tick(deadline.min(1_000_000 * MS));
        job.coordinator.write_failed(checkpoint, "read-only file system", deadline);
        assert!(checkpoint < 100, "it never ends");
    }
    assert_eq!(checkpoint, 6);
    assert!(matches!(job.actions().last(), Some(Action::FailJob(JobFailure { failures: 6, .. }))));
}

#[test]
fn with_checkpointing_off_sources_end_without_a_checkpoint() {
    let mut job = Job::start(CheckpointConfig::default());
    job.coordinator.end_of_data(job.from(0), MS);
    assert_eq!(job.actions(), [send_end(0)]);
    job.coordinator.end_of_data(job.from(0), MS);
    job.coordinator.end_of_data(job.from(1), MS);
    assert_eq!(job.actions(), [send_end(1)]);
    for subtask in 0..3 {
        job.coordinator.subtask_finished(job.from(subtask), 2 * MS);
    }
    assert!(job.coordinator.is_finished());
    assert_eq!(job.coordinator.statistics().triggered, 0);
}

#[test]
fn a_subtask_that_goes_without_its_acknowledgement_does_not_block_the_checkpoint_until_the_timeout() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    job.acknowledge(0, 1, false, 11 * MS);
    job.coordinator.subtask_finished(job.from(0), 12 * MS);
    assert_eq!(job.actions(), [], "it has acknowledged");
    job.coordinator.subtask_finished(job.from(2), 13 * MS);
    assert_eq!(job.actions(), [abort(1, AbortReason::SubtaskFinished { subtask: 2 })]);
    assert_eq!(job.coordinator.statistics().aborted, 1);
}

#[test]
fn a_restore_to_before_a_source_ended_has_it_run_again() {
    let mut job = Job::start(CheckpointConfig { retained: 2, ..every_10_ms() });
    job.tick(10 * MS);
    job.complete(1, 11 * MS);
    job.coordinator.end_of_data(job.from(0), 12 * MS);
    job.tick(20 * MS);
    job.acknowledge(0, 2, true, 21 * MS);
    job.acknowledge_all(2, 21 * MS);
    assert!(job.durable(2, 22 * MS).contains(&send_end(0)));
    job.coordinator.subtask_finished(job.from(0), 23 * MS);

    job.coordinator.restoring(24 * MS);
    job.coordinator.restored(Some(1), &[], 25 * MS);
    assert_eq!(job.actions(), [Action::Retire { checkpoint: 2 }]);
    assert_eq!(job.coordinator.subtask_phase(0), Some(SubtaskPhase::Running));
    let Action::Trigger(trigger) = &job.tick(35 * MS)[0] else { panic!("due") };
    assert_eq!((trigger.attempt, &trigger.sources[..]), (2, &[0, 1][..]));
}

#[test]
fn sources_that_had_ended_in_the_restored_checkpoint_end_again_at_once() {
    let mut coordinator = Coordinator::new(every_10_ms(), &[true, true, false], 2).unwrap();
    coordinator.continue_from(&[4], 4);
    coordinator.restored(Some(4), &[0], 0);
    assert_eq!(coordinator.next_action(), Some(send_end(0)));
    coordinator.tick(10 * MS);
    let Some(Action::Trigger(trigger)) = coordinator.next_action() else { panic!("due") };
    assert_eq!(trigger.sources, [1]);

    // A finished job, resumed: nothing is left to checkpoint.
    let mut coordinator = Coordinator::new(every_10_ms(), &[true, true, false], 3).unwrap();
    coordinator.continue_from(&[4], 4);
    coordinator.restored(Some(4), &[0, 1, 2], 0);
    coordinator.tick(900 * MS);
    let actions: Vec<_> = std::iter::from_fn(|| coordinator.next_action()).collect();
    assert_eq!(actions, [send_end(0), send_end(1)]);
}

#[test]
fn a_source_that_was_dry_before_the_start_was_noted_is_not_forgotten() {
    let mut coordinator = Coordinator::new(every_10_ms(), &[true], 1).unwrap();
    coordinator.end_of_data(Origin { attempt: 1, subtask: 0 }, 0);
    coordinator.restored(None, &[], MS);
    assert!(matches!(coordinator.next_action(), Some(Action::Trigger(Trigger { cause: Cause::EndOfData, .. }))));
}

#[test]
fn a_stop_ends_the_job_at_a_complete_checkpoint() {
    let mut job = Job::start(every_10_ms());
    job.tick(10 * MS);
    assert_eq!(job.coordinator.stop(11 * MS), Ok(()));
    assert_eq!(job.actions(), [], "it waits for its place");
    assert_eq!(job.coordinator.stop(11 * MS), Ok(()), "asking twice changes nothing");
    assert_eq!(job.coordinator.trigger_now(11 * MS), Err(TriggerError::Stopping));
    let actions = job.complete(1, 12 * MS);
    assert_eq!(actions[1..], [trigger(2, 12 * MS, Cause::Stop)]);
    assert_eq!(job.tick(300 * MS), [], "nothing is triggered behind it");
    let actions = job.complete(2, 301 * MS);
    assert_eq!(completed(&actions[0]), Some(2));
    assert_eq!(actions[1..], [Action::Stop { checkpoint: Some(2) }, Action::Retire { checkpoint: 1 }]);
    assert_eq!(job.coordinator.stop(302 * MS), Err(TriggerError::Ended));
    assert_eq!(job.tick(900 * MS), []);
}

#[test]
fn a_stop_whose_checkpoint_fails_leaves_a_running_job() {
    let mut job = Job::start(every_10_ms());
    job.coordinator.stop(MS).unwrap();
    assert_eq!(job.actions(), [trigger(1, MS, Cause::Stop)]);
    job.coordinator.decline(job.from(2), 1, DeclineReason::WriterBehind, 2 * MS);
    let reason = AbortReason::Declined { subtask: 2, reason: DeclineReason::WriterBehind };
    assert_eq!(job.actions(), [abort(1, reason.clone()), Action::StopFailed { reason }]);
    assert_eq!(job.tick(10 * MS), [periodic(2, 10 * MS)]);
    job.complete(2, 11 * MS);
    assert_eq!(job.coordinator.stop(12 * MS), Ok(()));
    assert_eq!(job.actions(), [trigger(3, 12 * MS, Cause::Stop)]);
}

#[test]
fn a_stop_with_checkpointing_off_is_immediate() {
    let mut job = Job::start(CheckpointConfig::default());
    job.coordinator.stop(MS).unwrap();
    assert_eq!(job.actions(), [Action::Stop { checkpoint: None }]);
}

#[test]
fn a_stop_at_the_end_of_the_input_gives_a_normal_end() {
    let mut job = Job::start(every_10_ms());
    for source in [0, 1] {
        job.coordinator.end_of_data(job.from(source), MS);
    }
    job.actions();
    job.coordinator.stop(2 * MS).unwrap();
    for subtask in 0..3 {
        job.acknowledge(subtask, 1, true, 3 * MS);
    }
    job.actions();
    assert_eq!(job.durable(1, 4 * MS)[1..], [send_end(0), send_end(1)]);
    assert_eq!(job.tick(900 * MS), [], "no stop, no further checkpoint");
}

#[test]
fn a_restore_in_the_middle_of_a_stop_says_that_the_stop_failed() {
    let mut job = Job::start(every_10_ms());
    job.coordinator.stop(MS).unwrap();
    job.acknowledge_all(1, 2 * MS);
    job.coordinator.restoring(3 * MS);
    assert_eq!(job.actions(), [Action::StopFailed { reason: AbortReason::Restoring }]);
    assert_eq!(job.durable(1, 4 * MS).len(), 1, "completed, and no stop");
    job.coordinator.restored(Some(1), &[], 5 * MS);
    assert!(matches!(job.tick(15 * MS)[0], Action::Trigger(_)));
}

#[test]
fn cancelling_gives_up_what_is_in_flight() {
    let mut job = Job::start(CheckpointConfig { max_concurrent: 2, ..every_10_ms() });
    job.tick(10 * MS);
    job.tick(20 * MS);
    job.acknowledge_all(1, 21 * MS);
    job.coordinator.cancel(22 * MS);
    assert_eq!(job.actions(), [abort(2, AbortReason::JobEnded)]);
    assert!(matches!(job.durable(1, 23 * MS)[0], Action::Completed(_)), "the writer had it");
    assert_eq!(job.tick(900 * MS), []);
}
