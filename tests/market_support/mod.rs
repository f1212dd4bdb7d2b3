//! What the market tests share: a reference model, a driver of the pipeline's operators without an engine, and writers
//! of input files.
#![allow(dead_code, reason = "each test crate uses a part")]

pub mod build;
pub mod drive;
pub mod reference;

use std::path::{Path, PathBuf};

/// A file in a folder of its own that goes when the value goes.
pub struct TempFile {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl TempFile {
    pub fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }
}

/// A file of real data, or `None` with a printed reason where the folder is absent.
pub fn real_data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if path.is_file() {
        Some(path)
    } else {
        println!("skipped: {} is not there", path.display());
        None
    }
}

/// What a run gives, whoever ran it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The output's lines by symbol, in order.
    pub lines: std::collections::BTreeMap<String, Vec<String>>,
    /// The summary file.
    pub summary: String,
    /// Rejected messages by kind.
    pub kinds: std::collections::BTreeMap<String, u64>,
    /// Offset and kind of the first twenty.
    pub first: Vec<(u64, String)>,
}
