use coracle_sandbox::{MOST_PRELOADED, PythonError};
use coracle_store::EnvironmentError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Error of an operation on the packages of sandboxes.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A text does not name a package.
    #[error("{text:?} is not a package: {reason}")]
    Requirement {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A package cannot be removed, because it was not added.
    #[error("{name} was not added to the environment")]
    NotAdded {
        /// Name of the package.
        name: String,
        /// Requirements file of the settings, if any.
        requirements: Option<PathBuf>,
    },
    /// The requirements file of the settings cannot be read.
    #[error("execution.requirements: {}: {error}", path.display())]
    RequirementsFile {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A module to import in advance has an invalid name.
    #[error("execution.preload: {0:?} is not a module name")]
    ModuleName(String),
    /// There are too many modules to import in advance.
    #[error("execution.preload: {0} modules: at most {MOST_PRELOADED}")]
    TooManyModules(usize),
    /// An environment cannot be read, created or removed.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// There is no usable interpreter.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// A file or folder cannot be accessed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// There is no program that installs packages.
    #[error(
        "there is neither uv on PATH nor pip for {}\nhint: install uv, or on Debian and Ubuntu python3-pip: {cause}",
        python.display()
    )]
    NoInstaller {
        /// Interpreter without pip.
        python: PathBuf,
        /// Why pip cannot be added to it.
        cause: Box<Self>,
    },
    /// A program cannot be run.
    #[error("cannot {act} {}: {error}", program.display())]
    Program {
        /// What failed: `start` or `wait for`.
        act: &'static str,
        /// The program.
        program: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A program failed.
    #[error("{} failed ({status}):\n{output}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// Its last output.
        output: String,
    },
    /// The report of pip is invalid.
    #[error("cannot read the report of pip: {0}")]
    Report(serde_json::Error),
    /// An installed package must change, which pip does not do in a target folder.
    #[error("an installed package must change")]
    Conflict,
    /// The installer failed.
    #[error("cannot install the packages; the environment is unchanged: {cause}")]
    Refused {
        /// Why it failed.
        cause: Box<Self>,
        /// How to fix it, if known.
        hint: Option<&'static str>,
    },
}

impl PackageError {
    /// How to fix it, if known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Requirement { .. } => {
                "use pip's syntax: polars, 'polars>=1,<2', 'httpx[http2]', 'name @ https://…/name.whl'"
            }
            Self::NotAdded { requirements: Some(file), .. } => {
                return Some(format!(
                    "remove packages listed in {} from that file; packages that others depend on stay",
                    file.display()
                ));
            }
            Self::NotAdded { requirements: None, .. } => {
                "`coracle env list` shows the added packages; packages that others depend on stay"
            }
            Self::RequirementsFile { .. } => {
                "use a file for pip's -r; without this setting the default packages are installed"
            }
            Self::ModuleName(_) => "use names as in `import`, such as pandas or matplotlib.pyplot",
            Self::Environment(EnvironmentError::Busy) => "wait for the other `coracle env` to finish, and try again",
            Self::Environment(EnvironmentError::InUse(_)) => {
                "it is the current environment, or a running server uses it: stop the server first"
            }
            Self::Environment(EnvironmentError::Missing(_)) => "`coracle env list` lists the environments",
            Self::Environment(EnvironmentError::Damaged { .. }) => "remove that file and run `coracle env sync`",
            Self::Refused { hint, .. } => return hint.map(str::to_owned),
            Self::Environment(EnvironmentError::Io { .. })
            | Self::TooManyModules(_)
            | Self::Python(_)
            | Self::Io { .. }
            | Self::NoInstaller { .. }
            | Self::Program { .. }
            | Self::Failed { .. }
            | Self::Report(_)
            | Self::Conflict => return None,
        };
        Some(hint.to_owned())
    }
}

/// Adds the path to an error of the system.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> PackageError {
    let path = path.to_owned();
    |error| PackageError::Io { path, error }
}
