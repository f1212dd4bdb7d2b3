//! `isobar checkpoints`: what a store holds. Every job's folder in it is locked while it is looked at.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use isobar::snapshot::{CheckpointLog, CommitRecord, DirectoryStore, OpenOptions, OperatorId, Store};

use crate::arguments::CheckpointsAction;
use crate::failure::Failure;
use crate::table::Table;
use crate::{files, units};

/// A job's log and the folder that it lies in.
struct Opened {
    log: CheckpointLog,
    store: Arc<DirectoryStore>,
}

/// Carries out one of the actions on every job in the store.
pub fn checkpoints(action: CheckpointsAction) -> Result<(), Failure> {
    let dir = match &action {
        CheckpointsAction::List { dir } | CheckpointsAction::Sweep { dir } => dir,
        CheckpointsAction::Show { dir, .. } | CheckpointsAction::Verify { dir, .. } => dir,
    };
    for opened in open(dir)? {
        let log = &opened.log;
        let text = match &action {
            CheckpointsAction::List { .. } => list(log)?,
            CheckpointsAction::Show { id, .. } => show(log, *id)?,
            CheckpointsAction::Verify { id, .. } => verify(log, *id)?,
            CheckpointsAction::Sweep { .. } => sweep(&opened)?,
        };
        files::print(&format!("{} in {}\n{text}", log.manifest().job, dir.display()))?;
    }
    Ok(())
}

/// The log of every job in the store. The jobs' folders are locked as long as they are looked at.
fn open(dir: &Path) -> Result<Vec<Opened>, Failure> {
    let jobs = DirectoryStore::jobs(dir)?;
    if jobs.is_empty() {
        return Err(Failure::Failed(format!("there is no store in {}: check the path", dir.display())));
    }
    let open = |job: &String| {
        let store = Arc::new(DirectoryStore::open(dir, job)?);
        let log = CheckpointLog::open(Arc::clone(&store) as Arc<dyn Store>, &OpenOptions::default())?;
        Ok(Opened { log, store })
    };
    jobs.iter().map(open).collect()
}

fn sweep(opened: &Opened) -> Result<String, Failure> {
    let segments = opened.log.superfluous_segments()?;
    opened.store.remove_segments(&segments)?;
    Ok(match segments.len() {
        0 => "nothing to remove\n".to_string(),
        1 => "1 segment removed\n".to_string(),
        n => format!("{n} segments removed\n"),
    })
}

fn list(log: &CheckpointLog) -> Result<String, Failure> {
    let mut table = Table::new(0, ["checkpoint", "parent", "attempt", "taken (UTC)", "bytes"]);
    for checkpoint in log.checkpoints() {
        let commit = log.commit(checkpoint)?;
        table.row([
            checkpoint.to_string(),
            commit.parent.to_string(),
            commit.attempt.to_string(),
            utc(commit.wall_clock_ns),
            units::bytes(block_bytes(&commit)),
        ]);
    }
    let mut text = table.to_string();
    if let Some(torn) = log.torn_tail() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "checkpoint {} was being written when the process died and is no more", torn.checkpoint);
    }
    Ok(text)
}

fn show(log: &CheckpointLog, id: Option<u64>) -> Result<String, Failure> {
    let last = log.last();
    let id = id.or(last).ok_or_else(|| Failure::Failed("the store holds no complete checkpoint yet".to_string()))?;
    let commit = log.commit(id)?;
    let manifest = log.manifest();
    let names: BTreeMap<OperatorId, &str> = manifest.operators.iter().map(|o| (o.id, o.name.as_str())).collect();
    let mut text = format!(
        "checkpoint {id} of attempt {}, after {}, taken {}, {} in {} blocks, {} key groups\n",
        commit.attempt,
        commit.parent,
        utc(commit.wall_clock_ns),
        units::bytes(block_bytes(&commit)),
        commit.blocks.len(),
        manifest.max_parallelism,
    );
    for (name, value) in &manifest.input {
        let _ = writeln!(text, "input {name} {value}");
    }
    let headings =
        ["operator", "subtask", "position", "ended", "start delay", "t_align", "sync", "dirty pages", "copied"];
    let mut table = Table::new(1, headings);
    for part in &commit.subtasks {
        let times = &part.times;
        table.row([
            names.get(&part.operator).map_or_else(|| format!("{:016x}", part.operator.0), |name| (*name).to_string()),
            part.subtask.to_string(),
            part.position.map_or(String::new(), units::count),
            if part.finished { "yes" } else { "no" }.to_string(),
            units::duration(times.start_delay_ns),
            units::duration(times.t_align_ns),
            units::duration(times.sync_ns),
            units::count(times.dirty_pages),
            units::count(times.copied_pages),
        ]);
    }
    Ok(text + &table.to_string())
}

fn verify(log: &CheckpointLog, id: Option<u64>) -> Result<String, Failure> {
    let mut text = String::new();
    // The last one needs everything that the earlier ones need, but for what compaction keeps apart.
    let ids: Vec<u64> = id.map_or_else(|| log.last().into_iter().collect(), |id| vec![id]);
    for id in ids {
        log.verify(id)?;
        let _ = writeln!(text, "checkpoint {id} and all that it needs are intact");
    }
    if text.is_empty() {
        text.push_str("no complete checkpoint yet\n");
    }
    Ok(text)
}

fn block_bytes(commit: &CommitRecord) -> u64 {
    commit.blocks.iter().map(|block| u64::from(block.body_len)).sum()
}

/// A wall-clock time in ns since the Unix epoch as `2026-01-31 12:34:56.789`.
fn utc(ns: u64) -> String {
    let (seconds, millis) = (ns / 1_000_000_000, ns / 1_000_000 % 1_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// Year, month and day of a day since the Unix epoch, in the Gregorian calendar; after Howard Hinnant's
/// `civil_from_days`, whose year begins in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_off_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc(951_782_399_999_000_000), "2000-02-28 23:59:59.999");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00.000");
        assert_eq!(utc(1_798_761_600_000_000_000), "2027-01-01 00:00:00.000");
    }
}
