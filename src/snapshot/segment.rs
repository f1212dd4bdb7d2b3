//! The files of a store's segments: their names, and how one is made ready to be written to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags, fallocate, statx};

use super::directory::sync_folder;
use super::store::WriterInfo;

/// The least alignment: a record's.
const ALIGN_MIN: usize = 64;
/// Where the kernel does not tell: what every block device takes.
const ALIGN_DEFAULT: usize = 4096;
const EXTENSION: &str = "log";

/// The folder of a store's segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    folder: PathBuf,
}

/// A segment that is open for writing.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub file: File,
    pub direct: bool,
    pub alignment: usize,
    pub reason: Option<String>,
}

impl Segments {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:010}.{EXTENSION}"))
    }

    /// The numbers of all segments, ascending. Other files are not looked at.
    pub fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let Some(number) = number
                && self.path(number) == path
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Makes a segment of `bytes` zeros whose name is durable. With `direct`, past the page cache where the file system
    /// allows it.
    pub fn create(&self, segment: u32, bytes: u64, direct: bool) -> io::Result<SegmentFile> {
        let path = self.path(segment);
        let opened = self.open_new(&path, direct)?;
        let made = fallocate(&opened.file, FallocateFlags::empty(), 0, bytes)
            .map_err(io::Error::from)
            .or_else(|error| match error.raw_os_error() {
                // The file system has no preallocation: a hole of that size, which costs time when it is filled.
                Some(libc_errors::EOPNOTSUPP | libc_errors::ENOSYS) => opened.file.set_len(bytes),
                _ => Err(error),
            })
            .and_then(|()| opened.file.sync_all())
            .and_then(|()| sync_folder(&self.folder));
        match made {
            Ok(()) => Ok(opened),
            Err(error) => {
                // What cannot be removed now is a segment of zeros, which a later scan takes for an empty tail.
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    fn open_new(&self, path: &Path, direct: bool) -> io::Result<SegmentFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        if !direct {
            let file = options.open(path)?;
            return Ok(SegmentFile { file, direct: false, alignment: ALIGN_MIN, reason: None });
        }
        let mut with_direct = options.clone();
        with_direct.custom_flags(OFlags::DIRECT.bits() as i32);
        match with_direct.open(path) {
            Ok(file) => {
                let alignment = direct_alignment(&file)?;
                Ok(SegmentFile { file, direct: true, alignment, reason: None })
            }
            Err(error) if error.raw_os_error() == Some(libc_errors::EINVAL) => {
                // The name may have been created before the flag was refused.
                let _ = fs::remove_file(path);
                let reason = format!(
                    "the file system of {} refuses O_DIRECT (tmpfs and overlay do); writing through the page cache",
                    self.folder.display()
                );
                let file = options.open(path)?;
                Ok(SegmentFile { file, direct: false, alignment: ALIGN_MIN, reason: Some(reason) })
            }
            Err(error) => Err(error),
        }
    }
}

/// The few error numbers that are told apart here, as Linux numbers them.
mod libc_errors {
    pub const EINVAL: i32 = 22;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}

/// What offsets and lengths of direct writes must be multiples of.
fn direct_alignment(file: &File) -> io::Result<usize> {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::from_bits_retain(0x2000))?; // STATX_DIOALIGN
    let alignment = found.stx_dio_offset_align.max(found.stx_dio_mem_align) as usize;
    Ok(if alignment.is_power_of_two() { alignment.max(ALIGN_MIN) } else { ALIGN_DEFAULT })
}

impl SegmentFile {
    /// How this file is reached, for people.
    pub fn info(&self, backend: &'static str, reason: Option<&String>) -> WriterInfo {
        WriterInfo {
            backend,
            direct: self.direct,
            alignment: self.alignment,
            reason: reason.or(self.reason.as_ref()).cloned(),
        }
    }
}
