//! The contract of `run orderbook` on DBN input, clause by clause.

mod market_support;

use isobar::market::{Input, InputError};
use market_support::{
    Outcome, TempFile,
    build::{DAY, F_LAST, Mbo, NS_PER_DAY, dbn_file, dbn_metadata},
    drive::{Plan, outcome, run},
};

/// The offset of the first record.
fn begin() -> u64 {
    dbn_file(&[]).len() as u64
}

fn run_bytes(bytes: &[u8]) -> Outcome {
    let file = TempFile::new(bytes);
    outcome(&Input::open(&file.path).unwrap(), Plan::simple())
}

fn run_dbn(records: &[Mbo]) -> Outcome {
    run_bytes(&dbn_file(records))
}

fn rows(outcome: &Outcome) -> Vec<&str> {
    outcome.summary.lines().skip(1).collect()
}

/// One live bid of instrument 1, reference 1: 100 at 5.
fn bid() -> Mbo {
    Mbo::new(b'A', b'B', 1, 1, 5, 100)
}

/// The time of a record of reference `reference`.
fn time(reference: u64) -> u64 {
    DAY * NS_PER_DAY + reference
}

#[test]
fn a_adds_m_replaces_and_c_cancels_or_deletes() {
    let outcome = run_dbn(&[
        bid(),
        Mbo::new(b'M', b'B', 1, 1, -6, 40),
        Mbo::new(b'C', b'B', 1, 1, 777, 10),
        Mbo::new(b'A', b'A', 1, 2, 7, 3),
        Mbo::new(b'C', b'A', 1, 2, 7, 3),
    ]);
    assert_eq!(rows(&outcome), ["AAA,2,0,1,1,1,0,0,0,-6,30,,"]);
    assert!(outcome.kinds.is_empty());
}

#[test]
fn m_of_an_unknown_order_adds_it_and_counts_as_replaced() {
    let outcome = run_dbn(&[Mbo::new(b'M', b'A', 1, 9, 7, 3)]);
    assert_eq!(rows(&outcome), ["AAA,0,0,0,0,1,0,0,0,,,7,3"]);
    assert!(outcome.kinds.is_empty());
}

#[test]
fn f_counts_as_executed_alone_and_is_not_looked_up() {
    let fill = Mbo { side: b'N', price: i64::MAX, size: 0, ..Mbo::new(b'F', b'N', 1, 99, 0, 0) };
    let outcome = run_dbn(&[bid(), fill, Mbo::new(b'F', b'B', 1, 1, 5, 100)]);
    assert_eq!(rows(&outcome), ["AAA,1,2,0,0,0,0,0,0,5,100,,"]);
    assert!(outcome.kinds.is_empty());
}

#[test]
fn t_counts_as_a_trade_also_without_a_side_and_at_a_negative_price() {
    let outcome = run_dbn(&[Mbo::new(b'T', b'N', 1, 0, -3, 2), Mbo::new(b'T', b'A', 1, 0, i64::MIN, u32::MAX)]);
    let notional = i128::from(i64::MIN) * i128::from(u32::MAX) - 6;
    assert_eq!(rows(&outcome), [format!("AAA,0,0,0,0,0,4294967297,{notional},2,,,,")]);
}

#[test]
fn r_clears_the_instruments_book_and_counts_nowhere() {
    let outcome = run_dbn(&[
        bid(),
        Mbo::new(b'A', b'A', 2, 1, 9, 9),
        Mbo { side: b'N', ..Mbo::new(b'R', b'N', 1, 2, i64::MAX, 0) },
        Mbo::new(b'C', b'B', 1, 1, 5, 100),
        Mbo::new(b'A', b'A', 1, 1, 8, 4),
    ]);
    assert_eq!(rows(&outcome), ["AAA,2,0,0,0,0,0,0,0,,,8,4", "CCC,1,0,0,0,0,0,0,0,,,9,9"]);
    assert_eq!(outcome.first, [(begin() + 3 * 56, "unknown_order".to_owned())]);
    assert_eq!(outcome.lines["AAA"][1], format!("{},AAA,,,,", time(2)));
}

#[test]
fn books_cleared_again_and_again_give_their_space_back_and_stay_right() {
    let mut records = Vec::new();
    for round in 0..20_u64 {
        for reference in 0..400 {
            records.push(Mbo::new(b'A', b'B', 1 + (reference % 3) as u32, round * 1_000 + reference, 5, 1));
        }
        records.push(Mbo::new(b'R', b'N', 1 + (round % 2) as u32, 0, 0, 0));
    }
    records.push(Mbo::new(b'C', b'B', 3, 2, 5, 1));
    let outcome = run_dbn(&records);
    assert_eq!(
        rows(&outcome),
        ["3,2660,0,0,1,0,0,0,0,5,2659,,", "AAA,2680,0,0,0,0,0,0,0,5,134,,", "CCC,2660,0,0,0,0,0,0,0,,,,"]
    );
}

#[test]
fn the_book_is_looked_at_at_the_end_of_an_event_alone() {
    let silent = |mbo: Mbo| mbo.flags(0);
    let outcome = run_dbn(&[
        silent(bid()),
        silent(Mbo::new(b'A', b'A', 1, 2, 9, 1)),
        Mbo::new(b'T', b'N', 1, 3, 5, 1),
        silent(Mbo::new(b'A', b'B', 1, 4, 6, 1)),
        silent(Mbo::new(b'C', b'B', 1, 4, 6, 1)),
        Mbo::new(b'N', b'N', 1, 5, 0, 0),
        silent(Mbo::new(b'C', b'B', 1, 1, 5, 1)),
        Mbo::new(b'C', b'B', 1, 77, 5, 1),
        silent(Mbo::new(b'C', b'B', 1, 1, 5, 1)),
        Mbo::new(b'A', b'N', 1, 8, 5, 1),
        silent(Mbo::new(b'C', b'B', 1, 1, 5, 1)),
    ]);
    // Ended by a trade, not by N (nothing changed), by a record that the book rejects, by one that the source rejects.
    assert_eq!(
        outcome.lines["AAA"],
        [
            format!("{},AAA,5,100,9,1", time(3)),
            format!("{},AAA,5,99,9,1", time(77)),
            format!("{},AAA,5,98,9,1", time(8))
        ]
    );
    assert_eq!(rows(&outcome), ["AAA,3,0,3,1,0,1,5,1,5,97,9,1"]);
}

#[test]
fn what_no_record_may_be_is_one_error_at_its_first_byte() {
    let undefined = i64::MAX;
    for (bad, kind) in [
        (Mbo::new(b'A', b'B', 1, 2, undefined, 1), "bad_price"),
        (Mbo::new(b'C', b'B', 1, 1, undefined, 1), "bad_price"),
        (Mbo::new(b'M', b'B', 1, 1, undefined, 1), "bad_price"),
        (Mbo::new(b'T', b'B', 1, 1, undefined, 1), "bad_price"),
        (Mbo::new(b'A', b'B', 1, 2, 5, 0), "zero_shares"),
        (Mbo::new(b'C', b'B', 1, 1, 5, 0), "zero_shares"),
        (Mbo::new(b'M', b'B', 1, 1, 5, 0), "zero_shares"),
        (Mbo::new(b'T', b'B', 1, 1, 5, 0), "zero_shares"),
        (Mbo::new(b'A', b'N', 1, 2, 5, 1), "bad_side"),
        (Mbo::new(b'C', b'N', 1, 1, 5, 1), "bad_side"),
        (Mbo::new(b'M', b'N', 1, 1, 5, 1), "bad_side"),
        (Mbo::new(b'M', b'A', 1, 1, 5, 1), "side_changed"),
        (Mbo::new(b'C', b'B', 1, 1, 5, 101), "too_many_shares"),
        (Mbo::new(b'C', b'B', 1, 2, 5, 1), "unknown_order"),
        (Mbo::new(b'C', b'B', 2, 1, 5, 1), "unknown_order"),
        (Mbo::new(b'A', b'B', 1, 1, 5, 1), "live_reference"),
        (Mbo::new(b'A', b'B', 1, 2, 5, 1).flags(F_LAST | 0x40), "not_by_order"),
        (Mbo::new(b'T', b'B', 1, 2, 5, 1).flags(F_LAST | 0x10), "not_by_order"),
        (Mbo { publisher: 2, ..Mbo::new(b'T', b'B', 1, 2, 5, 1) }, "second_publisher"),
        (Mbo { publisher: 2, ..Mbo::new(b'A', b'B', 1, 2, 5, 1) }, "second_publisher"),
        (Mbo::new(b'X', b'B', 1, 2, 5, 1), "unknown_action"),
    ] {
        let outcome = run_dbn(&[bid(), bad]);
        assert_eq!(outcome.first, [(begin() + 56, kind.to_owned())], "{bad:?}");
        assert_eq!(outcome.kinds.values().sum::<u64>(), 1);
        assert_eq!(rows(&outcome), ["AAA,1,0,0,0,0,0,0,0,5,100,,"], "{bad:?}");
    }
}

#[test]
fn symbols_are_those_of_the_day_of_receipt_else_the_instruments_number() {
    let later = |mbo: Mbo| Mbo { ts_recv: mbo.ts_recv + NS_PER_DAY, ..mbo };
    let never = |mbo: Mbo| Mbo { ts_recv: u64::MAX, ..mbo };
    let outcome = run_dbn(&[
        bid(),
        later(Mbo::new(b'A', b'A', 1, 2, 9, 1)),
        never(Mbo::new(b'A', b'A', 1, 3, 8, 1)),
        Mbo::new(b'T', b'N', 7, 4, 1, 1),
        later(Mbo::new(b'T', b'N', 1, 5, 2, 1)),
    ]);
    assert_eq!(
        rows(&outcome),
        [
            "1,1,0,0,0,0,0,0,0,5,100,8,1",
            "7,0,0,0,0,0,1,1,1,,,,",
            "AAA,1,0,0,0,0,0,0,0,5,100,,",
            "BBB,1,0,0,0,0,1,2,1,5,100,9,1"
        ]
    );
    assert_eq!(outcome.lines["BBB"], [format!("{},BBB,5,100,9,1", time(2))]);
}

#[test]
fn other_record_types_are_ignored_and_records_without_a_length_end_the_run() {
    let mut bytes = dbn_file(&[bid()]);
    let mut other = bid().bytes();
    other[1] = 0x12;
    bytes.extend(&other);
    // An odd number of words, so that what follows is not aligned to eight bytes.
    bytes.extend([5, 0x17]);
    bytes.extend([0; 18]);
    bytes.extend(Mbo::new(b'C', b'B', 1, 1, 5, 1).bytes());
    let outcome = run_bytes(&bytes);
    assert_eq!((rows(&outcome), outcome.kinds.len()), (vec!["AAA,1,0,1,0,0,0,0,0,5,99,,"], 0));
    let offset = bytes.len();
    bytes.extend([3; 80]);
    let file = TempFile::new(&bytes);
    let (outcome, ended) = run(&Input::open(&file.path).unwrap(), Plan::simple());
    let error = ended.unwrap_err().to_string();
    assert!(error.contains(&format!("at byte {offset}")), "{error}");
    // What came before is processed to the last record, but there is no summary.
    assert_eq!((outcome.lines["AAA"].len(), outcome.summary.as_str()), (2, ""));
}

#[test]
fn a_record_cut_by_the_end_and_a_record_too_short_for_its_type_are_errors() {
    let whole = dbn_file(&[bid(), bid()]);
    for left in [1, 15, 16, 55] {
        let outcome = run_bytes(&whole[..begin() as usize + 56 + left]);
        assert_eq!(outcome.first, [(begin() + 56, "cut_short".to_owned())]);
    }
    let mut short = dbn_file(&[bid()]);
    short.extend([4, 0xa0]);
    short.extend([0; 14]);
    assert_eq!(run_bytes(&short).first, [(begin() + 56, "wrong_length".to_owned())]);
}

#[test]
fn another_schema_is_refused_and_a_mixed_one_read() {
    let file = TempFile::new(&dbn_metadata(Some(dbn::Schema::Trades)));
    let error = Input::open(&file.path).unwrap_err();
    assert!(matches!(&error, InputError::Schema { schema, .. } if schema == "trades"), "{error}");
    let mut mixed = dbn_metadata(None);
    mixed.extend(bid().bytes());
    assert_eq!(rows(&run_bytes(&mixed)).len(), 1);
}

#[test]
fn metadata_that_cannot_be_read_is_refused_whatever_is_wrong_with_it() {
    let good = dbn_metadata(Some(dbn::Schema::Mbo));
    for length in 3..good.len() {
        let file = TempFile::new(&good[..length]);
        assert!(matches!(Input::open(&file.path), Err(InputError::Metadata { .. })), "{length}");
    }
    for version in [0, 4, 255] {
        let mut bytes = good.clone();
        bytes[3] = version;
        assert!(matches!(Input::open(&TempFile::new(&bytes).path), Err(InputError::Metadata { .. })));
    }
    // A length of 4 GiB must not be believed before the bytes are there.
    let mut bytes = good.clone();
    bytes[4..8].fill(0xff);
    assert!(matches!(Input::open(&TempFile::new(&bytes).path), Err(InputError::Metadata { .. })));
}
