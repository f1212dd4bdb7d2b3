//! The field types that ITCH messages are made of.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::big_endian::{U16, U32, U64},
};

/// Price with four implied decimals: one unit is 1/10000 dollar.
pub type Price4 = U32;
/// Price with eight implied decimals, used by the market-wide circuit breaker levels alone.
pub type Price8 = U64;

/// The 11 bytes that every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// The message type, an ASCII letter.
    pub message_type: u8,
    /// The day's number for the security; 0 for messages about the whole market.
    pub locate: U16,
    /// NASDAQ's internal tracking number.
    pub tracking: U16,
    /// When the message was generated.
    pub timestamp: Timestamp,
}

impl Header {
    /// The header of a message of type `message_type` about security `locate` at `timestamp_ns` since midnight.
    #[inline]
    pub fn new(message_type: u8, locate: u16, timestamp_ns: u64) -> Self {
        Self {
            message_type,
            locate: U16::new(locate),
            tracking: U16::ZERO,
            timestamp: Timestamp::from_ns(timestamp_ns),
        }
    }
}

/// Nanoseconds since midnight, a big-endian integer of 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Timestamp([u8; 6]);

impl Timestamp {
    /// The timestamp of `ns` since midnight, of which the low 48 bits are kept.
    #[inline]
    pub fn from_ns(ns: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = ns.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// Nanoseconds since midnight.
    #[inline]
    pub fn ns(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

/// A security's symbol: eight ASCII bytes, padded with spaces on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Stock(pub [u8; 8]);

impl Stock {
    /// The symbol `name`, padded; of longer names the first eight bytes.
    pub fn new(name: &str) -> Self {
        let mut bytes = [b' '; 8];
        for (slot, byte) in bytes.iter_mut().zip(name.bytes()) {
            *slot = byte;
        }
        Self(bytes)
    }

    /// The symbol without its trailing spaces.
    pub fn trimmed(&self) -> &[u8] {
        self.0.trim_ascii_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_keep_48_bits() {
        for ns in [0, 1, 34_200_000_000_000, (1 << 48) - 1] {
            assert_eq!(Timestamp::from_ns(ns).ns(), ns);
        }
        assert_eq!(Timestamp::from_ns(0x0102_0304_0506).as_bytes(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn symbols_are_padded_cut_and_trimmed() {
        assert_eq!(Stock::new("AAPL").0, *b"AAPL    ");
        assert_eq!(Stock::new("AAPL").trimmed(), b"AAPL");
        assert_eq!(Stock::new("LONGSYMBOL").trimmed(), b"LONGSYMB");
        assert_eq!(Stock::new("").trimmed(), b"");
    }
}
