//! The same on a real file system.

use std::fs;
use std::time::Duration;

use super::super::{FileSinkOptions, Holdings, Outputs};
use crate::channel::Record;
use crate::operator::Sink;

fn number(record: &Record<u64>, out: &mut Vec<u8>) {
    out.extend(record.value.to_string().bytes().chain(*b"\n"));
}

#[test]
fn a_run_a_crash_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/out");
    let options = FileSinkOptions { roll: Duration::from_secs(86_400), ..FileSinkOptions::default() };
    let record = |value| Record { ingest_ns: 0, event_ns: 0, key_group: 0, value };

    let mut sink = Outputs::open(&path, options.clone()).unwrap().sink(number);
    sink.open(0, &[], 0).unwrap();
    (0..50_000).for_each(|n| sink.write(record(n)).unwrap());
    let state = sink.pre_commit(1).unwrap();
    while !sink.pre_committed(1).unwrap() {}
    (50_000..100_000).for_each(|n| sink.write(record(n)).unwrap());
    drop(sink);
    assert_eq!(Outputs::holdings(&path).unwrap(), Holdings { parts: 0, hidden: 1, newest: None });

    let mut sink = Outputs::open(&path, options).unwrap().sink(number);
    sink.open(0, &[state], 1).unwrap();
    (50_000..60_000).for_each(|n| sink.write(record(n)).unwrap());
    sink.pre_commit(2).unwrap();
    while !sink.pre_committed(2).unwrap() {}
    sink.commit(2).unwrap();
    sink.close().unwrap();

    let lines = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    let expected: String = (0..60_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(lines("part-0-1.csv") + &lines("part-0-2.csv"), expected);
    assert_eq!(Outputs::holdings(&path).unwrap(), Holdings { parts: 2, hidden: 0, newest: Some(2) });

    fs::write(path.join("notes.txt"), "mine").unwrap();
    assert_eq!(Outputs::remove_all(&path).unwrap(), 2);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "the stranger's file stays");
    assert_eq!(Outputs::holdings(&folder.path().join("nowhere")).unwrap(), Holdings::default());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let path = folder.path().join("file/out");
    let error = Outputs::open(&path, FileSinkOptions::default()).err().unwrap().to_string();
    assert!(error.contains("cannot make output folder") && error.contains("file/out"), "{error}");
}
