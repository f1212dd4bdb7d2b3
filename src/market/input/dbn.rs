//! Databento Binary Encoding: metadata through the crate `dbn`, and market-by-order records as views of their bytes.
//!
//! Records are not cast to the crate's own structs: those need eight-byte alignment, which a file with a record of an
//! odd number of words breaks for all that follow.

use super::{InputError, codec::Bytes};
use crate::market::symbol::{SymbolCode, SymbolNames};
use dbn::{Metadata, SType, Schema, TsSymbolMap, decode::dbn::MetadataDecoder};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::little_endian::{I32, I64, U16, U32, U64},
};

/// Bytes of the file's prelude: `DBN`, version, length of the metadata.
const PRELUDE: usize = 8;
/// Bytes of a record's header, the least that a record can have.
pub(in crate::market) const HEADER: usize = 16;
/// Bytes of the unit that a record's length counts.
const WORD: usize = 4;

/// A market-by-order record of versions 1 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub(in crate::market) struct Mbo {
    /// Length of the whole record in words.
    pub length: u8,
    pub rtype: u8,
    pub publisher: U16,
    pub instrument: U32,
    /// ns since the Unix epoch.
    pub ts_event: U64,
    pub reference: U64,
    /// 1e-9 units.
    pub price: I64,
    pub size: U32,
    pub flags: u8,
    pub channel: u8,
    pub action: u8,
    pub side: u8,
    /// ns since the Unix epoch.
    pub ts_recv: U64,
    pub ts_in_delta: I32,
    pub sequence: U32,
}

const _: () = assert!(size_of::<Mbo>() == size_of::<dbn::MboMsg>());

/// What lies at the beginning of a window of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::market) enum FramedRecord<'a> {
    /// A market-by-order record, and the bytes that it takes.
    Mbo(&'a Mbo, usize),
    /// A record that claims to be market-by-order and is too short for it, and the bytes that it takes.
    ShortMbo(usize),
    /// A record of another type, and the bytes that it takes.
    Other(usize),
    /// More bytes are needed to tell.
    Incomplete,
    /// The length is shorter than a header: the next record cannot be found.
    Unframed,
}

/// Looks at the beginning of `window`.
#[inline]
pub(in crate::market) fn frame_record(window: &[u8]) -> FramedRecord<'_> {
    let Some(&words) = window.first() else { return FramedRecord::Incomplete };
    let length = usize::from(words) * WORD;
    if length < HEADER {
        return FramedRecord::Unframed;
    }
    let Some(record) = window.get(..length) else { return FramedRecord::Incomplete };
    if record[1] != dbn::rtype::MBO {
        return FramedRecord::Other(length);
    }
    // A send time may follow the record (`ts_out`).
    match Mbo::ref_from_prefix(record) {
        Ok((mbo, _)) => FramedRecord::Mbo(mbo, length),
        Err(_) => FramedRecord::ShortMbo(length),
    }
}

/// What a DBN file says about its records.
#[derive(Debug)]
pub(in crate::market) struct DbnHeader {
    /// Where the first record begins, in bytes of the uncompressed file.
    pub records_at: u64,
    spans: Vec<Span>,
    names: Arc<[Box<str>]>,
}

/// From when to when an instrument has a name.
#[derive(Clone, Copy, Debug)]
struct Span {
    instrument: u32,
    start_ns: u64,
    end_ns: u64,
    symbol: SymbolCode,
}

impl DbnHeader {
    /// Reads the metadata, whose first bytes `first` were read from `bytes` already (at most eight).
    pub(super) fn read(path: &Path, first: &[u8], bytes: &mut Bytes) -> Result<Self, InputError> {
        let unreadable = |reason: &str| InputError::Metadata { path: path.to_owned(), reason: reason.to_owned() };
        let mut raw = first.to_vec();
        read_until(&mut raw, PRELUDE, bytes)?;
        let &[_, _, _, version, a, b, c, d] = raw.as_slice() else { return Err(unreadable("the file ends within it")) };
        if !(1..=3).contains(&version) {
            return Err(unreadable(&format!("version {version}")));
        }
        let length = PRELUDE + u32::from_le_bytes([a, b, c, d]) as usize;
        read_until(&mut raw, length, bytes)?;
        if raw.len() < length {
            return Err(unreadable("the file ends within it"));
        }
        let metadata = MetadataDecoder::new(raw.as_slice()).decode().map_err(|error| unreadable(&error.to_string()))?;
        if let Some(schema) = metadata.schema.filter(|&schema| schema != Schema::Mbo) {
            return Err(InputError::Schema { path: path.to_owned(), schema: schema.to_string() });
        }
        Self::of(&metadata, length as u64).map_err(|error| unreadable(&error.to_string()))
    }

    fn of(metadata: &Metadata, records_at: u64) -> Result<Self, dbn::Error> {
        let by_id = metadata.stype_out == SType::InstrumentId || metadata.stype_in == Some(SType::InstrumentId);
        let map = if by_id { TsSymbolMap::from_metadata(metadata)? } else { TsSymbolMap::new() };
        // The places of the names are part of events and state, so they do not depend on a hash map's order.
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let intervals = || map.inner().iter().flat_map(|(&id, spans)| spans.intervals().iter().map(move |s| (id, s)));
        for (_, span) in intervals().filter(|(_, span)| is_writable(&span.symbol)) {
            places.insert(&span.symbol, 0);
        }
        places.values_mut().zip(0..).for_each(|(place, number)| *place = number);
        let mut spans: Vec<Span> = intervals()
            .filter_map(|(instrument, span)| {
                let symbol = SymbolCode::of_name(*places.get(span.symbol.as_str())?);
                Some(Span { instrument, start_ns: span.start_ts, end_ns: span.end_ts, symbol })
            })
            .collect();
        spans.sort_unstable_by_key(|span| (span.instrument, span.start_ns));
        let names = places.into_keys().map(Box::from).collect();
        Ok(Self { records_at, spans, names })
    }

    /// The symbol of `instrument` at `ts_recv_ns` since the Unix epoch.
    #[inline]
    pub(in crate::market) fn symbol(&self, instrument: u32, ts_recv_ns: u64) -> SymbolCode {
        let behind = self.spans.partition_point(|span| (span.instrument, span.start_ns) <= (instrument, ts_recv_ns));
        match behind.checked_sub(1).map(|at| &self.spans[at]) {
            Some(span) if span.instrument == instrument && ts_recv_ns < span.end_ns => span.symbol,
            _ => SymbolCode::of_instrument(instrument),
        }
    }

    /// The names behind the codes.
    pub(super) fn names(&self) -> SymbolNames {
        SymbolNames::Dbn(self.names.clone())
    }
}

/// Whether a name can stand in a line of comma-separated values as it is; one that cannot gives way to the number.
fn is_writable(name: &str) -> bool {
    !name.trim_end().is_empty() && name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"'))
}

/// Reads until `raw` has `length` bytes or the input ends. Memory grows with what is there, not with what is claimed.
fn read_until(raw: &mut Vec<u8>, length: usize, bytes: &mut Bytes) -> Result<(), InputError> {
    const STEP: usize = 64 << 10;
    while raw.len() < length {
        let (have, more) = (raw.len(), STEP.min(length - raw.len()));
        raw.resize(have + more, 0);
        let read = bytes.fill(&mut raw[have..])?;
        raw.truncate(have + read);
        if read < more {
            break;
        }
    }
    Ok(())
}
