//! Drives a core loop on a glommio executor: the only module that knows glommio.
//!
//! Two task queues share the executor: the record path, one task that turns the loop and yields when its time is up,
//! and housekeeping, woken by a timer once a millisecond.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use glommio::timer::sleep;
use glommio::{Latency, LocalExecutor, LocalExecutorBuilder, Placement, Shares, executor, spawn_local_into};

use crate::runtime::core_loop::{CoreLoop, Turn};
use crate::runtime::idle::{IdleStep, IdleStrategy, Idler};

const HOUSEKEEPING: Duration = Duration::from_millis(1);
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
pub(crate) fn drive(local: &LocalExecutor, make: impl FnOnce() -> CoreLoop, idle: IdleStrategy) {
    local.run(async {
        let records = executor().create_task_queue(Shares::Static(1000), Latency::Matters(HOUSEKEEPING), "records");
        let housekeeping = executor().create_task_queue(Shares::Static(50), Latency::NotImportant, "housekeeping");
        let core_loop = Rc::new(RefCell::new(make()));
        let finished = Rc::new(Cell::new(false));
        let spawned = (
            spawn_local_into(turn(Rc::clone(&core_loop), Rc::clone(&finished), idle), records),
            spawn_local_into(keep_house(core_loop, finished), housekeeping),
        );
        // Both queues were created two lines up, so both spawns succeed; without the record task there is no core.
        if let (Ok(records), Ok(housekeeping)) = spawned {
            records.await;
            housekeeping.await;
        }
    });
}

async fn turn(core_loop: Rc<RefCell<CoreLoop>>, finished: Rc<Cell<bool>>, idle: IdleStrategy) {
    let mut idler = Idler::new(idle);
    loop {
        let turn = core_loop.borrow_mut().turn();
        match turn {
            Turn::Finished => break,
            Turn::Busy => idler.reset(),
            Turn::Idle => match idler.step() {
                IdleStep::Spin => std::hint::spin_loop(),
                IdleStep::Yield => std::thread::yield_now(),
                IdleStep::Park(time) => sleep(time).await,
            },
        }
        executor().yield_if_needed().await;
    }
    finished.set(true);
}

async fn keep_house(core_loop: Rc<RefCell<CoreLoop>>, finished: Rc<Cell<bool>>) {
    while !finished.get() {
        core_loop.borrow_mut().housekeeping();
        sleep(HOUSEKEEPING).await;
    }
}
