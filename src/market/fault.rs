//! What was wrong with a message, counted and remembered as state, and reported at the end.

use crate::{
    operator::OperatorError,
    state::{Arena, KeyedMap, StateError},
};
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares the kinds of faults with their codes in state and their names in reports.
macro_rules! kinds {
    ($( $(#[$doc:meta])* $code:literal $kind:ident $name:literal )*) => {
        /// Why a message was rejected. The codes are part of the state's format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum FaultKind {
            $( $(#[$doc])* $kind = $code, )*
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$( Self::$kind, )*];

            /// The kind's name in machine-readable reports.
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => $name, )*
                }
            }

            fn from_code(code: u8) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$kind), )*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A length of zero before the end of the file.
    0 ZeroLength "zero_length"
    /// A type that no message has.
    1 UnknownType "unknown_type"
    /// A length that is not its type's; the detail is the length found.
    2 WrongLength "wrong_length"
    /// The file ends within the message; the detail is the number of bytes that are there.
    3 CutShort "cut_short"
    /// A side that is none; the detail is its byte.
    4 BadSide "bad_side"
    /// No shares.
    5 ZeroShares "zero_shares"
    /// A price too high (ITCH) or undefined (DBN); the detail is its bits.
    6 BadPrice "bad_price"
    /// A symbol that is not printable ASCII, or holds a comma or quote; the detail is its eight bytes.
    7 BadSymbol "bad_symbol"
    /// A symbol of spaces alone.
    8 BlankSymbol "blank_symbol"
    /// A printable flag other than Y and N; the detail is its byte.
    9 BadPrintable "bad_printable"
    /// A locate code that already has another name; the detail is the code.
    10 SecondName "second_name"
    /// A name that already has another locate code; the detail is the name's eight bytes.
    11 SecondLocate "second_locate"
    /// A second publisher for an instrument; the detail is the instrument.
    12 SecondPublisher "second_publisher"
    /// A top-of-book or price-level record where single orders are due.
    13 NotByOrder "not_by_order"
    /// An action that is none.
    14 UnknownAction "unknown_action"
    /// An order that is not in the book; the detail is its reference.
    15 UnknownOrder "unknown_order"
    /// A live reference added again; the detail is the reference.
    16 LiveReference "live_reference"
    /// More shares executed or cancelled than remain; the detail is the order's reference.
    17 TooManyShares "too_many_shares"
    /// A modification to the other side; the detail is the order's reference.
    18 SideChanged "side_changed"
}

/// One rejected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Fault {
    /// Where the message begins in the uncompressed input, in bytes: its length prefix (ITCH) or first byte (DBN).
    pub offset: u64,
    /// Why it was rejected.
    pub kind: FaultKind,
    /// The message's type (ITCH) or action (DBN), 0 where there is none.
    pub subject: u8,
    /// What [`FaultKind`] says about it.
    pub detail: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, detail) = (self.subject.escape_ascii(), self.detail);
        match self.kind {
            FaultKind::ZeroLength => write!(f, "message of length 0 before the end of the file"),
            FaultKind::UnknownType => write!(f, "unknown message type '{subject}'"),
            FaultKind::WrongLength => write!(f, "{subject}: wrong length of {detail} bytes"),
            FaultKind::CutShort => write!(f, "message cut off by the end of the file after {detail} bytes"),
            FaultKind::BadSide => write!(f, "{subject}: invalid side '{}'", (detail as u8).escape_ascii()),
            FaultKind::ZeroShares => write!(f, "{subject}: 0 shares"),
            FaultKind::BadPrice if detail == i64::MAX as u64 => write!(f, "{subject}: undefined price"),
            FaultKind::BadPrice => write!(f, "{subject}: price {detail} is above the limit of 2000000000"),
            FaultKind::BadSymbol => write!(f, "{subject}: invalid symbol '{}'", detail.to_be_bytes().escape_ascii()),
            FaultKind::BlankSymbol => write!(f, "{subject}: blank symbol"),
            FaultKind::BadPrintable => {
                write!(f, "{subject}: invalid printable flag '{}'", (detail as u8).escape_ascii())
            }
            FaultKind::SecondName => write!(f, "{subject}: second name for locate {detail}"),
            FaultKind::SecondLocate => {
                let name = detail.to_be_bytes();
                write!(f, "{subject}: second locate for symbol {}", name.trim_ascii_end().escape_ascii())
            }
            FaultKind::SecondPublisher => write!(f, "{subject}: second publisher for instrument {detail}"),
            FaultKind::NotByOrder => write!(f, "{subject}: record of an aggregated book, not of an order"),
            FaultKind::UnknownAction => write!(f, "unknown action '{subject}'"),
            FaultKind::UnknownOrder => write!(f, "{subject}: unknown order {detail}"),
            FaultKind::LiveReference => write!(f, "{subject}: order {detail} is live already"),
            FaultKind::TooManyShares => write!(f, "{subject}: more shares than remain of order {detail}"),
            FaultKind::SideChanged => write!(f, "{subject}: order {detail} cannot change its side"),
        }
    }
}

/// What to do about a rejected message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Count it and go on.
    #[default]
    Skip,
    /// End the job with an error.
    Fail,
}

/// The job ends at a rejected message because it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("offset {}: {fault}; stopped because errors are to fail the run, skip them to go on", .fault.offset)]
pub struct Rejected {
    /// The message.
    pub fault: Fault,
}

/// How many faults with the smallest offsets are reported one by one.
pub const FIRST_FAULTS: usize = 20;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StoredFault {
    offset: u64,
    detail: u64,
    kind: u8,
    subject: u8,
    zero: [u8; 6],
}

impl StoredFault {
    fn load(&self) -> Option<Fault> {
        let kind = FaultKind::from_code(self.kind)?;
        Some(Fault { offset: self.offset, kind, subject: self.subject, detail: self.detail })
    }
}

/// Whose faults a counter counts. The counters are keyed as finely as the state moves at another parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct CounterKey {
    instrument: u32,
    kind: u32,
}

/// The one key of [`FaultLog::kept`].
const KEPT: u32 = 0;

/// An operator's faults as state: counted by kind, the first of each key group kept. Offsets of one key group must
/// come in rising order, which they do if one source feeds the operator.
pub(super) struct FaultLog {
    on_error: OnError,
    counts: KeyedMap<CounterKey, u64>,
    /// The current key group's first faults by number.
    first: KeyedMap<u32, StoredFault>,
    /// At [`KEPT`]: how many of them there are.
    kept: KeyedMap<u32, u32>,
}

impl FaultLog {
    /// Registers the states, whose names begin with `operator`.
    pub(super) fn open(state: &mut Arena, operator: &str, on_error: OnError) -> Result<Self, StateError> {
        Ok(Self {
            on_error,
            counts: KeyedMap::open(state, &format!("{operator}.faults.counts"), 1)?,
            first: KeyedMap::open(state, &format!("{operator}.faults.first"), 1)?,
            kept: KeyedMap::open(state, &format!("{operator}.faults.kept"), 1)?,
        })
    }

    /// Counts a fault of `instrument` (0 for a source's) in the current key group.
    ///
    /// # Errors
    /// State that cannot grow; and with [`OnError::Fail`] the fault itself.
    #[cold]
    pub(super) fn record(&mut self, state: &mut Arena, instrument: u32, fault: Fault) -> Result<(), OperatorError> {
        if self.on_error == OnError::Fail {
            return Err(Rejected { fault }.into());
        }
        self.counts.upsert(state, CounterKey { instrument, kind: fault.kind as u32 }, 0, |count| *count += 1)?;
        let number = self.kept.upsert(state, KEPT, 0, |kept| {
            let number = *kept;
            *kept = (number + 1).min(FIRST_FAULTS as u32);
            number
        })?;
        if (number as usize) < FIRST_FAULTS {
            let Fault { offset, kind, subject, detail } = fault;
            self.first.insert(
                state,
                number,
                StoredFault { offset, detail, kind: kind as u8, subject, zero: [0; 6] },
            )?;
        }
        Ok(())
    }

    /// All faults of all key groups, `origin` telling operators apart whose instruments overlap.
    pub(super) fn report(&self, state: &Arena, origin: &'static str, into: &mut FaultReport) {
        self.counts.for_each(state, |key, &count| {
            if let Some(kind) = u8::try_from(key.kind).ok().and_then(FaultKind::from_code) {
                into.count(origin, key.instrument, kind, count);
            }
        });
        self.first.for_each(state, |_, fault| {
            if let Some(fault) = fault.load() {
                into.keep(fault);
            }
        });
    }
}

/// The faults of a whole run, merged from all operators. Merging the same operator's faults again changes nothing, so
/// an operator that is restarted may report twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultReport {
    counts: BTreeMap<(&'static str, u32, FaultKind), u64>,
    first: BTreeMap<u64, Fault>,
}

impl FaultReport {
    fn count(&mut self, origin: &'static str, instrument: u32, kind: FaultKind, count: u64) {
        self.counts.insert((origin, instrument, kind), count);
    }

    fn keep(&mut self, fault: Fault) {
        self.first.insert(fault.offset, fault);
        if self.first.len() > FIRST_FAULTS {
            self.first.pop_last();
        }
    }

    /// Takes over what `other` holds.
    pub(super) fn merge(&mut self, other: Self) {
        self.counts.extend(other.counts);
        other.first.into_values().for_each(|fault| self.keep(fault));
    }

    /// The number of rejected messages.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The number of rejected messages by kind, without the kinds that did not occur.
    pub fn by_kind(&self) -> BTreeMap<FaultKind, u64> {
        let mut kinds = BTreeMap::new();
        for (&(_, _, kind), &count) in &self.counts {
            *kinds.entry(kind).or_default() += count;
        }
        kinds
    }

    /// The faults with the smallest offsets, in order; at most [`FIRST_FAULTS`].
    pub fn first(&self) -> impl Iterator<Item = &Fault> {
        self.first.values()
    }

    /// Writes the first faults as `offset N: what`, one a line, and the total behind them; nothing if there are none.
    ///
    /// # Errors
    /// What `to` reports.
    pub fn write_to(&self, to: &mut impl Write) -> io::Result<()> {
        for fault in self.first() {
            writeln!(to, "offset {}: {fault}", fault.offset)?;
        }
        match self.total() {
            0 => Ok(()),
            1 => writeln!(to, "1 message rejected"),
            total => writeln!(to, "{total} messages rejected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ArenaOptions;

    fn fault(offset: u64, kind: FaultKind) -> Fault {
        Fault { offset, kind, subject: b'E', detail: 5 }
    }

    #[test]
    fn faults_are_counted_by_kind_and_the_first_twenty_of_all_groups_kept() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut log = FaultLog::open(&mut state, "book", OnError::Skip).unwrap();
        for offset in 0..100 {
            state.set_key_group((offset % 3) as u16).unwrap();
            log.record(&mut state, offset as u32 % 3, fault(offset, FaultKind::UnknownOrder)).unwrap();
        }
        state.set_key_group(1).unwrap();
        log.record(&mut state, 1, fault(100, FaultKind::ZeroShares)).unwrap();
        let mut report = FaultReport::default();
        log.report(&state, "book", &mut report);
        log.report(&state, "book", &mut report);
        assert_eq!(report.total(), 101);
        assert_eq!(report.by_kind(), [(FaultKind::ZeroShares, 1), (FaultKind::UnknownOrder, 100)].into());
        assert!(report.first().map(|fault| fault.offset).eq(0..20));
        let mut text = Vec::new();
        report.write_to(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("offset 0: E: unknown order 5\noffset 1: "), "{text}");
        assert!(text.ends_with("\n101 messages rejected\n"), "{text}");
    }

    #[test]
    fn reports_of_several_operators_add_up() {
        let mut whole = FaultReport::default();
        for origin in ["orders", "book"] {
            let mut report = FaultReport::default();
            report.count(origin, 0, FaultKind::BadSide, 2);
            report.keep(fault(origin.len() as u64, FaultKind::BadSide));
            whole.merge(report.clone());
            whole.merge(report);
        }
        assert_eq!(whole.total(), 4);
        assert!(whole.first().map(|fault| fault.offset).eq([4, 6]));
    }

    #[test]
    fn on_request_the_first_fault_ends_the_job() {
        let mut state = Arena::new(ArenaOptions::default()).unwrap();
        let mut log = FaultLog::open(&mut state, "book", OnError::Fail).unwrap();
        let error = log.record(&mut state, 1, fault(77, FaultKind::ZeroShares)).unwrap_err();
        assert!(error.to_string().starts_with("offset 77: E: 0 shares; stopped"), "{error}");
    }

    #[test]
    fn codes_in_state_are_read_back_as_the_same_kind() {
        for &kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_code(kind as u8), Some(kind));
        }
        assert_eq!(FaultKind::from_code(FaultKind::ALL.len() as u8), None);
    }
}
