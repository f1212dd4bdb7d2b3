//! One test per rule of the aligner. The prefix equation over random interleavings is in `tests/prefix_equation.rs`.

use super::*;

fn gate(mode: AlignmentMode, channels: usize) -> Aligner {
    Aligner::new(mode, channels)
}

fn exactly_once(channels: usize) -> Aligner {
    gate(AlignmentMode::ExactlyOnce, channels)
}

fn at_least_once(channels: usize) -> Aligner {
    gate(AlignmentMode::AtLeastOnce, channels)
}

fn decisions(aligner: &mut Aligner) -> Vec<Decision> {
    std::iter::from_fn(|| aligner.decide()).collect()
}

fn snapshot(checkpoint: u64, first_barrier_ns: u64, t_align_ns: u64) -> Decision {
    Decision::Snapshot(Snapshot { checkpoint, first_barrier_ns, t_align_ns, carried: () })
}

fn stopped(aligner: &Aligner) -> Vec<usize> {
    (0..aligner.channels()).filter(|&channel| aligner.is_stopped(channel)).collect()
}

#[test]
fn one_channel_snapshots_at_each_barrier_without_stopping() {
    let mut aligner = exactly_once(1);
    for id in 1..=3 {
        assert_eq!(aligner.barrier(0, id, (), id * 10), Arrival::Counted);
        assert_eq!(decisions(&mut aligner), [snapshot(id, id * 10, 0)]);
        assert!(stopped(&aligner).is_empty());
    }
}

#[test]
fn channels_stop_until_the_last_of_five_has_the_barrier() {
    let mut aligner = exactly_once(5);
    for (n, channel) in [3, 0, 4, 1].into_iter().enumerate() {
        aligner.barrier(channel, 1, (), 100 + n as u64);
        assert_eq!(decisions(&mut aligner), []);
        assert!(aligner.is_stopped(channel));
    }
    assert_eq!(stopped(&aligner), [0, 1, 3, 4]);
    assert_eq!(aligner.aligning(), Some(1));
    aligner.barrier(2, 1, (), 150);
    assert_eq!(decisions(&mut aligner), [snapshot(1, 100, 50)]);
    assert!(stopped(&aligner).is_empty());
    assert_eq!(aligner.aligning(), None);
}

#[test]
fn at_least_once_stops_nobody_and_follows_several_checkpoints() {
    let mut aligner = at_least_once(2);
    for id in 1..=3 {
        aligner.barrier(0, id, (), id);
        assert_eq!(decisions(&mut aligner), []);
        assert!(stopped(&aligner).is_empty());
    }
    for id in 1..=3 {
        aligner.barrier(1, id, (), 10 + id);
        assert_eq!(decisions(&mut aligner), [snapshot(id, id, 10)]);
    }
}

#[test]
fn an_ended_channel_counts_as_aligned_before_and_during_alignment() {
    let mut aligner = exactly_once(3);
    aligner.ended(2, 5);
    aligner.barrier(0, 1, (), 10);
    assert_eq!(decisions(&mut aligner), []);
    aligner.ended(1, 30);
    assert_eq!(decisions(&mut aligner), [snapshot(1, 10, 20)]);
    assert!(stopped(&aligner).is_empty());
    aligner.barrier(0, 2, (), 40);
    assert_eq!(decisions(&mut aligner), [snapshot(2, 40, 0)]);
    assert!(!aligner.all_ended());
    aligner.ended(0, 50);
    aligner.ended(0, 60);
    assert!(aligner.all_ended());
    assert_eq!(decisions(&mut aligner), []);
}

#[test]
fn the_end_of_the_last_channel_completes_every_checkpoint_in_order() {
    let mut aligner = at_least_once(2);
    aligner.barrier(0, 1, (), 10);
    aligner.barrier(0, 2, (), 20);
    aligner.ended(0, 25);
    aligner.ended(1, 30);
    assert_eq!(decisions(&mut aligner), [snapshot(1, 10, 20), snapshot(2, 20, 10)]);
}

#[test]
fn a_newer_barrier_supersedes_the_older_checkpoint_and_frees_its_channels() {
    let mut aligner = exactly_once(3);
    aligner.barrier(0, 1, (), 10);
    aligner.barrier(1, 1, (), 11);
    aligner.barrier(2, 2, (), 12);
    assert_eq!(decisions(&mut aligner), [Decision::Superseded { checkpoint: 1, by: 2 }]);
    assert_eq!(stopped(&aligner), [2]);
    aligner.barrier(0, 2, (), 20);
    aligner.barrier(1, 2, (), 21);
    assert_eq!(decisions(&mut aligner), [snapshot(2, 12, 9)], "t_align is that of 2, not of 1");
}

#[test]
fn an_older_barrier_behind_a_newer_one_is_reported_once_and_never_taken() {
    for mut aligner in [exactly_once(3), at_least_once(3)] {
        aligner.barrier(0, 2, (), 10);
        assert_eq!(aligner.barrier(1, 1, (), 11), Arrival::PassedOver);
        assert!(!aligner.is_stopped(1));
        assert_eq!(decisions(&mut aligner), [Decision::Superseded { checkpoint: 1, by: 2 }]);
        assert_eq!(aligner.barrier(2, 1, (), 12), Arrival::PassedOver);
        assert_eq!(decisions(&mut aligner), []);
        aligner.barrier(1, 2, (), 13);
        aligner.barrier(2, 2, (), 14);
        assert_eq!(decisions(&mut aligner), [snapshot(2, 10, 4)]);
    }
}

#[test]
fn a_channel_that_skipped_a_barrier_and_ended_still_supersedes_it() {
    let mut aligner = at_least_once(2);
    aligner.barrier(0, 2, (), 10);
    aligner.ended(0, 11);
    aligner.barrier(1, 1, (), 12);
    assert_eq!(decisions(&mut aligner), [Decision::Superseded { checkpoint: 1, by: 2 }]);
}

#[test]
fn an_abort_takes_effect_once_in_whatever_order_it_comes() {
    // Before any barrier.
    let mut aligner = exactly_once(2);
    assert!(aligner.abort(1));
    assert!(!aligner.abort(1));
    assert_eq!(aligner.barrier(0, 1, (), 1), Arrival::PassedOver);
    assert!(stopped(&aligner).is_empty());
    assert_eq!(aligner.barrier(1, 1, (), 2), Arrival::PassedOver);
    assert_eq!(decisions(&mut aligner), []);
    assert!(!aligner.abort(1));

    // Between the barriers.
    let mut aligner = exactly_once(2);
    aligner.barrier(0, 1, (), 1);
    assert!(aligner.abort(1));
    assert_eq!(decisions(&mut aligner), []);
    assert!(stopped(&aligner).is_empty());
    aligner.barrier(0, 2, (), 2);
    assert_eq!(aligner.barrier(1, 1, (), 3), Arrival::PassedOver);
    assert_eq!(stopped(&aligner), [0]);
    aligner.barrier(1, 2, (), 4);
    assert_eq!(decisions(&mut aligner), [snapshot(2, 2, 2)]);

    // After the snapshot.
    assert!(!aligner.abort(2));
    assert!(!aligner.abort(1));
}

#[test]
fn an_abort_of_a_newer_checkpoint_leaves_an_older_one_alone() {
    for mut aligner in [exactly_once(2), at_least_once(2)] {
        assert!(aligner.abort(2));
        aligner.barrier(0, 1, (), 1);
        aligner.barrier(1, 1, (), 2);
        assert_eq!(decisions(&mut aligner), [snapshot(1, 1, 1)]);
        assert_eq!(aligner.barrier(0, 2, (), 3), Arrival::PassedOver);
        assert_eq!(aligner.barrier(1, 2, (), 4), Arrival::PassedOver);
        assert_eq!(decisions(&mut aligner), []);
    }
}

#[test]
fn an_abort_while_a_sibling_ends_leaves_nobody_stopped() {
    let mut aligner = exactly_once(3);
    aligner.barrier(0, 1, (), 1);
    aligner.ended(1, 2);
    aligner.abort(1);
    aligner.ended(2, 3);
    assert_eq!(decisions(&mut aligner), []);
    assert!(stopped(&aligner).is_empty());
    aligner.barrier(0, 2, (), 4);
    assert_eq!(decisions(&mut aligner), [snapshot(2, 4, 0)]);
}

#[test]
fn duplicates_change_nothing() {
    let mut aligner = exactly_once(2);
    aligner.barrier(0, 1, (), 1);
    assert_eq!(aligner.barrier(0, 1, (), 2), Arrival::PassedOver);
    assert_eq!(decisions(&mut aligner), []);
    assert!(aligner.is_stopped(0));
    aligner.barrier(1, 1, (), 9);
    assert_eq!(decisions(&mut aligner), [snapshot(1, 1, 8)]);
    assert_eq!(aligner.barrier(1, 1, (), 10), Arrival::PassedOver);
    assert_eq!(decisions(&mut aligner), []);
}

#[test]
fn a_barrier_read_past_a_stop_gives_that_checkpoint_up() {
    let mut aligner = exactly_once(2);
    aligner.barrier(0, 1, (), 1);
    aligner.barrier(0, 2, (), 2); // the owner broke the rule: records behind barrier 1 are consumed
    assert_eq!(decisions(&mut aligner), [Decision::Superseded { checkpoint: 1, by: 2 }]);
    assert_eq!(aligner.barrier(1, 1, (), 3), Arrival::PassedOver);
    aligner.barrier(1, 2, (), 4);
    assert_eq!(decisions(&mut aligner), [snapshot(2, 2, 2)]);
}

#[test]
fn stamps_that_run_backwards_give_no_negative_alignment_time() {
    let mut aligner = exactly_once(2);
    aligner.barrier(0, 1, (), 100);
    aligner.barrier(1, 1, (), 90);
    assert_eq!(decisions(&mut aligner), [snapshot(1, 100, 0)]);
}

#[test]
fn the_snapshot_gives_back_what_the_first_barrier_carried() {
    let mut aligner = Aligner::new(AlignmentMode::ExactlyOnce, 2);
    aligner.barrier(1, 1, "first", 1);
    aligner.ended(0, 2);
    let Some(Decision::Snapshot(snapshot)) = aligner.decide() else { panic!("complete") };
    assert_eq!(snapshot.carried, "first");
}

#[test]
fn a_channel_that_lags_for_ever_costs_the_oldest_checkpoint_not_memory() {
    let mut aligner = at_least_once(2);
    let capacity = aligner.tracked.capacity();
    let mut lost = Vec::new();
    for id in 1..=3 * TRACKED_MAX as u64 {
        aligner.barrier(0, id, (), id);
        lost.extend(decisions(&mut aligner));
    }
    assert_eq!(lost.len(), 2 * TRACKED_MAX);
    assert_eq!(lost[0], Decision::Superseded { checkpoint: 1, by: TRACKED_MAX as u64 + 1 });
    assert_eq!(aligner.tracked.capacity(), capacity, "nothing was allocated");
    // The channel wakes up: what was given up is passed over, the rest is taken in order.
    let mut taken = Vec::new();
    for id in 1..=3 * TRACKED_MAX as u64 {
        aligner.barrier(1, id, (), id + 1_000);
        taken.extend(decisions(&mut aligner));
    }
    let expected: Vec<_> =
        (2 * TRACKED_MAX as u64 + 1..=3 * TRACKED_MAX as u64).map(|id| snapshot(id, id, 1_000)).collect();
    assert_eq!(taken, expected);
}

#[test]
fn a_gate_without_channels_has_ended() {
    let mut aligner = exactly_once(0);
    assert!(aligner.all_ended());
    assert!(aligner.abort(1));
    assert_eq!(decisions(&mut aligner), []);
}
