//! Pages and blocks of pages, as the states use them.

use std::ops::Range;

use super::Arena;
use crate::state::StateError;
use crate::state::epoch::NoExtent;
use crate::state::extents::{Extent, ORDERS};
use crate::state::page::{PAGE_BYTES, Page, PageId, lines_of};
use crate::state::tags::prefetch;

/// Pages, for the states.
impl Arena {
    /// Allocates a block of 2^order zero pages with consecutive ids from `id` on; all are dirty in `lines` of each.
    pub(crate) fn allocate(&mut self, id: PageId, order: usize, lines: u64) -> Result<Extent, StateError> {
        debug_assert!(order < ORDERS && lines != 0);
        let block = self.take_block(order)?;
        for page in 0..1 << order {
            self.epochs.adopt(block + page, PageId { index: id.index + page, ..id }, Some(lines));
        }
        Ok(block)
    }

    /// Takes a zero block for new pages: from the spares if there are more than needed, else fresh, and lets the
    /// spares grow with the state, in steps bounded by the growth.
    pub(super) fn take_block(&mut self, order: usize) -> Result<Extent, StateError> {
        let pages = self.pages + (1 << order);
        if pages > self.max_pages {
            return Err(self.full());
        }
        let surplus = self.extents.free_pages() >= self.extents.spare_target(pages) + (1 << order);
        let recycled = if surplus { self.extents.take_free(order) } else { None };
        let block = match recycled {
            Some(block) => {
                (block..block + (1 << order)).for_each(|extent| self.clear(extent));
                block
            }
            None => self.extents.take_fresh(order).ok_or_else(|| self.full())?,
        };
        self.pages = pages;
        self.extents.note_pages(pages);
        for _ in 0..self.extents.spares_per_page() << order {
            let Some(spare) = self.extents.next_spare(pages) else { break };
            self.clear(spare); // touches the memory
            self.extents.give(0, spare);
        }
        Ok(block)
    }

    /// Zeroes a free extent.
    fn clear(&mut self, extent: Extent) {
        // SAFETY: the extent is free: neither the writer nor any state knows it.
        self.epochs.shared().pages.write(extent, |page| unsafe { page.write_bytes(0, 1) });
    }

    #[cold]
    pub(super) fn full(&self) -> StateError {
        StateError::MemoryFull { max_bytes: u64::from(self.max_pages) * PAGE_BYTES as u64 }
    }

    /// The page in an extent.
    #[inline(always)]
    pub(crate) fn page(&self, extent: Extent) -> &Page {
        // SAFETY: only the owner writes to pages, through `&mut self`; the region checks the index.
        self.epochs.shared().pages.read(extent, |page| unsafe { &*page })
    }

    /// Starts loading what [`Arena::write`] looks at.
    #[inline(always)]
    pub(crate) fn prefetch_meta(&self, extent: Extent) {
        self.epochs.shared().meta.read(extent, prefetch);
    }

    /// Makes a page writable and marks lines of it. Returns where it is now, which the caller notes in place of
    /// `extent`, and the page.
    #[inline(always)]
    pub(crate) fn write(&mut self, extent: Extent, lines: u64) -> Result<(Extent, &mut Page), StateError> {
        let extent = match self.epochs.touch(&mut self.extents, extent, lines) {
            Ok(extent) => extent,
            Err(NoExtent) => return Err(self.full()),
        };
        // SAFETY: `touch` has given the page an entry in the running epoch: see `running_page`.
        Ok((extent, self.epochs.shared().pages.write(extent, |page| unsafe { &mut *page })))
    }

    /// Marks lines of a page that was made writable in this epoch, and gives it.
    #[inline(always)]
    pub(crate) fn rewrite(&mut self, extent: Extent, lines: u64) -> &mut Page {
        let page = self.running_page(extent) as *mut Page;
        self.epochs.mark(extent, lines);
        // SAFETY: `running_page` has checked that the page is ours to write; `mark` touches the extent's meta alone.
        unsafe { &mut *page }
    }

    /// A page with an entry in the running epoch.
    #[inline(always)]
    fn running_page(&mut self, extent: Extent) -> &mut Page {
        assert!(self.epochs.is_running(extent), "extent {extent} was not made writable in this epoch");
        // SAFETY: an extent with an entry of the running epoch is in no frozen list, so the writer does not know it;
        // `&mut self` keeps the owner's other references away.
        self.epochs.shared().pages.write(extent, |page| unsafe { &mut *page })
    }

    /// Makes pages `range` of a block of 2^order pages writable, marking in each the lines that bytes
    /// `bytes` of the block lie in, and returns where the block is now.
    pub(crate) fn touch_block(
        &mut self,
        mut block: Extent,
        order: usize,
        bytes: Range<usize>,
    ) -> Result<Extent, StateError> {
        for page in bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES) {
            let start = bytes.start.max(page * PAGE_BYTES) - page * PAGE_BYTES;
            let end = bytes.end.min((page + 1) * PAGE_BYTES) - page * PAGE_BYTES;
            let lines = lines_of(start, end - start);
            block = match self.epochs.touch_in_block(&mut self.extents, (block, order), page as u32, lines) {
                Ok(block) => block,
                Err(NoExtent) => return Err(self.full()),
            };
        }
        Ok(block)
    }

    /// Bytes `bytes` of a block.
    pub(crate) fn block(&self, block: Extent, bytes: Range<usize>) -> &[u8] {
        let start = self.block_pointer(block, &bytes, |_| true);
        // SAFETY: the range lies in consecutive extents of one region, as `block_pointer` has checked; only the owner
        // writes, through `&mut self`.
        unsafe { std::slice::from_raw_parts(start, bytes.len()) }
    }

    /// As [`Arena::block`], for writing; [`Arena::touch_block`] came before, in this epoch, for all of it.
    pub(crate) fn block_mut(&mut self, block: Extent, bytes: Range<usize>) -> &mut [u8] {
        let start = self.block_pointer(block, &bytes, |extent| self.epochs.is_running(extent));
        // SAFETY: as in `block`; every page of the range has an entry in the running epoch, so the writer knows none.
        unsafe { std::slice::from_raw_parts_mut(start.cast_mut(), bytes.len()) }
    }

    /// Copies bytes of one block to where [`Arena::touch_block`] made room in another, or elsewhere in the same.
    pub(crate) fn copy(&mut self, from: (Extent, Range<usize>), to: (Extent, usize)) {
        let length = from.1.len();
        if length == 0 {
            return;
        }
        let source = self.block_pointer(from.0, &from.1, |_| true);
        let target =
            self.block_pointer(to.0, &(to.1..to.1 + length), |extent| self.epochs.is_running(extent)).cast_mut();
        // SAFETY: both ranges lie in consecutive extents, as `block_pointer` has checked; the writer knows no page of
        // the target; `copy` allows for overlap.
        unsafe { target.copy_from(source, length) };
    }

    /// A pointer to the first of `bytes` in the block. Every page that they lie in passes `check`.
    fn block_pointer(&self, block: Extent, bytes: &Range<usize>, check: impl Fn(Extent) -> bool) -> *const u8 {
        let pages = &self.epochs.shared().pages;
        let first = block + (bytes.start / PAGE_BYTES) as u32;
        for page in bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES) {
            let extent = block + page as u32;
            assert!(check(extent), "extent {extent} was not made writable in this epoch");
            pages.read(extent, |_| ());
        }
        // SAFETY: the offset is within the page.
        pages.read(first, |page| unsafe { page.cast::<u8>().add(bytes.start % PAGE_BYTES) })
    }
}
