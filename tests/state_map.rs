//! `KeyedMap` against plain maps: live, as frozen, and restored, also into two subtasks.

mod state_support;

use std::collections::BTreeMap;

use isobar::hash::stable_hash;
use isobar::state::{Arena, ArenaOptions, KeyedMap, Plain, StateDescriptor, StateError};
use proptest::prelude::*;
use proptest::sample::Index;
use state_support::{Log, Writer, options};
use zerocopy::IntoBytes;

const GROUPS: u16 = 5;

type Model<K, V> = BTreeMap<(u16, K), V>;

#[derive(Clone, Debug)]
enum Op {
    Insert {
        group: u16,
        key: u32,
        value: u64,
    },
    /// Inserts a run of keys, so that the table grows.
    Fill {
        group: u16,
        from: u32,
        keys: u32,
    },
    Modify {
        group: u16,
        key: u32,
    },
    Upsert {
        group: u16,
        key: u32,
    },
    Remove {
        group: u16,
        key: u32,
    },
    /// Removes a run of keys.
    Drain {
        group: u16,
        from: u32,
        keys: u32,
    },
    Freeze,
    Turn {
        pages: usize,
    },
    Restore {
        at: Index,
        split: u16,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || (0..GROUPS, 0u32..3000);
    let run = || (0..GROUPS, 0u32..2500, 1u32..700);
    let op = prop_oneof![
        10 => (key(), any::<u64>()).prop_map(|((group, key), value)| Op::Insert { group, key, value }),
        3 => run().prop_map(|(group, from, keys)| Op::Fill { group, from, keys }),
        10 => key().prop_map(|(group, key)| Op::Modify { group, key }),
        10 => key().prop_map(|(group, key)| Op::Upsert { group, key }),
        10 => key().prop_map(|(group, key)| Op::Remove { group, key }),
        2 => run().prop_map(|(group, from, keys)| Op::Drain { group, from, keys }),
        4 => Just(Op::Freeze),
        4 => (0usize..60).prop_map(|pages| Op::Turn { pages }),
        1 => (any::<Index>(), 1..GROUPS).prop_map(|(at, split)| Op::Restore { at, split }),
    ];
    prop::collection::vec(op, 1..150)
}

/// Keys and values made from numbers, so that one test does for all sizes.
trait Sample: Plain + PartialEq + std::fmt::Debug {
    fn sample(number: u64) -> Self;
}
impl Sample for u32 {
    fn sample(number: u64) -> Self {
        number as u32
    }
}
impl Sample for u64 {
    fn sample(number: u64) -> Self {
        number
    }
}
impl<const N: usize> Sample for [u64; N] {
    fn sample(number: u64) -> Self {
        std::array::from_fn(|i| number.wrapping_mul(i as u64 + 1))
    }
}
impl Sample for [u8; 3] {
    fn sample(number: u64) -> Self {
        [number as u8, (number >> 8) as u8, (number >> 16) as u8]
    }
}

/// What was frozen, and where in the log it is complete.
struct Cut<K, V> {
    deltas: usize,
    model: Model<K, V>,
}

struct Bed<K, V> {
    arena: Arena,
    map: KeyedMap<K, V>,
    model: Model<K, V>,
    writer: Writer<Model<K, V>>,
    cuts: Vec<Cut<K, V>>,
}

fn contents<K: Sample + Ord, V: Sample>(arena: &mut Arena, map: &KeyedMap<K, V>) -> Vec<(K, V)> {
    let mut found = Vec::new();
    map.for_each(arena, |key, value| found.push((*key, *value)));
    found.sort_by_key(|entry| entry.0);
    found
}

impl<K: Sample + Ord, V: Sample> Bed<K, V> {
    fn new() -> Self {
        let mut arena = Arena::new(options(0..GROUPS)).unwrap();
        let map = KeyedMap::open(&mut arena, "map", 1).unwrap();
        Self { arena, map, model: Model::new(), writer: Writer::default(), cuts: Vec::new() }
    }

    fn insert(&mut self, group: u16, key: u32, value: u64) {
        self.arena.set_key_group(group).unwrap();
        let (key, value) = (K::sample(key.into()), V::sample(value));
        let before = self.map.insert(&mut self.arena, key, value).unwrap();
        assert_eq!(before, self.model.insert((group, key), value));
    }

    fn remove(&mut self, group: u16, key: u32) {
        self.arena.set_key_group(group).unwrap();
        let key = K::sample(key.into());
        assert_eq!(self.map.remove(&mut self.arena, &key).unwrap(), self.model.remove(&(group, key)));
        assert_eq!(self.map.get(&self.arena, &key), None);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Insert { group, key, value } => self.insert(group, key, value),
            Op::Fill { group, from, keys } => (from..from + keys).for_each(|key| self.insert(group, key, key.into())),
            Op::Modify { group, key } => {
                self.arena.set_key_group(group).unwrap();
                let key = K::sample(key.into());
                let old = self.model.get_mut(&(group, key)).map(|value| std::mem::replace(value, V::sample(9)));
                let modified =
                    self.map.modify(&mut self.arena, &key, |value| std::mem::replace(value, V::sample(9))).unwrap();
                assert_eq!(modified, old);
            }
            Op::Upsert { group, key } => {
                self.arena.set_key_group(group).unwrap();
                let key = K::sample(key.into());
                let value = self.model.entry((group, key)).or_insert(V::sample(1));
                let seen =
                    self.map.upsert(&mut self.arena, key, V::sample(1), |value| std::mem::replace(value, V::sample(2)));
                assert_eq!(seen.unwrap(), std::mem::replace(value, V::sample(2)));
            }
            Op::Remove { group, key } => self.remove(group, key),
            Op::Drain { group, from, keys } => (from..from + keys).for_each(|key| self.remove(group, key)),
            Op::Freeze => {
                self.writer.freeze(&mut self.arena, || self.model.clone());
            }
            Op::Turn { pages } => self.turn(pages),
            Op::Restore { at, split } if !self.cuts.is_empty() => {
                let cut = at.get(&self.cuts);
                check_restored(&self.writer.log, cut, std::slice::from_ref(&(0..GROUPS)));
                check_restored(&self.writer.log, cut, &[0..split, split..GROUPS]);
            }
            Op::Restore { .. } => (),
        }
    }

    fn turn(&mut self, pages: usize) {
        let cuts = &mut self.cuts;
        self.writer.turn(pages, |log, model| cuts.push(Cut { deltas: log.deltas.len(), model }));
    }

    fn check_live(&mut self) {
        assert_eq!(self.map.len(), self.model.len() as u64);
        for group in 0..GROUPS {
            self.arena.set_key_group(group).unwrap();
            for number in 0..3200u64 {
                let key = K::sample(number);
                assert_eq!(self.map.get(&self.arena, &key), self.model.get(&(group, key)), "group {group}, {key:?}");
            }
        }
    }

    fn finish(mut self) {
        self.check_live();
        self.turn(usize::MAX);
        assert!(self.writer.freeze(&mut self.arena, || self.model.clone()));
        self.turn(usize::MAX);
        check_restored(&self.writer.log, self.cuts.last().unwrap(), std::slice::from_ref(&(0..GROUPS)));
    }
}

fn descriptors<K: Sample + Ord, V: Sample>() -> Vec<StateDescriptor> {
    let mut arena = Arena::new(options(0..1)).unwrap();
    KeyedMap::<K, V>::open(&mut arena, "map", 1).unwrap();
    arena.descriptors().cloned().collect()
}

/// Restores a cut into one arena for each range, and reads and writes it there.
fn check_restored<K: Sample + Ord, V: Sample>(log: &Log, cut: &Cut<K, V>, ranges: &[std::ops::Range<u16>]) {
    for range in ranges {
        let mut arena = log.restore(options(range.clone()), &descriptors::<K, V>(), cut.deltas);
        let mut map = KeyedMap::<K, V>::open(&mut arena, "map", 1).unwrap();
        let mut expected: Vec<_> =
            cut.model.iter().filter(|((group, _), _)| range.contains(group)).map(|((_, k), v)| (*k, *v)).collect();
        expected.sort_by_key(|entry| entry.0);
        let mut found = contents(&mut arena, &map);
        assert_eq!(found.len() as u64, map.len());
        let text = |entries: &mut Vec<(K, V)>| {
            let mut text: Vec<_> = entries.iter().map(|entry| format!("{entry:?}")).collect();
            text.sort();
            text
        };
        assert_eq!(text(&mut found), text(&mut expected));
        for ((group, key), value) in cut.model.iter().filter(|((group, _), _)| range.contains(group)) {
            arena.set_key_group(*group).unwrap();
            assert_eq!(map.get(&arena, key), Some(value));
        }
        // A restored table goes on growing where it was.
        for key in 0..2000 {
            map.insert(&mut arena, K::sample(key), V::sample(key)).unwrap();
        }
        assert!((0..2000).all(|key| map.get(&arena, &K::sample(key)) == Some(&V::sample(key))));
    }
}

fn run<K: Sample + Ord, V: Sample>(ops: Vec<Op>) {
    let mut bed = Bed::<K, V>::new();
    for op in ops {
        bed.run(op);
    }
    bed.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_map_of_16_byte_entries_equals_its_model(ops in ops()) {
        run::<u64, u64>(ops);
    }

    #[test]
    fn a_map_of_unaligned_entries_equals_its_model(ops in ops()) {
        run::<u32, [u8; 3]>(ops);
    }

    #[test]
    fn a_map_of_few_entries_a_page_equals_its_model(ops in prop::collection::vec(ops(), 1).prop_map(|mut o| {
        let mut ops = o.remove(0);
        ops.truncate(40);
        ops
    })) {
        run::<u32, [u64; 120]>(ops);
    }
}

#[test]
fn groups_do_not_see_each_other() {
    let mut arena = Arena::new(options(10..20)).unwrap();
    let mut map = KeyedMap::<u64, u64>::open(&mut arena, "map", 1).unwrap();
    for group in 10..20 {
        arena.set_key_group(group).unwrap();
        assert_eq!(map.insert(&mut arena, 1, group.into()).unwrap(), None);
    }
    arena.set_key_group(13).unwrap();
    assert_eq!(map.get(&arena, &1), Some(&13));
    let error = arena.set_key_group(20).unwrap_err();
    assert_eq!(error, StateError::KeyGroup { key_group: 20, start: 10, end: 20 });
    assert_eq!(arena.key_group(), 13, "a refused group changes nothing");
}

#[test]
fn a_full_arena_refuses_inserts_and_keeps_what_it_has() {
    let limits = ArenaOptions { max_bytes: 40 * 4096, ..options(0..2) };
    let mut arena = Arena::new(limits).unwrap();
    let mut map = KeyedMap::<u64, u64>::open(&mut arena, "map", 1).unwrap();
    let mut writer = Writer::default();
    let mut stored = 0;
    let error = loop {
        if stored % 100 == 0 {
            writer.freeze(&mut arena, || ());
            writer.turn(7, |_, ()| ());
        }
        match map.insert(&mut arena, stored, stored) {
            Ok(before) => assert_eq!(before, None),
            Err(error) => break error,
        }
        stored += 1;
    };
    assert_eq!(error, StateError::MemoryFull { max_bytes: 40 * 4096 });
    assert!(stored > 39 * 239 * 7 / 10, "{stored} entries fit 40 pages");
    assert_eq!(map.len(), stored);
    for key in 0..stored {
        assert_eq!(map.modify(&mut arena, &key, |value| *value += 1).unwrap(), Some(()));
        assert_eq!(map.get(&arena, &key), Some(&(key + 1)));
    }
    assert_eq!(map.get(&arena, &stored), None);
    assert_eq!(map.remove(&mut arena, &0).unwrap(), Some(1));
}

#[test]
fn entries_that_cannot_fit_are_an_error() {
    let mut arena = Arena::new(options(0..1)).unwrap();
    let error = KeyedMap::<u64, [u64; 508]>::open(&mut arena, "large", 1).err().unwrap();
    assert!(matches!(error, StateError::EntryTooLarge { bytes: 4072, max_bytes: 4064, .. }), "{error}");
    let mut map = KeyedMap::<u64, [u64; 507]>::open(&mut arena, "one a page", 1).unwrap();
    for key in 0..500u64 {
        map.insert(&mut arena, key, [key; 507]).unwrap();
    }
    assert!((0..500).all(|key| map.get(&arena, &key) == Some(&[key; 507])));
}

#[test]
fn keys_whose_hashes_collide_are_still_found() {
    // The hash folds by multiplication, and a second word equal to the state after the first makes an operand 0: from
    // there on all these keys are the same to it.
    let key = |i: u64| {
        let product = u128::from(0x9E37_79B9_7F4A_7C15 ^ i) * u128::from(0xD6E8_FEB8_6659_FD93u64);
        [i, product as u64 ^ (product >> 64) as u64]
    };
    assert_eq!(stable_hash(key(1).as_bytes()), stable_hash(key(2).as_bytes()));
    let mut arena = Arena::new(options(0..1)).unwrap();
    let mut map = KeyedMap::<[u64; 2], u64>::open(&mut arena, "map", 1).unwrap();
    for i in 0..1500 {
        map.insert(&mut arena, key(i), i).unwrap();
    }
    assert!((0..1500).all(|i| map.get(&arena, &key(i)) == Some(&i)));
    for i in (0..1500).step_by(3) {
        assert_eq!(map.remove(&mut arena, &key(i)).unwrap(), Some(i));
    }
    for i in 0..1500 {
        assert_eq!(map.get(&arena, &key(i)), (i % 3 != 0).then_some(&i));
    }
}

#[test]
fn pages_that_contradict_each_other_are_an_error() {
    let mut bed = Bed::<u64, u64>::new();
    bed.run(Op::Fill { group: 2, from: 0, keys: 2000 });
    bed.run(Op::Freeze);
    bed.turn(usize::MAX);
    let log = &mut bed.writer.log;
    let gap = log.deltas.iter().position(|(id, ..)| id.index == 3).unwrap();
    log.deltas.remove(gap);
    let mut arena = log.restore(options(0..GROUPS), &descriptors::<u64, u64>(), log.deltas.len());
    let error = KeyedMap::<u64, u64>::open(&mut arena, "map", 1).err().unwrap();
    assert!(matches!(error, StateError::Damaged { key_group: 2, .. }), "{error}");
}

#[test]
#[should_panic(expected = "another arena")]
fn a_foreign_arena_is_refused() {
    let mut arenas = [Arena::new(options(0..1)).unwrap(), Arena::new(options(0..1)).unwrap()];
    let map = KeyedMap::<u64, u64>::open(&mut arenas[0], "map", 1).unwrap();
    map.get(&arenas[1], &1);
}
