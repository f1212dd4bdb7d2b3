//! Damage: whatever byte is flipped, whatever is cut off or taken away, a restore is right or a typed error.
#![allow(clippy::unwrap_used)]

mod snapshot_model;

use std::sync::Arc;

use isobar::snapshot::*;
use snapshot_model::*;

/// The smallest store that has everything: two attempts, deltas, commits, and a clean end or a crash.
fn small_store(clean: bool) -> (MemoryStore, Model) {
    let store = MemoryStore::new();
    let mut model = Model::default();
    let mut log = CheckpointLog::create(Arc::new(store.clone()), manifest()).unwrap();
    for attempt in 0..2u64 {
        let mut writer = log.writer(log.last(), small()).unwrap();
        for checkpoint in attempt * 2 + 1..=attempt * 2 + 2 {
            for index in 0..4 {
                model.write(operator(0), index % 2, page(index), (checkpoint * 7) as usize, checkpoint as u8);
            }
            model.checkpoint(&mut writer, checkpoint, 2);
            settle(&mut writer, 100);
        }
        if clean {
            writer.command(Command::Close);
            settle(&mut writer, 100);
        }
        log = open(&store).unwrap();
    }
    let (segment, end) = data_end(&store);
    store.trim(segment, end as u64).unwrap();
    (store, model)
}

/// The last segment's number, and the end of what is written in it.
fn data_end(store: &MemoryStore) -> (u32, usize) {
    let &(segment, len) = store.lens().last().unwrap();
    let mut bytes = vec![0; len];
    store.read(segment, 0, &mut bytes).unwrap();
    let used = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    (segment, used.next_multiple_of(512))
}

/// Opens a damaged store and restores what it offers: all of it exactly right, or a one-line error. Returns the
/// last checkpoint that can be restored.
fn right_or_an_error(store: &MemoryStore, model: &Model, what: &str) -> Option<u64> {
    let one_line = |error: LogError| {
        let text = error.to_string();
        assert!(!text.contains('\n') && text.len() < 400, "{what}: {text}");
    };
    let log = match open(store) {
        Ok(log) => log,
        Err(error) => {
            one_line(error);
            return None;
        }
    };
    let mut last = None;
    for checkpoint in log.checkpoints() {
        match restored(&log, checkpoint) {
            Ok((pages, _)) => {
                assert!(pages == model.history[&checkpoint], "{what}: checkpoint {checkpoint} is wrong");
                last = Some(checkpoint);
            }
            Err(error) => one_line(error),
        }
    }
    last.or(Some(0))
}

#[test]
fn a_flip_of_any_byte_is_harmless_or_an_error_and_never_a_silent_step_back() {
    let (store, model) = small_store(true);
    let (mut harmless, mut errors) = (0, 0);
    for (segment, len) in store.lens() {
        for at in 0..len {
            let flipped = store.altered(Some(segment), |bytes| bytes[at] ^= 0x15);
            let what = format!("segment {segment}, byte {at}");
            match right_or_an_error(&flipped, &model, &what) {
                Some(4) => harmless += 1,
                // An open that succeeds lists checkpoint 4, so that its restore is refused, not forgotten.
                Some(_) => {
                    assert_eq!(open(&flipped).unwrap().last(), Some(4), "{what}");
                    errors += 1;
                }
                None => errors += 1,
            }
        }
    }
    assert!(harmless > 0 && errors > 0, "{harmless} harmless, {errors} errors");
    let manifest = store.read_manifest().unwrap().unwrap();
    for at in 0..manifest.len() {
        let flipped = store.altered(None, |bytes| bytes[at] ^= 0x15);
        assert!(open(&flipped).is_err(), "manifest, byte {at}");
    }
}

#[test]
fn without_a_clean_end_only_the_newest_checkpoint_can_be_taken_for_torn_and_that_is_told() {
    let (store, model) = small_store(false);
    for (segment, len) in store.lens() {
        for at in 0..len {
            let flipped = store.altered(Some(segment), |bytes| bytes[at] ^= 0x80);
            let what = format!("segment {segment}, byte {at}");
            if right_or_an_error(&flipped, &model, &what) == Some(3) {
                let log = open(&flipped).unwrap();
                let told = log.torn_tail().is_some_and(|torn| torn.checkpoint == 4) || log.last() == Some(4);
                assert!(told, "{what}");
            }
        }
    }
}

#[test]
fn both_copies_of_a_commit_that_was_complete_are_missed() {
    let (store, _) = small_store(true);
    for (segment, len) in store.lens() {
        // Records of kind commit, by their headers.
        let mut bytes = vec![0; len];
        store.read(segment, 0, &mut bytes).unwrap();
        let commits: Vec<usize> =
            (0..len).step_by(64).filter(|&at| bytes[at..].starts_with(b"ISBR\x01\0\x03")).collect();
        assert_eq!(commits.len(), 4, "two checkpoints a segment, each twice");
        for pair in commits.chunks(2) {
            let once = store.altered(Some(segment), |bytes| bytes[pair[0] + 70] ^= 1);
            assert!(open(&once).is_ok(), "the twin is used");
            let twice = store.altered(Some(segment), |bytes| pair.iter().for_each(|at| bytes[at + 70] ^= 1));
            let error = open(&twice).unwrap_err();
            assert!(matches!(error, LogError::Damaged { .. }), "{error}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_right_or_an_error() {
    let (store, model) = small_store(true);
    for (segment, len) in store.lens() {
        for at in (0..len).step_by(61) {
            let cut = store.altered(Some(segment), |bytes| bytes.truncate(at));
            right_or_an_error(&cut, &model, &format!("segment {segment} cut at {at}"));
        }
    }
    let manifest = store.read_manifest().unwrap().unwrap();
    for at in 0..manifest.len() {
        assert!(open(&store.altered(None, |bytes| bytes.truncate(at))).is_err());
    }
}

#[test]
fn zeros_and_garbage_over_any_sector_are_right_or_an_error() {
    let (store, model) = small_store(true);
    for (segment, len) in store.lens() {
        for at in (0..len).step_by(512) {
            for fill in [0, 0xff, 0x49] {
                let end = len.min(at + 512);
                let filled = store.altered(Some(segment), |bytes| bytes[at..end].fill(fill));
                right_or_an_error(&filled, &model, &format!("segment {segment}, sector at {at}, {fill:#x}"));
            }
        }
    }
}

#[test]
fn a_missing_segment_and_one_of_another_store_are_told_apart() {
    let (store, _) = small_store(true);
    let (other, _) = small_store(true);
    let [(first, _), (second, len)] = store.lens()[..] else { panic!("two segments") };
    let missing = store.altered(None, |_| ());
    missing.remove(first);
    assert!(matches!(open(&missing), Err(LogError::MissingSegment { .. })));
    let mut foreign = vec![0; len];
    let read = other.read(second, 0, &mut foreign).unwrap();
    let mixed = store.altered(Some(second), |bytes| *bytes = foreign[..read].to_vec());
    assert!(matches!(open(&mixed), Err(LogError::Foreign { .. })));
}

#[test]
fn a_read_that_fails_is_an_error_and_not_the_end_of_the_log() {
    let (store, model) = small_store(true);
    let mut nth = 1;
    loop {
        let mut left = nth;
        store.set_faults(move |operation| {
            left -= u32::from(operation == Operation::Read && left > 0);
            (operation == Operation::Read && left == 0).then_some(Fault::Io)
        });
        let opened = open(&store).and_then(|log| restored(&log, 4));
        store.clear_faults();
        match opened {
            Err(LogError::Store(StoreError::Io { .. })) => {}
            Ok((pages, _)) => {
                assert!(nth > 5 && pages == model.history[&4]);
                break;
            }
            Err(other) => panic!("read {nth}: {other}"),
        }
        nth += 1;
    }
}
