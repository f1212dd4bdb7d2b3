//! Inputs as files: formats and compressions by their first bytes, damage, positions, identity, and bytes of any kind.

mod market_support;

use flate2::{Compression, write::GzEncoder};
use isobar::{
    market::{
        Input, InputError, OnError, OrderSource, Results, TradeSource,
        generator::{Generator, GeneratorOptions},
    },
    operator::{Polled, Source},
    state::{Arena, ArenaOptions},
};
use market_support::{
    Outcome, TempFile,
    build::{Itch, Mbo, dbn_file, mappings},
    drive::{Plan, outcome, run},
    reference,
};
use proptest::prelude::*;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

fn generated(messages: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Generator::new(GeneratorOptions { messages, symbols: 7, seed: 2 }).unwrap().write_to(&mut bytes).unwrap();
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

fn run_bytes(bytes: &[u8]) -> Outcome {
    let file = TempFile::new(bytes);
    outcome(&Input::open(&file.path).unwrap(), Plan::simple())
}

/// A run that ends with an error: its lines and the error.
fn broken(bytes: &[u8]) -> (Outcome, String) {
    let file = TempFile::new(bytes);
    let (outcome, ended) = run(&Input::open(&file.path).unwrap(), Plan::simple());
    let error = ended.unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains("is cut or corrupt"), "{error}");
    assert_eq!(outcome.summary, "");
    (outcome, error)
}

/// The number of bytes that an error says were decoded.
fn decoded_bytes(error: &str) -> usize {
    error.split("behind ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// What a damaged stream gives before its decoder fails.
fn decodable(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ended = match packed {
        [0x1f, ..] => flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut bytes),
        _ => zstd::stream::read::Decoder::new(packed).unwrap().read_to_end(&mut bytes),
    };
    assert!(ended.is_err());
    bytes
}

#[test]
fn each_compression_goes_with_each_format() {
    let itch = generated(20_000);
    let records: Vec<Mbo> = (0..5_000).map(|i| Mbo::new(b'A', b'B', 1 + (i % 3) as u32, i, i as i64 % 50, 1)).collect();
    let dbn = dbn_file(&records);
    let begin = dbn_file(&[]).len();
    for (plain, expected) in [(&itch, reference::itch(&itch)), (&dbn, reference::dbn(&dbn, begin, &mappings()))] {
        assert!(expected.summary.lines().count() > 3 && expected.kinds.is_empty());
        assert_eq!(run_bytes(plain), expected);
        assert_eq!(run_bytes(&gzip(plain)), expected);
        assert_eq!(run_bytes(&zstd(plain)), expected);
    }
}

#[test]
fn gzip_members_and_zstd_frames_follow_each_other_also_empty_ones() {
    let itch = generated(3_000);
    let expected = reference::itch(&itch);
    // Cut in the middle of messages.
    let parts = [&itch[..1_001], &[], &itch[1_001..50_003], &itch[50_003..]];
    assert_eq!(run_bytes(&parts.map(gzip).concat()), expected);
    assert_eq!(run_bytes(&parts.map(zstd).concat()), expected);
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    assert_eq!(run_bytes(&[&skippable[..], &zstd(&itch)].concat()), expected);
    assert_eq!(run_bytes(&gzip(&[])), reference::itch(&[]));
}

#[test]
fn a_cut_stream_gives_what_it_held_and_no_summary() {
    let itch = generated(30_000);
    for packed in [gzip(&itch), zstd(&itch)] {
        for left in [packed.len() - 1, packed.len() - 9, packed.len() / 2, packed.len() / 3] {
            let (outcome, error) = broken(&packed[..left]);
            let decoded = decoded_bytes(&error);
            assert!(decoded > itch.len() / 8, "{error}");
            assert_eq!(outcome.lines, reference::itch(&itch[..decoded]).lines, "{error}");
        }
    }
}

#[test]
fn damage_and_trailing_bytes_are_errors_wherever_they_are() {
    let itch = generated(6_000);
    let member = gzip(&itch[..5_000]).len();
    let packed = [gzip(&itch[..5_000]), gzip(&itch[5_000..])].concat();
    let mut damaged = vec![];
    // Header of the second member, deflate data, checksum, length.
    for at in [member, member + 2, packed.len() / 2, packed.len() - 7, packed.len() - 2] {
        let mut bytes = packed.clone();
        bytes[at] ^= 0x55;
        damaged.push(bytes);
    }
    let frames = zstd::bulk::Compressor::new(1).and_then(|mut compressor| {
        compressor.include_checksum(true)?;
        compressor.compress(&itch)
    });
    let frames = frames.unwrap();
    for at in [frames.len() / 2, frames.len() - 1] {
        let mut bytes = frames.clone();
        bytes[at] ^= 0x55;
        damaged.push(bytes);
    }
    for tail in [&b"\0"[..], b"trailing", b"\x1f", b"\x28\xb5"] {
        damaged.push([&packed, tail].concat());
        damaged.push([&frames, tail].concat());
    }
    for (number, bytes) in damaged.iter().enumerate() {
        let (outcome, error) = broken(bytes);
        // The damage may decode to something else before it is noticed; it is taken for what it decodes to.
        let given = &decodable(bytes)[..decoded_bytes(&error)];
        assert_eq!(outcome.lines, reference::itch(given).lines, "{number}: {error}");
    }
}

#[test]
fn a_stream_that_breaks_at_once_or_is_compressed_twice_is_refused() {
    for head in [&b"\x1f\x8b"[..], b"\x1f\x8bgarbage that is no header", b"\x28\xb5\x2f\xfd"] {
        let error = Input::open(&TempFile::new(head).path).unwrap_err();
        assert!(matches!(error, InputError::Corrupt { .. }), "{error}");
    }
    for twice in [gzip(&gzip(b"x")), zstd(&gzip(b"x")), gzip(&zstd(b"x"))] {
        let error = Input::open(&TempFile::new(&twice).path).unwrap_err();
        assert!(matches!(error, InputError::CompressedTwice { .. }), "{error}");
    }
}

#[test]
fn what_cannot_be_read_is_a_one_line_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Input::open(folder.path()), Err(InputError::NotAFile { .. })));
    let error = Input::open(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(&error, InputError::Open { .. }) && error.to_string().contains("missing"), "{error}");
    assert!(matches!(Input::open("/dev/zero".as_ref()), Err(InputError::NotAFile { .. })));
}

#[test]
fn an_identity_is_the_length_and_the_ends() {
    let identity = |bytes: &[u8]| Input::open(&TempFile::new(bytes).path).unwrap().identity();
    let bytes = generated(20_000);
    assert_eq!(identity(&bytes), identity(&bytes));
    let mut others = vec![bytes[..bytes.len() - 1].to_vec(), Vec::new()];
    for at in [0, 65_535, bytes.len() - 65_536, bytes.len() - 1] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        others.push(other);
    }
    for other in others {
        assert_ne!(identity(&other), identity(&bytes));
    }
    let options = GeneratorOptions::default();
    let generated = |options| Input::generated(options).unwrap().identity();
    assert_eq!(generated(options), generated(options));
    assert_ne!(generated(options), generated(GeneratorOptions { seed: 2, ..options }));
    assert_ne!(generated(options), generated(GeneratorOptions { symbols: 2, ..options }));
    assert_ne!(generated(options), generated(GeneratorOptions { messages: 2, ..options }));
}

fn arena() -> Arena {
    Arena::new(ArenaOptions { key_groups: 0..1, ..ArenaOptions::default() }).unwrap()
}

/// All records that a source gives from a position, with the position behind each.
fn records<S: Source>(source: &mut S, position: Option<u64>) -> Vec<(S::Out, u64)> {
    let mut state = arena();
    source.open(&mut state, position).unwrap();
    let mut records = Vec::new();
    loop {
        match source.poll(&mut state).unwrap() {
            Polled::Record(record) => records.push((record.value, source.position())),
            Polled::Pending => std::thread::yield_now(),
            Polled::EndOfData => break,
        }
    }
    assert!(matches!(source.poll(&mut state).unwrap(), Polled::EndOfData), "the end stays the end");
    source.close(&mut state).unwrap();
    records
}

#[test]
fn from_every_position_that_was_reported_the_same_records_follow() {
    let bytes = generated(3_000);
    let files = [bytes.clone(), gzip(&bytes), zstd(&bytes)].map(|bytes| TempFile::new(&bytes));
    let mut inputs: Vec<Input> = files.iter().map(|file| Input::open(&file.path).unwrap()).collect();
    inputs.push(Input::generated(GeneratorOptions { messages: 3_000, symbols: 7, seed: 2 }).unwrap());
    let source = |input: &Input| OrderSource::new(input.clone(), OnError::Skip, Results::new());
    let trades = |input: &Input| TradeSource::new(input.clone(), OnError::Skip, Results::new());
    let whole = records(&mut source(&inputs[0]), None);
    let whole_trades = records(&mut trades(&inputs[0]), None);
    assert!(whole.len() > 2_500 && whole_trades.len() > 20);
    for input in &inputs {
        for at in [0, 1, 17, 1_000, whole.len() - 1] {
            assert!(records(&mut source(input), Some(whole[at].1)) == whole[at + 1..], "{at}");
        }
        for at in [0, whole_trades.len() / 2, whole_trades.len() - 1] {
            assert!(records(&mut trades(input), Some(whole_trades[at].1)) == whole_trades[at + 1..], "{at}");
        }
    }
}

#[test]
fn a_position_behind_the_end_is_an_error() {
    let bytes = generated(1_000);
    let beyond = bytes.len() as u64 + 1;
    let files = [bytes.clone(), gzip(&bytes), zstd(&bytes)].map(|bytes| TempFile::new(&bytes));
    for file in &files {
        let mut source = OrderSource::new(Input::open(&file.path).unwrap(), OnError::Skip, Results::new());
        let mut state = arena();
        source.open(&mut state, Some(beyond)).unwrap();
        let error = loop {
            match source.poll(&mut state) {
                Ok(polled) => assert_eq!(polled, Polled::Pending),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains(&format!("ends before byte {beyond}")), "{error}");
    }
}

/// Threads of this process that read an input ahead, its other tests' included.
fn reading_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "isobar-input").count()
}

#[test]
fn dropping_a_source_ends_its_thread() {
    let file = TempFile::new(&gzip(&generated(200_000)));
    let input = Input::open(&file.path).unwrap();
    let mut sources: Vec<OrderSource> = Vec::new();
    for _ in 0..40 {
        let mut source = OrderSource::new(input.clone(), OnError::Skip, Results::new());
        source.open(&mut arena(), None).unwrap();
        sources.push(source);
    }
    // A thread gives itself its name once it runs.
    let started = Instant::now();
    while reading_threads() < 40 {
        assert!(started.elapsed() < Duration::from_secs(30), "{} threads have started", reading_threads());
        std::thread::yield_now();
    }
    drop(sources);
    assert!(reading_threads() < 20, "{} threads are left", reading_threads());
}

#[test]
fn a_source_that_was_not_opened_says_so() {
    let input = Input::generated(GeneratorOptions::default()).unwrap();
    let mut source = TradeSource::new(input, OnError::Skip, Results::new());
    let error = source.poll(&mut arena()).unwrap_err();
    assert!(error.to_string().contains("before it was opened"));
    assert_eq!(source.position(), 0);
}

/// Whatever happens, it is an answer or a one-line error.
fn survives(bytes: &[u8]) {
    let file = TempFile::new(bytes);
    match Input::open(&file.path) {
        Ok(input) => drop(run(&input, Plan::simple()).1.map_err(|error| assert!(!error.to_string().contains('\n')))),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)
}

fn changed(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_at_all_panic(
        magic in prop_oneof![
            Just(&b""[..]), Just(&b"DBN"[..]), Just(&b"DBN\x01\x80\0\0\0"[..]), Just(&b"DBN\x03\x80\0\0\0"[..]),
            Just(&b"\x1f\x8b\x08"[..]), Just(&b"\x28\xb5\x2f\xfd"[..])
        ],
        bytes in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        survives(&[magic, &bytes].concat());
    }

    #[test]
    fn no_change_to_a_valid_file_panics(which in 0_usize..6, changes in changes(), head in any::<bool>()) {
        let itch = Itch::new().add(1, 1, b'B', 5, "AA", 5).delete(1, 1).trade(2, b'B', 1, "B", 1).bytes;
        let dbn = dbn_file(&[Mbo::new(b'A', b'B', 1, 1, 5, 5), Mbo::new(b'C', b'B', 1, 1, 5, 5)]);
        let bytes = match which {
            0 => itch,
            1 => dbn,
            2 => gzip(&itch),
            3 => zstd(&itch),
            4 => gzip(&dbn),
            _ => zstd(&dbn),
        };
        // The beginning holds what everything else depends on: it gets changes of its own.
        let bytes = if head {
            let (first, rest) = bytes.split_at(bytes.len().min(180));
            [changed(first.to_vec(), &changes), rest.to_vec()].concat()
        } else {
            changed(bytes, &changes)
        };
        survives(&bytes);
    }
}
