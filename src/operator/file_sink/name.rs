//! The names of the files in an output folder.

use std::fmt;

/// A file that a sink made, by its name. Whatever does not parse is somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FileName {
    /// `part-<subtask>-<checkpoint>.csv`: public output.
    Part { subtask: u32, checkpoint: u64 },
    /// `.part-<subtask>-<sequence>.pending`: lines that are not public yet. Sequences of one folder never repeat
    /// within a run.
    Pending { subtask: u32, sequence: u64 },
    /// `.part-<subtask>-<checkpoint>.discarded`: a part that was taken back.
    Discarded { subtask: u32, checkpoint: u64 },
}

impl FileName {
    pub fn parse(name: &str) -> Option<Self> {
        let numbers = |text: &str| -> Option<(u32, u64)> {
            let (subtask, other) = text.split_once('-')?;
            Some((u32::try_from(decimal(subtask)?).ok()?, decimal(other)?))
        };
        if let Some(rest) = name.strip_prefix("part-") {
            let (subtask, checkpoint) = numbers(rest.strip_suffix(".csv")?)?;
            return Some(Self::Part { subtask, checkpoint });
        }
        let rest = name.strip_prefix(".part-")?;
        if let Some(rest) = rest.strip_suffix(".pending") {
            let (subtask, sequence) = numbers(rest)?;
            return Some(Self::Pending { subtask, sequence });
        }
        let (subtask, checkpoint) = numbers(rest.strip_suffix(".discarded")?)?;
        Some(Self::Discarded { subtask, checkpoint })
    }
}

/// A decimal number exactly as this module prints it: no sign, no leading zero.
fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    if canonical { text.parse().ok() } else { None }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part { subtask, checkpoint } => write!(f, "part-{subtask}-{checkpoint}.csv"),
            Self::Pending { subtask, sequence } => write!(f, ".part-{subtask}-{sequence}.pending"),
            Self::Discarded { subtask, checkpoint } => write!(f, ".part-{subtask}-{checkpoint}.discarded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_round_trip() {
        for name in [
            FileName::Part { subtask: 0, checkpoint: u64::MAX },
            FileName::Pending { subtask: u32::MAX, sequence: 0 },
            FileName::Discarded { subtask: 7, checkpoint: 12 },
        ] {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
    }

    #[test]
    fn names_that_are_nearly_ours_are_somebody_elses() {
        for name in [
            "part-0-1.csv.gz",
            "part-0-01.csv",
            "part-00-1.csv",
            "part-+0-1.csv",
            "part-0-.csv",
            "part--1.csv",
            "part-0-1",
            "part-4294967296-1.csv",
            "part-0-18446744073709551616.csv",
            ".part-0-1.csv",
            ".part-0-1.pending~",
            "part-0-1-2.csv",
            "summary.csv",
            "",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
