//! Drives a core loop on a glommio executor: the only module that knows glommio.
//!
//! Two task queues share the executor: the record path, one task that turns the loop and yields when its time is up,
//! and housekeeping, woken by the coordinator's [`Pulse`] once a millisecond.
//!
//! There are no glommio timers here, and an idle core sleeps in the record task. glommio 0.9 parks without a look at
//! its queues when its preemption timer fires between its poll for I/O and its first task
//! (`LocalExecutor::run_task_queues` then says that nothing ran); a timer that has fired and made its task runnable is
//! no longer there to end the sleep. Seen here: one job in some 200 of a few milliseconds each stood still for ever.
//! The pulse comes from outside, so it ends any such sleep within a millisecond or two.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use glommio::{Latency, LocalExecutor, LocalExecutorBuilder, Placement, Shares, executor, spawn_local_into};

use crate::runtime::core_loop::{CoreLoop, Turn};
use crate::runtime::idle::{IdleStep, IdleStrategy, Idler};
use crate::runtime::pulse::Pulse;

/// How long the record path may run before the executor looks at its other queue.
const RECORDS_SLICE: Duration = Duration::from_millis(2);
/// Bytes that an executor registers with its ring; nothing here reads or writes through registered buffers.
const IO_MEMORY: usize = 64 << 10;
const RING_DEPTH: usize = 16;

/// Makes the calling thread's executor, pinned to `cpu`. Fails where io_uring is refused.
pub(crate) fn executor_on(cpu: usize) -> io::Result<LocalExecutor> {
    LocalExecutorBuilder::new(Placement::Fixed(cpu))
        .name("isobar")
        .io_memory(IO_MEMORY)
        .ring_depth(RING_DEPTH)
        .make()
        .map_err(io::Error::from)
}

/// Turns the loop that `make` builds until it has finished.
pub(crate) fn drive(local: &LocalExecutor, make: impl FnOnce() -> CoreLoop, idle: IdleStrategy, pulse: Pulse) {
    local.run(async {
        let records = executor().create_task_queue(Shares::Static(1000), Latency::Matters(RECORDS_SLICE), "records");
        let housekeeping = executor().create_task_queue(Shares::Static(50), Latency::NotImportant, "housekeeping");
        let core_loop = Rc::new(RefCell::new(make()));
        let spawned = (
            spawn_local_into(turn(Rc::clone(&core_loop), idle), records),
            spawn_local_into(keep_house(core_loop, pulse.clone()), housekeeping),
        );
        // Both queues were created two lines up, so both spawns succeed; without the record task there is no core.
        if let (Ok(records), Ok(housekeeping)) = spawned {
            records.await;
            housekeeping.cancel().await;
            pulse.stop();
        }
    });
}

async fn turn(core_loop: Rc<RefCell<CoreLoop>>, idle: IdleStrategy) {
    let mut idler = Idler::new(idle);
    loop {
        let turn = core_loop.borrow_mut().turn();
        match turn {
            Turn::Finished => return,
            Turn::Busy => idler.reset(),
            Turn::Idle => match idler.step() {
                IdleStep::Spin => std::hint::spin_loop(),
                IdleStep::Yield => std::thread::yield_now(),
                IdleStep::Park(time) => std::thread::sleep(time),
            },
        }
        executor().yield_if_needed().await;
    }
}

async fn keep_house(core_loop: Rc<RefCell<CoreLoop>>, pulse: Pulse) {
    loop {
        pulse.felt().await;
        core_loop.borrow_mut().housekeeping();
    }
}
