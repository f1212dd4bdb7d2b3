//! Input files for tests, byte by byte.

use isobar::market::itch::*;

/// An ITCH file as it grows.
#[derive(Clone, Debug, Default)]
pub struct Itch {
    pub bytes: Vec<u8>,
    time: u64,
}

impl Itch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the next message begins.
    pub fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn header(&mut self, message_type: u8, locate: u16) -> Header {
        self.time += 1;
        Header::new(message_type, locate, self.time)
    }

    /// Any bytes, as they are.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Any body behind its length.
    pub fn body(self, body: &[u8]) -> Self {
        self.raw(&(body.len() as u16).to_be_bytes()).raw(body)
    }

    pub fn add(mut self, locate: u16, reference: u64, side: u8, shares: u32, stock: &str, price: u32) -> Self {
        let header = self.header(b'A', locate);
        let (reference, shares, price) = (reference.into(), shares.into(), price.into());
        AddOrder { header, reference, side, shares, stock: Stock::new(stock), price }.write_to(&mut self.bytes);
        self
    }

    pub fn add_attributed(
        mut self,
        locate: u16,
        reference: u64,
        side: u8,
        shares: u32,
        stock: &str,
        price: u32,
    ) -> Self {
        let header = self.header(b'F', locate);
        let (reference, shares, price, attribution) = (reference.into(), shares.into(), price.into(), *b"MPID");
        AddOrderAttributed { header, reference, side, shares, stock: Stock::new(stock), price, attribution }
            .write_to(&mut self.bytes);
        self
    }

    pub fn execute(mut self, locate: u16, reference: u64, shares: u32) -> Self {
        let header = self.header(b'E', locate);
        OrderExecuted { header, reference: reference.into(), shares: shares.into(), match_number: 1.into() }
            .write_to(&mut self.bytes);
        self
    }

    pub fn execute_at(mut self, locate: u16, reference: u64, shares: u32, printable: u8, price: u32) -> Self {
        let header = self.header(b'C', locate);
        let (reference, shares, price, match_number) = (reference.into(), shares.into(), price.into(), 1.into());
        OrderExecutedWithPrice { header, reference, shares, match_number, printable, price }.write_to(&mut self.bytes);
        self
    }

    pub fn cancel(mut self, locate: u16, reference: u64, shares: u32) -> Self {
        let header = self.header(b'X', locate);
        OrderCancelled { header, reference: reference.into(), shares: shares.into() }.write_to(&mut self.bytes);
        self
    }

    pub fn delete(mut self, locate: u16, reference: u64) -> Self {
        let header = self.header(b'D', locate);
        OrderDeleted { header, reference: reference.into() }.write_to(&mut self.bytes);
        self
    }

    pub fn replace(mut self, locate: u16, reference: u64, new_reference: u64, shares: u32, price: u32) -> Self {
        let header = self.header(b'U', locate);
        let (reference, new_reference) = (reference.into(), new_reference.into());
        OrderReplaced { header, reference, new_reference, shares: shares.into(), price: price.into() }
            .write_to(&mut self.bytes);
        self
    }

    pub fn trade(mut self, locate: u16, side: u8, shares: u32, stock: &str, price: u32) -> Self {
        let header = self.header(b'P', locate);
        let (shares, stock, price) = (shares.into(), Stock::new(stock), price.into());
        Trade { header, reference: 0.into(), side, shares, stock, price, match_number: 1.into() }
            .write_to(&mut self.bytes);
        self
    }

    pub fn cross(mut self, locate: u16, shares: u64, stock: &str, price: u32) -> Self {
        let header = self.header(b'Q', locate);
        let (shares, stock, price) = (shares.into(), Stock::new(stock), price.into());
        CrossTrade { header, shares, stock, price, match_number: 1.into(), cross_type: b'O' }.write_to(&mut self.bytes);
        self
    }

    pub fn directory(mut self, locate: u16, stock: &str) -> Self {
        let mut body = [b' '; 39];
        body[..11].copy_from_slice(zerocopy::IntoBytes::as_bytes(&self.header(b'R', locate)));
        body[11..19].copy_from_slice(&Stock::new(stock).0);
        self.body(&body)
    }

    /// A halt notice, which the pipeline takes no notice of.
    pub fn halt(mut self, locate: u16, stock: &str) -> Self {
        let header = self.header(b'H', locate);
        TradingAction { header, stock: Stock::new(stock), state: b'H', reserved: b' ', reason: *b"T1  " }
            .write_to(&mut self.bytes);
        self
    }

    pub fn broken_trade(mut self, locate: u16) -> Self {
        let header = self.header(b'B', locate);
        BrokenTrade { header, match_number: 1.into() }.write_to(&mut self.bytes);
        self
    }
}

/// A market-by-order record.
#[derive(Clone, Copy, Debug)]
pub struct Mbo {
    pub action: u8,
    pub side: u8,
    pub instrument: u32,
    pub publisher: u16,
    pub reference: u64,
    pub price: i64,
    pub size: u32,
    pub flags: u8,
    pub ts_event: u64,
    pub ts_recv: u64,
}

pub const F_LAST: u8 = 0x80;
/// 2024-01-02, in days since the epoch.
pub const DAY: u64 = 19_724;
pub const NS_PER_DAY: u64 = 86_400_000_000_000;

impl Mbo {
    pub fn new(action: u8, side: u8, instrument: u32, reference: u64, price: i64, size: u32) -> Self {
        let ts_event = DAY * NS_PER_DAY + reference;
        let (publisher, ts_recv) = (1, ts_event + 100);
        Self { action, side, instrument, publisher, reference, price, size, flags: F_LAST, ts_event, ts_recv }
    }

    pub fn flags(self, flags: u8) -> Self {
        Self { flags, ..self }
    }

    pub fn record(&self) -> dbn::MboMsg {
        dbn::MboMsg {
            hd: dbn::RecordHeader::new::<dbn::MboMsg>(dbn::rtype::MBO, self.publisher, self.instrument, self.ts_event),
            order_id: self.reference,
            price: self.price,
            size: self.size,
            flags: dbn::FlagSet::new(self.flags),
            channel_id: 0,
            action: self.action as _,
            side: self.side as _,
            ts_recv: self.ts_recv,
            ts_in_delta: 0,
            sequence: 0,
        }
    }

    /// The record's 56 bytes, written by the crate `dbn`.
    pub fn bytes(&self) -> Vec<u8> {
        AsRef::<[u8]>::as_ref(&self.record()).to_vec()
    }
}

/// A builder of metadata for a future, without schema and start. Its type cannot be named.
macro_rules! blank {
    () => {
        dbn::Metadata::builder()
            .dataset(dbn::Dataset::GlbxMdp3)
            .stype_in(Some(dbn::SType::RawSymbol))
            .stype_out(dbn::SType::InstrumentId)
    };
}

/// A DBN file's metadata: `AAA` is instrument 1 on [`DAY`], `BBB` on the day after; `CCC` is instrument 2 on both days.
pub fn dbn_metadata(schema: Option<dbn::Schema>) -> Vec<u8> {
    // The crate's date type is not re-exported; metadata give one for any start.
    let day = |day: u64| blank!().schema(None).start(day * NS_PER_DAY).build().start().date();
    let mapping = |name: &str, id: u32, from: u64, to: u64| dbn::SymbolMapping {
        raw_symbol: name.into(),
        intervals: vec![dbn::MappingInterval { start_date: day(from), end_date: day(to), symbol: id.to_string() }],
    };
    let metadata = blank!()
        .schema(schema)
        .start(DAY * NS_PER_DAY)
        .mappings(vec![
            mapping("AAA", 1, DAY, DAY + 1),
            mapping("BBB", 1, DAY + 1, DAY + 2),
            mapping("CCC", 2, DAY, DAY + 2),
        ])
        .build();
    let mut bytes = Vec::new();
    dbn::encode::DbnMetadataEncoder::new(&mut bytes).encode(&metadata).unwrap();
    bytes
}

/// The mapping of [`dbn_metadata`] for the reference.
pub fn mappings() -> Vec<super::reference::Mapping> {
    vec![(1, DAY..DAY + 1, "AAA".into()), (1, DAY + 1..DAY + 2, "BBB".into()), (2, DAY..DAY + 2, "CCC".into())]
}

/// Metadata and records.
pub fn dbn_file(records: &[Mbo]) -> Vec<u8> {
    let mut bytes = dbn_metadata(Some(dbn::Schema::Mbo));
    records.iter().for_each(|record| bytes.extend(record.bytes()));
    bytes
}
