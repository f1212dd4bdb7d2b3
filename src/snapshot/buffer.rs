//! The memory that records are packed into and written from.

use std::io;

use memmap2::MmapMut;

use super::record::{HEADER_BYTES, Header, Kind, RECORD_ALIGN, u32_at};

/// One gathered write in the making: page-aligned memory (as O_DIRECT wants it) with whole records in it.
///
/// It is handed to a [`SegmentIo`](super::SegmentIo) by value and comes back with the completion, so nothing can
/// change or free it while the kernel reads from it.
#[derive(Debug)]
pub struct Buffer {
    memory: MmapMut,
    len: usize,
    serial: u64,
}

/// Where the records of a buffer go, and what their headers say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub segment: u32,
    pub offset: u32,
    pub attempt: u64,
    pub sequence: u64,
    pub durable: u64,
}

impl Buffer {
    /// An empty buffer of `capacity` bytes; memory is only taken as it is filled. `serial` orders buffers.
    pub(crate) fn new(capacity: usize, serial: u64) -> io::Result<Self> {
        Ok(Self { memory: MmapMut::map_anon(capacity.max(HEADER_BYTES))?, len: 0, serial })
    }

    /// What has been filled: whole records, once the buffer is given to a `SegmentIo` a multiple of its alignment.
    pub fn filled(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn room(&self) -> usize {
        self.memory.len() - self.len
    }

    /// Makes the buffer empty again, under a new number.
    pub(crate) fn recycle(&mut self, serial: u64) {
        self.len = 0;
        self.serial = serial;
    }

    /// Starts a record and returns its position; its body is what is [`put`](Self::put) until
    /// [`finish`](Self::finish). The caller has made sure that there is room.
    pub(crate) fn begin(&mut self) -> usize {
        debug_assert!(self.len.is_multiple_of(RECORD_ALIGN));
        let at = self.len;
        self.len += HEADER_BYTES;
        at
    }

    /// Appends bytes to the record in the making. The caller has made sure that there is room.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.memory[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Overwrites bytes that were put before.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.len);
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Ends the record at `at` and returns the length and the checksum of its body.
    pub(crate) fn finish(&mut self, at: usize, kind: Kind, copy: u8) -> (u32, u32) {
        let body = &self.memory[at + HEADER_BYTES..self.len];
        let (body_len, body_crc) = (body.len() as u32, crc32c::crc32c(body));
        let end = self.len.next_multiple_of(RECORD_ALIGN);
        self.memory[self.len..end].fill(0);
        self.len = end;
        let header =
            Header { kind, copy, body_len, body_crc, attempt: 0, sequence: 0, durable: 0, segment: 0, offset: 0 };
        self.patch(at, &header.encode());
        (body_len, body_crc)
    }

    /// Takes the record that was begun at `at` back.
    pub(crate) fn cancel(&mut self, at: usize) {
        self.len = at;
    }

    /// Fills up to a multiple of `align` with a pad record.
    pub(crate) fn pad(&mut self, align: usize) {
        let end = self.len.next_multiple_of(align);
        if end > self.len {
            let at = self.begin();
            self.memory[self.len..end].fill(0);
            self.len = end;
            self.finish(at, Kind::Pad, 0);
        }
    }

    /// Writes `body` twice as a record of `kind`, so that no device sector holds a part of both.
    pub(crate) fn put_twins(&mut self, kind: Kind, body: &[u8], align: usize) {
        for copy in 0..2 {
            self.pad(align);
            let at = self.begin();
            self.put(body);
            self.finish(at, kind, copy);
        }
        self.pad(align);
    }

    /// The most that [`put_twins`](Self::put_twins) takes for a body of `body_len`.
    pub(crate) fn twins_len(body_len: usize, align: usize) -> usize {
        align + 2 * super::record::record_len(body_len).next_multiple_of(align)
    }

    /// Gives every record its place and number and returns how many there are.
    pub(crate) fn place(&mut self, placement: &Placement) -> u64 {
        let mut count = 0;
        let mut at = 0;
        while at < self.len {
            let Some((kind, copy)) = self.kind_at(at) else { break };
            let header = Header {
                kind,
                copy,
                body_len: u32_at(&self.memory, at + 8),
                body_crc: u32_at(&self.memory, at + 12),
                attempt: placement.attempt,
                sequence: placement.sequence + count,
                durable: placement.durable,
                segment: placement.segment,
                offset: placement.offset + at as u32,
            };
            self.patch(at, &header.encode());
            at += header.record_len() as usize;
            count += 1;
        }
        debug_assert_eq!(at, self.len, "a buffer holds whole records");
        count
    }

    /// Turns every record but delta blocks into padding: what is left of a write that failed.
    pub(crate) fn keep_deltas(&mut self) {
        let mut at = 0;
        while at < self.len {
            let Some((kind, _)) = self.kind_at(at) else { break };
            if kind != Kind::Delta {
                self.memory[at + 6] = Kind::Pad as u8;
                self.memory[at + 7] = 0;
            }
            at += super::record::record_len(u32_at(&self.memory, at + 8) as usize);
        }
    }

    /// Whether any record is a delta block.
    pub(crate) fn has_deltas(&self) -> bool {
        let mut at = 0;
        while at < self.len {
            match self.kind_at(at) {
                Some((Kind::Delta, _)) => return true,
                Some(_) => at += super::record::record_len(u32_at(&self.memory, at + 8) as usize),
                None => return false,
            }
        }
        false
    }

    /// Kind and copy of the record at `at`, without its checksum: the buffer's own bytes are trusted.
    fn kind_at(&self, at: usize) -> Option<(Kind, u8)> {
        Kind::from_u8(self.memory[at + 6]).map(|kind| (kind, self.memory[at + 7]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(buffer: &Buffer) -> Vec<Header> {
        let (bytes, mut at, mut found) = (buffer.filled(), 0, Vec::new());
        while at < bytes.len() {
            let header = Header::decode(bytes[at..at + HEADER_BYTES].try_into().unwrap()).unwrap();
            at += header.record_len() as usize;
            found.push(header);
        }
        found
    }

    fn sample() -> Buffer {
        let mut buffer = Buffer::new(1 << 16, 1).unwrap();
        let at = buffer.begin();
        buffer.put(&[7; 100]);
        buffer.finish(at, Kind::Delta, 0);
        buffer.put_twins(Kind::Commit, &[9; 500], 512);
        buffer
    }

    #[test]
    fn twins_share_no_sector_and_the_end_is_aligned() {
        let mut buffer = sample();
        buffer.place(&Placement { segment: 2, offset: 1024, attempt: 5, sequence: 10, durable: 3 });
        let commits: Vec<_> = headers(&buffer).into_iter().filter(|h| h.kind == Kind::Commit).collect();
        let [first, second] = commits[..] else { panic!("two copies") };
        assert_eq!((first.copy, second.copy), (0, 1));
        assert!((u64::from(first.offset) + first.record_len()).div_ceil(512) * 512 <= u64::from(second.offset));
        assert!(buffer.len().is_multiple_of(512));
        assert!(buffer.len() - 192 <= Buffer::twins_len(500, 512));
    }

    #[test]
    fn placing_numbers_records_and_says_where_they_lie() {
        let mut buffer = sample();
        let count = buffer.place(&Placement { segment: 2, offset: 1024, attempt: 5, sequence: 10, durable: 3 });
        let headers = headers(&buffer);
        assert_eq!(headers.len() as u64, count);
        let mut offset = 1024;
        for (i, header) in headers.iter().enumerate() {
            assert_eq!((header.segment, header.attempt, header.durable), (2, 5, 3));
            assert_eq!((header.sequence, header.offset), (10 + i as u64, offset));
            offset += header.record_len() as u32;
        }
    }

    #[test]
    fn a_failed_write_leaves_its_deltas_only() {
        let mut buffer = sample();
        buffer.keep_deltas();
        buffer.place(&Placement { segment: 3, offset: 0, attempt: 5, sequence: 1, durable: 3 });
        let kinds: Vec<_> = headers(&buffer).iter().map(|h| h.kind).collect();
        assert_eq!(kinds[0], Kind::Delta);
        assert!(kinds[1..].iter().all(|&k| k == Kind::Pad));
    }
}
