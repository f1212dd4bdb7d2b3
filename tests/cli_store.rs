//! Stores and output folders that hold something already.

mod cli_support;

use std::fs;

use cli_support::Place;
use isobar::snapshot::DirectoryStore;

const RUN: &str = "run orderbook --input input.itch --store ck --output out --output-roll 0s --summary s.csv \
                   --checkpoint-interval 5ms --quiet";

fn finished() -> Place {
    let place = Place::new();
    place.itch(60_000, 20);
    place.run(RUN).succeeds();
    place
}

#[test]
fn an_earlier_run_is_refused_unless_resumed_or_overwritten() {
    let place = finished();
    let (summary, lines) = (place.read("s.csv"), place.lines_by_symbol("out"));
    place.run(RUN).fails(1, "--store ck holds an earlier run");
    place.run(&RUN.replace("--store ck", "")).fails(1, "--output out holds an earlier run");
    assert_eq!(place.lines_by_symbol("out"), lines, "nothing was touched");

    // A finished job that is resumed ends at once, with the same answer.
    fs::remove_file(place.path("s.csv")).unwrap();
    place.run(&format!("{RUN} --resume")).succeeds();
    assert_eq!(place.read("s.csv"), summary);
    assert_eq!(place.lines_by_symbol("out"), lines);

    for strangers in ["out/notes.txt", "out/part-0-01.csv", "ck/notes.txt", "ck/orderbook/notes.txt"] {
        place.file(strangers, "mine");
    }
    place.run(&format!("{RUN} --overwrite")).succeeds();
    assert_eq!(place.read("s.csv"), summary);
    fs::remove_file(place.path("out/part-0-01.csv")).unwrap();
    assert_eq!(place.lines_by_symbol("out"), lines);
    for stranger in ["out/notes.txt", "ck/notes.txt", "ck/orderbook/notes.txt"] {
        assert_eq!(place.read(stranger), "mine");
    }
}

#[test]
fn resuming_nothing_starts_afresh_and_says_so() {
    let place = Place::new();
    place.itch(20_000, 10);
    let said = place.run("run orderbook --input input.itch --store ck --resume --summary s.csv");
    assert!(said.succeeds().error.contains("ck holds no checkpoint: starting afresh"), "{said:?}");
    let again = place.run("run orderbook --input input.itch --store ck --resume --summary s.csv");
    assert!(again.succeeds().error.contains("restored checkpoint"), "{again:?}");
    assert!(!again.error.contains("starting afresh"));
}

#[test]
fn a_store_that_was_lost_does_not_repeat_its_output() {
    let place = finished();
    fs::remove_dir_all(place.path("ck")).unwrap();
    place.run(&format!("{RUN} --resume")).fails(1, "--output out holds an earlier run, but --store holds none");
}

#[test]
fn another_input_is_refused() {
    let place = finished();
    place.file("other", "");
    let other = RUN.replace("input.itch", "other");
    place.run(&format!("{other} --resume")).fails(1, "length");
    // The same length, another head.
    let mut bytes = fs::read(place.path("input.itch")).unwrap();
    bytes[20] ^= 1;
    place.file("other", bytes);
    place.run(&format!("{other} --resume")).fails(1, "hash");
}

#[test]
fn another_set_of_operators_is_refused() {
    let place = finished();
    let without = RUN.replace("--output out --output-roll 0s", "");
    place.run(&format!("{without} --resume")).fails(1, "output");
}

#[test]
fn a_store_in_use_is_refused() {
    let place = finished();
    let holder = DirectoryStore::open(&place.path("ck"), "orderbook").unwrap();
    let words = format!("process {} is using this store", std::process::id());
    place.run(&format!("{RUN} --resume")).fails(1, &words);
    place.run(&format!("{RUN} --overwrite")).fails(1, &words);
    place.run("checkpoints list ck").fails(1, &words);
    drop(holder);
    place.run("checkpoints list ck").succeeds();
}

#[test]
fn an_unknown_checkpoint_and_newer_output_are_refused_and_discarded_on_request() {
    let place = finished();
    let (summary, lines) = (place.read("s.csv"), place.lines_by_symbol("out"));
    place.run(&format!("{RUN} --restore 999999")).fails(1, "checkpoint 999999 is not in");
    place.run(&format!("{RUN} --restore 1")).fails(1, "newer than the restored checkpoint 1");
    place.run(&format!("{RUN} --restore 1 --discard-newer-output")).succeeds();
    assert_eq!(place.read("s.csv"), summary);
    assert_eq!(place.lines_by_symbol("out"), lines);
}

#[test]
fn a_damaged_store_is_an_error_and_never_a_wrong_answer() {
    let place = finished();
    let summary = place.read("s.csv");
    let manifest = place.path("ck/orderbook/manifest");
    let log = fs::read_dir(place.path("ck/orderbook/log")).unwrap().next().unwrap().unwrap().path();
    let (good_manifest, mut good_log) = (fs::read(&manifest).unwrap(), fs::read(&log).unwrap());
    // What is preallocated behind the end is nothing that could be damaged.
    good_log.truncate(good_log.iter().rposition(|&byte| byte != 0).unwrap() + 1);

    let resumed = |what: &str| {
        let _ = fs::remove_file(place.path("s.csv"));
        let said = place.run(&format!("{RUN} --resume"));
        match said.code {
            Some(0) => assert_eq!(place.read("s.csv"), summary, "{what}"),
            Some(1) => said.fails(1, ""),
            _ => panic!("{what}: {said:?}"),
        }
        said.code
    };
    for (what, bytes, words) in [
        ("foreign", b"something else entirely".to_vec(), "is not the manifest of an isobar store"),
        ("empty", Vec::new(), "is not the manifest"),
        ("cut", good_manifest[..good_manifest.len() - 1].to_vec(), "is damaged"),
    ] {
        fs::write(&manifest, bytes).unwrap();
        assert_eq!(resumed(what), Some(1), "{what}");
        place.run("checkpoints list ck").fails(1, words);
    }
    for at in [0, 8, 20, 40, good_manifest.len() - 1] {
        let mut bytes = good_manifest.clone();
        bytes[at] ^= 0x40;
        fs::write(&manifest, bytes).unwrap();
        assert_eq!(resumed(&format!("manifest byte {at}")), Some(1));
    }
    fs::write(&manifest, &good_manifest).unwrap();

    for at in [0, good_log.len() / 4, good_log.len() / 2, good_log.len() - 100] {
        let mut bytes = good_log.clone();
        bytes[at] ^= 0x40;
        fs::write(&log, bytes).unwrap();
        resumed(&format!("log byte {at}"));
        // What a resumed run added is not part of the next case.
        for entry in fs::read_dir(place.path("ck/orderbook/log")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    fs::write(&log, &good_log[..good_log.len() / 3]).unwrap();
    assert_eq!(resumed("a cut log"), Some(1), "its output is public already");
    fs::remove_file(&log).unwrap();
    assert_eq!(resumed("no log"), Some(1));
}

#[test]
fn damaged_output_is_an_error() {
    let place = Place::new();
    place.itch(60_000, 20);
    let line = RUN.replace("--output-roll 0s", "--output-roll 1h").replace("--quiet", "--quiet --rate 100000/s");
    // Dies with everything pending.
    let mut command = place.isobar(&line);
    command.env("ISOBAR_FAILPOINT", "after_fdatasync:20");
    assert_eq!(command.status().unwrap().code(), None, "killed by its failpoint");
    let pending: Vec<_> = fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!pending.is_empty());
    for file in &pending {
        fs::write(file, "short").unwrap();
    }
    place.run(&format!("{line} --resume")).fails(1, "committed");
}
