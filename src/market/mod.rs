//! Market data: NASDAQ TotalView-ITCH 5.0 and Databento market-by-order in, order books and their best quotes out.
//! The domain of the reference pipeline, `run orderbook`.

pub mod generator;
pub mod itch;
