//! `coracle env`: the Python packages that sandboxed code can import.
//!
//! `list.rs` prints the contents of an environment, and `bar.rs` the progress while one is created.

mod bar;
mod list;

use crate::output::counted;
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::cancellable;
use bar::Bar;
use clap::{Args, Subcommand};
use coracle_config::Settings;
use coracle_environments::{Builds, PackageError, PythonEnvironments};
use coracle_sandbox::{Environment, Packages};
use coracle_store::{EnvironmentError, Environments, Home};
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EnvArguments {
    #[command(subcommand)]
    command: EnvCommand,
}

const AFTER_HELP: &str = "\
Examples:
  coracle env sync                  install NumPy, pandas and others, or the packages of execution.requirements
  coracle env add 'polars>=1' rich  add packages
  coracle env remove plotly         remove a package
  coracle env list                  list the installed packages and their versions

A running server keeps its environment until it is restarted.";

#[derive(Debug, Subcommand)]
enum EnvCommand {
    /// Rebuild the environment with the newest packages. If that fails, the old environment is kept.
    Sync(SyncArguments),
    /// List the installed packages.
    List(list::ListArguments),
    /// Add packages to the environment, keeping installed versions where possible.
    Add(AddArguments),
    /// Remove packages, or delete an older environment.
    Remove(RemoveArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// Packages in pip's syntax, such as rich or 'polars>=1'.
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<String>,

    #[command(flatten)]
    sync: SyncArguments,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// Names of the packages to remove.
    #[arg(value_name = "PACKAGE", required_unless_present = "environment", conflicts_with = "environment")]
    packages: Vec<String>,

    /// Number of an older environment to delete instead of packages.
    #[arg(long, value_name = "N")]
    environment: Option<u32>,

    #[command(flatten)]
    sync: SyncArguments,
}

#[derive(Debug, Args)]
struct SyncArguments {
    /// Also install packages that must be built from source. This runs their build code outside any sandbox.
    #[arg(long)]
    allow_builds: bool,
}

impl SyncArguments {
    fn builds(&self) -> Builds {
        if self.allow_builds { Builds::Allowed } else { Builds::Refused }
    }
}

pub(crate) fn run(arguments: EnvArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = crate::settings::load(config, Vec::new())?;
    let execution = &loaded.settings.execution;
    let (python, requirements) = (execution.python.clone(), execution.requirements.clone());
    let environments = PythonEnvironments { environments: environments()?, python, requirements };
    let bar = Bar::new();
    let report = |event: coracle_environments::Event<'_>| bar.show(event);
    let made = match arguments.command {
        EnvCommand::List(arguments) => return list::run(&arguments, &environments.list().map_err(told)?),
        EnvCommand::Remove(RemoveArguments { environment: Some(version), .. }) => {
            environments.delete(version).map_err(told)?;
            eprintln!("removed environment {version}");
            return Ok(Status::Success);
        }
        EnvCommand::Sync(arguments) => {
            cancellable(async { environments.sync(arguments.builds(), &report).await.map_err(told) })?
        }
        EnvCommand::Add(AddArguments { packages, sync }) => {
            cancellable(async { environments.add(&packages, sync.builds(), &report).await.map_err(told) })?
        }
        EnvCommand::Remove(RemoveArguments { packages, sync, .. }) => {
            cancellable(async { environments.remove(&packages, sync.builds(), &report).await.map_err(told) })?
        }
    };
    drop(bar);
    let Some(made) = made else {
        eprintln!("everything is already installed: the environment is unchanged");
        return Ok(Status::Success);
    };
    let packages = counted(made.packages.len(), "package");
    eprintln!("environment {}: {packages} for Python {}, by {}", made.version, made.python.version, made.made_by);
    eprintln!("new commands use it; restart running servers to use it");
    Ok(Status::Success)
}

/// Packages for sandboxes, according to the settings.
pub(crate) fn packages(settings: &Settings) -> anyhow::Result<Packages> {
    coracle_environments::packages(&environments()?, &settings.execution.preload).map_err(told)
}

/// Returns the environment that sandboxes use.
pub(crate) fn current() -> anyhow::Result<Option<Environment>> {
    Ok(coracle_environments::current(&environments()?))
}

fn environments() -> anyhow::Result<Environments> {
    Ok(Environments::of(&Home::new(variables::home()?)))
}

/// Adds the hint to an error, and tells mistakes of the user from failures of the machine.
fn told(error: PackageError) -> anyhow::Error {
    let is_mistake = match &error {
        PackageError::Requirement { .. }
        | PackageError::NotAdded { .. }
        | PackageError::RequirementsFile { .. }
        | PackageError::ModuleName(_)
        | PackageError::TooManyModules(_) => true,
        PackageError::Environment(error) => !matches!(error, EnvironmentError::Io { .. }),
        PackageError::Python(_)
        | PackageError::Io { .. }
        | PackageError::NoInstaller { .. }
        | PackageError::Program { .. }
        | PackageError::Failed { .. }
        | PackageError::Report(_)
        | PackageError::Conflict
        | PackageError::Refused { .. } => false,
    };
    match error.hint() {
        hint if is_mistake => Mistake::new(error, hint).into(),
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}
