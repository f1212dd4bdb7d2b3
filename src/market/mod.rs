//! Market data: NASDAQ TotalView-ITCH 5.0 and Databento market-by-order in, order books and their best quotes out.
//! The domain of the reference pipeline, `run orderbook`.

mod book;
mod decimal;
mod event;
mod fault;
pub mod generator;
mod input;
pub mod itch;
mod line;
pub mod pipeline;
mod result;
mod source;
mod symbol;

pub use book::{BookNotOpen, OrderBook};
pub use event::{OrderEvent, OrderKind, Quote, QuoteChange, Side, TradeEvent, TradeKind};
pub use fault::{FIRST_FAULTS, Fault, FaultKind, FaultReport, OnError, Rejected};
pub use input::{Input, InputError, InputIdentity};
pub use line::append_quote_line;
pub use result::{BrokenInput, Counters, OrderBookResult, Results, SUMMARY_HEADER, Share, SummaryRow};
pub use source::{Lane, MarketSource, NotOpen, OrderSource, Orders, TradeSource, Trades};
pub use symbol::{SymbolCode, SymbolNames};
