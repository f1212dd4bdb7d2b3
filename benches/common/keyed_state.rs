//! A keyed state of counters to be updated at uniformly random keys, and what it is compared with.
#![allow(dead_code)] // each bench uses its own part

use std::time::Instant;

use isobar::hash::{key_group, stable_hash};
use isobar::state::{Arena, ArenaOptions, FrozenList, KeyedMap};

/// The key groups of all operations here.
pub const GROUPS: u16 = 128;
/// What one entry of 16 bytes occupies in a map, tags, headers and directories included.
pub const BYTES_PER_ENTRY: u64 = 23;

/// One operation: a key and, as a record would bring it, its key group.
#[derive(Clone, Copy)]
pub struct Op {
    pub key: u64,
    pub group: u16,
}

impl Op {
    pub fn of(key: u64) -> Self {
        Self { key, group: key_group(stable_hash(&key.to_le_bytes()), GROUPS) }
    }
}

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

pub fn uniform_ops(entries: u64, ops: usize) -> Vec<Op> {
    let mut random = Random(1);
    (0..ops).map(|_| Op::of(random.next() % entries)).collect()
}

/// Gives keys `0..entries` the value 0.
pub fn fill(arena: &mut Arena, map: &mut KeyedMap<u64, u64>, entries: u64) {
    for op in (0..entries).map(Op::of) {
        arena.set_key_group(op.group).expect("all groups are ours");
        map.insert(arena, op.key, 0).expect("memory");
    }
}

pub struct State {
    pub arena: Arena,
    pub map: KeyedMap<u64, u64>,
}

impl State {
    pub fn empty() -> Self {
        let options = ArenaOptions { key_groups: 0..GROUPS, ..ArenaOptions::default() };
        let mut arena = Arena::new(options).expect("address space");
        let map = KeyedMap::open(&mut arena, "map", 1).expect("a new state");
        Self { arena, map }
    }

    pub fn with_entries(entries: u64) -> Self {
        let mut state = Self::empty();
        fill(&mut state.arena, &mut state.map, entries);
        drain(state.freeze());
        state
    }

    pub fn freeze(&mut self) -> FrozenList {
        self.arena.freeze().expect("the writer is through")
    }

    pub fn set(&mut self, op: Op, value: u64) {
        self.arena.set_key_group(op.group).expect("all groups are ours");
        self.map.insert(&mut self.arena, op.key, value).expect("memory");
    }

    #[inline(always)]
    pub fn update(&mut self, op: Op) {
        self.arena.set_key_group(op.group).expect("all groups are ours");
        self.map.modify(&mut self.arena, &op.key, |value| *value += 1).expect("memory").expect("the key is there");
    }

    /// Updates whose cache misses overlap.
    pub fn update_batched(&mut self, ops: &[Op]) {
        let add = |_: &Op, value: Option<&mut u64>| *value.expect("the key is there") += 1;
        self.map.modify_batch(&mut self.arena, ops, |op| (op.group, op.key), add).expect("memory");
    }

    pub fn sum(&self) -> u64 {
        let mut sum = 0;
        self.map.for_each(&self.arena, |_, value| sum += value);
        sum
    }
}

/// Reads a frozen list to its end, as a writer that is always in time.
pub fn drain(mut list: FrozenList) {
    while list.next().is_some() {}
}

pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(code: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// How long fork() stops this process.
pub fn fork_seconds() -> f64 {
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
