//! A frozen epoch: the dirty pages of an arena as they were at a freeze, for the writer to walk.

use super::epoch::Shared;
use super::page::{LINE_BYTES, PAGE_BYTES, PageId, lines_in};
use super::tags::prefetch;
use crate::sync::{Arc, Ordering};

/// Pages after which progress is published: the owner loads the word when it first writes to a frozen page, and a word
/// that changes with each page would be a cache miss every time.
const BATCH: u32 = if cfg!(isobar_loom) { 1 } else { 32 };

/// The pages that were written in one epoch, as they were when it was frozen, whatever the owner does meanwhile.
///
/// It belongs to the writer's thread. Walking it publishes how far the writer is: [`FrozenList::next`] gives the page
/// before back, and with the end of the list the owner gets back the memory that it was moved away from. Lists of one
/// arena are walked in the order in which they were frozen, each to its end.
///
/// **Dropping a list before its end loses its lines**: those pages are not dirty any more, so no later delta would
/// have them, and the chain of deltas has a gap. Nothing is published for pages that were not read, and the arena
/// declines every later freeze ([`super::FreezeDeclined::ListLost`]): the job has to restart from its last
/// checkpoint. A list that was read to its end may be dropped at any time.
pub struct FrozenList {
    shared: Arc<Shared>,
    slot: u32,
    first: u64,
    len: u32,
    /// Entries handed out so far; the last of them may still be lent.
    lent: u32,
    /// Entries published as read.
    given_back: u32,
}

/// One dirty page of a [`FrozenList`].
#[derive(Clone, Copy)]
pub struct FrozenPage<'a> {
    /// The page's name.
    pub id: PageId,
    /// Bit i stands for line i: the lines written since the page's previous entry, or, for a page that never had one,
    /// since it was allocated, all zero. Never 0.
    pub mask: u64,
    /// The whole page.
    pub bytes: &'a [u8; PAGE_BYTES],
}

impl<'a> FrozenPage<'a> {
    /// The dirty lines with their indices in the page, ascending.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        lines_in(self.mask).map(move |line| (line, &bytes[line * LINE_BYTES..(line + 1) * LINE_BYTES]))
    }
}

impl FrozenList {
    pub(super) fn new(shared: Arc<Shared>, slot: u32, first: u64, len: u32) -> Self {
        Self { shared, slot, first, len, lent: 0, given_back: 0 }
    }

    /// Pages in the list, read or not.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Pages not yet handed out.
    pub fn remaining(&self) -> usize {
        (self.len - self.lent) as usize
    }

    /// Whether all earlier lists of the arena have been read to their end, so that this one's turn has come.
    pub fn is_due(&self) -> bool {
        // Acquire: what another thread read of an earlier list comes before what we publish.
        self.shared.turn.load(Ordering::Acquire) >= self.first
    }

    /// The next page; `None` at the end. Gives the page before back to the arena.
    ///
    /// # Panics
    /// If an earlier list of the same arena has not been read to its end (see [`FrozenList::is_due`]): going on would
    /// give the owner pages that the writer still needs.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Option<FrozenPage<'_>> {
        if self.lent == 0 {
            assert!(self.len == 0 || self.is_due(), "frozen lists of an arena are read in the order of their freezes");
        }
        if self.lent == self.len {
            self.give_back();
            return None;
        }
        if self.lent - self.given_back >= BATCH {
            self.give_back();
        }
        self.prefetch();
        let shared = &*self.shared;
        // SAFETY: slots of a frozen list do not change until its last entry is given back.
        let extent = shared.lists[self.slot as usize].read(self.lent, |slot| unsafe { *slot });
        self.lent += 1;
        let mask = shared.mask(extent);
        // SAFETY: the id of an extent does not change while it holds an entry that is not given back.
        let id = shared.ids.read(extent, |id| unsafe { *id });
        // SAFETY: the owner does not write to an extent whose entry is frozen and not behind `progress`, and `progress`
        // passes this one in the next call at the earliest, when the borrow has ended.
        let bytes = shared.pages.read(extent, |page| unsafe { &(*page).0 });
        Some(FrozenPage { id, mask, bytes })
    }

    /// Starts loading what the calls soon to come read: the writer would else wait for three lines for each page.
    #[inline(always)]
    fn prefetch(&self) {
        let (far, near) = (self.lent + 16, self.lent + 8);
        if cfg!(isobar_loom) || far >= self.len {
            return;
        }
        let shared = &*self.shared;
        // SAFETY (both): as in `next`; entries ahead are as frozen as the one at hand.
        let extent_at = |at| {
            shared.lists[self.slot as usize].read(at, |slot| {
                // SAFETY: the list is frozen: its owner does not write to it until it has been read to its end.
                unsafe { *slot }
            })
        };
        let far = extent_at(far);
        shared.meta.read(far, prefetch);
        shared.ids.read(far, prefetch);
        let near = extent_at(near);
        for line in lines_in(shared.mask(near)).take(4) {
            shared.pages.read(near, |page| prefetch(page.cast::<[u8; LINE_BYTES]>().wrapping_add(line)));
        }
    }

    /// Publishes that every page handed out so far has been read.
    fn give_back(&mut self) {
        if self.given_back == self.lent {
            return;
        }
        #[cfg(isobar_loom)]
        self.check_last_read();
        self.given_back = self.lent;
        let read = self.first + u64::from(self.lent);
        // Release: the owner, which loads this with Acquire, writes to the pages only after our reads of them.
        self.shared.progress.store(read, Ordering::Release);
        if self.lent == self.len {
            // Release: see `is_due`.
            self.shared.turn.store(read, Ordering::Release);
        }
    }

    /// Tells loom that the page lent last may have been read until now.
    #[cfg(isobar_loom)]
    fn check_last_read(&self) {
        // SAFETY: as in `next`.
        let extent = self.shared.lists[self.slot as usize].read(self.lent - 1, |slot| unsafe { *slot });
        self.shared.pages.read(extent, |_| ());
        self.shared.mask(extent);
    }
}

impl Drop for FrozenList {
    fn drop(&mut self) {
        // A panic may have struck in the middle of the last page: then it does not count as read.
        if self.lent == self.len && !std::thread::panicking() {
            self.give_back();
        }
        if self.given_back < self.len {
            self.shared.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for FrozenList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrozenList")
            .field("first", &self.first)
            .field("len", &self.len)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
