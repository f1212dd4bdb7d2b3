//! What keyed state costs: updates against hashbrown, the freeze against fork and a full copy, running snapshots, and
//! memory for an entry.
//!
//!     cargo bench --bench state                 all sections, about a minute
//!     cargo bench --bench state -- updates      one section: updates, freeze, snapshots, memory or inserts
//!     cargo bench --bench state -- --test       small sizes, to see that all of it works
//!
//! Comparisons are paired: both sides alternate in one run, and the ratio is the median of the rounds' ratios. Every
//! section asserts its answer.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use isobar::hash::{key_group, stable_hash};
use isobar::state::{Arena, ArenaOptions, FrozenList, KeyedMap};

const GROUPS: u16 = 128;
/// What hashbrown fills to 86 % of its table (4 Mi slots, 71 MB): its densest, and for it fastest, size near 64 MiB.
const ENTRIES_64_MIB: u64 = 3_600_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let smoke = arguments.iter().any(|a| a == "--test") || !arguments.iter().any(|a| a == "--bench");
    let chosen: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    #[allow(clippy::type_complexity)] // a name and what it runs
    let sections: [(&str, fn(bool)); 5] =
        [("updates", updates), ("freeze", freeze), ("snapshots", snapshots), ("memory", memory), ("inserts", inserts)];
    for (name, run) in sections {
        if chosen.is_empty() || chosen.contains(&name) {
            println!("\n{name}");
            run(smoke);
        }
    }
}

/// One operation: a key and, as a record would bring it, its key group.
#[derive(Clone, Copy)]
struct Op {
    key: u64,
    group: u16,
}

impl Op {
    fn of(key: u64) -> Self {
        Self { key, group: key_group(stable_hash(&key.to_le_bytes()), GROUPS) }
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

fn uniform_ops(entries: u64, ops: usize) -> Vec<Op> {
    let mut random = Random(1);
    (0..ops).map(|_| Op::of(random.next() % entries)).collect()
}

struct State {
    arena: Arena,
    map: KeyedMap<u64, u64>,
}

impl State {
    fn with_entries(entries: u64) -> Self {
        let options = ArenaOptions { key_groups: 0..GROUPS, ..ArenaOptions::default() };
        let mut arena = Arena::new(options).expect("address space");
        let map = KeyedMap::open(&mut arena, "map", 1).expect("a new state");
        let mut state = Self { arena, map };
        (0..entries).for_each(|key| state.set(Op::of(key), 0));
        drain(state.arena.freeze().expect("nothing waits"));
        state
    }

    fn set(&mut self, op: Op, value: u64) {
        self.arena.set_key_group(op.group).expect("all groups are ours");
        self.map.insert(&mut self.arena, op.key, value).expect("memory");
    }

    #[inline(always)]
    fn update(&mut self, op: Op) {
        self.arena.set_key_group(op.group).expect("all groups are ours");
        self.map.modify(&mut self.arena, &op.key, |value| *value += 1).expect("memory").expect("the key is there");
    }

    /// Updates whose cache misses overlap.
    fn update_batched(&mut self, ops: &[Op]) {
        let add = |_: &Op, value: Option<&mut u64>| *value.expect("the key is there") += 1;
        self.map.modify_batch(&mut self.arena, ops, |op| (op.group, op.key), add).expect("memory");
    }

    fn sum(&self) -> u64 {
        let mut sum = 0;
        self.map.for_each(&self.arena, |_, value| sum += value);
        sum
    }
}

fn drain(mut list: FrozenList) {
    while list.next().is_some() {}
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q).round() as usize]
}

fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// Uniform updates of existing keys, no checkpoints, against hashbrown with foldhash.
fn updates(smoke: bool) {
    let (entries, ops, rounds) = if smoke { (10_000, 10_000, 3) } else { (ENTRIES_64_MIB, 1 << 20, 15) };
    let ops = uniform_ops(entries, ops);
    let mut state = State::with_entries(entries);
    let mut peer: HashMap<u64, u64, RandomState> = HashMap::default();
    peer.extend((0..entries).map(|key| (key, 0)));

    let (mut single, mut batched, mut rates) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        let ours = seconds(|| ops.iter().for_each(|op| state.update(*op)));
        let theirs = seconds(|| {
            ops.iter().for_each(|op| *peer.get_mut(&op.key).expect("the key is there") += 1);
        });
        let ours_batched = seconds(|| state.update_batched(&ops));
        single.push(theirs / ours);
        batched.push(theirs / ours_batched);
        for (rates, seconds) in rates.iter_mut().zip([ours, ours_batched, theirs]) {
            rates.push(ops.len() as f64 / seconds / 1e6);
        }
    }
    assert_eq!(state.sum(), 2 * rounds * ops.len() as u64);
    assert_eq!(peer.values().sum::<u64>(), rounds * ops.len() as u64);
    let [ours, ours_batched, theirs] = rates.map(median);
    println!(
        "  {entries} entries of 16 bytes, uniform, M updates/s: single {ours:.1}, batched {ours_batched:.1}, hashbrown {theirs:.1}"
    );
    println!("  ratio to hashbrown: single {:.3} (target 0.8), batched {:.3}", median(single), median(batched));
}

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(code: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// How long fork() stops this process.
fn fork_seconds() -> f64 {
    let start = Instant::now();
    let child = fork();
    if child == 0 {
        _exit(0);
    }
    let elapsed = start.elapsed().as_secs_f64();
    // SAFETY: waits for a child of ours; no status is asked for.
    unsafe { waitpid(child, std::ptr::null_mut(), 0) };
    elapsed
}

/// The synchronous phase: a freeze, by size of the state, with up to 20,000 pages dirty.
fn freeze(smoke: bool) {
    let sizes: &[u64] = if smoke { &[1 << 20, 4 << 20] } else { &[1 << 20, 16 << 20, 256 << 20, 1 << 30] };
    let freezes = if smoke { 20 } else { 200 };
    let mut timer: Vec<_> = (0..1000).map(|_| seconds(|| ())).collect();
    println!("  timer alone p50 {:.0} ns", quantile(&mut timer, 0.5) * 1e9);
    let mut first = None;
    for &bytes in sizes {
        let entries = bytes / 23;
        let mut state = State::with_entries(entries);
        let ops = uniform_ops(entries, 22_000.min(entries as usize));
        let (mut times, mut dirty) = (Vec::new(), 0);
        for _ in 0..freezes {
            ops.iter().for_each(|op| state.update(*op));
            dirty = state.arena.stats().dirty_pages;
            let start = Instant::now();
            let list = black_box(state.arena.freeze().expect("the writer is through"));
            times.push(start.elapsed().as_secs_f64());
            assert_eq!(list.len(), dirty as usize);
            drain(list);
        }
        assert_eq!(state.sum(), (freezes * ops.len()) as u64);
        let fork = fork_seconds();
        let mut copy = Vec::with_capacity(entries as usize);
        let full_copy = seconds(|| state.map.for_each(&state.arena, |key, value| copy.push((*key, *value))));
        assert_eq!(copy.len() as u64, entries);
        let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
        let base = *first.get_or_insert(p50);
        println!(
            "  {:>5} MiB, {dirty:>6} dirty pages: freeze p50 {:>4.0} ns, p99 {:>5.0} ns, {:.2} x p50 at 1 MiB; fork {:>8.0} us; full copy {:>8.0} us",
            bytes >> 20,
            p50 * 1e9,
            p99 * 1e9,
            p50 / base,
            fork * 1e6,
            full_copy * 1e6,
        );
    }
}

/// Packs frozen lists to memory, as the log's writer does, until the sender is gone.
fn pack(lists: mpsc::Receiver<FrozenList>) -> (u64, u64) {
    let mut block: Vec<u8> = Vec::with_capacity((1 << 20) + 8192);
    let (mut bytes, mut pages) = (0, 0);
    for mut list in lists {
        while let Some(page) = list.next() {
            block.extend_from_slice(&page.id.index.to_le_bytes());
            block.extend_from_slice(&page.mask.to_le_bytes());
            page.lines().for_each(|(_, line)| block.extend_from_slice(line));
            pages += 1;
            if block.len() >= 1 << 20 {
                bytes += black_box(&block).len() as u64;
                block.clear();
            }
        }
    }
    (bytes + block.len() as u64, pages)
}

fn on_core(core: usize) {
    if let Some(core) = core_affinity::get_core_ids().unwrap_or_default().get(core) {
        core_affinity::set_for_current(*core);
    }
}

#[derive(Default)]
struct Round {
    updates_per_s: f64,
    checkpoints: u64,
    declined: u64,
    bytes: u64,
    pages: u64,
}

/// Updates for a while, with a freeze every `interval`.
fn round(state: &mut State, ops: &[Op], duration: Duration, interval: Option<Duration>) -> Round {
    let (sender, lists) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        on_core(1);
        pack(lists)
    });
    let mut result = Round::default();
    let (mut updates, start) = (0u64, Instant::now());
    let mut next_freeze = interval;
    'round: loop {
        for batch in ops.chunks(256) {
            batch.iter().for_each(|op| state.update(*op));
            updates += batch.len() as u64;
            let elapsed = start.elapsed();
            if elapsed >= duration {
                result.updates_per_s = updates as f64 / elapsed.as_secs_f64();
                break 'round;
            }
            if let (Some(due), Some(interval)) = (next_freeze, interval)
                && elapsed >= due
            {
                match state.arena.freeze() {
                    Ok(list) => {
                        result.checkpoints += 1;
                        sender.send(list).expect("the writer lives");
                    }
                    Err(_) => result.declined += 1,
                }
                next_freeze = Some(due + interval);
            }
        }
    }
    drop(sender);
    (result.bytes, result.pages) = writer.join().expect("the writer ends");
    result
}

/// A checkpoint every 10 ms, with the writer on the second core, against none.
fn snapshots(smoke: bool) {
    let sizes: &[u64] = if smoke { &[10_000] } else { &[ENTRIES_64_MIB, 45_000_000] };
    let (duration, rounds) = if smoke { (Duration::from_millis(30), 2) } else { (Duration::from_millis(400), 15) };
    on_core(0);
    for &entries in sizes {
        let mut state = State::with_entries(entries);
        let ops = uniform_ops(entries, 1 << 22);
        let (mut ratios, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let mut total = Round::default();
        let before = state.arena.stats();
        for i in 0..rounds {
            // The first epoch after a round without freezes has everything dirty: it is not what is compared.
            drain(state.arena.freeze().expect("the writer is through"));
            let mut run = |interval| round(&mut state, &ops, duration, interval);
            let interval = Some(Duration::from_millis(10));
            let (off, on) = if i % 2 == 0 {
                let off = run(None);
                (off, run(interval))
            } else {
                let on = run(interval);
                (run(None), on)
            };
            ratios.push(on.updates_per_s / off.updates_per_s);
            with.push(on.updates_per_s / 1e6);
            without.push(off.updates_per_s / 1e6);
            total.checkpoints += on.checkpoints;
            total.declined += on.declined;
            total.bytes += on.bytes;
            total.pages += on.pages;
        }
        let copied = state.arena.stats().copied_pages - before.copied_pages;
        assert!(total.checkpoints > 0);
        let checkpoints = total.checkpoints as f64;
        println!(
            "  {entries} entries: {:.2} M updates/s with, {:.2} without; ratio {:.3} (target 0.95), lowest {:.3}, highest {:.3}",
            median(with),
            median(without),
            median(ratios.clone()),
            quantile(&mut ratios, 0.0),
            quantile(&mut ratios, 1.0),
        );
        println!(
            "    {} checkpoints, {} declined; each {:.0} pages, {:.0} of them moved, {:.0} KiB",
            total.checkpoints,
            total.declined,
            total.pages as f64 / checkpoints,
            copied as f64 / checkpoints,
            total.bytes as f64 / checkpoints / 1024.0,
        );
    }
}

/// Bytes of memory for each byte of key and value, spares not counted.
fn memory(smoke: bool) {
    let sizes: &[u64] =
        if smoke { &[100_000] } else { &[1_000_000, 1_300_000, 1_700_000, 2_000_000, 4_000_000, 10_000_000] };
    for &entries in sizes {
        let state = State::with_entries(entries);
        let bytes = state.arena.stats().state_bytes + state.map.directory_bytes() as u64;
        let ratio = bytes as f64 / (entries * 16) as f64;
        println!("  {entries:>9} entries of 16 bytes: {ratio:.3} bytes a byte (limit 1.5)");
        assert_eq!(state.map.len(), entries);
        assert!(smoke || ratio <= 1.5);
    }
}

/// Growth: the slowest insert on the way up.
fn inserts(smoke: bool) {
    let entries = if smoke { 100_000 } else { 8_000_000 };
    let options = ArenaOptions { key_groups: 0..GROUPS, ..ArenaOptions::default() };
    let mut arena = Arena::new(options).expect("address space");
    let map = KeyedMap::open(&mut arena, "map", 1).expect("a new state");
    let mut state = State { arena, map };
    let mut slowest = Duration::ZERO;
    let total = seconds(|| {
        for op in (0..entries).map(Op::of) {
            let start = Instant::now();
            state.set(op, 1);
            slowest = slowest.max(start.elapsed());
        }
    });
    assert_eq!(state.sum(), entries);
    let mut peer: HashMap<u64, u64, RandomState> = HashMap::default();
    let mut slowest_peer = Duration::ZERO;
    let total_peer = seconds(|| {
        for key in 0..entries {
            let start = Instant::now();
            peer.insert(key, 1);
            slowest_peer = slowest_peer.max(start.elapsed());
        }
    });
    assert_eq!(peer.len() as u64, entries);
    let rate = |seconds: f64| entries as f64 / seconds / 1e6;
    println!(
        "  {entries} new keys: {:.1} M/s, slowest insert {slowest:?}; hashbrown {:.1} M/s, {slowest_peer:?}",
        rate(total),
        rate(total_peer)
    );
}
