//! The checkpointing policies, under Flink's names.

use std::time::Duration;

use thiserror::Error;

use super::AlignmentMode;

/// When checkpoints are taken, how long one may last, how many are kept, and how many may fail.
///
/// ```
/// use isobar::checkpoint::CheckpointConfig;
/// use std::time::Duration;
///
/// assert!(!CheckpointConfig::default().is_on());
/// let config = CheckpointConfig { retained: 3, ..CheckpointConfig::every(Duration::from_millis(10)) };
/// assert!(config.is_on() && config.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// From one periodic trigger to the next. `None`, the default, turns checkpointing off. For checkpoints on request
    /// alone give `Duration::MAX`: the end of a bounded input and a stop still take theirs.
    pub interval: Option<Duration>,
    /// What a snapshot promises about records behind the barrier. Default: exactly-once.
    pub mode: AlignmentMode,
    /// A checkpoint that has not got all its acknowledgements this long after its trigger fails. Default: 10 minutes, as in
    /// Flink. The writer's part is not subject to it: a commit record on its way to the disk cannot be called back.
    pub timeout: Duration,
    /// The least time from the end of a checkpoint, completed or not, to the next periodic trigger. Default: none. Above
    /// zero it implies that checkpoints run one at a time, as in Flink.
    pub min_pause: Duration,
    /// The most checkpoints in flight at once, those that wait for the writer included. Default: 1.
    pub max_concurrent: usize,
    /// How many complete checkpoints are kept. Default: 1.
    pub retained: usize,
    /// How many checkpoints in a row may fail; one more fails the job. Default: 100. (Flink's is 0. Here a checkpoint costs
    /// little and comes often, and a failed one takes nothing with it; but without any limit a bounded job whose disk
    /// stays full would never end.) A completed checkpoint starts the count again. Checkpoints that were aborted
    /// or declined for reasons that pass by themselves do not count, see [`AbortReason`](super::AbortReason).
    pub tolerable_failures: u32,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            interval: None,
            mode: AlignmentMode::ExactlyOnce,
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            max_concurrent: 1,
            retained: 1,
            tolerable_failures: 100,
        }
    }
}

impl CheckpointConfig {
    /// The defaults with a checkpoint every `interval`.
    pub fn every(interval: Duration) -> Self {
        Self { interval: Some(interval), ..Self::default() }
    }

    /// Whether checkpoints are taken at all.
    pub fn is_on(&self) -> bool {
        self.interval.is_some()
    }

    /// Refuses values with which no checkpoint could ever complete or be kept.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("interval", self.interval.is_none_or(|interval| !interval.is_zero())),
            ("timeout", !self.timeout.is_zero()),
            ("max_concurrent", self.max_concurrent > 0),
            ("retained", self.retained > 0),
        ];
        match positive.into_iter().find(|(_, is_positive)| !is_positive) {
            Some((setting, _)) => Err(ConfigError { setting }),
            None => Ok(()),
        }
    }

    /// The most checkpoints in flight that `max_concurrent` and `min_pause` together allow.
    pub fn in_flight_max(&self) -> usize {
        if self.min_pause.is_zero() { self.max_concurrent } else { 1 }
    }
}

/// A checkpointing setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "checkpoint {setting} is 0, so no checkpoint could be taken or kept; give a value above 0 (no interval turns checkpointing off)"
)]
pub struct ConfigError {
    /// The setting's name.
    pub setting: &'static str,
}

/// A duration in ns, `u64::MAX` (584 years: never) if it does not fit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpointing_is_off_by_default_and_zeros_are_refused() {
        let on = CheckpointConfig::every(Duration::from_millis(10));
        assert!(CheckpointConfig::default().validate().is_ok());
        assert!(on.validate().is_ok());
        let refused = [
            CheckpointConfig { interval: Some(Duration::ZERO), ..on.clone() },
            CheckpointConfig { timeout: Duration::ZERO, ..on.clone() },
            CheckpointConfig { max_concurrent: 0, ..on.clone() },
            CheckpointConfig { retained: 0, ..on.clone() },
        ];
        let settings = refused.map(|config| config.validate().map_err(|error| error.setting));
        assert_eq!(settings, [Err("interval"), Err("timeout"), Err("max_concurrent"), Err("retained")]);
    }

    #[test]
    fn a_pause_implies_one_checkpoint_at_a_time() {
        let config = CheckpointConfig { max_concurrent: 3, ..CheckpointConfig::every(Duration::from_millis(10)) };
        assert_eq!(config.in_flight_max(), 3);
        assert_eq!(CheckpointConfig { min_pause: Duration::from_nanos(1), ..config }.in_flight_max(), 1);
    }

    #[test]
    fn a_duration_beyond_u64_nanoseconds_is_never() {
        assert_eq!(nanos(Duration::MAX), u64::MAX);
        assert_eq!(nanos(Duration::from_micros(3)), 3_000);
    }
}
