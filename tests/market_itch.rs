//! The contract of `run orderbook` on ITCH input, clause by clause.

mod market_support;

use isobar::market::{Input, OnError};
use market_support::{
    Outcome, TempFile,
    build::Itch,
    drive::{Plan, outcome, run},
};

fn run_itch(file: &Itch) -> Outcome {
    let file = TempFile::new(&file.bytes);
    outcome(&Input::open(&file.path).unwrap(), Plan::simple())
}

fn rows(outcome: &Outcome) -> Vec<&str> {
    outcome.summary.lines().skip(1).collect()
}

/// The one error that a file gives.
fn only_error(file: &Itch) -> (u64, String) {
    let outcome = run_itch(file);
    assert_eq!(outcome.kinds.values().sum::<u64>(), 1, "{:?}", outcome.first);
    outcome.first[0].clone()
}

/// A book with one live order, reference 1: bid, 100 shares of `AA` at 5.
fn one_order() -> Itch {
    Itch::new().add(1, 1, b'B', 100, "AA", 5)
}

#[test]
fn an_empty_file_gives_an_empty_summary() {
    let outcome = run_itch(&Itch::new());
    assert!(rows(&outcome).is_empty() && outcome.lines.is_empty() && outcome.kinds.is_empty());
}

#[test]
fn a_and_f_add_and_levels_are_summed() {
    let file = one_order().add_attributed(1, 2, b'B', u32::MAX, "AA", 5).add(1, 3, b'B', u32::MAX, "AA", 5);
    let outcome = run_itch(&file.add(1, 4, b'S', 7, "AA", 9));
    assert_eq!(rows(&outcome), ["AA,4,0,0,0,0,0,0,0,5,8589934690,9,7"]);
}

#[test]
fn each_change_of_price_or_size_at_the_touch_is_a_line_and_nothing_else_is() {
    let file = one_order()
        .add(1, 2, b'B', 10, "AA", 4)
        .add(1, 3, b'S', 20, "AA", 8)
        .add(1, 4, b'B', 1, "AA", 5)
        .cancel(1, 2, 3)
        .delete(1, 1)
        .delete(1, 4)
        .delete(1, 2);
    assert_eq!(
        run_itch(&file).lines["AA"],
        ["1,AA,5,100,,", "3,AA,5,100,8,20", "4,AA,5,101,8,20", "6,AA,5,1,8,20", "7,AA,4,7,8,20", "8,AA,,,8,20"]
    );
}

#[test]
fn e_executes_at_the_orders_price_and_c_at_its_own_if_printable() {
    let file = one_order().execute(1, 1, 10).execute_at(1, 1, 20, b'Y', 7).execute_at(1, 1, 30, b'N', 1_000);
    let outcome = run_itch(&file);
    assert_eq!(rows(&outcome), ["AA,1,3,0,0,0,30,190,0,5,40,,"]);
    assert_eq!(rows(&run_itch(&file.execute(1, 1, 40))), ["AA,1,4,0,0,0,70,390,0,,,,"]);
}

#[test]
fn x_cancels_also_all_that_remains_and_d_deletes() {
    let file = one_order().cancel(1, 1, 40).cancel(1, 1, 60).add(1, 1, b'S', 3, "AA", 6).delete(1, 1);
    let outcome = run_itch(&file);
    assert_eq!(rows(&outcome), ["AA,2,0,2,1,0,0,0,0,,,,"]);
    assert!(outcome.kinds.is_empty(), "a reference may be used again once its order has ended");
}

#[test]
fn u_replaces_in_one_line_and_is_neither_an_add_nor_a_delete() {
    let outcome = run_itch(&one_order().replace(1, 1, 2, 50, 6).replace(1, 2, 3, 60, 6));
    assert_eq!(rows(&outcome), ["AA,1,0,0,0,2,0,0,0,6,60,,"]);
    assert_eq!(outcome.lines["AA"], ["1,AA,5,100,,", "2,AA,6,50,,", "3,AA,6,60,,"]);
    // The side is that of the order that leaves, and the best of both moves is what counts.
    let outcome = run_itch(&Itch::new().add(1, 1, b'S', 9, "AA", 5).replace(1, 1, 2, 9, 5));
    assert_eq!(outcome.lines["AA"], ["1,AA,,,5,9"]);
}

#[test]
fn p_counts_in_trades_shares_and_notional_and_leaves_the_book_alone() {
    let outcome = run_itch(&one_order().trade(1, b'S', u32::MAX, "AA", 2_000_000_000));
    assert_eq!(rows(&outcome), ["AA,1,0,0,0,0,4294967295,8589934590000000000,1,5,100,,"]);
    assert_eq!(outcome.lines["AA"].len(), 1);
}

#[test]
fn q_b_h_and_the_rest_count_nowhere_but_q_and_r_name_their_symbol() {
    let file = Itch::new().cross(3, 0, "QQ", u32::MAX).directory(2, "RR").halt(4, "HH").broken_trade(5);
    let outcome = run_itch(&file);
    assert_eq!(rows(&outcome), ["QQ,0,0,0,0,0,0,0,0,,,,", "RR,0,0,0,0,0,0,0,0,,,,"]);
    assert!(outcome.kinds.is_empty() && outcome.lines.is_empty());
}

#[test]
fn rows_are_sorted_by_the_symbols_bytes_and_spaces_are_cut_only_at_the_end() {
    let file =
        Itch::new().directory(1, "b").directory(2, "B").directory(3, "A.B").directory(4, " A A").directory(5, "A");
    let symbols: Vec<String> =
        rows(&run_itch(&file)).iter().map(|row| row.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(symbols, [" A A", "A", "A.B", "B", "b"]);
}

#[test]
fn no_line_waits_for_a_directory_message() {
    assert_eq!(run_itch(&one_order().directory(1, "AA")).lines["AA"].len(), 1);
}

#[test]
fn orders_are_told_apart_by_locate_and_reference_and_the_ends_of_the_range_are_ordinary() {
    let file = Itch::new()
        .add(1, 0, b'B', 1, "AA", 1)
        .add(2, 0, b'B', 2, "BB", 1)
        .add(0, u64::MAX, b'B', 3, "CC", 0)
        .add(65_535, u64::MAX, b'S', 4, "DD", 2_000_000_000)
        .execute(0, u64::MAX, 1);
    let outcome = run_itch(&file);
    assert!(outcome.kinds.is_empty());
    assert_eq!(
        rows(&outcome),
        [
            "AA,1,0,0,0,0,0,0,0,1,1,,",
            "BB,1,0,0,0,0,0,0,0,1,2,,",
            "CC,1,1,0,0,0,1,0,0,0,2,,",
            "DD,1,0,0,0,0,0,0,0,,,2000000000,4"
        ]
    );
}

#[test]
fn what_no_message_may_be_is_one_error_at_its_length_prefix() {
    let at = one_order().offset();
    for (bad, kind) in [
        (one_order().body(b"D12"), "wrong_length"),
        (one_order().body(&[b'A'; 37]), "wrong_length"),
        (one_order().body(b"Z"), "unknown_type"),
        (one_order().body(b""), "zero_length"),
        (one_order().add(1, 2, b'b', 1, "AA", 1), "bad_side"),
        (one_order().trade(1, b' ', 1, "AA", 1), "bad_side"),
        (one_order().add(1, 2, b'B', 0, "AA", 1), "zero_shares"),
        (one_order().add_attributed(1, 2, b'B', 0, "AA", 1), "zero_shares"),
        (one_order().trade(1, b'B', 0, "AA", 1), "zero_shares"),
        (one_order().execute(1, 1, 0), "zero_shares"),
        (one_order().execute_at(1, 1, 0, b'Y', 1), "zero_shares"),
        (one_order().cancel(1, 1, 0), "zero_shares"),
        (one_order().replace(1, 1, 2, 0, 1), "zero_shares"),
        (one_order().add(1, 2, b'B', 1, "AA", 2_000_000_001), "bad_price"),
        (one_order().trade(1, b'B', 1, "AA", u32::MAX), "bad_price"),
        (one_order().execute_at(1, 1, 1, b'Y', 2_000_000_001), "bad_price"),
        (one_order().replace(1, 1, 2, 1, 2_000_000_001), "bad_price"),
        (one_order().add(1, 2, b'B', 1, "A\n", 1), "bad_symbol"),
        (one_order().add(1, 2, b'B', 1, "A\u{7f}", 1), "bad_symbol"),
        (one_order().add(2, 2, b'B', 1, "A,", 1), "bad_symbol"),
        (one_order().cross(2, 1, "A\"", 1), "bad_symbol"),
        (one_order().directory(2, "\u{e9}"), "bad_symbol"),
        (one_order().add(2, 2, b'B', 1, "", 1), "blank_symbol"),
        (one_order().directory(2, ""), "blank_symbol"),
        (one_order().cross(2, 1, "", 1), "blank_symbol"),
        (one_order().execute_at(1, 1, 1, b'y', 1), "bad_printable"),
        (one_order().execute(1, 2, 1), "unknown_order"),
        (one_order().execute_at(1, 2, 1, b'N', 1), "unknown_order"),
        (one_order().cancel(1, 2, 1), "unknown_order"),
        (one_order().delete(2, 1), "unknown_order"),
        (one_order().replace(1, 2, 3, 1, 1), "unknown_order"),
        (one_order().add(1, 1, b'S', 1, "AA", 9), "live_reference"),
        (one_order().replace(1, 1, 1, 1, 1), "live_reference"),
        (one_order().execute(1, 1, 101), "too_many_shares"),
        (one_order().execute_at(1, 1, 101, b'Y', 1), "too_many_shares"),
        (one_order().cancel(1, 1, u32::MAX), "too_many_shares"),
    ] {
        assert_eq!(only_error(&bad.clone().broken_trade(1)), (at, kind.to_owned()));
        // Rejected as a whole: the book is as if the message had not been there.
        let outcome = run_itch(&bad.delete(1, 1));
        assert_eq!(rows(&outcome), ["AA,1,0,0,1,0,0,0,0,,,,"], "{kind}");
        assert_eq!(outcome.lines["AA"].len(), 2, "{kind}");
    }
}

#[test]
fn names_and_locates_bind_each_other_in_file_order_whatever_message_brings_them() {
    let name = |file: Itch, kind: usize, locate: u16, stock: &str, reference: u64| match kind {
        0 => file.directory(locate, stock),
        1 => file.add(locate, reference, b'B', 1, stock, 1),
        2 => file.add_attributed(locate, reference, b'B', 1, stock, 1),
        3 => file.trade(locate, b'B', 1, stock, 1),
        _ => file.cross(locate, 1, stock, 1),
    };
    for first in 0..5 {
        for second in 0..5 {
            let named = name(Itch::new(), first, 1, "AA", 1);
            let at = named.offset();
            let error = only_error(&name(named.clone(), second, 1, "BB", 2));
            assert_eq!(error, (at, "second_name".to_owned()), "{first} {second}");
            let error = only_error(&name(named.clone(), second, 2, "AA", 2));
            assert_eq!(error, (at, "second_locate".to_owned()), "{first} {second}");
            assert!(run_itch(&name(named, second, 1, "AA", 2)).kinds.is_empty());
        }
    }
    // A rejected message binds nothing, so the name is still free.
    let file = Itch::new().add(1, 1, b'?', 1, "AA", 1).add(2, 1, b'B', 1, "AA", 1).trade(2, b'B', 1, "AA", 1);
    assert_eq!(rows(&run_itch(&file)), ["AA,1,0,0,0,0,1,1,1,1,1,,"]);
}

#[test]
fn a_message_cut_by_the_end_is_an_error_and_a_zero_length_at_the_end_is_none() {
    let whole = one_order().delete(1, 1);
    let at = one_order().offset();
    for left in 1..21 {
        let cut = Itch::new().raw(&whole.bytes[..at as usize + left]);
        assert_eq!(only_error(&cut), (at, "cut_short".to_owned()), "{left}");
    }
    assert!(run_itch(&whole.clone().body(b"")).kinds.is_empty());
    let outcome = run_itch(&whole.clone().body(b"").body(b""));
    assert_eq!(outcome.first, [(whole.offset(), "zero_length".to_owned())]);
}

#[test]
fn framing_goes_on_behind_the_longest_message_that_a_prefix_can_announce() {
    let at = one_order().offset();
    let outcome = run_itch(&one_order().body(&[b'x'; 65_535]).delete(1, 1));
    assert_eq!(outcome.first, [(at, "unknown_type".to_owned())]);
    assert_eq!(rows(&outcome), ["AA,1,0,0,1,0,0,0,0,,,,"]);
}

#[test]
fn the_twenty_smallest_offsets_of_all_operators_are_kept_and_all_are_counted() {
    let mut file = Itch::new();
    for reference in 0..30 {
        // By turns the book's error and the source's.
        file = file.delete(reference as u16 % 7, reference).body(b"?");
    }
    let outcome = run_itch(&file);
    assert_eq!(outcome.kinds, [("unknown_order".to_owned(), 30), ("unknown_type".to_owned(), 30)].into());
    let offsets: Vec<u64> = outcome.first.iter().map(|(offset, _)| *offset).collect();
    let expected: Vec<u64> = (0..10).flat_map(|pair| [pair * 24, pair * 24 + 21]).collect();
    assert_eq!(offsets, expected);
}

#[test]
fn on_request_the_first_error_ends_the_run_and_the_lines_are_a_prefix() {
    let plan = Plan { on_error: OnError::Fail, ..Plan::simple() };
    let good = one_order().add(1, 2, b'B', 1, "AA", 6);
    for (bad, what) in
        [(good.clone().body(b"?"), "unknown message type"), (good.clone().delete(1, 9), "unknown order 9")]
    {
        let file = TempFile::new(&bad.delete(1, 1).delete(1, 2).bytes);
        let (outcome, ended) = run(&Input::open(&file.path).unwrap(), plan);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(&format!("offset {}", good.offset())) && error.contains(what), "{error}");
        let all = ["1,AA,5,100,,", "2,AA,6,1,,", "4,AA,,,,"];
        assert!(all.starts_with(&outcome.lines["AA"].iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(rows(&outcome).len(), 0);
    }
}
