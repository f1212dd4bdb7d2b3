//! What a checkpoint keeps of a sink's transaction.
//!
//! ```text
//!   version u8 = 1 | subtask u32 | published u64 | pieces u8 | pieces x { sequence u64 | bytes u64 | crc u32 } | crc u32
//! ```
//!
//! Little-endian; the last field is the CRC32C of all before it. At most 178 bytes.

use super::content::Content;
use super::error::FileSinkError;

/// More pieces than this a transaction never has. Usually there is one; each seal that waits for its checkpoint, and
/// each failed fsync behind durable lines, makes one more.
pub(super) const PIECES_MAX: usize = 8;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 1 + 4 + 8 + 1;
const PIECE_BYTES: usize = 8 + 8 + 4;

/// A subtask's committed lines that were not public when the checkpoint's barrier came: the pieces in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// The subtask that wrote them.
    pub subtask: u32,
    /// The id of the last part that the subtask had published: parts up to it hold older lines.
    pub published: u64,
    pub pieces: Vec<CommittedPiece>,
}

/// The committed beginning of one pending file. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommittedPiece {
    pub sequence: u64,
    pub content: Content,
}

impl Transaction {
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.pieces.len() <= PIECES_MAX);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.pieces.len() * PIECE_BYTES + 4);
        bytes.push(VERSION);
        bytes.extend(self.subtask.to_le_bytes());
        bytes.extend(self.published.to_le_bytes());
        bytes.push(self.pieces.len() as u8);
        for piece in &self.pieces {
            bytes.extend(piece.sequence.to_le_bytes());
            bytes.extend(piece.content.bytes.to_le_bytes());
            bytes.extend(piece.content.crc.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8], checkpoint: u64) -> Result<Self, FileSinkError> {
        decode(bytes).map_err(|reason| FileSinkError::State { checkpoint, reason })
    }
}

fn decode(bytes: &[u8]) -> Result<Transaction, &'static str> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or("it is too short")?;
    if body.first().is_some_and(|&version| version != VERSION) {
        return Err("it was written by another version of isobar");
    }
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err("its checksum does not match");
    }
    let mut rest = body.get(1..).ok_or("it is too short")?;
    let mut take = |count: usize| -> Result<u64, &'static str> {
        let (field, behind) = rest.split_at_checked(count).ok_or("it is too short")?;
        rest = behind;
        let mut wide = [0; 8];
        wide[..count].copy_from_slice(field);
        Ok(u64::from_le_bytes(wide))
    };
    let subtask = take(4)? as u32;
    let published = take(8)?;
    let count = take(1)? as usize;
    if count > PIECES_MAX {
        return Err("it has too many pieces");
    }
    let mut pieces = Vec::with_capacity(count);
    for _ in 0..count {
        let sequence = take(8)?;
        pieces.push(CommittedPiece { sequence, content: Content { bytes: take(8)?, crc: take(4)? as u32 } });
    }
    if !rest.is_empty() {
        return Err("it is too long");
    }
    if pieces.iter().any(|piece| piece.content.bytes == 0) {
        return Err("it names an empty file");
    }
    Ok(Transaction { subtask, published, pieces })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Transaction {
        let piece = |sequence| CommittedPiece { sequence, content: Content { bytes: 1 + sequence, crc: 5 } };
        Transaction { subtask: 3, published: 9, pieces: (0..PIECES_MAX as u64).map(piece).collect() }
    }

    #[test]
    fn a_transaction_round_trips_and_stays_small() {
        for pieces in 0..=PIECES_MAX {
            let mut transaction = example();
            transaction.pieces.truncate(pieces);
            let bytes = transaction.encode();
            assert!(bytes.len() <= 178);
            assert_eq!(Transaction::decode(&bytes, 1).unwrap(), transaction);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = example().encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Transaction::decode(&changed, 1).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Transaction::decode(&bytes[..end], 1).is_err(), "cut at {end}");
        }
    }
}
