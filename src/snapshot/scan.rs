//! Reads one segment from front to back: which records are intact, and what they say of each other.
//!
//! Only headers are read, and the bodies of the small records; delta blocks are stepped over. Behind a damaged record
//! the search goes on at every multiple of 64 bytes, so that damage never hides what lies behind it.

use super::commit::{CommitRecord, StartRecord};
use super::error::{LogError, StoreError};
use super::identity::StoreId;
use super::record::{FORMAT_VERSION, HEADER_BYTES, Header, HeaderError, Kind, RECORD_ALIGN};
use super::store::Store;

/// Bytes read at a time: holds the records of a few small checkpoints.
const WINDOW_BYTES: usize = 128 << 10;

/// A commit record's place in the log, and the little of it that an open needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitEntry {
    pub checkpoint: u64,
    pub parent: u64,
    pub segment: u32,
    /// The intact copy.
    pub offset: u64,
    /// End of the last intact copy.
    pub end: u64,
}

/// What a segment holds.
#[derive(Debug, Default)]
pub(super) struct SegmentScan {
    pub start: Option<StartRecord>,
    pub commits: Vec<CommitEntry>,
    /// The highest checkpoint that an intact record calls durable.
    pub durable: u64,
    /// The highest attempt that an intact record names.
    pub attempt: u64,
    /// The end of the last intact record.
    pub end: u64,
}

/// Reads ahead in a segment.
struct Window<'a> {
    store: &'a dyn Store,
    segment: u32,
    bytes: Vec<u8>,
    at: u64,
}

impl<'a> Window<'a> {
    fn new(store: &'a dyn Store, segment: u32) -> Self {
        Self { store, segment, bytes: Vec::new(), at: 0 }
    }

    /// Up to `len` bytes from `offset`; fewer at the segment's end.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], StoreError> {
        let inside = offset >= self.at && offset + len as u64 <= self.at + self.bytes.len() as u64;
        if !inside {
            self.bytes.resize(WINDOW_BYTES.max(len), 0);
            let read = self.store.read(self.segment, offset, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.at = offset;
        }
        let start = (offset - self.at) as usize;
        Ok(&self.bytes[start..self.bytes.len().min(start + len)])
    }
}

/// Scans `segment` up to `limit` (a cut), or to its end.
pub(super) fn scan(store: &dyn Store, segment: u32, limit: Option<u64>) -> Result<SegmentScan, LogError> {
    let mut window = Window::new(store, segment);
    let mut scan = SegmentScan::default();
    let (mut at, mut next_sequence) = (0, 0);
    while limit.is_none_or(|limit| at < limit) {
        let intact = header_at(&mut window, segment, at)?;
        // The log only grows: a smaller number than the one before was left behind by something else.
        let Some(header) = intact.filter(|header| header.sequence >= next_sequence) else {
            if window.get(at, HEADER_BYTES)?.len() < HEADER_BYTES {
                break;
            }
            at = next_candidate(&mut window, at)?;
            continue;
        };
        // A record says where it ends, but only an intact one: the cut or the end of the file may lie before.
        let end = at + header.record_len();
        if limit.is_some_and(|limit| end > limit) {
            break;
        }
        scan.durable = scan.durable.max(header.durable);
        scan.attempt = scan.attempt.max(header.attempt);
        scan.end = end;
        next_sequence = header.sequence.saturating_add(1);
        match header.kind {
            Kind::Start | Kind::Commit => take_body(&mut window, &mut scan, &header, at)?,
            Kind::Delta | Kind::Pad | Kind::Seal => {}
        }
        at = end;
    }
    Ok(scan)
}

/// The intact header at `at` of `segment`, if there is one.
fn header_at(window: &mut Window<'_>, segment: u32, at: u64) -> Result<Option<Header>, LogError> {
    let place = |window: &Window<'_>| window.store.segment_place(segment);
    let bytes: Result<&[u8; HEADER_BYTES], _> = window.get(at, HEADER_BYTES)?.try_into();
    let Ok(bytes) = bytes else { return Ok(None) };
    match Header::decode(bytes) {
        Ok(header) => {
            let here = header.segment == segment && u64::from(header.offset) == at;
            Ok(Some(header).filter(|_| here))
        }
        Err(HeaderError::Damaged) => Ok(None),
        Err(HeaderError::Version(found)) => {
            Err(LogError::Version { place: place(window), found: found.into(), supported: FORMAT_VERSION.into() })
        }
    }
}

/// The next offset behind `at` at which a record could start. Zeros are skipped as fast as they can be read.
fn next_candidate(window: &mut Window<'_>, at: u64) -> Result<u64, LogError> {
    let mut at = at + RECORD_ALIGN as u64;
    loop {
        let bytes = window.get(at, RECORD_ALIGN)?;
        if bytes.len() < RECORD_ALIGN || bytes[0] != 0 {
            return Ok(at);
        }
        at += RECORD_ALIGN as u64;
    }
}

fn take_body(window: &mut Window<'_>, scan: &mut SegmentScan, header: &Header, at: u64) -> Result<(), LogError> {
    let segment = window.segment;
    if !reaches(window.store, segment, at + HEADER_BYTES as u64 + u64::from(header.body_len))? {
        return Ok(());
    }
    let body = window.get(at + HEADER_BYTES as u64, header.body_len as usize)?;
    if body.len() != header.body_len as usize || crc32c::crc32c(body) != header.body_crc {
        return Ok(());
    }
    let end = at + header.record_len();
    if header.kind == Kind::Start {
        scan.start = scan.start.or(StartRecord::decode(body));
        return Ok(());
    }
    let Some(record) = CommitRecord::decode(body) else { return Ok(()) };
    match scan.commits.last_mut() {
        Some(last) if last.checkpoint == record.checkpoint => last.end = end,
        _ => scan.commits.push(CommitEntry {
            checkpoint: record.checkpoint,
            parent: record.parent,
            segment,
            offset: at,
            end,
        }),
    }
    Ok(())
}

/// Reads the record of `kind` at `offset` into `body`, and checks it against its own checksum. `expected` is what
/// another record says of it.
pub(super) fn read_record(
    store: &dyn Store,
    segment: u32,
    offset: u64,
    expected: Option<(u32, u32)>,
    kind: Kind,
    body: &mut Vec<u8>,
) -> Result<(), LogError> {
    let damaged = |what: String| LogError::Damaged {
        place: store.segment_place(segment),
        offset,
        what,
        advice: "choose an earlier checkpoint, or restore the file from a backup",
    };
    let mut bytes = [0; HEADER_BYTES];
    if store.read(segment, offset, &mut bytes)? < HEADER_BYTES {
        return Err(damaged("the file is cut".into()));
    }
    let header = Header::decode(&bytes).map_err(|_| damaged("a record's header cannot be read".into()))?;
    if header.kind != kind || header.segment != segment || u64::from(header.offset) != offset {
        return Err(damaged("another record lies there".into()));
    }
    if expected.is_some_and(|expected| expected != (header.body_len, header.body_crc)) {
        return Err(damaged("its block is not the one that the commit record names".into()));
    }
    if !reaches(store, segment, offset + HEADER_BYTES as u64 + u64::from(header.body_len))? {
        return Err(damaged("the file is cut".into()));
    }
    body.resize(header.body_len as usize, 0);
    if store.read(segment, offset + HEADER_BYTES as u64, body)? < body.len() {
        return Err(damaged("the file is cut".into()));
    }
    if crc32c::crc32c(body) != header.body_crc {
        return Err(damaged("a record's checksum is wrong".into()));
    }
    Ok(())
}

/// Whether the segment has a byte before `end`: asked before memory is taken for a body, so that no header can ask for
/// more than the file holds.
fn reaches(store: &dyn Store, segment: u32, end: u64) -> Result<bool, StoreError> {
    Ok(store.read(segment, end - 1, &mut [0])? == 1)
}

/// Whether a segment without an intact start belongs to this store's history all the same, so that it was lost, not
/// just never begun: `last` is the last checkpoint found without it, `attempt` the last attempt.
pub(super) fn was_begun(scan: &SegmentScan, last: u64, attempt: u64) -> bool {
    scan.durable > last || scan.attempt > attempt
}

/// # Errors
/// [`LogError::Foreign`] if the segment belongs to another store.
pub(super) fn check_store(
    store: &dyn Store,
    segment: u32,
    start: &StartRecord,
    expected: StoreId,
) -> Result<(), LogError> {
    match start.store == expected && start.segment == segment {
        true => Ok(()),
        false => Err(LogError::Foreign {
            place: store.segment_place(segment),
            expected: "a segment of this store (it belongs to another one)",
        }),
    }
}
