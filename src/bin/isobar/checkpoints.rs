//! `isobar checkpoints`: what a store holds.

use std::path::Path;
use std::sync::Arc;

use isobar::snapshot::{CheckpointLog, CommitRecord, DirectoryStore, LogError, OpenOptions, PhaseTimes};

use crate::Failure;
use crate::args::{CheckpointsArgs, CheckpointsVerb};
use crate::table::{bytes, time};

pub fn checkpoints(args: &CheckpointsArgs) -> Result<(), Failure> {
    match &args.verb {
        CheckpointsVerb::List { dir } => {
            for log in open(dir)? {
                list(&log)?;
            }
        }
        CheckpointsVerb::Show { dir, id } => {
            for log in open(dir)? {
                show(&log, &log.commit(chosen(&log, *id)?)?);
            }
        }
        CheckpointsVerb::Verify { dir, id } => {
            for log in open(dir)? {
                let commit = log.verify(chosen(&log, *id)?)?;
                println!("checkpoint {} of {} is whole", commit.checkpoint, log.store().place());
            }
        }
    }
    Ok(())
}

/// The logs of all jobs in the folder. Each is locked while it is looked at.
fn open(dir: &Path) -> Result<Vec<CheckpointLog>, Failure> {
    let jobs = DirectoryStore::jobs(dir)?;
    if jobs.is_empty() {
        return Err(format!("there is no store in {}: check the path", dir.display()).into());
    }
    let open = |job: &String| -> Result<_, LogError> {
        CheckpointLog::open(Arc::new(DirectoryStore::open(dir, job)?), &OpenOptions::default())
    };
    Ok(jobs.iter().map(open).collect::<Result<_, _>>()?)
}

fn chosen(log: &CheckpointLog, id: Option<u64>) -> Result<u64, Failure> {
    let last = || log.last().ok_or_else(|| format!("{} holds no complete checkpoint yet", log.store().place()));
    Ok(id.map_or_else(last, Ok)?)
}

fn list(log: &CheckpointLog) -> Result<(), LogError> {
    println!("{}", log.store().place());
    println!("{:>12} {:>9} {:>12} {:>12} {:>12}", "checkpoint", "attempt", "blocks", "bytes", "sync max");
    for id in log.checkpoints() {
        let commit = log.commit(id)?;
        let size: u64 = commit.blocks.iter().map(|block| u64::from(block.body_len)).sum();
        let sync = commit.subtasks.iter().map(|part| part.times.sync_ns).max().unwrap_or(0);
        let (blocks, size, sync) = (commit.blocks.len(), bytes(size), time(sync));
        println!("{id:>12} {:>9} {blocks:>12} {size:>12} {sync:>12}", commit.attempt);
    }
    Ok(())
}

fn show(log: &CheckpointLog, commit: &CommitRecord) {
    println!("checkpoint {} of {}, attempt {}", commit.checkpoint, log.store().place(), commit.attempt);
    println!(
        "{:<20}{:>8}{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}  position",
        "operator", "subtask", "dirty", "copied", "bytes", "t_align", "sync", "async"
    );
    for part in &commit.subtasks {
        let name = log.manifest().operators.iter().find(|operator| operator.id == part.operator);
        let name = name.map_or_else(|| part.operator.to_string(), |operator| operator.name.clone());
        let position = part.position.map_or_else(|| "-".to_string(), |position| position.to_string());
        let PhaseTimes { dirty_pages, copied_pages, t_align_ns, sync_ns, async_ns, .. } = part.times;
        println!(
            "{name:<20}{:>8}{dirty_pages:>10}{copied_pages:>10}{:>12}{:>12}{:>12}{:>12}  {position}",
            part.subtask,
            bytes(part.times.bytes),
            time(t_align_ns),
            time(sync_ns),
            time(async_ns)
        );
    }
}
