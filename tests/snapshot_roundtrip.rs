//! What was committed comes back: in memory and in a folder, across segments, attempts and steps back.
#![allow(clippy::unwrap_used)]

mod snapshot_model;

use std::path::Path;
use std::sync::{Arc, mpsc};

use isobar::failpoint::{self, Failpoint};
use isobar::snapshot::*;
use snapshot_model::*;

fn stores(folder: &Path) -> Vec<(&'static str, Arc<dyn Store>)> {
    vec![
        ("memory", Arc::new(MemoryStore::new())),
        ("io_uring", Arc::new(DirectoryStore::create(folder, "ring").unwrap())),
        ("pwrite", Arc::new(DirectoryStore::create(folder, "pwrite").unwrap().without_io_uring())),
    ]
}

fn reopen(store: &Arc<dyn Store>) -> CheckpointLog {
    CheckpointLog::open(Arc::clone(store), &OpenOptions::default()).unwrap()
}

/// Writes a few scattered lines, some of them in pages of their own.
fn touch(model: &mut Model, seed: u32, writes: u32) {
    for i in 0..writes {
        let n = seed.wrapping_mul(2_654_435_761).wrapping_add(i * 40_503) >> 4;
        model.write(operator(0), n % 2, page(n % 50), (n / 50 % 64) as usize, (seed + i) as u8 | 1);
    }
}

#[test]
fn every_checkpoint_restores_exactly_across_segments_and_attempts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, store) in stores(folder.path()) {
        let mut model = Model::default();
        let mut log = CheckpointLog::create(Arc::clone(&store), manifest()).unwrap();
        for attempt in 1..=3u64 {
            assert_eq!(log.next_attempt(), attempt);
            let mut writer = log.writer(log.last(), small()).unwrap();
            for checkpoint in log.highest() + 1..=log.highest() + 20 {
                touch(&mut model, checkpoint as u32, 120);
                model.checkpoint(&mut writer, checkpoint, 2);
                assert_eq!(durable(&settle(&mut writer, 7)), [checkpoint], "{name}");
            }
            drop(writer);
            log = reopen(&store);
            assert_eq!(log.checkpoints().collect::<Vec<_>>(), (1..=attempt * 20).collect::<Vec<_>>(), "{name}");
            assert_restores(&log, &model);
        }
        assert!(store.segments().unwrap().len() > 6, "{name}: segments were rolled over");
    }
}

#[test]
fn a_commit_record_carries_positions_sinks_and_the_times_of_the_phases() {
    let store = MemoryStore::new();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut model = Model::default();
    let mut writer = log.writer(None, small()).unwrap();
    for checkpoint in 1..=2 {
        touch(&mut model, checkpoint as u32, 10);
        model.checkpoint(&mut writer, checkpoint, 2);
    }
    let events = settle(&mut writer, 100);
    let commit = open(&store).unwrap().commit(2).unwrap();
    assert_eq!((commit.parent, commit.attempt), (1, 1));
    assert_eq!(commit.subtasks[1].position, Some(2001));
    assert_eq!(commit.subtasks[0].sink_state, 2u64.to_le_bytes());
    let Some(Event::Durable(first)) = events.first() else { panic!("{events:?}") };
    assert_eq!(commit.previous, Some(*first));
    let times = commit.subtasks[0].times;
    assert!(times.sync_ns == 700 && times.bytes > 0 && times.dirty_pages > 0 && times.async_ns >= times.pack_ns);
}

#[test]
fn a_checkpoint_takes_at_most_twice_its_dirty_lines_and_8_kib() {
    let folder = tempfile::tempdir().unwrap();
    for (name, store) in stores(folder.path()) {
        let log = CheckpointLog::create(Arc::clone(&store), manifest()).unwrap();
        let mut writer = log.writer(None, WriterConfig::default()).unwrap();
        let mut model = Model::default();
        for checkpoint in 1..=8u64 {
            // Alone in their pages, the worst case; the last checkpoint is empty.
            for index in 0..(8 - checkpoint as u32) * 400 {
                model.write(operator(0), index % 2, page(index), (index % 64) as usize, 5);
            }
            let dirty = model.dirty_lines() * LINE_BYTES as u64;
            model.checkpoint(&mut writer, checkpoint, 2);
            let events = settle(&mut writer, 1000);
            let [Event::Durable(completed)] = events[..] else { panic!("{events:?}") };
            assert!(completed.bytes <= 2 * dirty + (8 << 10), "{name}: {} bytes for {dirty}", completed.bytes);
            assert!(completed.bytes > dirty);
        }
    }
}

#[test]
fn going_back_forgets_the_branch_and_never_uses_an_id_twice() {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    for checkpoint in 1..=6 {
        touch(&mut model, checkpoint as u32, 30);
        model.checkpoint(&mut writer, checkpoint, 2);
        settle(&mut writer, 100);
    }
    let log = open(&store).unwrap();
    model.go_back(Some(3));
    let mut writer = log.writer(Some(3), small()).unwrap();
    // The attempt record alone decides, before anything else is written.
    let log = open(&store).unwrap();
    assert_eq!(log.checkpoints().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((log.highest(), log.next_attempt()), (6, 3));
    touch(&mut model, 99, 30);
    model.checkpoint(&mut writer, 7, 2);
    settle(&mut writer, 100);
    let log = open(&store).unwrap();
    assert_eq!(log.checkpoints().collect::<Vec<_>>(), [1, 2, 3, 7]);
    assert_restores(&log, &model);
    let unknown = log.commit(5).unwrap_err();
    assert!(matches!(unknown, LogError::UnknownCheckpoint { checkpoint: 5, .. }), "{unknown}");
}

#[test]
fn lines_of_aborted_checkpoints_are_in_the_next_one() {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    for checkpoint in 1..=9 {
        touch(&mut model, checkpoint as u32, 30);
        model.checkpoint(&mut writer, checkpoint, 2);
        if checkpoint % 3 != 0 {
            writer.command(Command::Abort { checkpoint });
            writer.command(Command::Abort { checkpoint });
        }
    }
    let events = settle(&mut writer, 5);
    assert_eq!((durable(&events), failed(&events)), (vec![3, 6, 9], vec![1, 2, 4, 5, 7, 8]));
    let log = open(&store).unwrap();
    assert_eq!(log.checkpoints().collect::<Vec<_>>(), [3, 6, 9]);
    assert_restores(&log, &model);
}

#[test]
fn lists_of_later_checkpoints_may_come_before_a_commit() {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    for checkpoint in 1..=2 {
        touch(&mut model, checkpoint as u32, 50);
        model.history.insert(checkpoint, model.pages.clone());
        for subtask in 0..2 {
            let pages = model.freeze(operator(0), subtask);
            writer.command(Command::Delta { checkpoint, operator: operator(0), subtask, pages });
        }
    }
    writer.command(Command::Commit(parts(1, 2)));
    assert_eq!(durable(&settle(&mut writer, 100)), [1]);
    assert_restores(&open(&store).unwrap(), &model);
    writer.command(Command::Commit(parts(2, 2)));
    settle(&mut writer, 100);
    writer.command(Command::Commit(parts(2, 2)));
    let events = settle(&mut writer, 100);
    assert!(matches!(events[..], [Event::Failed { checkpoint: 2, reason: FailReason::OutOfOrder { last: 2 } }]));
    let log = open(&store).unwrap();
    assert_eq!(log.last(), Some(2));
    assert_restores(&log, &model);
}

#[test]
fn a_commit_record_larger_than_a_buffer_is_written_and_one_larger_than_a_segment_fails() {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    let commit_of = |checkpoint, bytes| {
        let mut parts = parts(checkpoint, 1);
        parts.subtasks[0].sink_state = vec![7; bytes];
        Command::Commit(parts)
    };
    touch(&mut model, 1, 100);
    model.checkpoint(&mut writer, 1, 2);
    for (checkpoint, bytes) in [(2, 20_000), (3, 40_000), (4, 100)] {
        model.history.insert(checkpoint, model.pages.clone());
        writer.command(commit_of(checkpoint, bytes));
    }
    let events = settle(&mut writer, 100);
    assert_eq!((durable(&events), failed(&events)), (vec![1, 2, 4], vec![3]));
    let log = open(&store).unwrap();
    assert_eq!(log.commit(2).unwrap().subtasks[0].sink_state.len(), 20_000);
    assert_restores(&log, &model);
}

#[test]
fn the_thread_answers_every_commit_and_closes_with_a_seal() {
    let folder = tempfile::tempdir().unwrap();
    for (name, store) in stores(folder.path()) {
        let (events, inbox) = mpsc::channel();
        let log = CheckpointLog::create(Arc::clone(&store), manifest()).unwrap();
        let thread = WriterThread::start(log, None, small(), move |event| events.send(event).unwrap()).unwrap();
        assert_eq!(thread.attempt(), 1);
        assert_eq!(thread.info().backend, name, "{:?}", thread.info());
        let mut model = Model::default();
        for checkpoint in 1..=50u64 {
            touch(&mut model, checkpoint as u32, 40);
            model.history.insert(checkpoint, model.pages.clone());
            for subtask in 0..2 {
                let pages = model.freeze(operator(0), subtask);
                assert!(thread.command(Command::Delta { checkpoint, operator: operator(0), subtask, pages }));
            }
            assert!(thread.command(Command::Commit(parts(checkpoint, 2))));
        }
        assert!(thread.command(Command::Close));
        thread.join();
        let events: Vec<_> = inbox.iter().collect();
        assert_eq!(durable(&events), (1..=50).collect::<Vec<_>>(), "{name}");
        assert_eq!(events.last(), Some(&Event::Closed(None)));
        assert_restores(&reopen(&store), &model);
    }
}

#[test]
fn a_list_that_panics_ends_the_writer_with_an_event_and_not_in_silence() {
    struct Panics;
    impl FrozenPages for Panics {
        fn next(&mut self) -> Option<FrozenPage<'_>> {
            panic!("a broken list")
        }
    }
    let (events, inbox) = mpsc::channel();
    let log = CheckpointLog::create(Arc::new(MemoryStore::new()), manifest()).unwrap();
    let thread = WriterThread::start(log, None, small(), move |event| events.send(event).unwrap()).unwrap();
    thread.command(Command::Delta { checkpoint: 1, operator: operator(0), subtask: 0, pages: Box::new(Panics) });
    let Ok(Event::Closed(Some(why))) = inbox.recv() else { panic!("no event") };
    assert!(why.contains("a broken list"), "{why}");
}

#[test]
fn a_locked_a_missing_and_an_existing_store_are_one_line_errors() {
    let folder = tempfile::tempdir().unwrap();
    let missing = DirectoryStore::open(folder.path(), "job").unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
    let store = Arc::new(DirectoryStore::create(folder.path(), "job").unwrap());
    let locked = DirectoryStore::open(folder.path(), "job").unwrap_err().to_string();
    assert!(locked.contains(&format!("process {}", std::process::id())), "{locked}");
    let no_manifest = CheckpointLog::open(store.clone(), &OpenOptions::default()).unwrap_err();
    assert!(matches!(no_manifest, LogError::Store(StoreError::Missing { .. })), "{no_manifest}");
    CheckpointLog::create(store.clone(), manifest()).unwrap();
    let exists = CheckpointLog::create(store, manifest()).unwrap_err();
    assert!(matches!(&exists, LogError::Exists { job, .. } if job == "test"), "{exists}");
    for name in ["", "..", ".hidden", "a/b", "a b", &"x".repeat(101)] {
        assert!(matches!(DirectoryStore::create(folder.path(), name), Err(StoreError::JobName { .. })), "{name}");
    }
    for error in [missing.to_string(), locked, no_manifest.to_string(), exists.to_string()] {
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_and_a_file_in_the_way_are_one_line_errors() {
    let read_only = DirectoryStore::create(Path::new("/proc/1/isobar"), "job").unwrap_err();
    assert!(matches!(read_only, StoreError::Io { action: "create", .. }), "{read_only}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job"), "not a folder").unwrap();
    let blocked = DirectoryStore::create(folder.path(), "job").unwrap_err();
    assert!(matches!(blocked, StoreError::Io { .. }), "{blocked}");
}

#[test]
fn another_job_shape_is_refused_and_another_parallelism_adopted() {
    let store = MemoryStore::new();
    let mut log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut job = manifest();
    job.max_parallelism = 64;
    let error = log.adopt(&job).unwrap_err().to_string();
    assert!(error.contains("128") && error.contains("64"), "{error}");
    let mut job = manifest();
    job.operators[0].parallelism = 9;
    log.adopt(&job).unwrap();
    let opened = open(&store).unwrap();
    assert_eq!(opened.manifest().operators[0].parallelism, 9);
    assert_eq!(opened.manifest().store, log.manifest().store);
    assert_ne!(opened.manifest().store, job.store);
}

#[test]
fn a_manifest_replacement_that_stops_halfway_leaves_the_old_one_or_the_new_one() {
    for (point, expected) in [(Failpoint::BeforeRename, 2), (Failpoint::AfterRename, 9)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(DirectoryStore::create(folder.path(), "job").unwrap());
        let mut log = CheckpointLog::create(store, manifest()).unwrap();
        let mut job = manifest();
        job.operators[0].parallelism = 9;
        failpoint::inject(point, 1);
        assert!(log.adopt(&job).is_err());
        drop(log);
        let store = DirectoryStore::open(folder.path(), "job").unwrap();
        assert!(!store.folder().join("manifest.new").exists(), "leftovers are swept");
        let log = CheckpointLog::open(Arc::new(store), &OpenOptions::default()).unwrap();
        assert_eq!(log.manifest().operators[0].parallelism, expected);
    }
}

#[test]
fn a_restore_that_is_interrupted_says_so_and_can_be_repeated() {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    let mut writer = log.writer(None, small()).unwrap();
    touch(&mut model, 1, 50);
    model.checkpoint(&mut writer, 1, 2);
    settle(&mut writer, 100);
    let log = open(&store).unwrap();
    failpoint::inject(Failpoint::DuringRestore, 2);
    assert!(matches!(restored(&log, 1), Err(LogError::Apply { checkpoint: 1, .. })));
    assert!(matches!(
        log.restore(1, |_| Err::<(), _>("the state does not fit")),
        Err(LogError::Apply { source, .. }) if source.to_string() == "the state does not fit"
    ));
    assert_restores(&log, &model);
}
