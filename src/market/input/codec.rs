//! Compression, recognised by the first bytes, and an input's uncompressed bytes as a reader.

use super::InputError;
use flate2::bufread::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Plain,
    Gzip,
    Zstd,
}

impl Codec {
    /// Recognises a stream by its first bytes; a zstd stream may begin with a skippable frame.
    pub(super) fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Compressed bytes read at once.
const READ_BYTES: usize = 128 << 10;
/// Bytes decoded at once. What a decoder gave in the call in which it fails is lost, so this is how much of a damaged
/// stream may be missed in front of the damage.
const DECODE_BYTES: usize = 4 << 10;

/// A file's uncompressed bytes, with errors that say where.
pub(super) struct Bytes {
    path: PathBuf,
    codec: Codec,
    /// Uncompressed bytes given or skipped so far.
    offset: u64,
    reader: Box<dyn Read + Send>,
}

impl Bytes {
    /// The bytes of `path` from the beginning.
    pub(super) fn open(path: &Path, codec: Codec) -> Result<Self, InputError> {
        let error = |source| InputError::Open { path: path.to_owned(), source };
        let file = BufReader::with_capacity(READ_BYTES, File::open(path).map_err(error)?);
        let reader: Box<dyn Read + Send> = match codec {
            Codec::Plain => Box::new(file),
            Codec::Gzip => Box::new(MultiGzDecoder::new(file)),
            Codec::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(error)?),
        };
        Ok(Self { path: path.to_owned(), codec, offset: 0, reader })
    }

    /// The bytes of `path` from `position` on. Compressed streams are decoded up to it, until `stop` says so.
    pub(super) fn open_at(
        path: &Path,
        codec: Codec,
        position: u64,
        stop: impl Fn() -> bool,
    ) -> Result<Self, InputError> {
        let beyond = || InputError::Beyond { name: path.display().to_string(), position };
        if codec == Codec::Plain {
            let error = |source| InputError::Open { path: path.to_owned(), source };
            let mut file = File::open(path).map_err(error)?;
            if file.seek(SeekFrom::End(0)).map_err(error)? < position {
                return Err(beyond());
            }
            file.seek(SeekFrom::Start(position)).map_err(error)?;
            let reader = Box::new(file);
            return Ok(Self { path: path.to_owned(), codec, offset: position, reader });
        }
        let mut bytes = Self::open(path, codec)?;
        let mut scratch = vec![0; READ_BYTES];
        while bytes.offset < position && !stop() {
            let left = usize::try_from(position - bytes.offset).unwrap_or(usize::MAX).min(scratch.len());
            if bytes.read(&mut scratch[..left])? == 0 {
                return Err(beyond());
            }
        }
        Ok(bytes)
    }

    /// Reads some bytes; 0 only at the end of the input.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, InputError> {
        let most = if self.codec == Codec::Plain { into.len() } else { into.len().min(DECODE_BYTES) };
        let into = &mut into[..most];
        loop {
            match self.reader.read(into) {
                Ok(read) => {
                    self.offset += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.error(source)),
            }
        }
    }

    /// Reads until `into` is full or the input ends; gives the number of bytes read. What was read before an error is
    /// in `into`, its number in [`Self::offset`].
    pub(super) fn fill(&mut self, into: &mut [u8]) -> Result<usize, InputError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// Uncompressed bytes given or skipped so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn error(&self, source: io::Error) -> InputError {
        let (path, offset) = (self.path.clone(), self.offset);
        // An error of the system has its number; what a decoder finds has none.
        if self.codec == Codec::Plain || source.raw_os_error().is_some() {
            InputError::Read { path, offset, source }
        } else {
            InputError::Corrupt { path, codec: self.codec.name(), offset, source }
        }
    }
}
