//! Whole runs: the same answer whatever the parallelism, the checkpoints, the mode, a stop or a kill.

mod cli_support;

use std::time::Duration;

use cli_support::{Place, Said, real_data};

#[test]
fn the_answer_does_not_depend_on_how_it_was_come_by() {
    let place = Place::new();
    place.itch(150_000, 50);
    let run = |options: &str, name: &str| {
        let line = format!("run orderbook --input input.itch --summary {name}.csv --output {name} {options} --quiet");
        place.run(&line).succeeds();
        (place.read(&format!("{name}.csv")), place.lines_by_symbol(name))
    };
    let reference = run("--checkpoint-interval off --parallelism 1", "reference");
    assert_eq!(reference.0.lines().count(), 51);
    assert!(reference.1.len() == 50 && reference.1.values().map(Vec::len).sum::<usize>() > 1_000);
    for (name, options) in [
        ("two", "--checkpoint-interval off --parallelism 2"),
        ("on", "--checkpoint-interval 5ms --parallelism 1"),
        ("on-two", "--checkpoint-interval 5ms --parallelism 2 --output-roll 0s"),
        ("on-five", "--checkpoint-interval 5ms --parallelism 5 --output-roll 20ms"),
        ("at-least-once", "--checkpoint-interval 5ms --mode at-least-once"),
        ("one-core", "--checkpoint-interval 5ms --cores 0"),
        ("paced", "--checkpoint-interval 10ms --rate 200000/s --parallelism 2"),
    ] {
        let answer = run(options, name);
        assert_eq!(answer.0, reference.0, "summary of {name}");
        assert_eq!(answer.1, reference.1, "output of {name}");
    }
}

#[test]
fn generated_input_is_the_generators_file() {
    let place = Place::new();
    let said = place.run("generate itch50 --out a.itch --messages 30000 --symbols 7 --seed 3");
    assert!(said.succeeds().out.contains("30,000 messages"));
    place.run("generate itch50 --out b.itch --messages 30000 --symbols 7 --seed 3").succeeds();
    assert!(std::fs::read(place.path("a.itch")).unwrap() == std::fs::read(place.path("b.itch")).unwrap());
    let said = place.run("run orderbook --input a.itch --quiet");
    assert!(said.succeeds().error.is_empty(), "not one message is rejected: {said:?}");
}

#[test]
fn json_on_standard_output_is_alone_there_and_fits_the_schema() {
    let place = Place::new();
    place.itch(60_000, 20);
    let said = place.run("run orderbook --input input.itch --checkpoint-interval 5ms --json -");
    said.succeeds();
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("nothing but JSON");
    let schema = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/perf/report.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let wrong: Vec<_> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let run = &report["runs"][0];
    assert_eq!(run["scenario"], "orderbook");
    assert_eq!(run["errors"]["count"], 0);
    assert!(run["checkpoints"]["completed"].as_u64().unwrap() > 0);
    assert!(run["latency_ns"]["p50"].as_u64().unwrap() > 0);

    place.run("run orderbook --input input.itch --checkpoint-interval off --json r.json --quiet").succeeds();
    let off: serde_json::Value = serde_json::from_str(&place.read("r.json")).unwrap();
    assert!(validator.is_valid(&off));
    assert_eq!(off["runs"][0]["result_hash"], run["result_hash"], "the same answer");
    assert!(off["runs"][0]["checkpoints"].is_null() && off["runs"][0]["sync_ns"].is_null());
}

#[test]
fn the_closing_table_and_progress_go_where_they_belong() {
    let place = Place::new();
    place.itch(100_000, 20);
    let line = "run orderbook --input input.itch --rate 80000/s";
    let said = place.run(line);
    for words in
        [" records, in ", "end of the input", "checkpoints completed of", "latency", "t_align", "sync", "bytes"]
    {
        assert!(said.succeeds().out.contains(words), "{words}: {said:?}");
    }
    assert!(said.error.lines().any(|line| line.starts_with("1.0 s: ")), "plain lines: {said:?}");
    let quiet = place.run(&format!("{line} --quiet"));
    assert!(quiet.succeeds().error.is_empty() && quiet.out.contains("latency"), "{quiet:?}");
}

const RUN: &str = "run orderbook --input input.itch --store ck --output out --output-roll 50ms --summary s.csv \
                   --checkpoint-interval 5ms";

/// Six seconds for [`undisturbed`]'s input, so that every kill and stop comes in the middle, also where a busy disk
/// delays checkpoints.
const PACED: &str = "--rate 100000/s";

/// Input, and what a run that is left alone makes of it.
fn undisturbed() -> (Place, String, std::collections::BTreeMap<String, Vec<String>>) {
    let place = Place::new();
    place.itch(600_000, 30);
    place.run("run orderbook --input input.itch --summary whole.csv --output whole --quiet").succeeds();
    let (summary, lines) = (place.read("whole.csv"), place.lines_by_symbol("whole"));
    (place, summary, lines)
}

#[test]
fn a_signal_stops_with_a_last_checkpoint_from_which_the_run_resumes() {
    for signal in ["INT", "TERM"] {
        let (place, summary, lines) = undisturbed();
        let mut command = place.isobar(&format!("{RUN} {PACED}"));
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        kill(signal, child.id());
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.contains("stopped at checkpoint"), "{output:?}");
        assert!(!place.path("s.csv").exists(), "a summary is for the whole file");
        let so_far = place.lines_by_symbol("out");
        for (symbol, part) in &so_far {
            assert!(lines[symbol].starts_with(part), "{symbol}: what is public is a prefix");
        }
        let said = place.run(&format!("{RUN} --resume --parallelism 2"));
        assert!(said.succeeds().error.contains("restored checkpoint"), "{said:?}");
        assert_eq!(place.read("s.csv"), summary);
        assert_eq!(place.lines_by_symbol("out"), lines);
    }
}

#[test]
fn a_killed_run_resumes_at_another_parallelism_to_the_same_answer() {
    let (place, summary, lines) = undisturbed();
    for (parallelism, after_ms) in [(2, 500), (1, 300), (5, 400)] {
        let mut command = place.isobar(&format!("{RUN} {PACED} --resume --parallelism {parallelism} --quiet"));
        let mut child =
            command.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    place.run(&format!("{RUN} --resume --parallelism 3")).succeeds();
    assert_eq!(place.read("s.csv"), summary);
    assert_eq!(place.lines_by_symbol("out"), lines);
}

fn kill(signal: &str, process: u32) {
    let sent = std::process::Command::new("kill").args([format!("-{signal}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_day_of_real_futures_gives_what_is_known_of_it() {
    let Some(input) = real_data("esh4-glbx-mdp3-20231225.mbo.dbn.zst") else { return };
    let place = Place::new();
    let run = |name: &str, options: &str| -> Said {
        let line = format!("run orderbook --summary {name}.csv --output {name} {options} --input");
        let said = Said::of(place.isobar(&line).arg(&input));
        said.succeeds();
        said
    };
    let said = run("a", "--store ck --checkpoint-interval 10ms --rate 50000/s --parallelism 1");
    assert!(said.out.starts_with("68,792 messages, 68,792 records,"), "{said:?}");
    let checkpoints = said.out.lines().nth(1).and_then(|line| line.split(' ').next()).unwrap();
    // 130 on a quiet disk; one that others write to takes hundreds of ms for an fsync now and then.
    assert!(checkpoints.parse::<u32>().unwrap() > 20, "{said:?}");
    let summary = place.read("a.csv");
    let row = summary.lines().nth(1).unwrap();
    assert!(row.starts_with("ESH4,29216,6371,0,17999,12233,"), "{row}");
    for (name, options) in [
        ("b", "--parallelism 2"),
        ("c", "--checkpoint-interval off"),
        ("d", "--mode at-least-once --checkpoint-interval 2ms"),
    ] {
        run(name, options);
        assert_eq!(place.read(&format!("{name}.csv")), summary, "{options}");
        assert_eq!(place.lines_by_symbol(name), place.lines_by_symbol("a"), "{options}");
    }
}
