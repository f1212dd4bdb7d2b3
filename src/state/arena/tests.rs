//! The freeze protocol at the level of pages and blocks, against stop-the-world copies.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::{Arena, ArenaOptions};
use crate::state::extents::Extent;
use crate::state::page::{LINE_BYTES, PAGE_BYTES, PageId};
use crate::state::{FreezeDeclined, FrozenList, StateDescriptor, StateError, StateKind};

fn options(pages: u64) -> ArenaOptions {
    ArenaOptions {
        key_groups: 0..1,
        max_bytes: pages * PAGE_BYTES as u64,
        spare_min_bytes: 4 * PAGE_BYTES as u64,
        max_waiting_lists: 3,
        ..ArenaOptions::default()
    }
}

fn id(index: u32) -> PageId {
    PageId { index, state: 0, key_group: 0 }
}

fn descriptor() -> StateDescriptor {
    StateDescriptor {
        id: 0,
        name: "state".into(),
        kind: StateKind::Map,
        key_size: 8,
        value_size: 8,
        align: 8,
        version: 1,
    }
}

type Copy = BTreeMap<PageId, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Allocate { order: usize },
    Write { block: prop::sample::Index, at: prop::sample::Index, bytes: usize },
    Freeze,
    Walk { pages: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        1 => (0usize..4).prop_map(|order| Op::Allocate { order }),
        8 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..6000)
            .prop_map(|(block, at, bytes)| Op::Write { block, at, bytes }),
        2 => Just(Op::Freeze),
        4 => (0usize..8).prop_map(|pages| Op::Walk { pages }),
    ];
    prop::collection::vec(op, 1..200)
}

/// An arena with blocks, a writer that lags behind, and what the writer has stored.
struct Bed {
    arena: Arena,
    blocks: Vec<(u32, usize, Extent)>,
    pages: u32,
    lists: VecDeque<(FrozenList, Copy)>,
    stored: Copy,
    writes: u8,
}

impl Bed {
    fn new() -> Self {
        let mut arena = Arena::new(options(200)).unwrap();
        arena.open_state(descriptor()).unwrap();
        Self { arena, blocks: Vec::new(), pages: 0, lists: VecDeque::new(), stored: Copy::new(), writes: 0 }
    }

    fn stop_the_world(&self) -> Copy {
        let mut copy = Copy::new();
        for &(first, order, block) in &self.blocks {
            for page in 0..1u32 << order {
                let start = page as usize * PAGE_BYTES;
                copy.insert(id(first + page), self.arena.block(block, start..start + PAGE_BYTES).to_vec());
            }
        }
        copy
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Allocate { order } => match self.arena.allocate(id(self.pages), order, 1) {
                Ok(block) => {
                    assert!(self.arena.block(block, 0..PAGE_BYTES << order).iter().all(|&byte| byte == 0));
                    self.blocks.push((self.pages, order, block));
                    self.pages += 1 << order;
                }
                Err(error) => {
                    assert_eq!(error, StateError::MemoryFull { max_bytes: 200 * PAGE_BYTES as u64 });
                    assert!(self.pages + (1 << order) > 200);
                }
            },
            Op::Write { block, at, bytes } if !self.blocks.is_empty() => {
                let (_, order, extent) = block.get_mut(&mut self.blocks);
                let start = at.index(PAGE_BYTES << *order);
                let range = start..(start + bytes).min(PAGE_BYTES << *order);
                *extent = self.arena.touch_block(*extent, *order, range.clone()).unwrap();
                self.writes = self.writes.wrapping_add(1);
                self.arena.block_mut(*extent, range).fill(self.writes);
            }
            Op::Write { .. } => (),
            Op::Freeze => match self.arena.freeze() {
                Ok(list) => {
                    assert_eq!(self.arena.stats().dirty_pages, 0);
                    let copy = self.stop_the_world();
                    self.lists.push_back((list, copy));
                }
                Err(declined) => assert!(
                    matches!(
                        declined,
                        FreezeDeclined::ListsWaiting { waiting: 3, .. } | FreezeDeclined::SparesLow { .. }
                    ),
                    "{declined:?}"
                ),
            },
            Op::Walk { pages } => self.walk(pages),
        }
    }

    fn walk(&mut self, mut pages: usize) {
        while let Some((list, copy)) = self.lists.front_mut() {
            while pages > 0 {
                pages -= 1;
                let Some(page) = list.next() else { break };
                assert!(page.bytes[..] == copy[&page.id][..], "page {:?} as frozen", page.id);
                let stored = self.stored.entry(page.id).or_insert_with(|| vec![0; PAGE_BYTES]);
                for (line, bytes) in page.lines() {
                    stored[line * LINE_BYTES..(line + 1) * LINE_BYTES].copy_from_slice(bytes);
                }
            }
            if list.remaining() > 0 || pages == 0 {
                return;
            }
            assert!(list.next().is_none());
            let copy = self.lists.pop_front().unwrap().1;
            assert!(self.stored == copy, "deltas so far equal the stop-the-world copy");
        }
    }
}

proptest! {
    #[test]
    fn frozen_lists_equal_stop_the_world_copies(ops in ops()) {
        let mut bed = Bed::new();
        for op in ops {
            bed.run(op);
        }
        bed.walk(usize::MAX);
        bed.run(Op::Freeze);
        bed.walk(usize::MAX);
        prop_assert!(bed.stored == bed.stop_the_world());
    }
}

fn one_page() -> (Arena, Extent) {
    let mut arena = Arena::new(options(8)).unwrap();
    arena.open_state(descriptor()).unwrap();
    let page = arena.allocate(id(0), 0, 1).unwrap();
    (arena, page)
}

fn drain(mut list: FrozenList) {
    while list.next().is_some() {}
}

#[test]
fn a_page_is_moved_only_while_the_writer_may_read_it() {
    let (mut arena, page) = one_page();
    let mut list = arena.freeze().unwrap();
    let moved = arena.write(page, 1).unwrap().0;
    assert_ne!(moved, page);
    assert_eq!(arena.write(moved, 2).unwrap().0, moved, "in place for the rest of the epoch");
    assert!(list.next().is_some() && list.next().is_none());
    let list = arena.freeze().unwrap();
    drain(list);
    assert_eq!(arena.write(moved, 1).unwrap().0, moved, "the writer is through");
    assert_eq!(arena.stats().copied_pages, 1);
}

#[test]
fn condemned_extents_come_back_when_the_list_is_read() {
    let (mut arena, mut page) = one_page();
    let spares = arena.stats().spare_pages;
    for _ in 0..100 {
        let list = arena.freeze().unwrap();
        page = arena.write(page, 1).unwrap().0;
        assert_eq!(arena.stats().spare_pages, spares - 1);
        drain(list);
    }
    drain(arena.freeze().unwrap());
    assert_eq!(arena.write(page, 1).unwrap().0, page, "in place, and what the writer had is free");
    assert_eq!(arena.stats().spare_pages, spares);
    assert_eq!(arena.stats().bytes, u64::from(1 + spares) * 4124, "no memory beyond the first spares was touched");
}

#[test]
fn an_empty_list_is_fine_and_does_not_overtake() {
    let (mut arena, page) = one_page();
    let mut first = arena.freeze().unwrap();
    let mut empty = arena.freeze().unwrap();
    assert!(empty.next().is_none());
    drop(empty);
    assert_ne!(arena.write(page, 1).unwrap().0, page, "the first list is still unread");
    assert!(first.next().is_some());
}

#[test]
fn a_list_dropped_unread_is_noticed_and_gives_nothing_back() {
    let (mut arena, page) = one_page();
    let other = arena.allocate(id(1), 0, 1).unwrap();
    let mut list = arena.freeze().unwrap();
    assert!(list.next().is_some());
    drop(list);
    assert_ne!(arena.write(page, 1).unwrap().0, page);
    assert_ne!(arena.write(other, 1).unwrap().0, other);
    assert_eq!(arena.freeze().unwrap_err(), FreezeDeclined::ListLost);
}

#[test]
fn a_read_list_may_be_dropped_late() {
    let (mut arena, mut page) = one_page();
    let mut first = arena.freeze().unwrap();
    while first.next().is_some() {}
    page = arena.write(page, 1).unwrap().0;
    let mut second = arena.freeze().unwrap();
    while second.next().is_some() {}
    drop(first);
    assert_eq!(arena.write(page, 1).unwrap().0, page, "progress did not go back");
    drop(second);
    assert!(arena.freeze().is_ok());
}

#[test]
#[should_panic(expected = "in the order of their freezes")]
fn lists_out_of_order_are_refused() {
    let (mut arena, page) = one_page();
    let _first = arena.freeze().unwrap();
    arena.write(page, 1).unwrap();
    let mut second = arena.freeze().unwrap();
    assert!(!second.is_due());
    second.next();
}

#[test]
fn a_freeze_is_declined_before_spares_run_out_and_writes_go_on() {
    let mut arena = Arena::new(ArenaOptions { spare_ratio: 0.0, ..options(100) }).unwrap();
    arena.open_state(descriptor()).unwrap();
    let mut pages: Vec<_> = (0..50).map(|i| arena.allocate(id(i), 0, 1).unwrap()).collect();
    let list = arena.freeze().unwrap();
    for page in &mut pages {
        *page = arena.write(*page, 1).unwrap().0;
    }
    assert_eq!(arena.freeze().unwrap_err(), FreezeDeclined::SparesLow { free: 0, low_water: 1 });
    assert_eq!(arena.stats().dirty_pages, 50, "the epoch goes on");
    drain(list);
    assert_eq!(arena.freeze().unwrap().len(), 50);
}

#[test]
fn lists_outlive_their_arena() {
    let (mut arena, page) = one_page();
    arena.write(page, 1).unwrap().1.0[0] = 7;
    let mut list = arena.freeze().unwrap();
    drop(arena);
    assert_eq!(list.next().unwrap().bytes[0], 7);
}

#[test]
fn restored_pages_are_checked() {
    let mut arena = Arena::new(ArenaOptions { key_groups: 4..8, ..options(2) }).unwrap();
    let page = |index, key_group| PageId { index, state: 0, key_group };
    let order = arena.apply(page(0, 4), 1, &[0; 64]).unwrap_err();
    assert!(matches!(order, StateError::RestoreOrder { state: 0, .. }), "{order}");
    arena.restore_descriptors(&[descriptor()]).unwrap();
    let lines = arena.apply(page(0, 4), 0b11, &[0; 64]).unwrap_err();
    assert!(matches!(lines, StateError::Lines { got: 64, expected: 128, .. }), "{lines}");
    let group = arena.apply(page(0, 3), 1, &[0; 64]).unwrap_err();
    assert_eq!(group, StateError::KeyGroup { key_group: 3, start: 4, end: 8 });
    arena.apply(page(0, 4), 1, &[1; 64]).unwrap();
    arena.apply(page(0, 4), 0b10, &[2; 64]).unwrap();
    arena.apply(page(1, 4), 1, &[3; 64]).unwrap();
    assert!(matches!(arena.apply(page(2, 4), 1, &[0; 64]), Err(StateError::MemoryFull { .. })));
    assert_eq!(arena.unopened().count(), 1);
    let opened = arena.open_state(descriptor()).unwrap();
    let bytes = arena.page(opened.pages[0].1).0;
    assert!(bytes[..64] == [1; 64] && bytes[64..128] == [2; 64] && bytes[128..] == [0; 4096 - 128]);
    assert_eq!(arena.unopened().count(), 0);
    assert_eq!(arena.stats().dirty_pages, 0, "restored pages are clean");
    let late = arena.apply(page(0, 4), 1, &[0; 64]).unwrap_err();
    assert!(matches!(late, StateError::RestoreOrder { .. }), "{late}");
    assert!(matches!(arena.open_state(descriptor()), Err(StateError::Duplicate { .. })));
}

#[test]
fn a_changed_type_is_an_error_that_names_both() {
    for (changed, text) in [
        (StateDescriptor { kind: StateKind::List, ..descriptor() }, "kind Map, the program has List"),
        (StateDescriptor { key_size: 4, ..descriptor() }, "key size 8, the program has 4"),
        (StateDescriptor { value_size: 4, ..descriptor() }, "value size 8, the program has 4"),
        (StateDescriptor { align: 4, ..descriptor() }, "alignment 8, the program has 4"),
        (StateDescriptor { version: 2, ..descriptor() }, "version 1, the program has 2"),
    ] {
        let mut arena = Arena::new(options(2)).unwrap();
        arena.restore_descriptors(&[descriptor()]).unwrap();
        let error = arena.open_state(changed).err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let sound = options(8);
    for bad in [
        ArenaOptions { key_groups: 3..3, ..sound.clone() },
        ArenaOptions { max_bytes: 4095, ..sound.clone() },
        ArenaOptions { max_bytes: u64::MAX, ..sound.clone() },
        ArenaOptions { spare_ratio: f64::NAN, ..sound.clone() },
        ArenaOptions { max_waiting_lists: 0, ..sound.clone() },
    ] {
        assert!(matches!(Arena::new(bad), Err(StateError::Options { .. })));
    }
}
