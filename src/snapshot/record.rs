//! The frame around everything in the log: a header of 64 bytes, then the body, then zeros up to 64 bytes.
//!
//! ```text
//!  0        4       6    7    8          12         16        24         32        40        44       48      60
//!  | "ISBR" | vers. |kind|copy| body len | body crc | attempt | sequence | durable | segment | offset | zeros | crc |
//! ```
//! All numbers are little-endian. `crc` is the CRC32C of bytes 0..60, `body crc` that of the body. A record says
//! where it lies (`segment`, `offset`), so that a search for the next record behind a damaged one cannot take
//! user data for it; and `durable`, the last checkpoint that was complete when the record was written: if that one
//! cannot be found, it was lost, not torn.

/// Records start at multiples of this, and so does the search behind a damaged one.
pub(crate) const RECORD_ALIGN: usize = 64;
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 64;
/// The version of all formats in a store.
pub(crate) const FORMAT_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"ISBR";
const CRC_AT: usize = 60;

/// What a record's body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The first record of a segment, twice.
    Start = 1,
    /// Changed lines of one subtask.
    Delta = 2,
    /// A commit record, twice.
    Commit = 3,
    /// Nothing: fills a write up to the alignment of the device.
    Pad = 4,
    /// A clean end, twice; without a body.
    Seal = 5,
}

impl Kind {
    pub fn from_u8(kind: u8) -> Option<Kind> {
        [Kind::Start, Kind::Delta, Kind::Commit, Kind::Pad, Kind::Seal].into_iter().find(|&k| k as u8 == kind)
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    /// 0, or 1 for the twin of a record that is written twice.
    pub copy: u8,
    pub body_len: u32,
    pub body_crc: u32,
    pub attempt: u64,
    /// Counts the records of an attempt.
    pub sequence: u64,
    /// The last checkpoint known complete, 0 if none.
    pub durable: u64,
    pub segment: u32,
    pub offset: u32,
}

/// Why 64 bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// No record starts here, or its header is damaged.
    Damaged,
    /// An intact header of another format version.
    Version(u16),
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.copy;
        bytes[8..12].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.attempt.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.segment.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.offset.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header back; the body is not looked at.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, HeaderError> {
        if bytes[0..4] != MAGIC || crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
            return Err(HeaderError::Damaged);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        Ok(Header {
            kind: Kind::from_u8(bytes[6]).ok_or(HeaderError::Damaged)?,
            copy: bytes[7],
            body_len: u32_at(bytes, 8),
            body_crc: u32_at(bytes, 12),
            attempt: u64_at(bytes, 16),
            sequence: u64_at(bytes, 24),
            durable: u64_at(bytes, 32),
            segment: u32_at(bytes, 40),
            offset: u32_at(bytes, 44),
        })
    }

    /// Bytes from this record's start to the next one's.
    pub fn record_len(&self) -> u64 {
        record_len(self.body_len as usize) as u64
    }
}

/// Bytes that a record with a body of `body_len` takes in the log.
pub(crate) const fn record_len(body_len: usize) -> usize {
    (HEADER_BYTES + body_len).next_multiple_of(RECORD_ALIGN)
}

/// The little-endian number at `at`; the caller has checked that it lies inside.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// As [`u32_at`], 8 bytes.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        kind: Kind::Commit,
        copy: 1,
        body_len: 0x0102_0304,
        body_crc: 0xdead_beef,
        attempt: 3,
        sequence: 0x1122_3344_5566_7788,
        durable: 41,
        segment: 7,
        offset: 4096,
    };

    #[test]
    fn a_header_comes_back_as_it_was() {
        assert_eq!(Header::decode(&HEADER.encode()), Ok(HEADER));
    }

    #[test]
    fn a_flip_of_any_bit_is_noticed() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), Err(HeaderError::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = HEADER.encode();
        bytes[4] = 9;
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(HeaderError::Version(9)));
    }
}
