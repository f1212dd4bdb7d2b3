//! The rules behind the coordinator's inputs: what is triggered, committed, completed and given up, and in which order.

use super::*;

impl Coordinator {
    /// Does whatever has become possible. Every input ends here.
    pub(super) fn proceed(&mut self, now_ns: u64) {
        self.expire(now_ns);
        self.commit_next();
        if self.phase == (Phase::Stopping { checkpoint: None }) && self.subtasks.triggerable().next().is_none() {
            self.phase = Phase::Running; // every source has ended by itself: so does the job
        }
        if self.phase == Phase::Running && self.subtasks.triggerable().next().is_none() {
            self.refuse_request(&AbortReason::JobEnded);
        }
        if self.lacks_last_checkpoint() {
            self.schedule.last_is_due(now_ns);
        }
        if self.is_periodic() && self.schedule.note_delay(now_ns, self.is_full()) {
            self.statistics.delayed += 1;
        }
        while let Some(cause) = self.due_cause(now_ns) {
            self.trigger(cause, now_ns);
        }
    }

    pub(super) fn find(&self, checkpoint: u64) -> Option<usize> {
        self.pending.binary_search_by_key(&checkpoint, |pending| pending.checkpoint).ok()
    }

    /// Whether a message comes from this attempt and from a subtask that exists; counts it if not.
    pub(super) fn is_current(&mut self, origin: Origin) -> bool {
        if origin.attempt != self.attempt {
            self.statistics.stale += 1;
            return false;
        }
        if !self.subtasks.contains(origin.subtask) {
            self.statistics.ignored += 1;
            return false;
        }
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= self.config.in_flight_max()
    }

    /// Periodic triggers go off only while records may still come.
    fn is_periodic(&self) -> bool {
        self.config.is_on()
            && self.phase == Phase::Running
            && self.subtasks.sources_in(SubtaskPhase::Running).next().is_some()
    }

    /// Every source waits for the last checkpoint, and none is in flight, due, or to be tried again.
    fn lacks_last_checkpoint(&self) -> bool {
        self.subtasks.await_last_checkpoint()
            && self.schedule.last_ns() == u64::MAX
            && !self.pending.iter().any(|pending| pending.after_data)
    }

    /// When the next trigger is due as far as time alone decides; requests and stops are served without delay.
    pub(super) fn next_trigger_ns(&self) -> u64 {
        if self.is_periodic() {
            self.schedule.periodic_ns()
        } else if self.phase == Phase::Running && self.config.is_on() && self.subtasks.await_last_checkpoint() {
            self.schedule.last_ns()
        } else {
            u64::MAX
        }
    }

    fn due_cause(&self, now_ns: u64) -> Option<Cause> {
        if self.is_full() {
            return None;
        }
        match self.phase {
            Phase::Restoring | Phase::Over | Phase::Stopping { checkpoint: Some(_) } => None,
            Phase::Stopping { checkpoint: None } => Some(Cause::Stop),
            Phase::Running if self.subtasks.triggerable().next().is_none() => None,
            Phase::Running if self.is_requested => Some(Cause::Manual),
            Phase::Running => {
                let due_ns = self.next_trigger_ns();
                let cause = if self.is_periodic() { Cause::Periodic } else { Cause::EndOfData };
                (due_ns != u64::MAX && now_ns >= due_ns).then_some(cause)
            }
        }
    }

    fn trigger(&mut self, cause: Cause, now_ns: u64) {
        let checkpoint = self.next_checkpoint;
        self.next_checkpoint += 1;
        let mut pending = Pending::new(checkpoint, now_ns, self.subtasks.takes_part());
        pending.after_data = self.subtasks.await_last_checkpoint();
        if pending.after_data {
            self.schedule.last_triggered();
        }
        match cause {
            Cause::Periodic => self.schedule.periodic_triggered(now_ns),
            Cause::Stop => self.phase = Phase::Stopping { checkpoint: Some(checkpoint) },
            Cause::Manual | Cause::EndOfData => {}
        }
        self.is_requested = false;
        self.statistics.triggered += 1;
        self.pending.push_back(pending);
        let sources = self.subtasks.triggerable().collect();
        let trigger = Trigger { checkpoint, attempt: self.attempt, trigger_ns: now_ns, cause, sources };
        self.actions.push_back(Action::Trigger(trigger));
    }

    fn expire(&mut self, now_ns: u64) {
        let timeout_ns = self.timeout_ns;
        let has_expired = |pending: &Pending| pending.expiry_ns(timeout_ns).is_some_and(|expiry| now_ns >= expiry);
        while let Some(index) = self.pending.iter().position(has_expired) {
            let missing = self.pending[index].missing();
            self.give_up(index, AbortReason::Expired { missing }, now_ns);
        }
    }

    /// Hands the oldest fully acknowledged checkpoint to the writer. Older ones that still miss something are given up:
    /// it contains all that they would have.
    fn commit_next(&mut self) {
        if self.pending.front().is_some_and(|oldest| oldest.is_committing) {
            return;
        }
        let Some(index) = self.pending.iter().position(|pending| pending.missing() == 0) else { return };
        let Pending { checkpoint, acknowledged_ns, .. } = self.pending[index];
        for _ in 0..index {
            self.give_up(0, AbortReason::Subsumed { by: checkpoint }, acknowledged_ns);
        }
        if let Some(oldest) = self.pending.front_mut() {
            oldest.is_committing = true;
            let mut ended: Vec<usize> = self.subtasks.ended().chain(oldest.last_parts()).collect();
            ended.sort_unstable();
            ended.dedup();
            self.actions.push_back(Action::Commit { checkpoint, ended });
        }
    }

    /// The oldest checkpoint in flight is durable.
    pub(super) fn complete_oldest(&mut self, now_ns: u64) {
        let was_full = self.is_full();
        let Some(done) = self.pending.pop_front() else { return };
        let checkpoint = done.checkpoint;
        self.schedule.checkpoint_ended(now_ns, was_full);
        self.statistics.completed += 1;
        self.failures_in_a_row = 0;
        self.actions.push_back(Action::Completed(Completion {
            checkpoint,
            trigger_ns: done.trigger_ns,
            acknowledged_ns: done.acknowledged_ns,
            durable_ns: now_ns,
        }));
        if matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            self.end_subtasks(&done, now_ns);
        }
        if self.phase == (Phase::Stopping { checkpoint: Some(checkpoint) }) {
            self.finish_stop(checkpoint);
        }
        // A checkpoint that was in doubt may have been read from the store meanwhile.
        if self.retained.back().is_none_or(|&newest| newest < checkpoint) {
            self.retained.push_back(checkpoint);
        }
        while self.retained.len() > self.config.retained {
            let oldest = self.retained.pop_front();
            self.actions.extend(oldest.map(|checkpoint| Action::Retire { checkpoint }));
        }
    }

    /// The last states that were in the checkpoint are safe now: their subtasks may go.
    fn end_subtasks(&mut self, done: &Pending, now_ns: u64) {
        for subtask in done.last_parts() {
            if self.subtasks.advance(subtask, SubtaskPhase::Ended) && self.subtasks.is_source(subtask) {
                self.actions.push_back(Action::SendEnd { subtask });
            }
        }
        self.retry_last_after(done, now_ns);
    }

    /// If every source waits for a last checkpoint, and this one was meant to be it, there will be another.
    fn retry_last_after(&mut self, over: &Pending, now_ns: u64) {
        let is_under_way = self.pending.iter().any(|pending| pending.after_data);
        if over.after_data && !is_under_way && self.subtasks.await_last_checkpoint() {
            self.schedule.retry_last(now_ns);
        }
    }

    fn finish_stop(&mut self, checkpoint: u64) {
        if self.subtasks.triggerable().next().is_some() {
            self.phase = Phase::Over;
            self.actions.push_back(Action::Stop { checkpoint: Some(checkpoint) });
        } else {
            self.phase = Phase::Running; // every source was dry at the barrier: the job ends by itself
        }
    }

    /// The `index`-th checkpoint in flight ends without completing.
    pub(super) fn give_up(&mut self, index: usize, reason: AbortReason, now_ns: u64) {
        let was_full = self.is_full();
        let Some(over) = self.pending.remove(index) else { return };
        let checkpoint = over.checkpoint;
        self.schedule.checkpoint_ended(now_ns, was_full);
        self.actions.push_back(Action::Abort { checkpoint, reason: reason.clone() });
        if self.phase == (Phase::Stopping { checkpoint: Some(checkpoint) }) {
            self.phase = Phase::Running;
            self.actions.push_back(Action::StopFailed { reason: reason.clone() });
        }
        self.retry_last_after(&over, now_ns);
        match reason {
            _ if reason.is_failure() => {
                self.statistics.failed += 1;
                self.failures_in_a_row += 1;
                self.fail_job_if_too_many(checkpoint, reason, now_ns);
            }
            AbortReason::Declined { .. } => self.statistics.declined += 1,
            _ => self.statistics.aborted += 1,
        }
    }

    fn fail_job_if_too_many(&mut self, checkpoint: u64, reason: AbortReason, now_ns: u64) {
        let (failures, tolerable) = (self.failures_in_a_row, self.config.tolerable_failures);
        if failures > tolerable && matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            self.actions.push_back(Action::FailJob(JobFailure { failures, tolerable, checkpoint, reason }));
            self.cancel(now_ns);
        }
    }

    /// Gives up whatever can be: all but the checkpoint that the writer has, requests and stops included.
    pub(super) fn give_up_all(&mut self, reason: &AbortReason, now_ns: u64) {
        self.refuse_request(reason);
        let is_stopping = matches!(self.phase, Phase::Stopping { .. });
        self.phase = Phase::Over; // so that neither a retry nor a failure of the job comes of it
        while let Some(index) = self.pending.iter().position(|pending| !pending.is_committing) {
            self.give_up(index, reason.clone(), now_ns);
        }
        if is_stopping {
            self.actions.push_back(Action::StopFailed { reason: reason.clone() });
        }
    }

    /// A checkpoint that was promised will not be begun: its id is used up, so that who waits for it hears of it.
    pub(super) fn refuse_request(&mut self, reason: &AbortReason) {
        if std::mem::take(&mut self.is_requested) {
            let checkpoint = self.next_checkpoint;
            self.next_checkpoint += 1;
            self.statistics.refused += 1;
            self.actions.push_back(Action::Abort { checkpoint, reason: reason.clone() });
        }
    }

    /// What is newer than the restored checkpoint lies behind the cut: nobody can go back to it any more.
    pub(super) fn go_back_to(&mut self, checkpoint: Option<u64>) {
        let restored = checkpoint.unwrap_or(0);
        let first_lost = self.retained.partition_point(|&kept| kept <= restored);
        let lost = self.retained.drain(first_lost..);
        self.actions.extend(lost.map(|checkpoint| Action::Retire { checkpoint }));
        if let Some(checkpoint) = checkpoint.filter(|checkpoint| self.retained.back() != Some(checkpoint)) {
            self.retained.push_back(checkpoint);
        }
        self.next_checkpoint = self.next_checkpoint.max(restored.saturating_add(1));
    }
}
