use std::fmt;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    #[default]
    Default,
    /// The settings file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
    },
    /// A `.env` file.
    DotEnv {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
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
        /// The flag, such as `--timeout`.
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
