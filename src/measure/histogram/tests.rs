use hdrhistogram::serialization::{
    Deserializer,
    interval_log::{IntervalLogIterator, LogEntry},
};

use super::*;

fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    values.into_iter().for_each(|value| histogram.record(value));
    histogram
}

#[test]
fn percentiles_are_exact_to_three_digits() {
    let percentiles = of(1..=1_000_000).percentiles().unwrap();
    let expected = [500_000, 900_000, 990_000, 999_000, 999_900, 1_000_000];
    let Percentiles { p50, p90, p99, p99_9, p99_99, max } = percentiles;
    for (got, exact) in [p50, p90, p99, p99_9, p99_99, max].into_iter().zip(expected) {
        assert!(got.abs_diff(exact) * 1_000 <= exact, "{got} for {exact}");
    }
}

#[test]
fn an_empty_histogram_has_no_percentiles() {
    let mut histogram = Histogram::new();
    assert_eq!(histogram.percentiles(), None);
    histogram.record(7);
    histogram.clear();
    assert_eq!((histogram.percentiles(), histogram.len(), histogram.is_empty()), (None, 0, true));
}

#[test]
fn what_is_too_large_saturates_and_0_is_a_value() {
    let histogram = of([0, 0, 0, u64::MAX]);
    let percentiles = histogram.percentiles().unwrap();
    assert_eq!(histogram.len(), 4);
    assert_eq!(percentiles.p50, 0);
    assert!(percentiles.max >= 100_000_000_000, "100 s can be told from more");
}

#[test]
fn a_merge_equals_recording_both() {
    let (mut low, high, both) = (of(0..5_000), of(4_000..90_000), of((0..5_000).chain(4_000..90_000)));
    low.merge(&high);
    assert_eq!(low, both);
    assert_eq!(low.values().map(|(_, count)| count).sum::<u64>(), 91_000);
    let mut repeated = Histogram::new();
    repeated.record_n(42, 3);
    assert_eq!(repeated, of([42, 42, 42]));
}

#[test]
fn an_interval_log_reads_back_as_what_was_written() {
    let (align, sync) = (of((0..10_000).map(|n| n * n)), of([1_500, 1_700]));
    let intervals = [("t_align", &align, 1), ("sync", &sync, 2)].map(|(tag, histogram, start)| HistogramInterval {
        tag,
        start: Duration::from_secs(start),
        length: Duration::from_millis(500),
        histogram,
    });
    let mut log = Vec::new();
    write_hlog(&mut log, UNIX_EPOCH + Duration::from_secs(1_700_000_000), &intervals).unwrap();

    let mut read = Vec::new();
    let mut starts = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        match entry.unwrap() {
            LogEntry::Interval(line) => {
                let bytes = decode_base64(line.encoded_histogram());
                let inner = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).unwrap();
                assert_eq!(line.duration(), Duration::from_millis(500));
                read.push((line.tag().unwrap().as_str().to_owned(), Histogram { inner }));
            }
            LogEntry::StartTime(seconds) | LogEntry::BaseTime(seconds) => starts.push(seconds.as_secs()),
        }
    }
    assert_eq!(starts, [1_700_000_000; 2]);
    assert_eq!(read, [("t_align".to_owned(), align), ("sync".to_owned(), sync)]);
}

#[test]
fn a_tag_that_would_break_the_log_is_refused() {
    let histogram = of([1]);
    let interval =
        HistogramInterval { tag: "a,b", start: Duration::ZERO, length: Duration::ZERO, histogram: &histogram };
    let error = write_hlog(&mut Vec::new(), SystemTime::now(), &[interval]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("a,b"));
}

#[test]
fn the_percentile_text_has_the_layout_of_the_java_tools() {
    let mut text = Vec::new();
    of((1..=1_000).map(|us| us * 1_000)).write_hgrm(&mut text, 1_000.0).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    );
    assert_eq!(lines[1], "");
    let rows: Vec<Vec<f64>> = lines[2..lines.len() - 3]
        .iter()
        .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
        .collect();
    assert!(rows.len() > 30 && rows.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]));
    assert_eq!(rows[0][..3], [1.0, 0.0, 1.0]);
    let median = rows.iter().find(|row| row[1] == 0.5).unwrap();
    assert!((median[0] - 500.0).abs() < 0.6 && median[3] == 2.0, "{median:?}");
    let last = rows.last().unwrap();
    assert_eq!((last.len(), last[1], last[2]), (3, 1.0, 1_000.0), "the last row has no inverse");
    assert!(lines[lines.len() - 3].starts_with("#[Mean    =      500."));
    assert!(lines[lines.len() - 2].contains("Total count    =         1000]"));
    assert_eq!(lines[lines.len() - 1], "#[Buckets =           27, SubBuckets     =         2048]");
}

/// Standard base64 with padding; written out here so that reading the log back does not go through the crate that wrote it.
fn decode_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is not base64"),
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits =
            group.iter().enumerate().fold(0_u32, |bits, (n, byte)| bits | u32::from(value(*byte)) << (18 - 6 * n));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}
