//! Looking into a store.

mod cli_support;

use cli_support::Place;

#[test]
fn a_store_shows_what_it_holds() {
    let place = Place::new();
    place.itch(60_000, 20);
    place.run("run orderbook --input input.itch --store ck --checkpoint-interval 5ms --quiet").succeeds();
    let list = place.run("checkpoints list ck");
    let last = list.succeeds().out.lines().last().unwrap().split_whitespace().next().unwrap().to_string();
    assert!(last.parse::<u64>().unwrap() >= 1, "{list:?}");
    let show = place.run("checkpoints show ck");
    assert!(show.succeeds().out.contains(&format!("checkpoint {last} of attempt 1")), "{show:?}");
    for operator in ["orders", "trades", "book", "input hash"] {
        assert!(show.out.contains(operator), "{operator}: {show:?}");
    }
    let first = place.run("checkpoints show ck 1");
    assert!(first.succeeds().out.contains("checkpoint 1 of attempt 1"));
    let verify = place.run("checkpoints verify ck");
    assert!(verify.succeeds().out.contains(&format!("checkpoint {last} and all that it needs are intact")));
    place.run("checkpoints verify ck 999999").fails(1, "checkpoint 999999 is not in");
}

#[test]
fn a_sweep_removes_what_no_checkpoint_needs() {
    let place = Place::new();
    place.itch(60_000, 20);
    let run = "run orderbook --input input.itch --store ck --checkpoint-interval 5ms --quiet --summary s.csv";
    place.run(run).succeeds();
    assert!(place.run("checkpoints sweep ck").succeeds().out.contains("nothing to remove"));
    // Twice back to the first checkpoint: the branch between is abandoned.
    for _ in 0..2 {
        place.run(&format!("{run} --restore 1")).succeeds();
    }
    let summary = place.read("s.csv");
    let swept = place.run("checkpoints sweep ck");
    assert!(swept.succeeds().out.contains("1 segment removed"), "{swept:?}");
    assert!(place.run("checkpoints sweep ck").succeeds().out.contains("nothing to remove"));
    place.run("checkpoints verify ck").succeeds();
    place.run(&format!("{run} --resume")).succeeds();
    assert_eq!(place.read("s.csv"), summary);
}

#[test]
fn a_folder_without_a_store_is_named() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    for action in ["list", "show", "verify", "sweep"] {
        place.run(&format!("checkpoints {action} empty")).fails(1, "there is no store in empty");
        place.run(&format!("checkpoints {action} nowhere")).fails(1, "cannot read nowhere");
    }
}

#[test]
fn damage_is_found_by_verify() {
    let place = Place::new();
    place.itch(60_000, 20);
    place.run("run orderbook --input input.itch --store ck --checkpoint-interval 5ms --quiet").succeeds();
    let log = std::fs::read_dir(place.path("ck/orderbook/log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&log).unwrap();
    // In the first delta block.
    bytes[6_000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    place.run("checkpoints verify ck").fails(1, "is damaged at byte");
}
