//! The cores that this process may run on, and pinning a thread to one of them.

use std::sync::OnceLock;

use thiserror::Error;

/// A thread cannot be put where it should run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoreError {
    /// The core does not exist, or the process may not use it.
    #[error("core {core} cannot be used: this process may run on {}; choose among these", list(.available))]
    Unavailable {
        /// The core that was asked for.
        core: usize,
        /// Those there are.
        available: Vec<usize>,
    },
    /// The kernel refused to pin the thread.
    #[error("the thread could not be pinned to core {core}: the kernel refused; check the process's cpuset")]
    Refused {
        /// The core that was asked for.
        core: usize,
    },
}

fn list(cores: &[usize]) -> String {
    let mut text = if cores.len() == 1 { "core".to_string() } else { "cores".to_string() };
    for (n, core) in cores.iter().enumerate() {
        text += if n == 0 { " " } else { ", " };
        text += &core.to_string();
    }
    text
}

/// The ids of the cores that this process may run on, ascending, as they were at the first call. Call it once before any
/// thread is pinned: a pinned thread sees its own core alone, and so do the threads that it starts.
pub fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(|| {
        let mut cores: Vec<_> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
        cores.sort_unstable();
        cores
    })
}

/// Pins the calling thread to a core.
///
/// # Errors
/// [`CoreError`] if `core` is not one of [`cores`], or if the kernel refuses.
pub fn pin_to(core: usize) -> Result<(), CoreError> {
    if !cores().contains(&core) {
        return Err(CoreError::Unavailable { core, available: cores().to_vec() });
    }
    if core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        Ok(())
    } else {
        Err(CoreError::Refused { core })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_does_not_exist_is_an_error_that_names_those_that_do() {
        let first = cores()[0];
        let error = pin_to(100_000).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("core 100000") && text.contains(&first.to_string()), "{text}");
        assert_eq!(list(&[3]), "core 3");
        assert_eq!(list(&[0, 2]), "cores 0, 2");
    }

    #[test]
    fn the_list_stays_whole_when_a_thread_is_pinned() {
        let before = cores().len();
        let seen = std::thread::spawn(|| {
            pin_to(cores()[0]).unwrap();
            cores().len()
        });
        assert_eq!(seen.join().unwrap(), before);
    }
}
