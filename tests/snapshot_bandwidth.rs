//! How fast the writer writes here: `cargo test --release --test snapshot_bandwidth -- --ignored --nocapture`.
//!
//! ```text
//!   lists of full or scattered pages -> pack + CRC -> 1 MiB gathered writes -> one fdatasync a checkpoint
//! ```
//! The folder is a temporary one (`TMPDIR` chooses the disk). Every run restores its last checkpoint and counts what
//! comes back, so a fast wrong answer fails.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, mpsc};
use std::time::Instant;

use isobar::snapshot::*;

/// `pages` pages with the same mask, all with the same contents.
struct Pages {
    left: u32,
    mask: u64,
    bytes: Arc<[u8; PAGE_BYTES]>,
}

impl FrozenPages for Pages {
    fn next(&mut self) -> Option<FrozenPage<'_>> {
        self.left = self.left.checked_sub(1)?;
        let id = PageId { state: 0, key_group: 0, index: self.left };
        Some(FrozenPage { id, mask: self.mask, bytes: &self.bytes })
    }
}

struct Figures {
    seconds: f64,
    bytes: u64,
    pack_ns: u64,
    async_p50_us: u64,
    durable_p50_us: u64,
}

/// Takes `checkpoints` one after the other, each when the one before is durable.
fn run(store: Arc<dyn Store>, checkpoints: u64, pages: u32, mask: u64) -> Figures {
    let operator = OperatorId::from_name("operator");
    let log = CheckpointLog::create(Arc::clone(&store), Manifest::new("job", 128, Vec::new())).unwrap();
    let (events, inbox) = mpsc::channel();
    let writer =
        WriterThread::start(log, None, WriterConfig::default(), move |event| events.send(event).unwrap()).unwrap();
    let bytes = Arc::new([7; PAGE_BYTES]);
    let (mut total, mut asyncs, mut durables) = (0, Vec::new(), Vec::new());
    let started = Instant::now();
    for checkpoint in 1..=checkpoints {
        let list = Box::new(Pages { left: pages, mask, bytes: Arc::clone(&bytes) });
        writer.command(Command::Delta { checkpoint, operator, subtask: 0, pages: list });
        let subtask = SubtaskCommit {
            operator,
            subtask: 0,
            position: None,
            sink_state: Vec::new(),
            finished: false,
            times: PhaseTimes::default(),
        };
        writer.command(Command::Commit(CommitParts { checkpoint, wall_clock_ns: 0, subtasks: vec![subtask] }));
        let Ok(Event::Durable(done)) = inbox.recv() else { panic!("checkpoint {checkpoint} failed") };
        total += done.bytes;
        asyncs.push(done.async_ns / 1000);
        durables.push(done.durable_ns / 1000);
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("  {:?}", writer.info());
    writer.command(Command::Close);
    writer.join();
    let log = CheckpointLog::open(store, &OpenOptions::default()).unwrap();
    let mut restored = 0;
    let commit = log.restore(checkpoints, |_| {
        restored += 1;
        Ok::<(), LogError>(())
    });
    assert_eq!(restored, checkpoints * u64::from(pages));
    asyncs.sort_unstable();
    durables.sort_unstable();
    Figures {
        seconds,
        bytes: total,
        pack_ns: commit.unwrap().subtasks[0].times.pack_ns,
        async_p50_us: asyncs[asyncs.len() / 2],
        durable_p50_us: durables[durables.len() / 2],
    }
}

#[test]
#[ignore = "a measurement: writes 1.5 GB"]
fn write_bandwidth_and_the_time_a_small_checkpoint_takes() {
    for ring in [true, false] {
        for (what, checkpoints, pages, mask) in
            [("large: 64 MiB of full pages", 8, 16_384, u64::MAX), ("small: 24,000 single lines", 100, 24_000, 1)]
        {
            let folder = tempfile::tempdir().unwrap();
            let store = DirectoryStore::create(folder.path(), "job").unwrap();
            let store = if ring { store } else { store.without_io_uring() };
            println!("{what}");
            let figures = run(Arc::new(store), checkpoints, pages, mask);
            println!(
                "  {:.2} GB/s over all, {:.2} MB a checkpoint; p50 {} us until durable, of it {} us behind the commit \
                 record; packing {:.2} GB/s ({} ns a page)",
                figures.bytes as f64 / figures.seconds / 1e9,
                figures.bytes as f64 / checkpoints as f64 / 1e6,
                figures.async_p50_us,
                figures.durable_p50_us,
                figures.bytes as f64 / checkpoints as f64 / figures.pack_ns as f64,
                figures.pack_ns / u64::from(pages),
            );
        }
    }
}
