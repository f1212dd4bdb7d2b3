//! Packs one subtask's frozen pages into delta blocks.

use super::block::{BLOCK_HEAD_BYTES, BlockHead, PAGE_MAX_BYTES, put_page};
use super::buffer::Buffer;
use super::frozen::FrozenPages;
use super::identity::OperatorId;
use super::record::{HEADER_BYTES, Kind};

/// A list that is being packed.
pub(super) struct Packing {
    head: BlockHead,
    pages: Box<dyn FrozenPages>,
    /// The block in the making: its record's position in the open buffer, and its pages so far.
    block: Option<(usize, u32)>,
    pub stats: PackStats,
}

/// What packing a list has cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackStats {
    pub checkpoint: u64,
    pub operator: OperatorId,
    pub subtask: u32,
    /// When the list arrived.
    pub arrived_ns: u64,
    pub pack_ns: u64,
    pub async_ns: u64,
    pub bytes: u64,
    pub dirty_pages: u64,
}

/// A finished block: its record's position, and length and checksum of its body.
pub(super) type FinishedBlock = (usize, (u32, u32));

/// Why packing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    /// The list is at its end.
    All,
    /// The budget is used up.
    Budget,
    /// The buffer is full.
    Full,
}

impl Packing {
    pub fn new(
        checkpoint: u64,
        operator: OperatorId,
        subtask: u32,
        pages: Box<dyn FrozenPages>,
        arrived_ns: u64,
    ) -> Self {
        let stats =
            PackStats { checkpoint, operator, subtask, arrived_ns, pack_ns: 0, async_ns: 0, bytes: 0, dirty_pages: 0 };
        Self { head: BlockHead { operator, checkpoint, subtask }, pages, block: None, stats }
    }

    pub fn checkpoint(&self) -> u64 {
        self.head.checkpoint
    }

    /// Packs pages into `buffer` until the list, the budget (in pages) or the buffer's room is at its end. A block
    /// that was finished on the way is returned.
    pub fn fill(&mut self, buffer: &mut Buffer, budget: &mut usize) -> (Packed, Option<FinishedBlock>) {
        loop {
            let (at, count) = match self.block {
                Some(block) => block,
                None if buffer.room() < HEADER_BYTES + BLOCK_HEAD_BYTES + PAGE_MAX_BYTES => {
                    return (Packed::Full, None);
                }
                None => {
                    let at = buffer.begin();
                    buffer.put(&self.head.encode(0));
                    (at, 0)
                }
            };
            self.block = Some((at, count));
            // The page must fit before it is taken: a list cannot be asked for the same page twice.
            if buffer.room() < PAGE_MAX_BYTES {
                return (Packed::Full, self.finish(buffer));
            }
            if *budget == 0 {
                return (Packed::Budget, None);
            }
            *budget -= 1;
            match self.pages.next() {
                None => return (Packed::All, self.finish(buffer)),
                Some(page) if page.mask == 0 => {}
                Some(page) => {
                    put_page(buffer, &page);
                    self.block = Some((at, count + 1));
                    self.stats.dirty_pages += 1;
                }
            }
        }
    }

    fn finish(&mut self, buffer: &mut Buffer) -> Option<FinishedBlock> {
        let (at, count) = self.block.take()?;
        if count == 0 {
            buffer.cancel(at);
            return None;
        }
        buffer.patch(at + HEADER_BYTES, &self.head.encode(count));
        let finished = buffer.finish(at, Kind::Delta, 0);
        self.stats.bytes += (buffer.len() - at) as u64;
        Some((at, finished))
    }
}

#[cfg(test)]
mod tests {
    use super::super::block;
    use super::super::frozen::{FrozenPage, PAGE_BYTES, PageId};
    use super::*;

    /// Pages 0..n, whole, each filled with its number.
    struct Numbered(u32, u32, Box<[u8; PAGE_BYTES]>);

    impl FrozenPages for Numbered {
        fn next(&mut self) -> Option<FrozenPage<'_>> {
            (self.0 < self.1).then(|| {
                self.0 += 1;
                self.2.fill(self.0 as u8);
                let id = PageId { state: 0, key_group: 0, index: self.0 };
                FrozenPage { id, mask: u64::MAX, bytes: &self.2 }
            })
        }
    }

    fn packing(pages: u32) -> Packing {
        Packing::new(3, OperatorId(1), 0, Box::new(Numbered(0, pages, Box::new([0; PAGE_BYTES]))), 0)
    }

    #[test]
    fn a_long_list_goes_on_in_the_next_buffer_and_misses_no_page() {
        let mut packing = packing(10);
        let (mut blocks, mut pages) = (0, Vec::new());
        loop {
            let mut buffer = Buffer::new(16 << 10, blocks).unwrap();
            let (packed, finished) = packing.fill(&mut buffer, &mut 100);
            let (at, (len, _)) = finished.unwrap();
            let body = &buffer.filled()[at + HEADER_BYTES..at + HEADER_BYTES + len as usize];
            let (_, found) = block::parse(body).unwrap();
            pages.extend(found.map(|page| page.unwrap().id.index));
            blocks += 1;
            if packed == Packed::All {
                break;
            }
            assert_eq!(packed, Packed::Full);
        }
        assert_eq!(pages, (1..=10).collect::<Vec<_>>());
        assert!(blocks > 1);
        assert_eq!(packing.stats.dirty_pages, 10);
    }

    #[test]
    fn the_budget_bounds_a_slice() {
        let mut packing = packing(3);
        let mut buffer = Buffer::new(64 << 10, 0).unwrap();
        for _ in 0..3 {
            assert_eq!(packing.fill(&mut buffer, &mut 1), (Packed::Budget, None));
        }
        assert!(matches!(packing.fill(&mut buffer, &mut 1), (Packed::All, Some(_))));
    }

    #[test]
    fn an_empty_list_leaves_nothing_behind() {
        let mut buffer = Buffer::new(16 << 10, 0).unwrap();
        assert_eq!(packing(0).fill(&mut buffer, &mut 1), (Packed::All, None));
        assert_eq!(buffer.len(), 0);
    }
}
