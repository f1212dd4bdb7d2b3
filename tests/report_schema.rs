//! What is written with `--json` lies within `perf/report.schema.json`, and the schema refuses what it should.

use std::{collections::BTreeMap, time::Duration};

use isobar::{
    checkpoint::CheckpointStatistics,
    measure::{
        Histogram, Host, cores, hop, noise_floor, paired_ratio,
        report::{Errors, InputError, Pair, Report, Run},
    },
};
use jsonschema::Validator;
use serde_json::{Value, json};

fn schema() -> Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/perf/report.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::draft202012::meta::validate(&schema).expect("the schema itself is sound");
    jsonschema::validator_for(&schema).unwrap()
}

/// Serialized as the command line does it.
fn written(report: &Report) -> Value {
    let mut bytes = Vec::new();
    report.write(&mut bytes).unwrap();
    assert_eq!(Report::read(bytes.as_slice()).unwrap(), *report, "it reads back as what it was");
    serde_json::from_slice(&bytes).unwrap()
}

/// A report with every key filled in from real measurements of this machine.
fn full() -> Report {
    let mut report = Report::new(Host::read(), vec!["isobar".into(), "run".into(), "orderbook".into()]);
    report.git = Some("6a4672d".into());
    report.noise_floor_ns = noise_floor(&cores()[..1], Duration::from_millis(2)).unwrap().percentiles();
    let last = cores().len() - 1;
    report.hop_ns = hop(cores()[0], cores()[last], Duration::from_millis(2)).unwrap().percentiles();
    let mut times = Histogram::new();
    (1..1_000).for_each(|ns| times.record(ns * ns));
    let times = times.percentiles();
    let statistics =
        CheckpointStatistics { triggered: 9, completed: 5, failed: 1, declined: 2, aborted: 1, ..Default::default() };
    let mut run = Run {
        scenario: "orderbook".into(),
        params: BTreeMap::from([("interval".into(), json!("10ms")), ("parallelism".into(), json!(2))]),
        result_hash: Some("00c0ffee".into()),
        errors: Some(Errors {
            count: 1,
            by_kind: BTreeMap::from([("unknown_reference".into(), 1)]),
            first: vec![InputError { offset: 17, kind: "unknown_reference".into(), what: "order 7 is unknown".into() }],
        }),
        latency_ns: times,
        checkpoints: Some(statistics.into()),
        start_delay_ns: times,
        t_align_ns: times,
        sync_ns: times,
        async_ns: times,
        end_to_end_ns: times,
        bytes_written: Some(1),
        dirty_pages: Some(2),
        copied_pages: Some(3),
        state_bytes: Some(4),
        restore_ns: Some(5),
        ..Run::default()
    };
    run.set_duration(5_000_000, 2.5);
    report.runs.push(run);
    let ratio = paired_ratio(&[1.0, 1.1, 1.2], &[1.0, 1.0, 1.0]).unwrap();
    report.pairs.push(Pair::new("checkpoint every 10 ms / off", "latency p99", ratio));
    report
}

fn assert_valid(schema: &Validator, report: &Value) {
    let errors: Vec<_> =
        schema.iter_errors(report).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{report:#}");
}

#[test]
fn a_full_report_is_valid() {
    let report = written(&full());
    assert_valid(&schema(), &report);
    assert_eq!(report["runs"][0]["records_per_s"], 2_000_000.0);
    assert_eq!(report["runs"][0]["checkpoints"], json!({"triggered": 9, "completed": 5, "failed": 2, "declined": 2}));
    assert_eq!(report["pairs"][0]["ratio"], 1.1);
}

#[test]
fn what_does_not_apply_is_null_and_valid() {
    let mut report = Report::new(Host::read(), vec![]);
    let mut run = Run { scenario: "ring".into(), ..Run::default() };
    run.set_duration(10, 0.0);
    report.runs.push(run);
    let report = written(&report);
    assert_valid(&schema(), &report);
    let run = report["runs"][0].as_object().unwrap();
    for key in ["records_per_s", "errors", "latency_ns", "checkpoints", "t_align_ns", "bytes_written", "restore_ns"] {
        assert_eq!(run.get(key), Some(&Value::Null), "{key}");
    }
}

#[test]
fn the_schema_refuses_missing_wrong_and_unknown_keys() {
    let schema = schema();
    let report = written(&full());
    // Every key that a report has, at any depth but in the open objects, is one that must be there.
    let mut checked = 0;
    let open = ["/runs/0/params", "/runs/0/errors/by_kind"];
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        match report.pointer(&pointer).unwrap() {
            Value::Object(object) if !open.contains(&pointer.as_str()) => {
                for key in object.keys() {
                    let mut without = report.clone();
                    without.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(key);
                    assert!(!schema.is_valid(&without), "{pointer}/{key} may be absent");
                    pointers.push(format!("{pointer}/{key}"));
                    checked += 1;
                }
            }
            Value::Array(array) => pointers.extend((0..array.len()).map(|n| format!("{pointer}/{n}"))),
            _ => {}
        }
    }
    assert!(checked > 80, "only {checked} keys were tried");
    let refused = [
        ("/schema", json!("isobar.report/2")),
        ("/runs/0/records", json!(-1)),
        ("/runs/0/sync_ns/p50", json!("fast")),
        ("/runs/0/sync_ns", json!({"p50": 1})),
        ("/pairs/0/ci95", json!([1.0])),
        ("/pairs/0/ratio", json!(0)),
        ("/runs/0/errors/first/0", json!({"offset": 1, "kind": "k", "what": "w", "more": 1})),
    ];
    for (pointer, value) in refused {
        let mut wrong = report.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(!schema.is_valid(&wrong), "{pointer}");
    }
}

#[test]
fn reading_something_else_says_what_is_wrong() {
    let read = |text: &str| Report::read(text.as_bytes()).unwrap_err().to_string();
    assert!(read("{}").contains("not a report"), "{}", read("{}"));
    assert!(read(r#"{"schema": "isobar.report/9"}"#).contains("isobar.report/9"));
    assert!(read(r#"{"schema": "isobar.report/1"}"#).contains("missing field"));
    assert!(Report::read("not json".as_bytes()).is_err());
}
