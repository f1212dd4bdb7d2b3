//! Framing: each message lies behind its length, two bytes big-endian. The prefix alone frames; what a message holds
//! never moves the next one.

/// Bytes of a length prefix.
pub const PREFIX: usize = 2;

/// The longest frame, prefix included, in bytes.
pub const MAX_FRAME: usize = PREFIX + u16::MAX as usize;

/// What lies at the beginning of a window of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A whole message: its body.
    Body(&'a [u8]),
    /// More bytes are needed to tell.
    Incomplete,
}

/// Looks at the beginning of `window`.
#[inline]
pub fn frame(window: &[u8]) -> Framed<'_> {
    let &[high, low, ref rest @ ..] = window else { return Framed::Incomplete };
    match rest.get(..usize::from(u16::from_be_bytes([high, low]))) {
        Some(body) => Framed::Body(body),
        None => Framed::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_prefixs_length_and_nothing_less() {
        assert_eq!(frame(b""), Framed::Incomplete);
        assert_eq!(frame(b"\0"), Framed::Incomplete);
        assert_eq!(frame(b"\0\0rest"), Framed::Body(b""));
        assert_eq!(frame(b"\0\x03ab"), Framed::Incomplete);
        assert_eq!(frame(b"\0\x03abcd"), Framed::Body(b"abc"));
        let mut longest = vec![7; MAX_FRAME];
        longest[..2].fill(0xff);
        assert_eq!(frame(&longest), Framed::Body(&longest[2..]));
    }
}
