//! What ends the program without success, as one line and an exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a verb did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// Something failed while it was carried out: exit code 1.
    Failed(String),
}

impl Failure {
    /// A failure to `action` (an infinitive) `place`.
    pub fn io(action: &str, place: impl fmt::Display, source: impl fmt::Display) -> Self {
        Self::Failed(format!("cannot {action} {place}: {source}"))
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Failed(text)) = self;
        f.write_str(&one_line(text))
    }
}

/// Whatever an error's text holds, a person gets one line.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A parser's error: its first paragraph, and where to read more.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::Usage("a verb is missing; see --help".to_string());
        }
        let text = error.render().to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default();
        let words = one_line(paragraph.trim_start_matches("error: ")).replace(":; ", ": ");
        Self::Usage(format!("{words}; see --help"))
    }
}

macro_rules! failed {
    ($($error:ty),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        })+
    };
}

failed!(
    isobar::job::JobError,
    isobar::market::BrokenInput,
    isobar::market::InputError,
    isobar::operator::file_sink::FileSinkError,
    isobar::snapshot::LogError,
    isobar::snapshot::StoreError,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_whatever_its_text() {
        assert_eq!(Failure::Failed("a\n\n  b\nc\n".into()).to_string(), "a; b; c");
    }
}
