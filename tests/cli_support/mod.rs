//! Runs the built program and looks at what it says.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of one test, removed at its end.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Generated ITCH.
    pub fn itch(&self, messages: u64, symbols: u32) -> PathBuf {
        let path = self.path("input.itch");
        let options = ["--messages", &messages.to_string(), "--symbols", &symbols.to_string()].map(String::from);
        let made = Said::of(isobar(["generate", "itch50", "--out"]).arg(&path).args(options));
        assert_eq!(made.code, Some(0), "{made:?}");
        path
    }

    /// The program, to be run in this folder.
    pub fn isobar(&self, line: &str) -> Command {
        let mut command = isobar(line.split_whitespace());
        command.current_dir(self.0.path());
        command
    }

    /// Runs it.
    pub fn run(&self, line: &str) -> Said {
        Said::of(&mut self.isobar(line))
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The output's lines by symbol, parts in order of checkpoint.
    pub fn lines_by_symbol(&self, output: &str) -> std::collections::BTreeMap<String, Vec<String>> {
        let mut parts: Vec<(u64, PathBuf)> = fs::read_dir(self.path(output))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.strip_prefix("part-")?.strip_suffix(".csv")?.to_string();
                Some((name.split_once('-')?.1.parse().ok()?, path))
            })
            .collect();
        parts.sort();
        let mut lines: std::collections::BTreeMap<String, Vec<String>> = Default::default();
        for (_, part) in parts {
            let text = fs::read_to_string(&part).unwrap();
            assert!(!text.is_empty(), "{} has no lines", part.display());
            for line in text.lines() {
                let symbol = line.split(',').nth(1).expect("a line has a symbol").to_string();
                lines.entry(symbol).or_default().push(line.to_string());
            }
        }
        lines
    }
}

fn isobar<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isobar"));
    command.args(arguments).stdin(Stdio::null()).env_remove("ISOBAR_FAILPOINT");
    command
}

/// What a run of the program said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

/// No run of these tests takes this long, so it hangs.
const HANGS: Duration = Duration::from_secs(120);

impl Said {
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Read on threads: a full pipe would look like a hang.
        let out = reader(child.stdout.take().unwrap());
        let error = reader(child.stderr.take().unwrap());
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > HANGS {
                child.kill().unwrap();
                panic!("{command:?} hangs; it said {}", error.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = Self { code: status.code(), out: out.join().unwrap(), error: error.join().unwrap() };
        assert!(!said.error.contains("panicked"), "{said:?}");
        said
    }

    /// The run failed with this code, and its last word is one line that holds `words`.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let last = self.error.lines().last().unwrap_or_default();
        assert!(last.starts_with("isobar: ") && last.contains(words), "{words:?} is not in {last:?}");
        assert_eq!(self.error.matches("isobar: ").count(), 1, "one line: {self:?}");
    }

    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

fn reader(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Real market data, where it is at hand: `ISOBAR_DATA`, or the folder beside the repository.
pub fn real_data(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var_os("ISOBAR_DATA").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path.canonicalize().unwrap());
    }
    eprintln!("skipped: {} is not here; set ISOBAR_DATA to the folder that holds it", path.display());
    None
}
