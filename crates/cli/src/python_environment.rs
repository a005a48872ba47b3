//! `coracle env`: the Python packages that sandboxed code can import.
//!
//! `sync.rs` creates an environment, `install.rs` fills it with `uv` or `pip`, and `list.rs` lists its contents. The
//! store knows the layout: an environment is created aside and replaces the current one with a rename, or not at all.

mod base;
mod install;
mod installed;
mod list;
mod progress;
mod requirement;
mod sync;

use crate::status::{Mistake, Status};
use crate::variables;
use anyhow::Context;
use base::Base;
use clap::{Args, Subcommand};
use coracle_config::Settings;
use coracle_sandbox::{Environment, MOST_PRELOADED, Packages};
use coracle_store::{EnvironmentError, Environments, Home, UsedEnvironment};
use requirement::Requirement;
use std::path::Path;
use std::sync::Mutex;

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
    Sync(sync::SyncArguments),
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
    sync: sync::SyncArguments,
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
    sync: sync::SyncArguments,
}

/// Packages that are installed without a requirements file, by their names in pip.
const USUAL: [&str; 8] = ["numpy", "pandas", "scipy", "matplotlib", "seaborn", "scikit-learn", "sympy", "plotly"];

pub(crate) fn run(arguments: EnvArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = crate::settings::load(config, Vec::new())?;
    let settings = &loaded.settings;
    let environments = environments()?;
    match arguments.command {
        EnvCommand::List(arguments) => list::run(&arguments, &environments, settings),
        EnvCommand::Sync(arguments) => {
            let changing = environments.change().map_err(said)?;
            let wanted = environments.wanted().map_err(said)?;
            sync::run(&arguments, settings, &changing, &wanted, None)
        }
        EnvCommand::Add(arguments) => {
            let added = arguments.packages.iter().map(|text| Requirement::new(text)).collect::<Result<Vec<_>, _>>()?;
            let changing = environments.change().map_err(said)?;
            let mut wanted = environments.wanted().map_err(said)?;
            let named = added.iter().map(|requirement| requirement.name.clone()).collect();
            for requirement in added {
                wanted.without.retain(|name| *name != requirement.name);
                wanted.added.retain(|text| Requirement::named(text) != requirement.name);
                wanted.added.push(requirement.text);
            }
            let base = base(&environments, settings, named)?;
            let status = sync::run(&arguments.sync, settings, &changing, &wanted, base.as_ref())?;
            changing.want(&wanted).map_err(said)?;
            Ok(status)
        }
        EnvCommand::Remove(RemoveArguments { environment: Some(version), .. }) => {
            environments.change().and_then(|changing| changing.remove(version)).map_err(said)?;
            eprintln!("removed environment {version}");
            Ok(Status::Success)
        }
        EnvCommand::Remove(arguments) => {
            let changing = environments.change().map_err(said)?;
            let mut wanted = environments.wanted().map_err(said)?;
            for text in &arguments.packages {
                take_out(&mut wanted, &Requirement::named(text), settings)?;
            }
            let status = sync::run(&arguments.sync, settings, &changing, &wanted, None)?;
            changing.want(&wanted).map_err(said)?;
            Ok(status)
        }
    }
}

/// Returns the current environment, if a new one for the same interpreter can build on it.
fn base(environments: &Environments, settings: &Settings, named: Vec<String>) -> anyhow::Result<Option<Base>> {
    let Ok(Some(used)) = environments.use_current() else { return Ok(None) };
    if coracle_sandbox::fits(&used.environment.python, settings.execution.python.as_deref()).is_err() {
        return Ok(None);
    }
    let folder = used.packages.clone();
    // The environment is locked until this command ends.
    USED.lock().ok().context("cannot lock the environment")?.push(used);
    Base::new(folder, named).map(Some)
}

/// Removes a package from the wanted ones.
fn take_out(wanted: &mut coracle_store::WantedPackages, name: &str, settings: &Settings) -> anyhow::Result<()> {
    let before = wanted.added.len();
    wanted.added.retain(|text| Requirement::named(text) != name);
    let usual = settings.execution.requirements.is_none() && USUAL.contains(&name);
    if usual && !wanted.without.iter().any(|known| known == name) {
        wanted.without.push(name.to_owned());
        return Ok(());
    }
    if wanted.added.len() < before {
        return Ok(());
    }
    let hint = match &settings.execution.requirements {
        Some(file) => {
            format!("remove packages listed in {} from that file; packages that others depend on stay", file.display())
        }
        None => "`coracle env list` shows the added packages; packages that others depend on stay".to_owned(),
    };
    Err(Mistake::new(format!("{name} was not added to the environment"), Some(hint)).into())
}

fn environments() -> anyhow::Result<Environments> {
    Ok(Environments::of(&Home::new(variables::home()?)))
}

/// Adds a hint to an error.
fn said(error: EnvironmentError) -> anyhow::Error {
    let hint = match &error {
        EnvironmentError::Busy => "wait for the other `coracle env` to finish, and try again",
        EnvironmentError::InUse(_) => {
            "it is the current environment, or a running server uses it: stop the server first"
        }
        EnvironmentError::Missing(_) => "`coracle env list` lists the environments",
        EnvironmentError::Damaged { .. } => "remove that file and run `coracle env sync`",
        EnvironmentError::Io { .. } => return error.into(),
    };
    Mistake::new(error, Some(hint)).into()
}

/// Environments that sandboxes of this process use, locked until it ends.
static USED: Mutex<Vec<UsedEnvironment>> = Mutex::new(Vec::new());

/// Packages for sandboxes, according to the settings. An unreadable environment is ignored, because plain Python still
/// works.
pub(crate) fn packages(settings: &Settings) -> anyhow::Result<Packages> {
    let preload = &settings.execution.preload;
    let wrong = |name: &&String| !is_module(name);
    if let Some(name) = preload.iter().find(wrong) {
        let hint = "use names as in `import`, such as pandas or matplotlib.pyplot";
        return Err(Mistake::new(format!("execution.preload: {name:?} is not a module name"), Some(hint)).into());
    }
    if preload.len() > MOST_PRELOADED {
        let message = format!("execution.preload: {} modules: at most {MOST_PRELOADED}", preload.len());
        return Err(Mistake::new(message, None::<&str>).into());
    }
    Ok(Packages { environment: current()?, preload: preload.clone() })
}

/// Returns the environment that sandboxes use.
pub(crate) fn current() -> anyhow::Result<Option<Environment>> {
    match environments()?.use_current() {
        Ok(None) => Ok(None),
        Ok(Some(used)) => {
            let (folder, made_for) = (used.packages.clone(), used.environment.python.clone());
            USED.lock().ok().context("cannot lock the environment")?.push(used);
            Ok(Some(Environment { folder, made_for }))
        }
        Err(error) => {
            tracing::warn!(%error, "ignoring the Python environment; `coracle env sync` rebuilds it");
            Ok(None)
        }
    }
}

/// Whether a text is names separated by dots.
fn is_module(name: &str) -> bool {
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    let is_name = |part: &str| part.starts_with(is_start) && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    name.len() <= 100 && name.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::is_module;

    #[test]
    fn module_names_are_recognised() {
        for good in ["pandas", "matplotlib.pyplot", "_x1"] {
            assert!(is_module(good), "{good}");
        }
        for bad in ["", ".", "a.", "1a", "a-b", "a b", "os;x", &"a".repeat(101)] {
            assert!(!is_module(bad), "{bad}");
        }
    }
}
