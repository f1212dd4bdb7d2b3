//! Delta blocks: the changed lines of one subtask at one checkpoint, or of a part of its pages.
//!
//! ```text
//!  0          8            16        20      24
//!  | operator | checkpoint | subtask | pages | page | page | ...
//!  page:  0       2           4       8      16
//!         | state | key group | index | mask | the lines whose bits are set in mask, 64 bytes each, lowest first |
//! ```
//! All numbers are little-endian. A page with one dirty line takes 80 bytes, one with all of them 4112. The body of
//! a record of kind delta, it is at most [`MAX_BLOCK_BYTES`] long. A later block overrides an earlier one line by line.

use super::buffer::Buffer;
use super::frozen::{FrozenPage, LINE_BYTES, PAGE_BYTES, PageId};
use super::identity::OperatorId;
use super::record::{u32_at, u64_at};

/// No delta block is longer: it bounds the memory of a restore.
pub(crate) const MAX_BLOCK_BYTES: u32 = 1 << 20;
/// Bytes before the first page.
pub(crate) const BLOCK_HEAD_BYTES: usize = 24;
/// Bytes before a page's lines.
const PAGE_HEAD_BYTES: usize = 16;
/// The most that one page takes.
pub(crate) const PAGE_MAX_BYTES: usize = PAGE_HEAD_BYTES + PAGE_BYTES;

/// Whose lines a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub operator: OperatorId,
    pub checkpoint: u64,
    pub subtask: u32,
}

impl BlockHead {
    pub(crate) fn encode(&self, pages: u32) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[0..8].copy_from_slice(&self.operator.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.checkpoint.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.subtask.to_le_bytes());
        bytes[20..24].copy_from_slice(&pages.to_le_bytes());
        bytes
    }
}

/// Appends one page's dirty lines to the record in the making; runs of lines are copied as one.
#[inline]
pub(crate) fn put_page(buffer: &mut Buffer, page: &FrozenPage<'_>) {
    let mut head = [0; PAGE_HEAD_BYTES];
    head[0..2].copy_from_slice(&page.id.state.to_le_bytes());
    head[2..4].copy_from_slice(&page.id.key_group.to_le_bytes());
    head[4..8].copy_from_slice(&page.id.index.to_le_bytes());
    head[8..16].copy_from_slice(&page.mask.to_le_bytes());
    buffer.put(&head);
    let mut rest = page.mask;
    let mut line = 0;
    while rest != 0 {
        let gap = rest.trailing_zeros();
        line += gap as usize;
        rest >>= gap;
        let run = rest.trailing_ones();
        buffer.put(&page.bytes[line * LINE_BYTES..(line + run as usize) * LINE_BYTES]);
        line += run as usize;
        rest = if run == 64 { 0 } else { rest >> run };
    }
}

/// A page as a block holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedPage<'a> {
    pub id: PageId,
    pub mask: u64,
    pub lines: &'a [u8],
}

/// Reads a block's body; `None` if it is not one.
pub(crate) fn parse(body: &[u8]) -> Option<(BlockHead, Pages<'_>)> {
    if body.len() < BLOCK_HEAD_BYTES {
        return None;
    }
    let head =
        BlockHead { operator: OperatorId(u64_at(body, 0)), checkpoint: u64_at(body, 8), subtask: u32_at(body, 16) };
    Some((head, Pages { rest: &body[BLOCK_HEAD_BYTES..], left: u32_at(body, 20) }))
}

/// The pages of a block, in order. An item is an error if the block's bytes do not add up.
#[derive(Debug)]
pub(crate) struct Pages<'a> {
    rest: &'a [u8],
    left: u32,
}

/// The bytes of a block do not add up, although its checksum is right: it was written by something else.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'a> Iterator for Pages<'a> {
    type Item = Result<PackedPage<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let trailing = !std::mem::take(&mut self.rest).is_empty();
            return trailing.then_some(Err(Malformed));
        }
        self.left -= 1;
        let page = self.split_page();
        if page.is_err() {
            (self.rest, self.left) = (&[], 0);
        }
        Some(page)
    }
}

impl<'a> Pages<'a> {
    fn split_page(&mut self) -> Result<PackedPage<'a>, Malformed> {
        let (head, rest) = self.rest.split_at_checked(PAGE_HEAD_BYTES).ok_or(Malformed)?;
        let mask = u64_at(head, 8);
        let (lines, rest) = rest.split_at_checked(mask.count_ones() as usize * LINE_BYTES).ok_or(Malformed)?;
        self.rest = rest;
        let id = PageId {
            state: u16::from_le_bytes([head[0], head[1]]),
            key_group: u16::from_le_bytes([head[2], head[3]]),
            index: u32_at(head, 4),
        };
        Ok(PackedPage { id, mask, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{HEADER_BYTES, Kind};
    use super::*;
    use proptest::prelude::*;

    const HEAD: BlockHead = BlockHead { operator: OperatorId(77), checkpoint: 5, subtask: 2 };

    fn page_bytes(seed: u8) -> Box<[u8; PAGE_BYTES]> {
        Box::new(std::array::from_fn(|i| (i / LINE_BYTES) as u8 ^ (i as u8) ^ seed))
    }

    fn body(masks: &[u64]) -> Vec<u8> {
        let mut buffer = Buffer::new(1 << 20, 0).unwrap();
        let at = buffer.begin();
        buffer.put(&HEAD.encode(masks.len() as u32));
        for (i, &mask) in masks.iter().enumerate() {
            let id = PageId { state: 1, key_group: 9, index: i as u32 };
            put_page(&mut buffer, &FrozenPage { id, mask, bytes: &page_bytes(i as u8) });
        }
        let (len, _) = buffer.finish(at, Kind::Delta, 0);
        buffer.filled()[HEADER_BYTES..HEADER_BYTES + len as usize].to_vec()
    }

    proptest! {
        #[test]
        fn exactly_the_dirty_lines_come_back(masks in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), (0u32..64).prop_map(|b| 1 << b)], 0..20)) {
            let body = body(&masks);
            let (head, pages) = parse(&body).unwrap();
            prop_assert_eq!(head, HEAD);
            let pages: Vec<_> = pages.map(Result::unwrap).collect();
            prop_assert_eq!(pages.len(), masks.len());
            for (i, page) in pages.iter().enumerate() {
                prop_assert_eq!((page.id.index, page.mask), (i as u32, masks[i]));
                let whole = page_bytes(i as u8);
                let expected: Vec<u8> = (0..64).filter(|line| page.mask >> line & 1 == 1)
                    .flat_map(|line| whole[line * 64..(line + 1) * 64].to_vec()).collect();
                prop_assert_eq!(page.lines, &expected[..]);
            }
        }

        #[test]
        fn arbitrary_bytes_are_an_error_or_pages_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Some((_, pages)) = parse(&bytes) {
                prop_assert!(pages.count() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_block_that_is_cut_or_has_something_behind_it_is_malformed() {
        let whole = body(&[3, u64::MAX]);
        for len in BLOCK_HEAD_BYTES..whole.len() {
            assert!(parse(&whole[..len]).unwrap().1.any(|page| page.is_err()), "{len}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(parse(&longer).unwrap().1.any(|page| page.is_err()));
    }
}
