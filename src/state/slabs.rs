//! Memory for lists, in runs of 2^order lines, within the pages of a key group.
//!
//! A run of up to 64 lines lies in one page, aligned to its size; a larger one is a block of pages of its own, which
//! lies in consecutive extents and moves as one. What is used is known from a *record* of 16 bytes for each slab
//! page, in record pages that are dirty-tracked and restored like any other:
//!
//! ```text
//!   0   used    u64   bit i: line i of a single page is used; for the first page of a block: 0 free, all ones used
//!   8   order   u8    the page is the first of a block of 2^order pages
//!   9   role    u8    1 first page of a block (or single page), 2 a later one
//!  10   unused  [u8; 6]
//! ```
//!
//! In memory, pages and blocks with room are linked in lists by the largest run that they have. Larger blocks are split
//! when smaller ones are wanted; they are not merged again (their extents have gone separate ways).

use std::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::extents::{Extent, ORDERS};
use super::page::{ALL_LINES, LINE_BYTES, PAGE_BYTES, PageId, lines_of};
use super::table::{FIRST_FREE_SPACE, NUMBER, SPACE_SHIFT};
use super::{Arena, StateError};

const RECORDS: u32 = FIRST_FREE_SPACE;
const SLABS: u32 = FIRST_FREE_SPACE + 1;

const RECORD_BYTES: usize = 16;
const RECORDS_PER_PAGE: u32 = (PAGE_BYTES / RECORD_BYTES) as u32;
const FIRST: u8 = 1;
const LATER: u8 = 2;

/// Order, in lines, of a whole page.
const PAGE_ORDER: usize = 6;
/// Orders of runs: 64 bytes to 256 KiB.
const RUN_ORDERS: usize = PAGE_ORDER + ORDERS;
/// The largest run, in bytes.
pub(crate) const MAX_RUN: usize = LINE_BYTES << (RUN_ORDERS - 1);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    used: u64,
    order: u8,
    role: u8,
    unused: [u8; 6],
}

/// A run of lines, within a key group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of its (first) slab page.
    pub page: u32,
    /// Its first line in that page.
    pub line: u8,
    /// It has 2^order lines.
    pub order: u8,
}

impl Run {
    /// The smallest order of run that holds `bytes` bytes, at most [`MAX_RUN`].
    pub fn order_for(bytes: usize) -> usize {
        bytes.div_ceil(LINE_BYTES).next_power_of_two().trailing_zeros() as usize
    }

    /// Bytes of the run.
    pub fn bytes(self) -> usize {
        LINE_BYTES << self.order
    }

    /// Order, in pages, of the block that it lies in.
    fn block_order(self) -> usize {
        usize::from(self.order).saturating_sub(PAGE_ORDER)
    }

    /// A range of the run as a range of its block.
    fn within_block(self, bytes: Range<usize>) -> Range<usize> {
        let start = usize::from(self.line) * LINE_BYTES;
        start + bytes.start..start + bytes.end
    }

    /// Its lines in the record of its page.
    fn lines(self) -> u64 {
        if usize::from(self.order) >= PAGE_ORDER { ALL_LINES } else { ((1 << (1u32 << self.order)) - 1) << self.line }
    }
}

impl Record {
    /// Order of the largest free run.
    fn largest(self) -> Option<usize> {
        match self.order {
            0 => (0..=PAGE_ORDER).rev().find(|&order| free_runs(self.used, order) != 0),
            order => (self.used == 0).then_some(PAGE_ORDER + usize::from(order)),
        }
    }
}

/// The lines at which an aligned free run of 2^order lines starts.
fn free_runs(used: u64, order: usize) -> u64 {
    const ALIGNED: [u64; PAGE_ORDER + 1] = [
        u64::MAX,
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x0001_0001_0001_0001,
        0x0000_0001_0000_0001,
        1,
    ];
    (0..order).fold(!used, |free, step| free & free >> (1 << step)) & ALIGNED[order]
}

struct SlabPage {
    /// Where it is, for the first page of a block; the others follow it.
    extent: Extent,
    /// Neighbours in the list of its largest free run.
    previous: u32,
    next: u32,
}

/// The slab pages of one key group.
struct Group {
    pages: Vec<SlabPage>,
    records: Vec<Extent>,
    /// The first page or block whose largest free run has this order.
    room: [u32; RUN_ORDERS],
}

/// The slabs of a state, in all key groups of an arena. All operations concern the arena's current group.
pub(crate) struct Slabs {
    state: u16,
    groups: Box<[Group]>,
}

impl Slabs {
    /// Whether a page of the state is one of the slabs'.
    pub fn owns(id: PageId) -> bool {
        id.index >> SPACE_SHIFT >= FIRST_FREE_SPACE
    }

    /// The slabs over a state's restored pages, ascending by key group and index.
    pub fn open(
        arena: &mut Arena,
        name: &str,
        state: u16,
        pages: impl Iterator<Item = (PageId, Extent)>,
    ) -> Result<Self, StateError> {
        let key_groups = arena.key_groups();
        let mut groups: Box<[Group]> = key_groups.clone().map(|_| Group::new()).collect();
        for (id, extent) in pages {
            let group = &mut groups[usize::from(id.key_group - key_groups.start)];
            let number = (id.index & NUMBER) as usize;
            let expected = if id.index >> SPACE_SHIFT == RECORDS { group.records.len() } else { group.pages.len() };
            if number != expected {
                let what = format!("slab page {number} where page {expected} should be").into();
                return Err(StateError::Damaged { name: name.into(), key_group: id.key_group, what });
            }
            match id.index >> SPACE_SHIFT {
                RECORDS => group.records.push(extent),
                _ => group.pages.push(SlabPage { extent, previous: NONE, next: NONE }),
            }
        }
        for (group, key_group) in groups.iter_mut().zip(key_groups) {
            group.reopen(arena, name, key_group)?;
        }
        Ok(Self { state, groups })
    }

    #[inline]
    fn group(&mut self, arena: &Arena) -> &mut Group {
        &mut self.groups[arena.group_index()]
    }

    /// Whether a run read from a restored index is one that is in use.
    pub fn is_used(&self, arena: &Arena, group: usize, run: Run) -> bool {
        let group = &self.groups[group];
        let aligned = u32::from(run.line) & ((1u32 << usize::from(run.order).min(PAGE_ORDER)) - 1) == 0;
        let in_page = usize::from(run.order) < RUN_ORDERS && run.line < 64 && aligned;
        in_page && (run.page as usize) < group.pages.len() && {
            let record = group.record(arena, run.page);
            record.role == FIRST
                && usize::from(record.order) == run.block_order()
                && record.used & run.lines() == run.lines()
        }
    }

    /// Bytes of a run, in the key group with this index.
    #[inline]
    pub fn bytes<'a>(&self, arena: &'a Arena, group: usize, run: Run, bytes: Range<usize>) -> &'a [u8] {
        arena.block(self.groups[group].pages[run.page as usize].extent, run.within_block(bytes))
    }

    /// Makes bytes of a run writable, marks their lines and gives them.
    #[inline]
    pub fn write<'a>(
        &mut self,
        arena: &'a mut Arena,
        run: Run,
        bytes: Range<usize>,
    ) -> Result<&'a mut [u8], StateError> {
        let bytes = run.within_block(bytes);
        let extent = &mut self.group(arena).pages[run.page as usize].extent;
        *extent = arena.touch_block(*extent, run.block_order(), bytes.clone())?;
        Ok(arena.block_mut(*extent, bytes))
    }

    /// Copies from one run to bytes of another that were made writable in this epoch.
    pub fn copy(&mut self, arena: &mut Arena, from: (Run, Range<usize>), to: (Run, usize)) {
        let group = self.group(arena);
        let source = group.pages[from.0.page as usize].extent;
        let target = group.pages[to.0.page as usize].extent;
        let length = from.1.len();
        arena.copy((source, from.0.within_block(from.1)), (target, to.0.within_block(to.1..to.1 + length).start));
    }

    /// Allocates a run of 2^order lines; its first `bytes` bytes are writable and marked, and may hold anything.
    pub fn allocate(&mut self, arena: &mut Arena, order: usize, bytes: usize) -> Result<Run, StateError> {
        let state = self.state;
        let group = self.group(arena);
        let page = match (order..RUN_ORDERS).find(|&o| group.room[o] != NONE) {
            Some(found) => group.cut(arena, found, order)?,
            None => group.add_block(arena, state, order.saturating_sub(PAGE_ORDER))?,
        };
        group.touch_record(arena, page)?;
        let used = group.record(arena, page).used;
        // A whole block starts at line 0 like a run of a whole page.
        let line = free_runs(used, order.min(PAGE_ORDER)).trailing_zeros() as u8;
        let run = Run { page, line, order: order as u8 };
        self.write(arena, run, 0..bytes)?;
        self.group(arena).set_used(arena, page, used | run.lines());
        Ok(run)
    }

    /// Makes ready what [`Slabs::free`] writes.
    pub fn prepare_free(&mut self, arena: &mut Arena, run: Run) -> Result<(), StateError> {
        self.group(arena).touch_record(arena, run.page)
    }

    /// Frees a run; its record was made ready in this epoch (by [`Slabs::prepare_free`] or by allocating it).
    pub fn free(&mut self, arena: &mut Arena, run: Run) {
        let group = self.group(arena);
        let used = group.record(arena, run.page).used & !run.lines();
        group.set_used(arena, run.page, used);
    }

    /// Bytes of memory used outside the arena.
    pub fn directory_bytes(&self) -> usize {
        let bytes = |group: &Group| {
            size_of::<Group>()
                + group.pages.capacity() * size_of::<SlabPage>()
                + group.records.capacity() * size_of::<Extent>()
        };
        self.groups.iter().map(bytes).sum()
    }
}

impl Group {
    fn new() -> Self {
        Self { pages: Vec::new(), records: Vec::new(), room: [NONE; RUN_ORDERS] }
    }

    /// Takes up restored pages: blocks are put together again, and what has room is linked.
    fn reopen(&mut self, arena: &mut Arena, name: &str, key_group: u16) -> Result<(), StateError> {
        let damaged = |what: String| StateError::Damaged { name: name.into(), key_group, what: what.into() };
        if self.pages.len() > self.records.len() * RECORDS_PER_PAGE as usize {
            return Err(damaged(format!("{} slab pages, records for fewer", self.pages.len())));
        }
        let mut page = 0;
        while page < self.pages.len() {
            let record = self.record(arena, page as u32);
            let order = usize::from(record.order);
            let end = page + (1 << order.min(ORDERS));
            if record.role != FIRST || order >= ORDERS || end > self.pages.len() {
                return Err(damaged(format!("the record of slab page {page} makes no sense")));
            }
            if order > 0 {
                let extents: Vec<_> = self.pages[page..end].iter().map(|page| page.extent).collect();
                self.pages[page].extent = arena.assemble(&extents)?;
            }
            if let Some(largest) = record.largest() {
                self.link(largest, page as u32);
            }
            page = end;
        }
        Ok(())
    }

    fn record_at(page: u32) -> (usize, usize) {
        ((page / RECORDS_PER_PAGE) as usize, (page % RECORDS_PER_PAGE) as usize * RECORD_BYTES)
    }

    fn record(&self, arena: &Arena, page: u32) -> Record {
        let (index, offset) = Self::record_at(page);
        *arena.page(self.records[index]).get(offset)
    }

    fn touch_record(&mut self, arena: &mut Arena, page: u32) -> Result<(), StateError> {
        let (index, offset) = Self::record_at(page);
        let extent = &mut self.records[index];
        *extent = arena.write(*extent, lines_of(offset, RECORD_BYTES))?.0;
        Ok(())
    }

    /// Writes a record that was made ready.
    fn set_record(&self, arena: &mut Arena, page: u32, record: Record) {
        let (index, offset) = Self::record_at(page);
        *arena.rewrite(self.records[index], lines_of(offset, RECORD_BYTES)).get_mut(offset) = record;
    }

    /// Changes what is used of a page or block, whose record was made ready, and links it by its new room.
    fn set_used(&mut self, arena: &mut Arena, page: u32, used: u64) {
        let old = self.record(arena, page);
        let new = Record { used, ..old };
        self.set_record(arena, page, new);
        if old.largest() != new.largest() {
            if let Some(order) = old.largest() {
                self.unlink(order, page);
            }
            if let Some(order) = new.largest() {
                self.link(order, page);
            }
        }
    }

    /// A page or block with room for a run of 2^order lines, found in list `found`; a block that is larger than
    /// the run and more than a page is split.
    fn cut(&mut self, arena: &mut Arena, found: usize, order: usize) -> Result<u32, StateError> {
        let page = self.room[found];
        let block_order = found.saturating_sub(PAGE_ORDER);
        let wanted = order.saturating_sub(PAGE_ORDER);
        let halves = || (wanted..block_order).rev();
        for half in halves() {
            self.touch_record(arena, page + (1 << half))?;
        }
        self.touch_record(arena, page)?;
        if block_order > wanted {
            self.unlink(found, page);
            for half in halves() {
                self.start_block(arena, page + (1 << half), half, self.pages[page as usize].extent + (1 << half));
            }
            self.start_block(arena, page, wanted, self.pages[page as usize].extent);
        }
        Ok(page)
    }

    /// Makes a page the first of a free block.
    fn start_block(&mut self, arena: &mut Arena, page: u32, order: usize, extent: Extent) {
        self.set_record(arena, page, Record { used: 0, order: order as u8, role: FIRST, unused: [0; 6] });
        self.pages[page as usize].extent = extent;
        self.link(PAGE_ORDER + order, page);
    }

    /// Adds a new, free block of 2^order pages.
    fn add_block(&mut self, arena: &mut Arena, state: u16, order: usize) -> Result<u32, StateError> {
        let page = self.pages.len() as u32;
        let pages = page..page + (1 << order);
        let key_group = arena.key_group();
        while self.records.len() * (RECORDS_PER_PAGE as usize) < pages.end as usize {
            let index = RECORDS << SPACE_SHIFT | self.records.len() as u32;
            self.records.push(arena.allocate(PageId { index, state, key_group }, 0, 1)?);
        }
        for page in pages.clone() {
            self.touch_record(arena, page)?;
        }
        let id = PageId { index: SLABS << SPACE_SHIFT | page, state, key_group };
        let extent = arena.allocate(id, order, 1)?;
        self.pages.extend(pages.clone().map(|_| SlabPage { extent, previous: NONE, next: NONE }));
        for later in pages.skip(1) {
            self.set_record(arena, later, Record { used: 0, order: 0, role: LATER, unused: [0; 6] });
        }
        self.start_block(arena, page, order, extent);
        Ok(page)
    }

    fn link(&mut self, order: usize, page: u32) {
        let next = std::mem::replace(&mut self.room[order], page);
        self.pages[page as usize].previous = NONE;
        self.pages[page as usize].next = next;
        if next != NONE {
            self.pages[next as usize].previous = page;
        }
    }

    fn unlink(&mut self, order: usize, page: u32) {
        let SlabPage { previous, next, .. } = self.pages[page as usize];
        match previous {
            NONE => self.room[order] = next,
            previous => self.pages[previous as usize].next = next,
        }
        if next != NONE {
            self.pages[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{ArenaOptions, StateDescriptor, StateKind};
    use proptest::prelude::*;

    fn arena() -> (Arena, Slabs) {
        let mut arena = Arena::new(ArenaOptions { key_groups: 0..1, ..ArenaOptions::default() }).unwrap();
        let descriptor = StateDescriptor {
            id: 0,
            name: "slabs".into(),
            kind: StateKind::List,
            key_size: 8,
            value_size: 8,
            align: 8,
            version: 1,
        };
        let opened = arena.open_state(descriptor).unwrap();
        let slabs = Slabs::open(&mut arena, "slabs", opened.id, opened.pages.into_iter()).unwrap();
        (arena, slabs)
    }

    #[test]
    fn orders_are_the_smallest_that_fit() {
        for (bytes, order) in [(1, 0), (64, 0), (65, 1), (4096, 6), (4097, 7), (MAX_RUN, 12)] {
            assert_eq!(Run::order_for(bytes), order);
        }
        assert_eq!(free_runs(0, 6), 1);
        assert_eq!(free_runs(0b1, 1), 0x5555_5555_5555_5554);
        assert_eq!(free_runs(!(0b111 << 5), 1), 1 << 6, "runs are aligned");
    }

    #[test]
    fn freed_runs_are_used_again() {
        let (mut arena, mut slabs) = arena();
        let mut pages = 0;
        for round in 0..50 {
            let runs: Vec<_> = (0..RUN_ORDERS).map(|order| slabs.allocate(&mut arena, order, 64).unwrap()).collect();
            for run in runs {
                slabs.free(&mut arena, run);
            }
            if round == 0 {
                pages = arena.stats().pages;
            }
        }
        assert_eq!(arena.stats().pages, pages);
    }

    proptest! {
        /// Runs in use never overlap, whatever is allocated, freed and split; freezes move pages in between.
        #[test]
        fn runs_do_not_overlap(ops in prop::collection::vec((0usize..RUN_ORDERS + 6, any::<prop::sample::Index>()), 1..150)) {
            let (mut arena, mut slabs) = arena();
            let mut runs: Vec<(Run, u8)> = Vec::new();
            let mut list = arena.freeze().unwrap();
            for (i, (order, which)) in ops.into_iter().enumerate() {
                let fill = i as u8;
                if order < RUN_ORDERS {
                    let bytes = LINE_BYTES << order;
                    let run = slabs.allocate(&mut arena, order, bytes).unwrap();
                    slabs.write(&mut arena, run, 0..bytes).unwrap().fill(fill);
                    runs.push((run, fill));
                } else if !runs.is_empty() {
                    let (run, _) = runs.swap_remove(which.index(runs.len()));
                    prop_assert!(slabs.is_used(&arena, 0, run));
                    slabs.prepare_free(&mut arena, run).unwrap();
                    slabs.free(&mut arena, run);
                    prop_assert!(!slabs.is_used(&arena, 0, run));
                }
                if i % 10 == 0 {
                    while list.next().is_some() {}
                    list = arena.freeze().unwrap();
                }
            }
            for (run, fill) in runs {
                let bytes = slabs.bytes(&arena, 0, run, 0..run.bytes());
                prop_assert!(bytes.iter().all(|byte| *byte == fill));
            }
        }
    }
}
