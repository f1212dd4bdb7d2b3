//! Tables for people: a label, then numbers in fitting units.

use isobar::measure::Percentiles;

/// Nanoseconds in the unit that reads best.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Bytes in the unit that reads best.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A count with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The head of a table of distributions.
pub fn head() -> String {
    format!("{:<22}{:>12}{:>12}{:>12}{:>12}{:>12}", "", "p50", "p90", "p99", "p99.9", "max")
}

/// One distribution; a dash in each place where there is none.
pub fn row(label: &str, values: Option<&Percentiles>, unit: impl Fn(u64) -> String) -> String {
    let places = values.map(|p| [p.p50, p.p90, p.p99, p.p99_9, p.max].map(unit));
    let places = places.unwrap_or_else(|| std::array::from_fn(|_| "-".to_string()));
    places.iter().fold(format!("{label:<22}"), |line, place| format!("{line}{place:>12}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [time(999), time(1_500), time(2_500_000), time(3_000_000_000)],
            ["999 ns", "1.5 us", "2.5 ms", "3.00 s"]
        );
        assert_eq!([bytes(12), bytes(2_048), bytes(3 << 20)], ["12 B", "2.0 KiB", "3.0 MiB"]);
        assert_eq!([count(0), count(999), count(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!(row("x", None, time).matches('-').count(), 5);
    }
}
