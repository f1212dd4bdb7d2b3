//! The pipeline's output: a line for each change of a best quote.

use super::{decimal::append_u64, event::QuoteChange, result::append_quote, symbol::SymbolNames};

/// Appends `timestamp_ns,symbol,bid_price,bid_shares,ask_price,ask_shares` and a line end to `out`. Prices are integers
/// in the input's own unit, an empty side is two empty fields. Allocates only to grow `out`.
///
/// `event_ns` is the time of the record that carried `change`: ns since midnight (ITCH) or since the Unix epoch (DBN,
/// whose undefined time is written as the highest 64-bit number).
#[inline]
pub fn append_quote_line(names: &SymbolNames, event_ns: i64, change: &QuoteChange, out: &mut Vec<u8>) {
    append_u64(event_ns as u64, out);
    out.push(b',');
    names.append(change.symbol, out);
    append_quote(&change.quote, out);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::{event::Quote, itch::Stock, symbol::SymbolCode};

    #[test]
    fn lines_are_the_contracts() {
        let symbol = SymbolCode::of_stock(Stock::new("ZVZZT"));
        let line = |event_ns, quote| {
            let mut out = Vec::new();
            append_quote_line(&SymbolNames::Itch, event_ns, &QuoteChange { symbol, quote }, &mut out);
            String::from_utf8(out).unwrap()
        };
        let quote = Quote { bid_price: -1_000_000, bid_shares: u64::MAX, ask_price: 0, ask_shares: 1 };
        assert_eq!(line(34_200_000_000_001, quote), "34200000000001,ZVZZT,-1000000,18446744073709551615,0,1\n");
        assert_eq!(line(0, Quote { bid_shares: 0, ..quote }), "0,ZVZZT,,,0,1\n");
        assert_eq!(line(-1, Quote::default()), "18446744073709551615,ZVZZT,,,,\n");
    }
}
