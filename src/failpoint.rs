//! Named points at which a test can kill the process, so that a crash loop reaches every step that matters.
//!
//! A point is armed from outside by the environment variable `ISOBAR_FAILPOINT=name[:nth]`: the process kills itself
//! with SIGKILL when the point is hit for the nth time (default: the first). Inside a test, [`inject`] makes the nth
//! hit on the calling thread return an error instead. No point lies on the record path; an unarmed one costs two
//! loads.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that arms a point.
pub const VARIABLE: &str = "ISOBAR_FAILPOINT";

macro_rules! failpoints {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A step at which a crash or an error can be injected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Failpoint { $($(#[$doc])* $variant,)+ }

        impl Failpoint {
            /// Every point.
            pub const ALL: &[Failpoint] = &[$(Failpoint::$variant),+];

            /// The name that [`VARIABLE`] takes.
            pub const fn name(self) -> &'static str {
                match self { $(Failpoint::$variant => $name),+ }
            }
        }

        /// The names of all points, in the order of [`Failpoint::ALL`]: what a crash loop has to go through.
        pub const NAMES: &[&str] = &[$($name),+];
    };
}

failpoints! {
    /// A gathered write to the checkpoint log is about to be submitted.
    BeforeAppend = "before_append",
    /// A gathered write to the checkpoint log has completed; it is not durable yet.
    AfterAppend = "after_append",
    /// The checkpoint log is about to be made durable.
    BeforeFdatasync = "before_fdatasync",
    /// The checkpoint log is durable; nobody has been told.
    AfterFdatasync = "after_fdatasync",
    /// The new manifest lies beside the old one, durable, not renamed.
    BeforeRename = "before_rename",
    /// The new manifest has been renamed; the folder is not synced.
    AfterRename = "after_rename",
    /// A delta block is about to be applied in a restore.
    DuringRestore = "during_restore",
    /// A sink's pending file is filled with zeros, durably; no line is in it.
    SinkAfterPrepare = "sink_after_prepare",
    /// A sink's pending file is about to be made durable.
    SinkBeforeSync = "sink_before_sync",
    /// A sink's pending files are durable; nobody has been told.
    SinkAfterSync = "sink_after_sync",
    /// A checkpoint is complete, and a part is about to get its public name.
    SinkBeforeRename = "sink_before_rename",
    /// A part has its public name; the folder is not synced.
    SinkAfterRename = "sink_after_rename",
}

impl Failpoint {
    /// The point of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Failpoint> {
        Failpoint::ALL.iter().copied().find(|point| point.name() == name)
    }
}

/// What the environment asks for: the point, and the hits that are left until the process dies.
static ARMED: OnceLock<Option<(Failpoint, AtomicU64)>> = OnceLock::new();

thread_local! {
    static INJECTED: Cell<Option<(Failpoint, u64)>> = const { Cell::new(None) };
}

fn armed_by_environment() -> Option<(Failpoint, AtomicU64)> {
    let value = std::env::var(VARIABLE).ok()?;
    match parse(&value) {
        Some((point, nth)) => Some((point, AtomicU64::new(nth))),
        None => {
            eprintln!("{VARIABLE}={value} is ignored: it is not name[:nth] with one of {}", NAMES.join(", "));
            None
        }
    }
}

fn parse(value: &str) -> Option<(Failpoint, u64)> {
    let (name, nth) = match value.split_once(':') {
        Some((name, nth)) => (name, nth.parse().ok().filter(|&n| n > 0)?),
        None => (value, 1),
    };
    Some((Failpoint::from_name(name)?, nth))
}

/// Marks that the program has come to `point`. Does nothing unless it is armed.
///
/// # Errors
/// The error that a test injected with [`inject`].
#[inline]
pub fn hit(point: Failpoint) -> io::Result<()> {
    if let Some((armed, left)) = ARMED.get_or_init(armed_by_environment)
        && *armed == point
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        die();
    }
    match INJECTED.get() {
        Some((armed, 1)) if armed == point => {
            INJECTED.set(None);
            Err(io::Error::other(format!("injected at {}", point.name())))
        }
        Some((armed, left)) if armed == point => {
            INJECTED.set(Some((armed, left - 1)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// SIGKILL leaves no chance to flush or unwind, which is the point.
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// Arms `point` on the calling thread: its `nth` hit (from 1) returns an error. Replaces what was armed there.
pub fn inject(point: Failpoint, nth: u64) {
    INJECTED.set(Some((point, nth.max(1))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_finds_its_point() {
        for (&point, &name) in Failpoint::ALL.iter().zip(NAMES) {
            assert_eq!(Failpoint::from_name(name), Some(point));
        }
        assert_eq!(Failpoint::from_name("nowhere"), None);
    }

    #[test]
    fn the_variable_is_a_name_with_an_optional_count_from_one() {
        assert_eq!(parse("before_rename"), Some((Failpoint::BeforeRename, 1)));
        assert_eq!(parse("after_append:12"), Some((Failpoint::AfterAppend, 12)));
        for bad in ["", "before_rename:", "before_rename:0", "before_rename:x", "nowhere:1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_nth_hit_on_this_thread_fails_once() {
        inject(Failpoint::BeforeAppend, 2);
        assert!(hit(Failpoint::AfterAppend).is_ok());
        assert!(hit(Failpoint::BeforeAppend).is_ok());
        assert!(hit(Failpoint::BeforeAppend).is_err());
        assert!(hit(Failpoint::BeforeAppend).is_ok());
    }
}
