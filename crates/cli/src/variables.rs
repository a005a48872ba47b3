//! Environment variables that commands read. All names are in `coracle-config`.

use anyhow::{Context, bail};
use coracle_config::{KEY_COMMAND_VARIABLE, KEY_VARIABLE};
use coracle_store::{KeyCommand, KeySource};
use coracle_types::Secret;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Data folder [default: `~/.coracle`].
pub(crate) const HOME: &str = coracle_config::HOME_VARIABLE;
/// Python interpreter for sandboxes [default: the system's `python3`, or the first on `PATH`].
pub(crate) const PYTHON: &str = coracle_config::PYTHON_VARIABLE;
/// Log filter in the syntax of `tracing`, such as `warn` or `coracle_sandbox=debug`.
pub(crate) const LOG: &str = coracle_config::LOG_VARIABLE;

/// The throwaway data folder of a demo.
static THROWAWAY: OnceLock<PathBuf> = OnceLock::new();

/// Uses another data folder from now on. Must be called before anything uses the data folder.
pub(crate) fn use_throwaway_home(folder: &Path) -> anyhow::Result<()> {
    THROWAWAY.set(folder.to_owned()).map_err(|_| anyhow::anyhow!("there is already a throwaway data folder"))
}

/// Whether the environment names the data folder.
pub(crate) fn names_home() -> bool {
    std::env::var_os(HOME).is_some_and(|home| !home.is_empty())
}

/// Returns the data folder.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Some(folder) = THROWAWAY.get() {
        return Ok(folder.clone());
    }
    if let Some(home) = std::env::var_os(HOME).filter(|home| !home.is_empty()) {
        return std::path::absolute(&home).with_context(|| format!("{HOME} is {}", home.display()));
    }
    let user = std::env::home_dir().filter(|home| home.is_absolute());
    user.map(|home| home.join(".coracle"))
        .with_context(|| format!("cannot find the home folder: set {HOME} to a folder for Coracle's data"))
}

/// Returns the source of the master key: a key or a command in the environment, or else the file in the data folder. A
/// throwaway data folder always has a key of its own.
pub(crate) fn key_source() -> anyhow::Result<KeySource> {
    /// The command, which is run once for all stores of this process.
    static COMMAND: OnceLock<KeyCommand> = OnceLock::new();
    if THROWAWAY.get().is_some() {
        return Ok(KeySource::File);
    }
    let read = |name| match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
    };
    match (read(KEY_VARIABLE)?, read(KEY_COMMAND_VARIABLE)?) {
        (None, None) => Ok(KeySource::File),
        (Some(key), None) => Ok(KeySource::Given(Secret::new(key))),
        (None, Some(line)) => Ok(KeySource::Command(COMMAND.get_or_init(|| KeyCommand::new(&line)).clone())),
        (Some(_), Some(_)) => bail!("both {KEY_VARIABLE} and {KEY_COMMAND_VARIABLE} are set: set only one of them"),
    }
}

/// Socket of the container engine, as for the program `docker`.
const ENGINE: &str = "DOCKER_HOST";

/// Returns the configured socket of the container engine.
pub(crate) fn engine() -> Option<String> {
    std::env::var(ENGINE).ok().filter(|host| !host.is_empty())
}

/// Returns the configured interpreter.
pub(crate) fn python() -> Option<PathBuf> {
    std::env::var_os(PYTHON).filter(|python| !python.is_empty()).map(PathBuf::from)
}
