//! A snapshot store in memory for the state tests: what the writer would have on disk.

#![allow(dead_code)] // each test crate uses its part

use std::collections::{BTreeMap, VecDeque};

use isobar::state::{Arena, ArenaOptions, FrozenList, LINE_BYTES, PAGE_BYTES, PageId, StateDescriptor};

/// A plain stand-in for the options: `groups` key groups, few spares, three waiting lists.
pub fn options(key_groups: std::ops::Range<u16>) -> ArenaOptions {
    ArenaOptions {
        key_groups,
        max_bytes: 64 << 20,
        spare_min_bytes: 1 << 20,
        max_waiting_lists: 3,
        ..ArenaOptions::default()
    }
}

/// One page's part of a delta.
pub type Delta = (PageId, u64, Vec<u8>);

/// All deltas so far, in the log's order, and the pages that they add up to.
#[derive(Default)]
pub struct Log {
    pub deltas: Vec<Delta>,
    pages: BTreeMap<PageId, Vec<u8>>,
}

impl Log {
    /// Stores up to `budget` pages of a list; checks that nothing but marked lines differs from what is stored.
    /// Returns whether the list's end was reached.
    pub fn store(&mut self, list: &mut FrozenList, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(page) = list.next() else { return true };
            assert_ne!(page.mask, 0);
            let stored = self.pages.entry(page.id).or_insert_with(|| vec![0; PAGE_BYTES]);
            let mut lines = Vec::new();
            for (line, bytes) in page.lines() {
                stored[line * LINE_BYTES..(line + 1) * LINE_BYTES].copy_from_slice(bytes);
                lines.extend_from_slice(bytes);
            }
            assert!(stored[..] == page.bytes[..], "page {:?}: a change escaped the mask {:x}", page.id, page.mask);
            self.deltas.push((page.id, page.mask, lines));
        }
        false
    }

    /// A new arena with the key groups of `options` as they were after `deltas` deltas.
    pub fn restore(&self, options: ArenaOptions, descriptors: &[StateDescriptor], deltas: usize) -> Arena {
        let groups = options.key_groups.clone();
        let mut arena = Arena::new(options).unwrap();
        arena.restore_descriptors(descriptors).unwrap();
        for (id, mask, lines) in &self.deltas[..deltas] {
            if groups.contains(&id.key_group) {
                arena.apply(*id, *mask, lines).unwrap();
            }
        }
        arena
    }
}

/// Lists on their way to a writer that is slower or faster, each with what the state was at its freeze.
pub struct Writer<M> {
    pub log: Log,
    waiting: VecDeque<(FrozenList, M)>,
}

impl<M> Default for Writer<M> {
    fn default() -> Self {
        Self { log: Log::default(), waiting: VecDeque::new() }
    }
}

impl<M> Writer<M> {
    /// Freezes the arena, if it lets itself be frozen.
    pub fn freeze(&mut self, arena: &mut Arena, model: impl FnOnce() -> M) -> bool {
        match arena.freeze() {
            Ok(list) => {
                self.waiting.push_back((list, model()));
                true
            }
            Err(_) => false,
        }
    }

    /// Writes up to `budget` pages; calls `complete` with the log and the model of each list that it finishes.
    pub fn turn(&mut self, budget: usize, mut complete: impl FnMut(&Log, M)) {
        while let Some((list, _)) = self.waiting.front_mut() {
            if !self.log.store(list, budget) {
                return;
            }
            if let Some((_, model)) = self.waiting.pop_front() {
                complete(&self.log, model);
            }
        }
    }
}
