//! Segment files: preallocated, opened for direct writes where the file system allows it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::Errno;

/// Alignment of writes where the device asks for none: what a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
/// Alignment of direct writes where the kernel cannot say (before Linux 6.1): no device asks for more.
const PAGE_BYTES: usize = 4096;

/// The folder that segments are created in.
#[derive(Clone, Debug)]
pub(super) struct SegmentFolder {
    folder: PathBuf,
}

/// A segment that is open for writing.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub number: u32,
    pub file: File,
    /// Writes bypass the page cache.
    pub direct: bool,
    /// Alignment of their offsets and lengths.
    pub alignment: usize,
    /// Why they do not bypass it.
    pub reason: Option<String>,
}

impl SegmentFolder {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn path(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:010}.log"))
    }

    /// The segment that a file of this name holds.
    pub fn number(name: &str) -> Option<u32> {
        let number = name.strip_suffix(".log")?;
        let digits = number.len() == 10 && number.bytes().all(|b| b.is_ascii_digit());
        number.parse().ok().filter(|_| digits)
    }

    /// Creates a segment of `bytes` zeros and makes its name durable. Leaves nothing behind if that fails.
    pub fn create(&self, segment: u32, bytes: u64) -> io::Result<SegmentFile> {
        let path = self.path(segment);
        let created = self.create_at(&path, segment, bytes);
        // A file that was there before is somebody's, and stays.
        if created.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists) {
            let _ = std::fs::remove_file(&path);
        }
        created
    }

    /// Gives up what lies behind `keep` bytes of a segment. It only gives space back: the cut in the next segment's
    /// start is what counts, so an error changes nothing.
    pub fn abandon(&self, segment: &SegmentFile, keep: u64) {
        let _ = match keep {
            0 => std::fs::remove_file(self.path(segment.number)),
            _ => segment.file.set_len(keep),
        };
    }

    fn create_at(&self, path: &Path, number: u32, bytes: u64) -> io::Result<SegmentFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // Without preallocation the log still works; the file system then allocates with each write.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes)?,
            Err(error) => return Err(error.into()),
        }
        sync_folder(&self.folder)?;
        Ok(match open_direct(path, &file) {
            Ok((file, alignment)) => SegmentFile { number, file, direct: true, alignment, reason: None },
            Err(reason) => SegmentFile { number, file, direct: false, alignment: SECTOR_BYTES, reason: Some(reason) },
        })
    }
}

/// Opens the file once more with O_DIRECT, if the file system can do that with page-aligned memory.
fn open_direct(path: &Path, file: &File) -> Result<(File, usize), String> {
    let alignment = match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let (memory, offset) = (stat.stx_dio_mem_align as usize, stat.stx_dio_offset_align as usize);
            if offset == 0 || memory > PAGE_BYTES || offset > PAGE_BYTES || !offset.is_power_of_two() {
                return Err(format!("direct writes are not possible here (alignment {offset} of {memory})"));
            }
            offset.max(SECTOR_BYTES)
        }
        _ => PAGE_BYTES,
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path)
        .map(|file| (file, alignment))
        .map_err(|error| format!("direct writes are refused: {error}"))
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_segments() {
        assert_eq!(SegmentFolder::number("0000000012.log"), Some(12));
        for other in ["12.log", "0000000012.tmp", "+000000012.log", "9999999999.log", ".log", "manifest"] {
            assert_eq!(SegmentFolder::number(other), None, "{other}");
        }
    }

    #[test]
    fn a_segment_is_created_whole_once_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let segments = SegmentFolder::new(folder.path().to_owned());
        let segment = segments.create(3, 1 << 16).unwrap();
        assert_eq!(segment.file.metadata().unwrap().len(), 1 << 16);
        assert_eq!(segments.create(3, 1 << 16).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(segments.path(3).exists());
    }

    #[test]
    fn a_creation_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let segments = SegmentFolder::new(folder.path().to_owned());
        assert!(segments.create(3, 1 << 60).is_err(), "larger than any disk");
        assert!(!segments.path(3).exists());
    }
}
