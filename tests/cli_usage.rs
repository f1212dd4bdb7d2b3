//! Command lines that make no sense: exit code 2 and one line, before anything is touched.

mod cli_support;

use cli_support::Place;

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let place = Place::new();
    for (line, words) in [
        ("", "a verb is missing"),
        ("fly", "unrecognized subcommand 'fly'"),
        ("run", "<PIPELINE>"),
        ("run nothing", "invalid value 'nothing'"),
        ("run orderbook --bogus", "unexpected argument '--bogus'"),
        ("run orderbook --rate 0/s", "a rate of 0 would never end"),
        ("run orderbook --rate 0", "a rate is a number of messages a second"),
        ("run orderbook --rate -5/s", "unexpected argument '-5'"),
        ("run orderbook --rate nan/s", "a rate is a number"),
        ("run orderbook --cores 100000", "there is no such core; this process may run on ["),
        ("run orderbook --cores 0,,1", "there is no such core"),
        ("run orderbook --cores x", "there is no such core"),
        ("run orderbook --parallelism 0", "0 is not in 1..=128"),
        ("run orderbook --parallelism 129", "129 is not in 1..=128"),
        ("run orderbook --checkpoint-interval 0ms", "an interval of 0"),
        ("run orderbook --checkpoint-interval 10", "a duration is a number with"),
        ("run orderbook --mode twice", "invalid value 'twice'"),
        ("run orderbook --retained 0", "'0'"),
        ("run orderbook --resume", "--store <DIR>"),
        ("run orderbook --restore 3", "--store <DIR>"),
        ("run orderbook --store s --resume --restore 3", "cannot be used with"),
        ("run orderbook --store s --resume --overwrite", "cannot be used with"),
        ("run orderbook --store s --restore 3 --overwrite", "cannot be used with"),
        ("run orderbook --discard-newer-output", "--restore <ID>"),
        ("run orderbook --symbols 0", "0 is not in 1..=65535"),
        ("run orderbook --output-roll soon", "a duration is a number with"),
        ("generate itch50", "--out <FILE>"),
        ("generate itch50 --out x --symbols 0", "0 is not in 1..=65535"),
        ("generate itch50 --out x --symbols 65536", "65536 is not in 1..=65535"),
        ("checkpoints", "see --help"),
        ("checkpoints list", "<DIR>"),
    ] {
        place.run(line).fails(2, words);
    }
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0, "nothing was made");
}

#[test]
fn help_and_version_are_no_errors() {
    let place = Place::new();
    assert!(place.run("--version").succeeds().out.starts_with("isobar "));
    let help = place.run("run --help");
    assert!(help.succeeds().out.contains("--checkpoint-interval"));
    for later in ["bench", "gate", "doctor"] {
        assert!(!place.run("--help").out.contains(later), "{later} does not exist yet");
    }
}
