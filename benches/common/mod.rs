//! What the benches share.
#![allow(dead_code)] // each bench uses its own part

use isobar::measure::Percentiles;

/// Whether to run at a size that only shows that the bench works: under `cargo test` and `cargo bench -- --test`.
pub fn smoke() -> bool {
    cfg!(debug_assertions) || std::env::args().any(|argument| argument == "--test")
}

/// A distribution in one line, in us.
pub fn percentiles(values: Option<Percentiles>) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    values.map_or_else(
        || "no values".to_string(),
        |p| {
            format!(
                "p50 {:.2} us, p90 {:.2} us, p99 {:.2} us, p99.9 {:.2} us, max {:.2} us",
                us(p.p50),
                us(p.p90),
                us(p.p99),
                us(p.p99_9),
                us(p.max)
            )
        },
    )
}

/// The middle value.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
