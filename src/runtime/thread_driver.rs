//! Drives a core loop on a plain thread: where io_uring is refused.

use std::thread;
use std::time::{Duration, Instant};

use crate::runtime::core_loop::{CoreLoop, Turn};
use crate::runtime::idle::{IdleStep, IdleStrategy, Idler};

const HOUSEKEEPING: Duration = Duration::from_millis(1);
const TURNS_BETWEEN_LOOKS: u32 = 64;

/// Turns `core_loop` until it has finished, on the calling thread.
pub(crate) fn drive(mut core_loop: CoreLoop, idle: IdleStrategy) {
    let mut idler = Idler::new(idle);
    let mut housekept = Instant::now();
    let mut turns = 0;
    loop {
        match core_loop.turn() {
            Turn::Finished => return,
            Turn::Busy => idler.reset(),
            Turn::Idle => match idler.step() {
                IdleStep::Spin => std::hint::spin_loop(),
                IdleStep::Yield => thread::yield_now(),
                IdleStep::Park(time) => {
                    thread::sleep(time);
                    turns = TURNS_BETWEEN_LOOKS;
                }
            },
        }
        turns += 1;
        if turns >= TURNS_BETWEEN_LOOKS {
            turns = 0;
            if housekept.elapsed() >= HOUSEKEEPING {
                core_loop.housekeeping();
                housekept = Instant::now();
            }
        }
    }
}
