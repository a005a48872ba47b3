use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    Default,
    /// The settings file.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
    },
    /// A file `.env`.
    DotEnv {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// The variable.
        name: String,
    },
    /// The environment.
    Env {
        /// The variable.
        name: String,
    },
    /// The command line.
    Flag {
        /// As it is written there, such as `--timeout`.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::DotEnv { path, line, name } => write!(f, "{}:{line} ({name})", path.display()),
            Self::Env { name } => write!(f, "environment variable {name}"),
            Self::Flag { name } => write!(f, "flag {name}"),
        }
    }
}
