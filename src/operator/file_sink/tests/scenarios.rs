//! Single behaviours, each with the fault that it answers.

use std::time::Duration;

use super::super::transaction::Transaction;
use super::super::{FileSinkOptions, NewerOutput};
use super::disk::{Disk, Fault};
use super::model::{open, public, settled, write};
use crate::operator::{Sink, SinkState};

fn every_checkpoint() -> FileSinkOptions {
    FileSinkOptions { roll: Duration::ZERO, ..FileSinkOptions::default() }
}

fn never() -> FileSinkOptions {
    FileSinkOptions { roll: Duration::from_secs(86_400), ..FileSinkOptions::default() }
}

/// Runs checkpoints 1 to `last` with one line each and crashes; gives the states.
fn run_and_crash(disk: &Disk, options: &FileSinkOptions, last: u64) -> Vec<SinkState> {
    let mut sinks = open(disk, options, &[], 1, 0).unwrap();
    let sink = &mut sinks[0];
    (1..=last)
        .map(|checkpoint| {
            write(sink, 0, checkpoint - 1);
            let state = sink.pre_commit(checkpoint).unwrap();
            settled(sink, checkpoint).unwrap();
            sink.commit(checkpoint).unwrap();
            state
        })
        .collect()
}

fn error_text(result: Result<impl Sized, crate::operator::OperatorError>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_part_carries_the_id_of_the_checkpoint_that_completed() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    write(&mut sinks[0], 0, 0);
    sinks[0].pre_commit(1).unwrap();
    settled(&mut sinks[0], 1).unwrap();
    // Checkpoint 1 fails elsewhere.
    write(&mut sinks[0], 0, 1);
    sinks[0].pre_commit(2).unwrap();
    settled(&mut sinks[0], 2).unwrap();
    sinks[0].commit(2).unwrap();
    sinks[0].close().unwrap();
    assert_eq!(disk.names(), ["part-0-2.csv"]);
    assert_eq!(disk.bytes("part-0-2.csv").unwrap(), b"0,0\n0,1\n");
}

#[test]
fn without_lines_there_is_no_file_at_all() {
    let disk = Disk::default();
    run_and_crash(&disk, &every_checkpoint(), 0);
    let mut sinks = open(&disk, &every_checkpoint(), &[], 2, 0).unwrap();
    for sink in &mut sinks {
        sink.pre_commit(0).unwrap();
        settled(sink, 0).unwrap();
        sink.commit(0).unwrap();
        sink.close().unwrap();
    }
    assert!(disk.names().is_empty());
}

#[test]
fn without_checkpoints_everything_is_committed_at_the_end_as_checkpoint_0() {
    for options in [every_checkpoint(), never()] {
        let disk = Disk::default();
        let mut sinks = open(&disk, &options, &[], 2, 0).unwrap();
        for (key, sink) in sinks.iter_mut().enumerate() {
            write(sink, key, 0);
            sink.pre_commit(0).unwrap();
            settled(sink, 0).unwrap();
            sink.commit(0).unwrap();
            sink.close().unwrap();
        }
        assert_eq!(disk.names(), ["part-0-0.csv", "part-1-0.csv"]);
    }
}

#[test]
fn a_failed_fsync_is_never_trusted_again() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    write(&mut sinks[0], 0, 0);
    disk.fail_once(Fault::SyncFile);
    sinks[0].pre_commit(1).unwrap();
    assert!(error_text(settled(&mut sinks[0], 1)).contains("injected at SyncFile"));
    sinks[0].pre_commit(2).unwrap();
    settled(&mut sinks[0], 2).unwrap();
    sinks[0].commit(2).unwrap();
    sinks[0].close().unwrap();
    disk.lose_power();
    assert_eq!(public(&disk)[&0], [0]);
}

#[test]
fn a_disk_that_keeps_failing_ends_the_job_when_memory_is_full() {
    let disk = Disk::default();
    let options = FileSinkOptions { memory_bytes_max: 1 << 20, ..never() };
    let mut sinks = open(&disk, &options, &[], 1, 0).unwrap();
    disk.fail_always(Some(Fault::Append));
    let record = |number| crate::channel::Record {
        ingest_ns: 0,
        event_ns: 0,
        key_group: 0,
        value: super::model::Line { key: 0, number },
    };
    let result = (0..1_000_000).try_for_each(|number| sinks[0].write(record(number)));
    let text = error_text(result);
    assert!(text.contains("injected at Append") && text.contains("then resume"), "{text}");
}

#[test]
fn a_slow_disk_asks_for_patience_and_loses_nothing() {
    let disk = Disk::default();
    let options = FileSinkOptions { memory_bytes_max: 1 << 20, ..never() };
    let mut sinks = open(&disk, &options, &[], 1, 0).unwrap();
    for number in 0..500_000 {
        write(&mut sinks[0], 0, number);
    }
    sinks[0].pre_commit(1).unwrap();
    settled(&mut sinks[0], 1).unwrap();
    assert!(sinks[0].has_room());
    sinks[0].commit(1).unwrap();
    sinks[0].close().unwrap();
    assert!(public(&disk)[&0].iter().copied().eq(0..500_000));
}

#[test]
fn committed_lines_that_are_gone_or_changed_are_an_error() {
    type Damage = fn(&Disk, &str);
    let cases: [(Damage, &str); 3] = [
        (|disk, name| disk.delete(name), "is missing, but checkpoint 2 committed 8 bytes"),
        (|disk, name| disk.put(name, b"0,0\n0,"), "has 6 bytes, but checkpoint 2 committed 8"),
        (|disk, name| disk.put(name, b"0,0\n0,9\n"), "differs from what checkpoint 2 committed"),
    ];
    for (damage, expected) in cases {
        let disk = Disk::default();
        let states = run_and_crash(&disk, &never(), 2);
        damage(&disk, ".part-0-0.pending");
        let text = error_text(open(&disk, &never(), &states[1..], 1, 2));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_restore_finds_lines_whose_publication_was_cut_off() {
    let disk = Disk::default();
    let states = run_and_crash(&disk, &never(), 2);
    // As if the process had died between the commit record and the rename, then between rename and the next commit.
    for _ in 0..2 {
        let mut sinks = open(&disk, &never(), &states[1..], 1, 2).unwrap();
        assert_eq!(disk.bytes("part-0-2.csv").unwrap(), b"0,0\n0,1\n");
        write(&mut sinks[0], 0, 2);
        sinks[0].pre_commit(3).unwrap();
        settled(&mut sinks[0], 3).unwrap();
    }
    assert_eq!(public(&disk)[&0], [0, 1]);
}

#[test]
fn going_back_behind_public_output_is_refused() {
    let disk = Disk::default();
    let states = run_and_crash(&disk, &every_checkpoint(), 3);
    let text = error_text(open(&disk, &every_checkpoint(), &states[..1], 1, 1));
    assert!(text.contains("part-0-2.csv, newer than the restored checkpoint 1"), "{text}");
    assert_eq!(public(&disk)[&0], [0, 1, 2], "nothing was touched");
}

#[test]
fn newer_output_is_discarded_on_request_and_older_lines_in_it_are_kept() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &never(), &[], 1, 0).unwrap();
    let mut states = Vec::new();
    for checkpoint in 1..=4 {
        write(&mut sinks[0], 0, checkpoint - 1);
        states.push(sinks[0].pre_commit(checkpoint).unwrap());
        settled(&mut sinks[0], checkpoint).unwrap();
        sinks[0].commit(checkpoint).unwrap();
    }
    sinks[0].close().unwrap();
    drop(sinks);
    assert_eq!(disk.names(), ["part-0-4.csv"]);
    let discard = FileSinkOptions { newer_output: NewerOutput::Discard, ..never() };
    // Twice: the first attempt dies before its first checkpoint.
    for _ in 0..2 {
        let sinks = open(&disk, &discard, &states[1..2], 1, 2).unwrap();
        assert_eq!(public(&disk)[&0], [0, 1]);
        drop(sinks);
    }
    let mut sinks = open(&disk, &discard, &states[1..2], 1, 2).unwrap();
    write(&mut sinks[0], 0, 2);
    sinks[0].pre_commit(5).unwrap();
    settled(&mut sinks[0], 5).unwrap();
    sinks[0].commit(5).unwrap();
    sinks[0].close().unwrap();
    assert_eq!(disk.names(), ["part-0-2.csv", "part-0-5.csv"], "leftovers are swept");
    assert_eq!(public(&disk)[&0], [0, 1, 2]);
}

#[test]
fn a_fresh_start_on_an_earlier_run_is_refused() {
    let disk = Disk::default();
    run_and_crash(&disk, &every_checkpoint(), 1);
    let text = error_text(open(&disk, &every_checkpoint(), &[], 1, 0));
    assert!(text.contains("holds part-0-1.csv of an earlier run"), "{text}");
}

#[test]
fn fewer_subtasks_take_over_what_more_had_pending() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &never(), &[], 3, 0).unwrap();
    for (key, sink) in sinks.iter_mut().enumerate() {
        write(sink, key, 0);
    }
    let states: Vec<_> = sinks.iter_mut().map(|sink| sink.pre_commit(1).unwrap()).collect();
    for sink in &mut sinks {
        settled(sink, 1).unwrap();
    }
    drop(sinks);
    let mut sinks = open(&disk, &never(), &states, 1, 1).unwrap();
    assert_eq!(disk.names(), ["part-0-1.csv", "part-1-1.csv", "part-2-1.csv"]);
    sinks[0].close().unwrap();
}

#[test]
fn leftovers_are_swept_after_the_first_commit_and_strangers_files_never() {
    let disk = Disk::default();
    for stranger in ["notes.txt", ".part-0-1.pending.bak", "part-0-01.csv"] {
        disk.put(stranger, b"mine");
    }
    for leftover in [".part-0-7.pending", ".part-9-3.pending", ".part-2-4.discarded"] {
        disk.put(leftover, b"gone");
    }
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    write(&mut sinks[0], 0, 0);
    let state = sinks[0].pre_commit(1).unwrap();
    assert_eq!(Transaction::decode(&state, 1).unwrap().pieces[0].sequence, 8, "names are never reused");
    settled(&mut sinks[0], 1).unwrap();
    sinks[0].commit(1).unwrap();
    sinks[0].close().unwrap();
    assert_eq!(disk.names(), [".part-0-1.pending.bak", "notes.txt", "part-0-01.csv", "part-0-1.csv"]);
}
