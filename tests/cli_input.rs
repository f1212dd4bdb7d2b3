//! Input that is missing, foreign, cut or garbage: an error or counted skips, never a panic or a hang.

mod cli_support;

use std::fs::{self, File};
use std::io::Write;

use cli_support::{Place, Said};

#[test]
fn an_input_that_is_not_there_or_no_file_is_named() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    place.run("run orderbook --input nowhere").fails(1, "cannot open input nowhere");
    place.run("run orderbook --input folder").fails(1, "not a regular file");
    place.run("run orderbook --input /dev/zero").fails(1, "not a regular file");
}

#[test]
fn an_empty_file_is_an_empty_success() {
    let place = Place::new();
    place.file("empty", "");
    let said = place.run("run orderbook --input empty --summary s.csv --output out");
    said.succeeds();
    assert_eq!(place.read("s.csv").lines().count(), 1, "the header alone");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 0, "no part without lines");
}

#[test]
fn garbage_is_counted_and_reported_by_offset() {
    let place = Place::new();
    // Thirty messages of one byte of an unknown type, then one that is cut.
    let mut bytes: Vec<u8> = (0..30).flat_map(|_| [0, 1, b'?']).collect();
    bytes.extend([0, 9, b'A']);
    place.file("garbage", bytes);
    let said = place.run("run orderbook --input garbage --summary s.csv --quiet");
    said.succeeds();
    let lines: Vec<_> = said.error.lines().collect();
    assert_eq!(lines.len(), 21, "the twenty smallest offsets and a total: {said:?}");
    for (index, line) in lines[..20].iter().enumerate() {
        assert!(line.starts_with(&format!("offset {}: ", index * 3)), "{line}");
    }
    assert_eq!(lines[20], "31 messages rejected");
}

#[test]
fn on_error_fail_stops_at_the_first_without_a_summary() {
    let place = Place::new();
    let input = place.itch(20_000, 10);
    let good = fs::read(&input).unwrap();
    let mut bytes = good.clone();
    bytes.extend([0, 1, b'?']);
    bytes.extend(&good);
    place.file("bad", bytes);
    let run = "run orderbook --input bad --summary s.csv --output out --on-error fail";
    place.run(run).fails(1, &format!("offset {}: unknown message type", good.len()));
    assert!(!place.path("s.csv").exists());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_broken_compressed_stream_ends_the_run_without_a_summary() {
    let place = Place::new();
    let input = place.itch(50_000, 10);
    let whole = gzip(&fs::read(&input).unwrap());
    place.file("whole.gz", &whole);
    place.run("run orderbook --input whole.gz --summary whole.csv").succeeds();
    place.run("run orderbook --input input.itch --summary plain.csv").succeeds();
    assert_eq!(place.read("whole.csv"), place.read("plain.csv"));

    let mut corrupt = whole.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0xff;
    let mut trailing = whole.clone();
    trailing.extend(b"more");
    let twice = gzip(&whole);
    for (name, bytes) in [("cut", &whole[..middle]), ("corrupt", &corrupt), ("trailing", &trailing), ("twice", &twice)]
    {
        place.file(name, bytes);
        let said = place.run(&format!("run orderbook --input {name} --summary {name}.csv --output {name}-out"));
        said.fails(1, name);
        assert!(!place.path(&format!("{name}.csv")).exists());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let place = Place::new();
    place.itch(20_000, 10);
    let mut command = place.isobar("run orderbook --input input.itch --quiet --json -");
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[test]
fn results_that_cannot_be_written_are_refused_before_the_run() {
    let place = Place::new();
    place.itch(1_000, 10);
    File::create(place.path("file")).unwrap();
    let refused = |options: &str| -> Said { place.run(&format!("run orderbook --input input.itch {options}")) };
    refused("--summary nowhere/s.csv").fails(1, "cannot write nowhere/s.csv: its folder does not exist");
    refused("--json nowhere/r.json").fails(1, "cannot write nowhere/r.json");
    refused("--summary .").fails(1, "it is a folder");
    refused("--output file").fails(1, "output folder file");
    refused("--store file/store").fails(1, "file/store");
    place.run("generate itch50 --out nowhere/x").fails(1, "its folder does not exist");
}
