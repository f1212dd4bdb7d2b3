//! The blocks that no complete checkpoint names yet.

use super::commit::BlockRef;

/// A packed block and where it has got to.
#[derive(Clone, Copy, Debug)]
struct PendingBlock {
    checkpoint: u64,
    /// Serial of the buffer that holds it, and the record's position there.
    serial: u64,
    at: usize,
    /// The place in the log; `segment` and `offset` count once `placed`.
    block: BlockRef,
    placed: bool,
}

/// Pending blocks in the order in which they were packed, which is the order in which they apply.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pending: Vec<PendingBlock>,
}

impl Blocks {
    /// A block was packed into buffer `serial` at `at`.
    pub fn push(&mut self, checkpoint: u64, serial: u64, at: usize, (body_len, body_crc): (u32, u32)) {
        debug_assert!(self.pending.last().is_none_or(|last| (last.serial, last.at) < (serial, at)));
        let block = BlockRef { segment: 0, offset: 0, body_len, body_crc };
        self.pending.push(PendingBlock { checkpoint, serial, at, block, placed: false });
    }

    /// Buffer `serial` goes to `offset` of `segment`: for the first time, or again after that failed elsewhere.
    pub fn place(&mut self, serial: u64, segment: u32, offset: u32) {
        let first = self.pending.partition_point(|block| block.serial < serial);
        for pending in self.pending[first..].iter_mut().take_while(|block| block.serial == serial) {
            pending.block.segment = segment;
            pending.block.offset = offset + pending.at as u32;
            pending.placed = true;
        }
    }

    /// Buffers from `serial` on have no place any more.
    pub fn displace(&mut self, serial: u64) {
        let first = self.pending.partition_point(|block| block.serial < serial);
        self.pending[first..].iter_mut().for_each(|block| block.placed = false);
    }

    /// The references for commit `checkpoint`; blocks of later checkpoints stay. Blocks that have no place yet are
    /// those of the open buffer, which is about to go to `offset` of `segment`.
    pub fn refs(&self, checkpoint: u64, segment: u32, offset: u32) -> Vec<BlockRef> {
        let named = self.pending.iter().filter(|block| block.checkpoint <= checkpoint);
        named
            .map(|block| match block.placed {
                true => block.block,
                false => BlockRef { segment, offset: offset + block.at as u32, ..block.block },
            })
            .collect()
    }

    /// Commit `checkpoint` is durable: its blocks are nobody's business any more.
    pub fn committed(&mut self, checkpoint: u64) {
        self.pending.retain(|block| block.checkpoint > checkpoint);
    }

    /// The highest checkpoint with a block in buffer `serial` or a later one.
    pub fn newest_from(&self, serial: u64) -> Option<u64> {
        let first = self.pending.partition_point(|block| block.serial < serial);
        self.pending[first..].iter().map(|block| block.checkpoint).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_names_its_own_and_earlier_blocks_where_they_lie_last() {
        let mut blocks = Blocks::default();
        blocks.push(1, 10, 0, (5, 55));
        blocks.push(2, 10, 128, (6, 66));
        blocks.push(1, 11, 0, (7, 77));
        blocks.place(10, 3, 4096);
        let place = |b: &BlockRef| (b.segment, b.offset, b.body_len);
        let refs = |blocks: &Blocks, n| blocks.refs(n, 3, 8192).iter().map(place).collect::<Vec<_>>();
        assert_eq!(refs(&blocks, 1), [(3, 4096, 5), (3, 8192, 7)]);
        blocks.displace(10);
        blocks.place(10, 4, 512);
        blocks.place(11, 4, 1024);
        assert_eq!(refs(&blocks, 2), [(4, 512, 5), (4, 640, 6), (4, 1024, 7)]);
        blocks.committed(1);
        assert_eq!(refs(&blocks, 2), [(4, 640, 6)]);
        assert_eq!(blocks.newest_from(10), Some(2));
        assert_eq!(blocks.newest_from(11), None);
    }
}
