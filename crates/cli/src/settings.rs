//! The settings of this run: the file, the environment, the flags.

use crate::environment;
use anyhow::Context;
use coracle_config::{ConfigError, Flag, LoadOptions, Loaded};
use std::path::{Path, PathBuf};

/// Reads them. What is probably not meant is said on standard error.
pub(crate) fn load(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    let loaded = coracle_config::load(&options(file, flags)?).map_err(explained)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for problem in &loaded.server_problems {
        tracing::warn!("{problem}");
    }
    Ok(loaded)
}

fn options(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        file: file.map(Path::to_owned),
        // What is no text can be no setting.
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        folder: Some(std::env::current_dir().context("find the current folder")?),
        home: Some(environment::home()?),
        flags,
    })
}

fn explained(error: ConfigError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}

/// A flag that was given.
pub(crate) fn flag(key: &str, name: &str, value: Option<impl ToString>) -> Option<Flag> {
    value.map(|value| Flag { key: key.to_owned(), value: value.to_string(), name: name.to_owned() })
}

/// Where a settings file would be made: the one that was read, else in the data folder.
pub(crate) fn file_to_edit(loaded: &Loaded, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match (named, &loaded.file) {
        (Some(named), _) => Ok(named.to_owned()),
        (None, Some(file)) => Ok(file.path.clone()),
        (None, None) => Ok(environment::home()?.join(coracle_config::FILE_NAME)),
    }
}
