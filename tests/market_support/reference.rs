//! The reference model: the whole file at once, one pass, standard collections, no code shared with the crate.

use super::Outcome;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
struct Row {
    added: u64,
    executed: u64,
    cancelled: u64,
    deleted: u64,
    replaced: u64,
    shares: u64,
    notional: i128,
    trades: u64,
}

/// The two sides of an instrument: price to sum of shares.
#[derive(Clone, Default, PartialEq)]
struct Sides {
    bids: BTreeMap<i64, u64>,
    asks: BTreeMap<i64, u64>,
}

impl Sides {
    fn quote(&self) -> String {
        let side =
            |level: Option<(&i64, &u64)>| level.map_or(",".to_owned(), |(price, shares)| format!("{price},{shares}"));
        format!("{},{}", side(self.bids.last_key_value()), side(self.asks.first_key_value()))
    }

    fn change(&mut self, side: char, price: i64, add: u64, take: u64) {
        let levels = if side == 'B' { &mut self.bids } else { &mut self.asks };
        let level = levels.entry(price).or_default();
        *level = *level + add - take;
        if *level == 0 {
            levels.remove(&price);
        }
    }
}

const EMPTY: &str = ",,,";

#[derive(Default)]
struct Model {
    rows: BTreeMap<String, Row>,
    /// By symbol: the offset of the last accepted order message under it, and the quote behind it.
    quotes: HashMap<String, (u64, String)>,
    orders: HashMap<(u32, u64), (char, i64, u32)>,
    books: HashMap<u32, Sides>,
    emitted: HashMap<u32, String>,
    lines: BTreeMap<String, Vec<String>>,
    errors: Vec<(u64, &'static str)>,
}

impl Model {
    fn row(&mut self, symbol: &str) -> &mut Row {
        self.rows.entry(symbol.to_owned()).or_default()
    }

    fn error(&mut self, offset: u64, kind: &'static str) {
        self.errors.push((offset, kind));
    }

    fn quote(&self, instrument: u32) -> String {
        self.books.get(&instrument).map_or(EMPTY.to_owned(), Sides::quote)
    }

    fn accepted_order(&mut self, instrument: u32, symbol: &str, offset: u64) {
        let quote = self.quote(instrument);
        self.row(symbol);
        self.quotes.insert(symbol.to_owned(), (offset, quote));
    }

    fn emit(&mut self, instrument: u32, symbol: &str, time: u64) {
        let quote = self.quote(instrument);
        let before = self.emitted.get(&instrument).map_or(EMPTY, String::as_str);
        if quote != before {
            self.lines.entry(symbol.to_owned()).or_default().push(format!("{time},{symbol},{quote}"));
            self.emitted.insert(instrument, quote);
        }
    }

    fn enter(&mut self, instrument: u32, reference: u64, order: (char, i64, u32)) {
        self.orders.insert((instrument, reference), order);
        self.books.entry(instrument).or_default().change(order.0, order.1, u64::from(order.2), 0);
    }

    /// Takes shares off a live order; the whole order for `None`.
    fn leave(&mut self, instrument: u32, reference: u64, shares: Option<u32>) -> (char, i64, u32) {
        let order = self.orders[&(instrument, reference)];
        let taken = shares.unwrap_or(order.2);
        if taken == order.2 {
            self.orders.remove(&(instrument, reference));
        } else {
            self.orders.get_mut(&(instrument, reference)).unwrap().2 -= taken;
        }
        self.books.get_mut(&instrument).unwrap().change(order.0, order.1, 0, u64::from(taken));
        order
    }

    fn outcome(mut self) -> Outcome {
        let mut summary = String::from(
            "symbol,orders_added,orders_executed,orders_cancelled,orders_deleted,orders_replaced,executed_shares,\
             notional,trades,best_bid_price,best_bid_shares,best_ask_price,best_ask_shares\n",
        );
        for (symbol, row) in &self.rows {
            let quote = self.quotes.get(symbol).map_or(EMPTY, |(_, quote)| quote);
            let Row { added, executed, cancelled, deleted, replaced, shares, notional, trades } = row;
            summary += &format!(
                "{symbol},{added},{executed},{cancelled},{deleted},{replaced},{shares},{notional},{trades},{quote}\n"
            );
        }
        let mut kinds = BTreeMap::new();
        for (_, kind) in &self.errors {
            *kinds.entry((*kind).to_owned()).or_default() += 1;
        }
        self.errors.sort();
        let first = self.errors.iter().take(20).map(|&(offset, kind)| (offset, kind.to_owned())).collect();
        Outcome { lines: self.lines, summary, kinds, first }
    }
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

const ITCH_LENGTHS: &[(char, usize)] = &[
    ('S', 12),
    ('R', 39),
    ('H', 25),
    ('Y', 20),
    ('L', 26),
    ('V', 35),
    ('W', 12),
    ('K', 28),
    ('J', 35),
    ('h', 21),
    ('A', 36),
    ('F', 40),
    ('E', 31),
    ('C', 36),
    ('X', 23),
    ('D', 19),
    ('U', 35),
    ('P', 44),
    ('Q', 40),
    ('B', 19),
    ('I', 50),
    ('N', 20),
    ('O', 48),
];

/// What an ITCH file gives.
pub fn itch(file: &[u8]) -> Outcome {
    let mut model = Model::default();
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut at = 0;
    while at < file.len() {
        let offset = at as u64;
        let Some(prefix) = file.get(at..at + 2) else {
            model.error(offset, "cut_short");
            break;
        };
        let length = be(prefix) as usize;
        let Some(body) = file.get(at + 2..at + 2 + length) else {
            model.error(offset, "cut_short");
            break;
        };
        at += 2 + length;
        if body.is_empty() {
            if at < file.len() {
                model.error(offset, "zero_length");
            }
            continue;
        }
        if let Err(kind) = itch_message(&mut model, &mut names, body, offset) {
            model.error(offset, kind);
        }
    }
    model.outcome()
}

fn itch_message(
    model: &mut Model,
    names: &mut HashMap<u64, String>,
    body: &[u8],
    offset: u64,
) -> Result<(), &'static str> {
    let kind = char::from(body[0]);
    let (_, length) = ITCH_LENGTHS.iter().find(|(letter, _)| *letter == kind).ok_or("unknown_type")?;
    if body.len() != *length {
        return Err("wrong_length");
    }
    let locate = be(&body[1..3]);
    let time = be(&body[5..11]);
    let instrument = locate as u32;
    let reference = if "AFECXDU".contains(kind) { be(&body[11..19]) } else { 0 };
    let shares = |at: usize| match be(&body[at..at + 4]) {
        0 => Err("zero_shares"),
        shares => Ok(shares as u32),
    };
    let price = |at: usize| match be(&body[at..at + 4]) {
        price @ 0..=2_000_000_000 => Ok(price as i64),
        _ => Err("bad_price"),
    };
    let symbol = |at: usize| {
        let raw = &body[at..at + 8];
        if raw.iter().all(|&byte| byte == b' ') {
            return Err("blank_symbol");
        }
        if raw.iter().any(|&byte| !(0x20..0x7f).contains(&byte) || byte == b',' || byte == b'"') {
            return Err("bad_symbol");
        }
        Ok(String::from_utf8(raw.to_vec()).unwrap().trim_end_matches(' ').to_owned())
    };
    let mut bind = |name: &str| {
        match names.get(&locate) {
            Some(known) if known == name => return Ok(()),
            Some(_) => return Err("second_name"),
            None => {}
        }
        if names.values().any(|known| known == name) {
            return Err("second_locate");
        }
        names.insert(locate, name.to_owned());
        Ok(())
    };
    match kind {
        'A' | 'F' | 'P' => {
            let side = char::from(body[19]);
            if side != 'B' && side != 'S' {
                return Err("bad_side");
            }
            let (shares, price, name) = (shares(20)?, price(32)?, symbol(24)?);
            bind(&name)?;
            if kind == 'P' {
                let row = model.row(&name);
                row.trades += 1;
                row.shares += u64::from(shares);
                row.notional += i128::from(shares) * i128::from(price);
                return Ok(());
            }
            if model.orders.contains_key(&(instrument, reference)) {
                return Err("live_reference");
            }
            model.enter(instrument, reference, (side, price, shares));
            model.row(&name).added += 1;
        }
        'Q' => {
            let name = symbol(19)?;
            bind(&name)?;
            model.row(&name);
            return Ok(());
        }
        'R' => {
            let name = symbol(11)?;
            bind(&name)?;
            model.row(&name);
            return Ok(());
        }
        'E' | 'C' | 'X' | 'D' | 'U' => {
            let taken = match kind {
                'D' => None,
                'U' => Some(shares(27)?),
                _ => Some(shares(19)?),
            };
            let new_price = match kind {
                'C' => price(32)?,
                'U' => price(31)?,
                _ => 0,
            };
            if kind == 'C' && body[31] != b'Y' && body[31] != b'N' {
                return Err("bad_printable");
            }
            let order = *model.orders.get(&(instrument, reference)).ok_or("unknown_order")?;
            let name = names[&locate].clone();
            if kind == 'U' {
                let new_reference = be(&body[19..27]);
                if model.orders.contains_key(&(instrument, new_reference)) {
                    return Err("live_reference");
                }
                model.leave(instrument, reference, None);
                model.enter(instrument, new_reference, (order.0, new_price, taken.unwrap()));
                model.row(&name).replaced += 1;
            } else {
                if taken.is_some_and(|taken| taken > order.2) {
                    return Err("too_many_shares");
                }
                model.leave(instrument, reference, taken);
                let row = model.row(&name);
                match kind {
                    'X' => row.cancelled += 1,
                    'D' => row.deleted += 1,
                    _ => row.executed += 1,
                }
                let at_price = match kind {
                    'E' => Some(order.1),
                    'C' if body[31] == b'Y' => Some(new_price),
                    _ => None,
                };
                if let Some(price) = at_price {
                    row.shares += u64::from(taken.unwrap());
                    row.notional += i128::from(taken.unwrap()) * i128::from(price);
                }
            }
        }
        _ => return Ok(()),
    }
    let name = names[&locate].clone();
    model.accepted_order(instrument, &name, offset);
    model.emit(instrument, &name, time);
    Ok(())
}

/// A name from a day to another, in days since the epoch.
pub type Mapping = (u32, std::ops::Range<u64>, String);

/// What DBN records of `file` from `begin` on give, with the metadata's mapping.
pub fn dbn(file: &[u8], begin: usize, mappings: &[Mapping]) -> Outcome {
    let mut model = Model::default();
    let mut publishers: HashMap<u32, u64> = HashMap::new();
    let mut at = begin;
    while at < file.len() {
        let offset = at as u64;
        let length = usize::from(file[at]) * 4;
        let Some(record) = file.get(at..at + length) else {
            model.error(offset, "cut_short");
            break;
        };
        at += length;
        if record[1] != 0xa0 {
            continue;
        }
        if record.len() < 56 {
            model.error(offset, "wrong_length");
            continue;
        }
        let instrument = le(&record[4..8]) as u32;
        let day = le(&record[40..48]) / 86_400_000_000_000;
        let symbol = mappings
            .iter()
            .find(|(id, days, _)| *id == instrument && days.contains(&day))
            .map_or(instrument.to_string(), |(_, _, name)| name.clone());
        match dbn_record(&mut model, &mut publishers, record, instrument, &symbol) {
            Ok(false) => {}
            Ok(true) => model.accepted_order(instrument, &symbol, offset),
            Err(kind) => model.error(offset, kind),
        }
        if record[36] & 0x80 != 0 {
            model.emit(instrument, &symbol, le(&record[8..16]));
        }
    }
    model.outcome()
}

/// Applies one market-by-order record; true if it was an order record.
fn dbn_record(
    model: &mut Model,
    publishers: &mut HashMap<u32, u64>,
    record: &[u8],
    instrument: u32,
    symbol: &str,
) -> Result<bool, &'static str> {
    let (reference, price, size) = (le(&record[16..24]), le(&record[24..32]) as i64, le(&record[32..36]) as u32);
    let (action, side) = (char::from(record[38]), char::from(record[39]));
    if record[36] & 0x50 != 0 {
        return Err("not_by_order");
    }
    if !"ACMTFRN".contains(action) {
        return Err("unknown_action");
    }
    if "ACMT".contains(action) {
        if side != 'A' && side != 'B' && !(action == 'T' && side == 'N') {
            return Err("bad_side");
        }
        if price == i64::MAX {
            return Err("bad_price");
        }
        if size == 0 {
            return Err("zero_shares");
        }
    }
    let publisher = le(&record[2..4]);
    if *publishers.entry(instrument).or_insert(publisher) != publisher {
        return Err("second_publisher");
    }
    let order = model.orders.get(&(instrument, reference)).copied();
    match (action, order) {
        ('T', _) => {
            let row = model.row(symbol);
            row.trades += 1;
            row.shares += u64::from(size);
            row.notional += i128::from(size) * i128::from(price);
            return Ok(false);
        }
        ('N', _) => return Ok(false),
        ('F', _) => model.row(symbol).executed += 1,
        ('R', _) => {
            model.orders.retain(|(id, _), _| *id != instrument);
            model.books.remove(&instrument);
        }
        ('A', Some(_)) => return Err("live_reference"),
        ('A', None) => {
            model.enter(instrument, reference, (side, price, size));
            model.row(symbol).added += 1;
        }
        ('M', Some(order)) if order.0 != side => return Err("side_changed"),
        ('M', known) => {
            if known.is_some() {
                model.leave(instrument, reference, None);
            }
            model.enter(instrument, reference, (side, price, size));
            model.row(symbol).replaced += 1;
        }
        (_, None) => return Err("unknown_order"),
        (_, Some(order)) if size > order.2 => return Err("too_many_shares"),
        (_, Some(order)) => {
            model.leave(instrument, reference, Some(size));
            let row = model.row(symbol);
            *(if size == order.2 { &mut row.deleted } else { &mut row.cancelled }) += 1;
        }
    }
    Ok(true)
}
