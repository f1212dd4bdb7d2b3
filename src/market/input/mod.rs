//! Where market data comes from: a file, recognised by its first bytes, or the generator.
//!
//! A file is ITCH 5.0, plain or gzipped (one layer, several members), or DBN market-by-order, plain or behind zstd; each
//! compression goes with each format. What has no known magic is taken for ITCH.

mod codec;
mod dbn;
mod error;
mod feed;
mod read_ahead;

use super::{
    generator::{Generator, GeneratorOptions},
    symbol::SymbolNames,
};
use crate::hash::stable_hash;
use codec::{Bytes, Codec};
use feed::GeneratedBytes;
use read_ahead::ReadAhead;
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use error::InputError;
pub(in crate::market) use {
    self::dbn::{DbnHeader, FramedRecord, HEADER as DBN_HEADER, Mbo, frame_record},
    feed::{Feed, Refill},
};

/// An input that was recognised and can be read any number of times.
#[derive(Clone, Debug)]
pub struct Input {
    origin: Origin,
    format: Format,
    identity: InputIdentity,
}

#[derive(Clone, Debug)]
enum Origin {
    File { path: PathBuf, codec: Codec },
    Generated(GeneratorOptions),
}

/// What the bytes are.
#[derive(Clone, Debug)]
pub(in crate::market) enum Format {
    Itch,
    Dbn(Arc<DbnHeader>),
}

/// What tells one input from another: a store refuses to go on with an input that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputIdentity {
    /// The file's length in bytes, compressed as it is; for generated input the number of messages.
    pub length: u64,
    /// A hash of the file's first and last 64 KiB; for generated input of its options.
    pub hash: u64,
}

/// Bytes of a file's head, and of its tail, that its identity covers.
const IDENTITY_BYTES: u64 = 64 << 10;

impl Input {
    /// Recognises the file at `path` and reads its DBN metadata, if it has any.
    ///
    /// # Errors
    /// A file that cannot be read or is no regular one, a compressed stream that breaks within its first bytes, one
    /// that is compressed twice, DBN whose metadata cannot be read, and DBN of another schema than mbo.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let (first, identity) = look_at(path)?;
        let codec = Codec::of(&first);
        let mut bytes = Bytes::open(path, codec)?;
        let mut head = [0; 4];
        let filled = bytes.fill(&mut head)?;
        let head = &head[..filled];
        if codec != Codec::Plain && Codec::of(head) != Codec::Plain {
            return Err(InputError::CompressedTwice { path: path.to_owned() });
        }
        let format = match head {
            [b'D', b'B', b'N', ..] => Format::Dbn(DbnHeader::read(path, head, &mut bytes)?.into()),
            _ => Format::Itch,
        };
        Ok(Self { origin: Origin::File { path: path.to_owned(), codec }, format, identity })
    }

    /// Generated ITCH: the same bytes as a file written with these options.
    ///
    /// # Errors
    /// Options that nothing can be generated from.
    pub fn generated(options: GeneratorOptions) -> Result<Self, InputError> {
        Generator::new(options)?;
        let GeneratorOptions { messages, symbols, seed } = options;
        let parts = [messages, u64::from(symbols), seed].map(u64::to_le_bytes);
        let identity = InputIdentity { length: messages, hash: stable_hash(parts.as_flattened()) };
        Ok(Self { origin: Origin::Generated(options), format: Format::Itch, identity })
    }

    /// What tells this input from another.
    pub fn identity(&self) -> InputIdentity {
        self.identity
    }

    /// The length of the uncompressed input in bytes, where it is known without reading it: for a progress bar, against
    /// the sources' positions.
    pub fn uncompressed_bytes(&self) -> Option<u64> {
        match self.origin {
            Origin::File { codec: Codec::Plain, .. } => Some(self.identity.length),
            _ => None,
        }
    }

    /// The names behind the symbol codes of this input's events.
    pub fn names(&self) -> SymbolNames {
        match &self.format {
            Format::Itch => SymbolNames::Itch,
            Format::Dbn(header) => header.names(),
        }
    }

    /// What the bytes are.
    pub(in crate::market) fn format(&self) -> Format {
        self.format.clone()
    }

    /// Where the first message begins, in bytes of the uncompressed input.
    pub(in crate::market) fn begin(&self) -> u64 {
        match &self.format {
            Format::Itch => 0,
            Format::Dbn(header) => header.records_at,
        }
    }

    /// Starts to read at `position`, in bytes of the uncompressed input.
    pub(in crate::market) fn feed(&self, position: u64) -> Result<Feed, InputError> {
        match &self.origin {
            Origin::File { path, codec } => Ok(Feed::File(ReadAhead::start(path.clone(), *codec, position)?)),
            Origin::Generated(options) => Ok(Feed::Generated(GeneratedBytes::start(*options, position)?)),
        }
    }

    /// The file's path, or `generated`.
    pub(in crate::market) fn path(&self) -> PathBuf {
        match &self.origin {
            Origin::File { path, .. } => path.clone(),
            Origin::Generated(_) => PathBuf::from("generated"),
        }
    }
}

/// A file's first bytes and its identity.
fn look_at(path: &Path) -> Result<(Vec<u8>, InputIdentity), InputError> {
    let error = |source| InputError::Open { path: path.to_owned(), source };
    // Asked before opening: to open a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(error)?.is_file() {
        return Err(InputError::NotAFile { path: path.to_owned() });
    }
    let mut file = File::open(path).map_err(error)?;
    let length = file.metadata().map_err(error)?.len();
    let mut ends = Vec::new();
    file.by_ref().take(IDENTITY_BYTES).read_to_end(&mut ends).map_err(error)?;
    let first = ends[..ends.len().min(4)].to_vec();
    file.seek(SeekFrom::Start(length.saturating_sub(IDENTITY_BYTES))).map_err(error)?;
    file.take(IDENTITY_BYTES).read_to_end(&mut ends).map_err(error)?;
    Ok((first, InputIdentity { length, hash: stable_hash(&ends) }))
}
