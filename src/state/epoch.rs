//! The protocol between the arena's owner and the snapshot writer: freeze, first write, progress, reuse.
//!
//! Every page that is written gets an *entry* in the running epoch's dirty list, once an epoch. Entries are numbered
//! from 1 for the life of the arena, and an extent's [`Meta`] remembers the number of its page's last entry:
//!
//! ```text
//!   entry <  progress          the writer is done with it, or it is clean    the owner may write in place
//!   progress <= entry < first  frozen, the writer may be reading it          the owner may read it
//!   first <= entry             of the running epoch                          the owner may write in place
//! ```
//!
//! A freeze only sets `first` to the next entry number and hands the list over, so it takes the same time whatever the
//! size of the state and however much of it is dirty. When the owner first writes to a frozen page, it moves the page
//! to a spare extent; the old one, *condemned*, belongs to the writer until `progress` has passed the list's end.
//! `progress` is the only word that both sides touch: the writer stores it (Release) after its last read of a page,
//! the owner loads it (Acquire) before its first write.
//!
//! Loom checks this file as it stands (`tests/loom_state.rs`).

use crossbeam_utils::CachePadded;
use zerocopy::{FromBytes, IntoBytes};

use super::extents::{Chain, Extent, Extents, ORDERS};
use super::page::{Page, PageId};
use super::region::Region;
use super::{FreezeDeclined, FrozenList, StateError};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// Pages from this extent on are on huge memory pages (uniform updates of 64 MiB: 1.5 times as fast); below it, 4 MiB,
/// a small state stays small.
const FIRST_HUGE_PAGE: Extent = 1 << 10;
/// The same for what is kept about each extent: from 64 MiB of state on.
const FIRST_HUGE_META: Extent = 1 << 14;

/// What is known of the page in an extent.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C)]
pub(crate) struct Meta {
    /// Number of the page's last entry; 0 if it is clean.
    entry: u64,
    /// The lines written since that entry was made.
    mask: u64,
}

/// What owner and writer share.
pub(crate) struct Shared {
    pub pages: Region<Page>,
    pub meta: Region<Meta>,
    pub ids: Region<PageId>,
    /// The dirty lists: list number n lies in slot n modulo their number.
    pub lists: Box<[Region<Extent>]>,
    /// The writer is done with every entry below this number. In a box, so that the reference counts of `Shared` stay on
    /// the line of what the owner uses all the time: a freeze counts one up.
    pub progress: Box<CachePadded<AtomicU64>>,
    /// The first entry of the list whose turn it is to be read; the readers' affair alone. (Not `progress` again: loom
    /// tries a store at an earlier point only against the latest access, which must be the owner's.)
    pub turn: AtomicU64,
    /// A list was dropped before its end.
    pub lost: AtomicBool,
}

impl Shared {
    /// The mask of a frozen or running entry's extent.
    #[inline(always)]
    pub fn mask(&self, extent: Extent) -> u64 {
        // SAFETY: callers are the writer, for an extent of its list that `progress` has not passed, or the owner; the
        // owner changes the word only while the entry is of the running epoch or behind `progress`.
        self.meta.read(extent, |meta| unsafe { (*meta).mask })
    }
}

/// A list that waits for the writer. Its slot is that of its entries.
#[derive(Clone, Copy)]
struct Waiting {
    /// One past the list's last entry.
    end: u64,
    condemned: [Chain; ORDERS],
}

/// The owner's side. What updates and freezes use shares a cache line.
#[repr(C, align(64))]
pub(crate) struct Epochs {
    shared: Arc<Shared>,
    /// Number of the running epoch's first entry.
    first: u64,
    /// `progress` as last loaded; can be stale.
    seen: u64,
    /// End of the oldest waiting list; `u64::MAX` if none waits.
    oldest_end: u64,
    /// Entries in the running list.
    len: u32,
    /// Slot of the running list.
    slot: u32,
    /// Waiting lists, in the slots before the running one's.
    waiting_len: u32,
    max_waiting: u32,
    waiting: Box<[Waiting]>,
    moved_pages: u64,
}

impl Epochs {
    /// Reserves memory for `extents` extents, of which at most `pages` hold pages at a time.
    pub fn reserve(extents: u32, pages: u32, max_waiting: usize) -> Result<Self, StateError> {
        // One list more than may wait: the running one. `touch` may write one entry more than counts.
        let slots = max_waiting + 1;
        let lists: Result<_, _> = (0..slots).map(|_| Region::reserve(pages + 1)).collect();
        let shared = Shared {
            pages: Region::reserve(extents)?,
            meta: Region::reserve(extents)?,
            ids: Region::reserve(extents)?,
            lists: lists?,
            progress: Box::new(CachePadded::new(AtomicU64::new(1))),
            turn: AtomicU64::new(1),
            lost: AtomicBool::new(false),
        };
        shared.pages.advise_huge_from(FIRST_HUGE_PAGE);
        shared.meta.advise_huge_from(FIRST_HUGE_META);
        shared.ids.advise_huge_from(FIRST_HUGE_META);
        Ok(Self {
            shared: Arc::new(shared),
            first: 1,
            seen: 1,
            oldest_end: u64::MAX,
            len: 0,
            slot: 0,
            waiting_len: 0,
            max_waiting: max_waiting as u32,
            waiting: vec![Waiting { end: 0, condemned: [Chain::EMPTY; ORDERS] }; slots].into(),
            moved_pages: 0,
        })
    }

    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Entries of the running epoch: its dirty pages.
    pub fn running(&self) -> u32 {
        self.len
    }

    /// Lists that the writer is not through with, as far as known.
    pub fn waiting(&self) -> usize {
        self.waiting_len as usize
    }

    /// Pages moved by copy-on-write so far.
    pub fn moved_pages(&self) -> u64 {
        self.moved_pages
    }

    /// Whether the page in `extent` has an entry in the running epoch, and may be written.
    #[inline(always)]
    pub fn is_running(&self, extent: Extent) -> bool {
        self.entry(extent) >= self.first
    }

    #[inline(always)]
    fn entry(&self, extent: Extent) -> u64 {
        // SAFETY: only the owner changes `entry`.
        self.shared.meta.read(extent, |meta| unsafe { (*meta).entry })
    }

    /// Adds lines to the mask of a page of the running epoch.
    #[inline(always)]
    pub fn mark(&mut self, extent: Extent, lines: u64) {
        debug_assert!(self.is_running(extent));
        // SAFETY: the entry is of the running epoch, which the writer does not know yet.
        self.shared.meta.write(extent, |meta| unsafe { (*meta).mask |= lines });
    }

    /// Makes a single page writable and marks lines of it. Returns where it is now: it moves if the writer may be
    /// reading it.
    ///
    /// There is no branch between a first write and a later one, as nothing tells them apart beforehand: with uniform
    /// updates and half the pages dirty, a mispredicted branch was half the cost of a checkpoint to the owner.
    #[inline(always)]
    pub fn touch(&mut self, extents: &mut Extents, extent: Extent, lines: u64) -> Result<Extent, NoExtent> {
        let entry = self.entry(extent);
        let is_running = entry >= self.first;
        if !is_running & (entry >= self.seen) {
            return self.first_write(extents, extent, lines);
        }
        // SAFETY: the slot behind the running list's last entry is the owner's, and the list has room for it.
        self.running_list().write(self.len, |slot| unsafe { *slot = extent });
        let next = self.first + u64::from(self.len);
        self.shared.meta.write(extent, |meta| {
            // SAFETY: the page is clean, written, or of the running epoch: the writer has no business with it.
            let mask = unsafe { (*meta).mask };
            let (entry, mask) = if is_running { (entry, mask | lines) } else { (next, lines) };
            // SAFETY: as above.
            unsafe { *meta = Meta { entry, mask } };
        });
        self.len += u32::from(!is_running);
        Ok(extent)
    }

    /// The first write to a page whose entry is not known to be written.
    #[inline(never)]
    fn first_write(&mut self, extents: &mut Extents, extent: Extent, lines: u64) -> Result<Extent, NoExtent> {
        let entry = self.entry(extent);
        let mut extent = extent;
        if !self.is_written(extents, entry) {
            extent = self.move_block(extents, (extent, 0), entry)?;
        }
        self.append(extent, lines);
        Ok(extent)
    }

    /// As [`Epochs::touch`], for page `page` of a block of 2^order pages at `block`, which moves as a whole.
    pub fn touch_in_block(
        &mut self,
        extents: &mut Extents,
        (block, order): (Extent, usize),
        page: u32,
        lines: u64,
    ) -> Result<Extent, NoExtent> {
        if order == 0 {
            return self.touch(extents, block, lines);
        }
        if self.is_running(block + page) {
            self.mark(block + page, lines);
            return Ok(block);
        }
        let mut newest_frozen = 0;
        for extent in block..block + (1 << order) {
            let entry = self.entry(extent);
            if entry < self.first && entry > newest_frozen && !self.is_written(extents, entry) {
                newest_frozen = entry;
            }
        }
        let block = match newest_frozen {
            0 => block,
            entry => self.move_block(extents, (block, order), entry)?,
        };
        self.append(block + page, lines);
        Ok(block)
    }

    /// Whether the writer is done with a frozen entry, or the page is clean. Frees what the writer no longer needs.
    #[inline(always)]
    fn is_written(&mut self, extents: &mut Extents, entry: u64) -> bool {
        if entry >= self.seen {
            self.poll(extents);
        }
        entry < self.seen
    }

    /// Copies a block to a spare one and condemns the old until the list that holds entry `frozen` is written.
    #[cold]
    #[inline(never)]
    fn move_block(
        &mut self,
        extents: &mut Extents,
        (block, order): (Extent, usize),
        frozen: u64,
    ) -> Result<Extent, NoExtent> {
        let spare = extents.take_free(order).or_else(|| extents.take_fresh(order)).ok_or(NoExtent)?;
        for page in 0..1 << order {
            self.copy_page(block + page, spare + page);
        }
        self.moved_pages += 1 << order;
        // The list is still waiting: `reclaim` lets go only of lists whose every entry is behind `seen`.
        let slot = (0..self.waiting_len).map(|i| self.waiting_slot(i)).find(|&slot| frozen < self.waiting[slot].end);
        if let Some(slot) = slot {
            extents.push(&mut self.waiting[slot].condemned[order], block);
        }
        Ok(spare)
    }

    /// Slot of the waiting list number `age`, the oldest being 0.
    fn waiting_slot(&self, age: u32) -> usize {
        let slots = self.waiting.len();
        (self.slot as usize + slots - self.waiting_len as usize + age as usize) % slots
    }

    fn copy_page(&mut self, from: Extent, to: Extent) {
        let shared = &*self.shared;
        shared.pages.read(from, |from| {
            // SAFETY: nobody writes to `from` (the writer only reads) and nobody knows `to`, a free extent; both are
            // whole pages of the region, and different ones.
            shared.pages.write(to, |to| unsafe { to.copy_from_nonoverlapping(from, 1) });
        });
        // SAFETY: ids of extents in use do not change; `to` is ours.
        let id = shared.ids.read(from, |id| unsafe { *id });
        // SAFETY: as above.
        shared.ids.write(to, |to| unsafe { *to = id });
        let mut meta = Meta { entry: 0, mask: 0 };
        if self.is_running(from) {
            // A page of the block that was written in this epoch takes its entry along.
            // SAFETY: both are ours: the entry is of the running epoch.
            meta = shared.meta.read(from, |meta| unsafe { *meta });
            self.running_list().write((meta.entry - self.first) as u32, |slot| {
                // SAFETY: the slot lies in the running list, which the owner alone touches until the freeze.
                unsafe { *slot = to }
            });
        }
        // SAFETY: `to` is ours.
        shared.meta.write(to, |slot| unsafe { *slot = meta });
    }

    #[inline(always)]
    fn running_list(&self) -> &Region<Extent> {
        &self.shared.lists[self.slot as usize]
    }

    /// Gives a page that has no entry in the running epoch its entry.
    #[inline(always)]
    fn append(&mut self, extent: Extent, lines: u64) {
        // SAFETY: the running list is the owner's until the freeze; a page has one entry an epoch, so the list, with
        // room for every page, does not overflow (and `write` would not let it).
        self.running_list().write(self.len, |slot| unsafe { *slot = extent });
        let meta = Meta { entry: self.first + u64::from(self.len), mask: lines };
        // SAFETY: the page is clean, written, or in an extent that the writer does not know.
        self.shared.meta.write(extent, |slot| unsafe { *slot = meta });
        self.len += 1;
    }

    /// Names the page of a free extent; with `lines`, it becomes part of the running epoch.
    pub fn adopt(&mut self, extent: Extent, id: PageId, lines: Option<u64>) {
        // SAFETY: the extent is free, so the writer does not know it.
        self.shared.ids.write(extent, |slot| unsafe { *slot = id });
        match lines {
            Some(lines) => self.append(extent, lines),
            // SAFETY: as above.
            None => self.shared.meta.write(extent, |slot| unsafe { *slot = Meta { entry: 0, mask: 0 } }),
        }
    }

    /// Looks how far the writer is, and frees what it no longer needs.
    #[inline(always)]
    pub fn poll(&mut self, extents: &mut Extents) {
        // Acquire: what we write from now on comes after the writer's last reads.
        self.seen = self.shared.progress.load(Ordering::Acquire);
        if self.oldest_end <= self.seen {
            self.reclaim(extents);
        }
    }

    /// Frees the condemned extents of all lists that the writer is through with.
    #[cold]
    #[inline(never)]
    fn reclaim(&mut self, extents: &mut Extents) {
        while self.waiting_len > 0 {
            let slot = self.waiting_slot(0);
            let list = &mut self.waiting[slot];
            self.oldest_end = list.end;
            if list.end > self.seen {
                return;
            }
            for (order, chain) in list.condemned.iter_mut().enumerate() {
                extents.give_chain(order, std::mem::replace(chain, Chain::EMPTY));
            }
            self.waiting_len -= 1;
        }
        self.oldest_end = u64::MAX;
    }

    /// Ends the running epoch and hands its list over. O(1).
    pub fn freeze(&mut self, extents: &mut Extents) -> Result<FrozenList, FreezeDeclined> {
        if self.waiting_len >= self.max_waiting || extents.spares_low() {
            self.poll(extents);
            extents.check_spares()?;
            if self.waiting_len >= self.max_waiting {
                return Err(FreezeDeclined::ListsWaiting { waiting: self.waiting(), max: self.max_waiting as usize });
            }
        }
        if self.shared.lost.load(Ordering::Relaxed) {
            return Err(FreezeDeclined::ListLost);
        }
        let list = FrozenList::new(Arc::clone(&self.shared), self.slot, self.first, self.len);
        self.first += u64::from(self.len);
        self.len = 0;
        self.waiting[self.slot as usize].end = self.first;
        if self.waiting_len == 0 {
            self.oldest_end = self.first;
        }
        self.waiting_len += 1;
        self.slot = if self.slot == self.max_waiting { 0 } else { self.slot + 1 };
        Ok(list)
    }
}

/// No extent is left, neither spare nor fresh.
#[derive(Debug)]
pub(crate) struct NoExtent;
