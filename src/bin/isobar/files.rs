//! Writing results: files as a whole or not at all, and standard output without a panic when its reader has gone.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::failure::Failure;

/// Refuses a path that [`write_whole`] could not write to, before any work is done for it.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let refused = |why| Err(Failure::Failed(format!("cannot write {}: {why}", path.display())));
    if path.file_name().is_none() || path.is_dir() {
        return refused("it is a folder; name a file");
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            refused("its folder does not exist; make it first")
        }
        _ => Ok(()),
    }
}

/// Has `write` fill a file that gets its name, in place of an earlier one, only when it is complete. Returns its
/// length in bytes.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<u64, Failure> {
    check_writable(path)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".unfinished");
    let unfinished = path.with_file_name(name);
    let filled = || -> io::Result<u64> {
        let mut file = BufWriter::new(File::create(&unfinished)?);
        write(&mut file)?;
        let file = file.into_inner()?;
        fs::rename(&unfinished, path)?;
        Ok(file.metadata()?.len())
    };
    filled().map_err(|error| {
        // Best effort: the error that led here is what matters.
        let _ = fs::remove_file(&unfinished);
        Failure::io("write", path.display(), error)
    })
}

/// Prints `text` to standard output. A reader that has gone has seen enough.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::io("write", "standard output", error)),
        _ => Ok(()),
    }
}

/// Prints `text` to standard error. There is nowhere to report a failure to.
pub fn print_error(text: &str) {
    let mut error = io::stderr().lock();
    let _ = error.write_all(text.as_bytes());
}
