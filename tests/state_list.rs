//! `KeyedList` against plain vectors: live, as frozen, and restored, also into two subtasks.

mod state_support;

use std::collections::BTreeMap;
use std::ops::Range;

use isobar::state::{Arena, ArenaOptions, KeyedList, KeyedMap, Plain, StateError};
use proptest::prelude::*;
use proptest::sample::Index;
use state_support::{Log, Writer, options};

const GROUPS: u16 = 4;

type Model<V> = BTreeMap<(u16, u64), Vec<V>>;

#[derive(Clone, Debug)]
enum Change {
    Push {
        value: u8,
    },
    /// Pushes many elements, so that the list outgrows its run, page and block.
    Extend {
        elements: usize,
    },
    Insert {
        at: Index,
        value: u8,
    },
    Remove {
        at: Index,
    },
    Modify {
        at: Index,
        value: u8,
    },
    Truncate {
        at: Index,
    },
    RemoveKey,
}

#[derive(Clone, Debug)]
enum Op {
    Change { group: u16, key: u64, change: Change },
    Freeze,
    Turn { pages: usize },
    Restore { at: Index, split: u16 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let at = any::<Index>;
    let change = prop_oneof![
        8 => any::<u8>().prop_map(|value| Change::Push { value }),
        1 => (1usize..1200).prop_map(|elements| Change::Extend { elements }),
        8 => (at(), any::<u8>()).prop_map(|(at, value)| Change::Insert { at, value }),
        6 => at().prop_map(|at| Change::Remove { at }),
        6 => (at(), any::<u8>()).prop_map(|(at, value)| Change::Modify { at, value }),
        1 => at().prop_map(|at| Change::Truncate { at }),
        2 => Just(Change::RemoveKey),
    ];
    let op = prop_oneof![
        20 => (0..GROUPS, 0u64..25, change).prop_map(|(group, key, change)| Op::Change { group, key, change }),
        3 => Just(Op::Freeze),
        3 => (0usize..40).prop_map(|pages| Op::Turn { pages }),
        1 => (at(), 1..GROUPS).prop_map(|(at, split)| Op::Restore { at, split }),
    ];
    prop::collection::vec(op, 1..250)
}

struct Bed<V> {
    arena: Arena,
    list: KeyedList<u64, V>,
    model: Model<V>,
    writer: Writer<Model<V>>,
    cuts: Vec<(usize, Model<V>)>,
}

/// `N` bytes that are all the same: `[u8; N]` elements of any size, across lines and pages.
impl<const N: usize> Bed<[u8; N]> {
    fn new() -> Self {
        let mut arena = Arena::new(options(0..GROUPS)).unwrap();
        let list = KeyedList::open(&mut arena, "list", 1).unwrap();
        Self { arena, list, model: Model::new(), writer: Writer::default(), cuts: Vec::new() }
    }

    fn change(&mut self, group: u16, key: u64, change: Change) {
        let (list, arena) = (&mut self.list, &mut self.arena);
        arena.set_key_group(group).unwrap();
        let model = self.model.entry((group, key)).or_default();
        match change {
            Change::Push { value } => {
                list.push(arena, key, [value; N]).unwrap();
                model.push([value; N]);
            }
            Change::Extend { elements } => {
                for i in 0..elements {
                    list.push(arena, key, [i as u8; N]).unwrap();
                    model.push([i as u8; N]);
                }
            }
            Change::Insert { at, value } => {
                let at = at.index(model.len() + 1);
                list.insert(arena, key, at, [value; N]).unwrap();
                model.insert(at, [value; N]);
            }
            Change::Remove { at } => {
                let at = at.index(model.len() + 1);
                let expected = (at < model.len()).then(|| model.remove(at));
                assert_eq!(list.remove(arena, &key, at).unwrap(), expected);
            }
            Change::Modify { at, value } => {
                let at = at.index(model.len() + 1);
                let expected = model.get_mut(at).map(|element| std::mem::replace(element, [value; N]));
                let modified = list.modify(arena, &key, at, |element| std::mem::replace(element, [value; N])).unwrap();
                assert_eq!(modified, expected);
            }
            Change::Truncate { at } => {
                let len = at.index(model.len() + 1);
                list.truncate(arena, &key, len).unwrap();
                model.truncate(len);
            }
            Change::RemoveKey => {
                let had = list.contains_key(arena, &key);
                assert_eq!(list.remove_key(arena, &key).unwrap(), had);
                model.clear();
                assert!(!list.contains_key(arena, &key));
            }
        }
        assert_eq!(list.get(arena, &key), &model[..]);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Change { group, key, change } => self.change(group, key, change),
            Op::Freeze => {
                self.writer.freeze(&mut self.arena, || self.model.clone());
            }
            Op::Turn { pages } => self.turn(pages),
            Op::Restore { at, split } if !self.cuts.is_empty() => {
                let cut = at.get(&self.cuts);
                for range in [0..GROUPS, 0..split, split..GROUPS] {
                    check_restored(&self.writer.log, cut, range);
                }
            }
            Op::Restore { .. } => (),
        }
    }

    fn turn(&mut self, pages: usize) {
        let cuts = &mut self.cuts;
        self.writer.turn(pages, |log, model| cuts.push((log.deltas.len(), model)));
    }

    fn finish(mut self) {
        for ((group, key), elements) in &self.model {
            self.arena.set_key_group(*group).unwrap();
            assert_eq!(self.list.get(&self.arena, key), elements);
        }
        self.turn(usize::MAX);
        assert!(self.writer.freeze(&mut self.arena, || self.model.clone()));
        self.turn(usize::MAX);
        check_restored(&self.writer.log, self.cuts.last().unwrap(), 0..GROUPS);
    }
}

fn check_restored<const N: usize>(log: &Log, (deltas, model): &(usize, Model<[u8; N]>), range: Range<u16>) {
    let mut donor = Arena::new(options(0..1)).unwrap();
    KeyedList::<u64, [u8; N]>::open(&mut donor, "list", 1).unwrap();
    let descriptors: Vec<_> = donor.descriptors().cloned().collect();

    let mut arena = log.restore(options(range.clone()), &descriptors, *deltas);
    let mut list = KeyedList::<u64, [u8; N]>::open(&mut arena, "list", 1).unwrap();
    assert_eq!(arena.stats().dirty_pages, 0);
    let mut found = Vec::new();
    list.for_each(&arena, |key, elements| found.push((*key, elements.to_vec())));
    found.retain(|(_, elements)| !elements.is_empty());
    let mut expected: Vec<_> = model
        .iter()
        .filter(|((group, _), elements)| range.contains(group) && !elements.is_empty())
        .map(|((_, key), elements)| (*key, elements.clone()))
        .collect();
    found.sort();
    expected.sort();
    assert!(found == expected);
    for ((group, key), elements) in model.iter().filter(|((group, _), _)| range.contains(group)) {
        arena.set_key_group(*group).unwrap();
        assert!(list.get(&arena, key) == elements);
        // Restored slabs go on where they were: growing a list must not touch a neighbour.
        for i in 0..20 {
            list.push(&mut arena, *key, [i; N]).unwrap();
        }
    }
    for ((group, key), elements) in model.iter().filter(|((group, _), _)| range.contains(group)) {
        arena.set_key_group(*group).unwrap();
        assert!(list.get(&arena, key)[..elements.len()] == elements[..]);
    }
}

fn run<const N: usize>(ops: Vec<Op>) {
    let mut bed = Bed::<[u8; N]>::new();
    for op in ops {
        bed.run(op);
    }
    bed.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lists_of_16_bytes_equal_their_model(ops in ops()) {
        run::<16>(ops);
    }

    #[test]
    fn lists_of_elements_across_lines_equal_their_model(ops in ops()) {
        run::<40>(ops);
    }

    #[test]
    fn lists_of_single_bytes_equal_their_model(ops in ops()) {
        run::<1>(ops);
    }
}

#[test]
fn a_list_ends_at_256_kib() {
    let mut arena = Arena::new(options(0..1)).unwrap();
    let mut list = KeyedList::<u64, [u64; 3]>::open(&mut arena, "list", 1).unwrap();
    assert_eq!(KeyedList::<u64, [u64; 3]>::MAX_LEN, 10922);
    for i in 0..10922 {
        list.push(&mut arena, 1, [i; 3]).unwrap();
    }
    let error = list.push(&mut arena, 1, [0; 3]).unwrap_err();
    assert_eq!(error, StateError::ListTooLong { len: 10923, element_bytes: 24, max_bytes: 262_144 });
    assert!(list.get(&arena, &1).iter().zip(0..).all(|(element, i)| *element == [i; 3]));
    assert_eq!(list.insert(&mut arena, 2, 1, [0; 3]).unwrap_err(), StateError::Index { index: 1, len: 0 });
    assert!(!list.contains_key(&arena, &2));
}

#[test]
fn an_element_larger_than_a_list_does_not_fit() {
    let mut arena = Arena::new(options(0..1)).unwrap();
    let mut list = KeyedList::<u64, [u8; 262_145]>::open(&mut arena, "list", 1).unwrap();
    assert!(matches!(list.push(&mut arena, 1, [0; 262_145]), Err(StateError::ListTooLong { .. })));
}

#[test]
fn space_of_removed_lists_is_used_again() {
    let mut arena = Arena::new(options(0..1)).unwrap();
    let mut list = KeyedList::<u64, u64>::open(&mut arena, "list", 1).unwrap();
    let mut pages = 0;
    for round in 0..30u64 {
        for key in 0..200 {
            (0..key).for_each(|i| list.push(&mut arena, key * 31 + round, i).unwrap());
        }
        for key in 1..200 {
            assert!(list.remove_key(&mut arena, &(key * 31 + round)).unwrap());
        }
        assert!(list.is_empty());
        if round == 1 {
            pages = arena.stats().pages;
        }
    }
    assert!(arena.stats().pages <= pages + 2, "{} pages after two rounds, {} after 30", pages, arena.stats().pages);
}

#[test]
fn a_change_near_the_end_marks_few_lines() {
    let mut arena = Arena::new(options(0..1)).unwrap();
    let mut list = KeyedList::<u64, u64>::open(&mut arena, "list", 1).unwrap();
    (0..5000).for_each(|i| list.push(&mut arena, 1, i).unwrap());
    let lines = |arena: &mut Arena| {
        let (mut frozen, mut lines) = (arena.freeze().unwrap(), 0);
        while let Some(page) = frozen.next() {
            lines += page.mask.count_ones();
        }
        lines
    };
    lines(&mut arena);
    list.modify(&mut arena, &1, 2500, |value| *value = 0).unwrap();
    assert_eq!(lines(&mut arena), 1);
    list.insert(&mut arena, 1, 4999, 7).unwrap();
    assert_eq!(lines(&mut arena), 3, "two lines of the list (the second was just reached) and one of the index");
    list.remove(&mut arena, &1, 4984).unwrap();
    assert_eq!(lines(&mut arena), 3, "two whole lines shift; the last element, beyond the new end, stays");
}

#[test]
fn a_full_arena_refuses_and_keeps_every_list() {
    let limits = ArenaOptions { max_bytes: 100 * 4096, ..options(0..1) };
    let mut arena = Arena::new(limits).unwrap();
    let mut list = KeyedList::<u64, u64>::open(&mut arena, "list", 1).unwrap();
    let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut writer = Writer::<()>::default();
    let mut refused = 0;
    for i in 0..200_000u64 {
        let key = i * i % 251;
        if i % 1000 == 0 {
            writer.freeze(&mut arena, || ());
            writer.turn(20, |_, ()| ());
        }
        match list.push(&mut arena, key, i) {
            Ok(()) => model.entry(key).or_default().push(i),
            Err(StateError::MemoryFull { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if refused == 300 {
            break;
        }
    }
    assert_eq!(refused, 300);
    for key in 0..251 {
        assert_eq!(list.get(&arena, &key), model.get(&key).map_or(&[][..], Vec::as_slice), "key {key}");
    }
}

#[test]
fn a_map_and_a_list_share_an_arena() {
    let mut arena = Arena::new(options(0..2)).unwrap();
    let mut map = KeyedMap::<u64, u64>::open(&mut arena, "map", 1).unwrap();
    let mut list = KeyedList::<u32, u64>::open(&mut arena, "list", 3).unwrap();
    let again = KeyedList::<u32, u64>::open(&mut arena, "map", 1).err().unwrap();
    assert!(matches!(again, StateError::Duplicate { .. }), "{again}");
    let mut writer = Writer::<()>::default();
    for i in 0..5000u64 {
        arena.set_key_group((i % 2) as u16).unwrap();
        map.insert(&mut arena, i, i).unwrap();
        list.push(&mut arena, (i % 100) as u32, i).unwrap();
    }
    assert!(writer.freeze(&mut arena, || ()));
    writer.turn(usize::MAX, |_, ()| ());
    let descriptors: Vec<_> = arena.descriptors().cloned().collect();
    let mut arena = writer.log.restore(options(0..2), &descriptors, writer.log.deltas.len());
    // The order of opening does not matter after a restore: names decide.
    let list = KeyedList::<u32, u64>::open(&mut arena, "list", 3).unwrap();
    assert_eq!(arena.unopened().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["map"]);
    let map = KeyedMap::<u64, u64>::open(&mut arena, "map", 1).unwrap();
    for i in 0..5000u64 {
        arena.set_key_group((i % 2) as u16).unwrap();
        assert_eq!(map.get(&arena, &i), Some(&i));
        assert_eq!(list.get(&arena, &((i % 100) as u32))[(i / 100) as usize], i);
    }
}

fn is_plain<T: Plain>() {}

#[test]
fn usual_types_are_plain() {
    is_plain::<u64>();
    is_plain::<[i64; 4]>();
    is_plain::<()>();
}
