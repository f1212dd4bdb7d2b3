//! Symbols as fixed-size codes on the way, and as bytes where something is written.

use super::{decimal::append_u64, itch::Stock};
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A symbol in eight bytes: the padded name itself (ITCH), or a place in the file's table of names (DBN). Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct SymbolCode(pub(super) u64);

/// Marks the code of a DBN instrument without a name; the instrument id is in the low half.
const NAMELESS: u64 = 1 << 63;
/// Marks a place in the table of names, so that place 0 is not code 0.
const NAMED: u64 = 1 << 62;

impl SymbolCode {
    /// The code of an ITCH symbol.
    #[inline]
    pub fn of_stock(stock: Stock) -> Self {
        Self(u64::from_be_bytes(stock.0))
    }

    /// The code of the `place`-th name of the file's table.
    #[inline]
    pub fn of_name(place: u32) -> Self {
        Self(NAMED | u64::from(place))
    }

    /// The code of a DBN instrument for which the file has no name.
    #[inline]
    pub fn of_instrument(instrument: u32) -> Self {
        Self(NAMELESS | u64::from(instrument))
    }
}

/// Turns codes back into names. It comes with the input that the codes are from.
#[derive(Clone, Debug)]
pub enum SymbolNames {
    /// The codes are the names.
    Itch,
    /// The names of a DBN file's metadata.
    Dbn(Arc<[Box<str>]>),
}

impl SymbolNames {
    /// Appends the name of `code`, without trailing spaces, to `out`.
    #[inline]
    pub fn append(&self, code: SymbolCode, out: &mut Vec<u8>) {
        match self {
            Self::Itch => out.extend_from_slice(Stock(code.0.to_be_bytes()).trimmed()),
            Self::Dbn(names) => {
                let name = if code.0 & NAMELESS == 0 { names.get(code.0 as u32 as usize) } else { None };
                match name {
                    Some(name) => out.extend_from_slice(name.as_bytes()),
                    None => append_u64(u64::from(code.0 as u32), out),
                }
            }
        }
    }

    /// The name of `code` as bytes of its own.
    pub fn name(&self, code: SymbolCode) -> Vec<u8> {
        let mut name = Vec::new();
        self.append(code, &mut name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_cut_and_nameless_instruments_by_number() {
        assert_eq!(SymbolNames::Itch.name(SymbolCode::of_stock(Stock::new("AAPL"))), b"AAPL");
        let names = SymbolNames::Dbn(["ESH4".into(), "ESM4".into()].into());
        assert_eq!(names.name(SymbolCode::of_name(0)), b"ESH4");
        assert_eq!(names.name(SymbolCode::of_name(1)), b"ESM4");
        assert_eq!(names.name(SymbolCode::of_instrument(17077)), b"17077");
        assert_eq!(names.name(SymbolCode::of_instrument(0)), b"0");
    }
}
