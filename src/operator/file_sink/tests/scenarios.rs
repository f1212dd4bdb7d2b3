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
    sinks[0].close().unwrap();
    assert_eq!(disk.names(), ["part-0-1.csv", "part-1-1.csv", "part-2-1.csv"]);
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

/// The hidden files.
fn hidden(disk: &Disk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with('.')).collect()
}

/// The whole answer to checkpoint `id` with one more line.
fn checkpoint_with_line(sink: &mut super::model::LineSink, id: u64, number: u64) -> SinkState {
    write(sink, 0, number);
    let state = sink.pre_commit(id).unwrap();
    settled(sink, id).unwrap();
    sink.commit(id).unwrap();
    state
}

#[test]
fn a_file_prepared_before_a_kill_is_swept_after_the_next_start() {
    let disk = Disk::default();
    let sinks = open(&disk, &every_checkpoint(), &[], 2, 0).unwrap();
    let killed = disk.killed();
    drop(sinks);
    assert_eq!(hidden(&disk), [""; 0], "an orderly end removes it itself");
    assert_eq!(hidden(&killed), [".part-0-0.pending", ".part-1-1.pending"]);
    assert!(killed.bytes(".part-0-0.pending").unwrap().iter().all(|&byte| byte == 0));

    let mut sinks = open(&killed, &never(), &[], 1, 0).unwrap();
    checkpoint_with_line(&mut sinks[0], 1, 0);
    sinks[0].close().unwrap();
    drop(sinks);
    assert_eq!(killed.names(), ["part-0-1.csv"]);
    assert_eq!(killed.bytes("part-0-1.csv").unwrap(), b"0,0\n", "without the zeros");
}

#[test]
fn zeros_behind_the_committed_lines_are_no_lines() {
    for power in [false, true] {
        let disk = Disk::default();
        let mut sinks = open(&disk, &never(), &[], 1, 0).unwrap();
        let state = checkpoint_with_line(&mut sinks[0], 1, 0);
        let killed = disk.killed();
        drop(sinks);
        if power {
            killed.lose_power();
        }
        assert!(killed.bytes(".part-0-0.pending").unwrap().len() > 4, "prepared for more");
        open(&killed, &never(), &[state], 1, 1).unwrap();
        assert_eq!(killed.bytes("part-0-1.csv").unwrap(), b"0,0\n");
    }
}

#[test]
fn a_kill_between_cut_and_rename_loses_nothing() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    disk.fail_always(Some(Fault::Rename));
    let state = checkpoint_with_line(&mut sinks[0], 1, 0);
    while disk.bytes(".part-0-0.pending").unwrap() != b"0,0\n" {
        std::thread::yield_now();
    }
    for power in [false, true] {
        let killed = disk.killed();
        if power {
            killed.lose_power();
        }
        open(&killed, &every_checkpoint(), std::slice::from_ref(&state), 1, 1).unwrap();
        assert_eq!(killed.bytes("part-0-1.csv").unwrap(), b"0,0\n");
    }
}

#[test]
fn a_part_that_cannot_get_its_name_fails_checkpoints_until_it_can() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    let sink = &mut sinks[0];
    disk.fail_always(Some(Fault::Rename));
    checkpoint_with_line(sink, 1, 0);
    let mut id = 1;
    let mut checkpoint = |sink: &mut super::model::LineSink| {
        std::thread::sleep(Duration::from_millis(1));
        id += 1;
        let state = sink.pre_commit(id).unwrap();
        settled(sink, id).map(|()| Transaction::decode(&state, id).unwrap())
    };
    let failure = (0..1000).find_map(|_| checkpoint(sink).err()).unwrap().to_string();
    assert!(failure.contains("publishing failed: injected at Rename"), "{failure}");
    assert!(checkpoint(sink).is_err(), "and it stays so");
    disk.fail_always(None);
    let well = (0..1000).find_map(|_| checkpoint(sink).ok()).unwrap();
    assert_eq!(public(&disk)[&0], [0]);
    assert!(well.published <= 1, "the line is in the transaction, or its part is known to be public");
    sink.close().unwrap();
}

#[test]
fn without_a_prepared_file_lines_are_appended_to_an_empty_one() {
    for fault in [Fault::Create, Fault::Prepare, Fault::SyncFolder] {
        let disk = Disk::default();
        disk.fail_once(fault);
        let mut sinks = open(&disk, &never(), &[], 1, 0).unwrap();
        assert_eq!(hidden(&disk), [""; 0], "{fault:?}");
        checkpoint_with_line(&mut sinks[0], 1, 0);
        assert_eq!(disk.bytes(&hidden(&disk)[0]).unwrap(), b"0,0\n", "{fault:?}");
        disk.lose_power();
        assert_eq!(disk.bytes(&hidden(&disk)[0]).unwrap(), b"0,0\n", "{fault:?}");
        sinks[0].close().unwrap();
        assert_eq!(disk.names(), ["part-0-1.csv"]);
    }
}

#[test]
fn lines_may_outgrow_what_was_prepared() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &never(), &[], 1, 0).unwrap();
    // The simulated disk prepares 256 bytes.
    (0..100).for_each(|number| write(&mut sinks[0], 0, number));
    checkpoint_with_line(&mut sinks[0], 1, 100);
    (101..200).for_each(|number| write(&mut sinks[0], 0, number));
    checkpoint_with_line(&mut sinks[0], 2, 200);
    sinks[0].close().unwrap();
    disk.lose_power();
    assert!(public(&disk)[&0].iter().copied().eq(0..=200));
}

#[test]
fn the_next_file_is_prepared_before_it_is_needed() {
    let disk = Disk::default();
    let mut sinks = open(&disk, &every_checkpoint(), &[], 1, 0).unwrap();
    checkpoint_with_line(&mut sinks[0], 1, 0);
    while public(&disk).is_empty() || hidden(&disk).is_empty() {
        std::thread::yield_now();
    }
    let prepared = hidden(&disk);
    assert!(disk.bytes(&prepared[0]).unwrap().iter().all(|&byte| byte == 0));
    write(&mut sinks[0], 0, 1);
    let state = Transaction::decode(&sinks[0].pre_commit(2).unwrap(), 2).unwrap();
    let last = state.pieces.last().unwrap().sequence;
    assert_eq!(prepared, [format!(".part-0-{last}.pending")]);
    sinks[0].close().unwrap();
}
