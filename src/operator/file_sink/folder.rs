//! The file operations that the sink needs, so that tests can put a failing disk in their place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// One flat folder of files.
pub(super) trait Folder: Send + Sync + 'static {
    /// Where it is, for messages.
    fn path(&self) -> &Path;

    /// Names and lengths of all files, in any order.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// A new file to be written from its beginning on; an existing one is an error. The first `prepared` bytes are
    /// written with zeros and made durable, so that overwriting them changes nothing that a file system journals: ext4
    /// commits its whole journal for the fsync of a file that grows, which takes hundreds of ms when others write.
    fn create(&self, name: &str, prepared: u64) -> io::Result<Box<dyn AppendFile>>;

    /// Feeds a file's bytes to `take`, piece by piece.
    fn read(&self, name: &str, take: &mut dyn FnMut(&[u8])) -> io::Result<()>;

    /// Cuts a file to `bytes` and makes that durable.
    fn cut(&self, name: &str, bytes: u64) -> io::Result<()>;

    /// Renames a file; an existing `to` is an error.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Renames a file over an existing one.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file that is written from its beginning to its end.
pub(super) trait AppendFile: Send {
    /// Writes all of `data` behind what was written before.
    fn append(&mut self, data: &[u8]) -> io::Result<()>;

    /// Makes the file's bytes durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of the file system.
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The folder at `path`, made where it is missing.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self { path: path.to_path_buf() })
    }
}

impl AppendFile for File {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.write_all(data)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes zeros, durably, and goes back to the beginning.
fn prepare(file: &mut File, bytes: u64) -> io::Result<()> {
    if bytes > 0 {
        io::copy(&mut io::repeat(0).take(bytes), file)?;
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(())
}

/// Read at a time.
const CHUNK_BYTES: usize = 1 << 18;

impl Folder for Directory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // A name that is not UTF-8 is not ours; neither is a folder or a link.
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() => files.push((name, metadata.len())),
                // Another subtask has renamed or removed it since: then it concerns that subtask alone.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(files)
    }

    fn create(&self, name: &str, prepared: u64) -> io::Result<Box<dyn AppendFile>> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.path.join(name))?;
        prepare(&mut file, prepared)?;
        Ok(Box::new(file))
    }

    fn read(&self, name: &str, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut file = File::open(self.path.join(name))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => take(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.set_len(bytes)?;
        file.sync_all()
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let (from, to) = (self.path.join(from), self.path.join(to));
        match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            // Some file systems cannot refuse to replace; nobody else makes files of our names.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => match fs::symlink_metadata(&to) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(&from, &to),
            },
            done => Ok(done?),
        }
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
