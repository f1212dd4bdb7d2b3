//! SIGINT and SIGTERM: the first asks for an orderly stop, the second ends the process at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::files;

/// Whether a stop has been asked for.
#[derive(Clone)]
pub struct Signals {
    stop: Arc<AtomicBool>,
}

impl Signals {
    /// Takes the signals over. At the second one `temporary` is removed before the process ends.
    pub fn install(temporary: Option<PathBuf>) -> Result<Self, Failure> {
        let refused = |error| Failure::io("listen to", "SIGINT and SIGTERM", error);
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let listen = move || {
            for _ in signals.forever() {
                if !asked.swap(true, Ordering::Relaxed) {
                    continue;
                }
                if let Some(folder) = &temporary {
                    // Best effort: the user wants it over.
                    let _ = std::fs::remove_dir_all(folder);
                }
                files::print_error("isobar: stopped at once by a second signal\n");
                std::process::exit(1);
            }
        };
        thread::Builder::new().name("isobar-signals".to_string()).spawn(listen).map_err(refused)?;
        Ok(Self { stop })
    }

    pub fn stop_asked(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
