//! A heartbeat from the coordinator's thread to a core: wakes the core's housekeeping, and with it an executor that has
//! gone to sleep with work to do.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

use crate::sync::{Arc, AtomicBool, Ordering};

#[derive(Debug, Default)]
struct Shared {
    beat: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Both ends of a heartbeat; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<Shared>);

impl Pulse {
    /// Wakes whoever waits. Cheap where the other side is awake; never blocks for long.
    pub(crate) fn beat(&self) {
        self.0.beat.store(true, Ordering::Release);
        // The waker stays: the task that it wakes may be runnable already, in an executor that sleeps all the same.
        if let Some(waker) = &*self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// Lets go of whoever waited: their executor ends.
    pub(crate) fn stop(&self) {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Waits for the next beat; one that came since the last wait counts.
    pub(crate) async fn felt(&self) {
        poll_fn(|cx| {
            // The waker is in place before the flag is looked at, so a beat in between is not missed.
            *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            if self.0.beat.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    #[test]
    fn a_beat_is_felt_once_whether_it_came_before_or_during_the_wait() {
        let pulse = Pulse::default();
        let mut cx = Context::from_waker(Waker::noop());
        pulse.beat();
        assert!(std::pin::pin!(pulse.felt()).poll(&mut cx).is_ready());
        let mut waiting = std::pin::pin!(pulse.felt());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        pulse.beat();
        assert!(waiting.poll(&mut cx).is_ready());
    }
}
