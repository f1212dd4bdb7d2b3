//! The uncompressed bytes that a source reads, from a file or from the generator, as a window that moves forward.

use super::{InputError, read_ahead::ReadAhead};
use crate::market::generator::{Generator, GeneratorOptions};

/// What asking for more bytes gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::market) enum Refill {
    /// The window has grown.
    More,
    /// Nothing at the moment.
    Pending,
    /// The input has ended; the window holds its last bytes.
    End,
}

/// A window of the uncompressed input. No call blocks or enters the kernel.
pub(in crate::market) enum Feed {
    /// Read ahead by a thread.
    File(ReadAhead),
    /// Generated when asked for.
    Generated(GeneratedBytes),
}

impl Feed {
    /// The bytes at hand.
    #[inline]
    pub(in crate::market) fn window(&self) -> &[u8] {
        match self {
            Self::File(file) => file.window(),
            Self::Generated(generated) => &generated.buffer[generated.start..],
        }
    }

    /// Moves past the window's first `bytes`, at most all.
    #[inline]
    pub(in crate::market) fn advance(&mut self, bytes: usize) {
        match self {
            Self::File(file) => file.advance(bytes),
            Self::Generated(generated) => generated.advance(bytes),
        }
    }

    /// The offset of the window's first byte in the uncompressed input.
    #[inline]
    pub(in crate::market) fn offset(&self) -> u64 {
        match self {
            Self::File(file) => file.offset(),
            Self::Generated(generated) => generated.offset,
        }
    }

    /// Appends bytes to the window.
    ///
    /// # Errors
    /// An input that cannot be read on; the window still holds all that was read until then.
    #[inline]
    pub(in crate::market) fn refill(&mut self) -> Result<Refill, InputError> {
        match self {
            Self::File(file) => file.refill(),
            Self::Generated(generated) => Ok(generated.refill()),
        }
    }
}

/// Messages generated at once: about a microsecond's work, so that the pipeline is never held up.
const BATCH: usize = 16;

/// The generator's bytes.
pub(in crate::market) struct GeneratedBytes {
    generator: Generator,
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
}

impl GeneratedBytes {
    /// The bytes from `position` on. The generator goes there message by message, at about 10 M a second.
    pub(super) fn start(options: GeneratorOptions, position: u64) -> Result<Self, InputError> {
        let mut generated =
            Self { generator: Generator::new(options)?, buffer: Vec::with_capacity(4096), start: 0, offset: 0 };
        while generated.offset < position {
            if generated.refill() == Refill::End {
                return Err(InputError::Beyond { name: "generated".into(), position });
            }
            let left = usize::try_from(position - generated.offset).unwrap_or(usize::MAX);
            generated.advance(left);
        }
        Ok(generated)
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.buffer.len() - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    fn refill(&mut self) -> Refill {
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        for _ in 0..BATCH {
            if !self.generator.next_into(&mut self.buffer) {
                break;
            }
        }
        if self.buffer.len() > before { Refill::More } else { Refill::End }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(mut feed: Feed) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            bytes.extend_from_slice(feed.window());
            feed.advance(usize::MAX);
            if feed.refill().unwrap() == Refill::End {
                return bytes;
            }
        }
    }

    #[test]
    fn generated_bytes_are_the_generators_from_any_position() {
        let options = GeneratorOptions { messages: 2_000, symbols: 20, seed: 5 };
        let mut whole = Vec::new();
        Generator::new(options).unwrap().write_to(&mut whole).unwrap();
        for position in [0, 1, 14, 1_000, whole.len() - 1, whole.len()] {
            let feed = Feed::Generated(GeneratedBytes::start(options, position as u64).unwrap());
            assert_eq!(feed.offset(), position as u64);
            assert!(rest(feed) == whole[position..], "from {position}");
        }
        let beyond = GeneratedBytes::start(options, whole.len() as u64 + 1);
        assert!(matches!(beyond, Err(InputError::Beyond { .. })));
    }
}
