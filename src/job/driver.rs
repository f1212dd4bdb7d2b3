//! The coordinator's thread: it joins the pure coordinator with cores, writer and store.
//!
//! It runs unpinned and sleeps between looks. Nothing here is on the record path.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use crate::checkpoint::{Action, CheckpointConfig, Coordinator, Mode};
use crate::job::attempt::{Attempt, AttemptEnd};
use crate::job::builder::{Job, Plan, Restore, Settings};
use crate::job::error::JobError;
use crate::job::handle::{Link, Outcome, Request};
use crate::job::restore::Opened;
use crate::measure::Clock;
use crate::sync::Arc;

/// What the coordinator's thread begins with.
pub(crate) struct Control {
    pub plan: Arc<Plan>,
    pub settings: Settings,
    pub link: Arc<Link>,
    pub clock: Clock,
}

impl Control {
    pub(crate) fn new(job: Job, link: Arc<Link>) -> Self {
        Self { plan: job.plan, settings: job.settings, link, clock: Clock::new() }
    }
}
