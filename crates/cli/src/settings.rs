//! Settings of this run, from the file, the environment and the flags.

use crate::output::plain;
use crate::status::Mistake;
use crate::variables;
use anyhow::Context;
use coracle_config::{ConfigError, Flag, LoadOptions, Loaded, Origin, ServerProblem, WITHOUT_EFFECT, Way};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 1_000;

/// Loads the settings. Warnings, and servers that cannot be used, are reported on standard error.
pub(crate) fn load(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    let loaded = load_for_servers(file, flags)?;
    for problem in &loaded.server_problems {
        eprintln!("warning: {}", told(problem));
    }
    Ok(loaded)
}

/// Loads the settings for commands that report unusable servers themselves.
pub(crate) fn load_for_servers(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    load_from(&options(file, flags)?)
}

/// Loads the settings from these places only. Warnings are reported on standard error.
pub(crate) fn load_from(options: &LoadOptions) -> anyhow::Result<Loaded> {
    let loaded = coracle_config::load(options).map_err(explained)?;
    crate::log::follow(&loaded)?;
    for warning in &loaded.warnings {
        eprintln!("warning: {}", plain(&warning.to_string(), MAX_MESSAGE));
    }
    Ok(loaded)
}

/// Warns about settings without effect, except variables that other programs may use.
pub(crate) fn warn_of_not_followed(loaded: &Loaded) {
    for key in WITHOUT_EFFECT {
        let Some(origin) = loaded.origins.get(*key) else { continue };
        let is_ours = match origin {
            Origin::Env { name } | Origin::DotEnv { name, .. } => name.starts_with("CORACLE_"),
            Origin::Default | Origin::Flag { .. } => false,
            Origin::File { .. } => true,
        };
        if is_ours {
            eprintln!("warning: {}", plain(&format!("{origin}: `{key}` has no effect in this version"), MAX_MESSAGE));
        }
    }
}

/// Describes the problem of a server in two lines.
pub(crate) fn told(problem: &ServerProblem) -> String {
    let message = match &problem.origin {
        Origin::Default => problem.to_string(),
        origin => format!("{origin}: {problem}"),
    };
    format!("{}\n  hint: {}", plain(&message, MAX_MESSAGE), plain(&problem.fault.hint(), MAX_MESSAGE))
}

/// Reports that servers from the current folder are used, because its settings may be somebody else's.
pub(crate) fn announce(loaded: &Loaded) {
    let Some(file) = loaded.file.as_ref().filter(|file| file.way == Way::CurrentFolder) else { return };
    let from_file = loaded.servers.iter().any(|spec| {
        let origin = loaded.origins.get(&format!("mcpServers.{}", spec.name));
        matches!(origin, Some(Origin::File { .. }))
    });
    if from_file {
        eprintln!("coracle: using the servers of {}", file.path.display());
    }
}

/// Environment variables that are valid Unicode.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The places that settings are loaded from.
pub(crate) fn options(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        file: file.map(Path::to_owned),
        env: variables(),
        folder: Some(std::env::current_dir().context("cannot find the current folder")?),
        home: Some(variables::home()?),
        program: std::env::current_exe().ok(),
        flags,
    })
}

fn explained(error: ConfigError) -> anyhow::Error {
    let hint = error.hint();
    Mistake::new(error, hint).into()
}

/// Returns a flag that was given.
pub(crate) fn flag(key: &str, name: &str, value: Option<impl ToString>) -> Option<Flag> {
    value.map(|value| Flag { key: key.to_owned(), value: value.to_string(), name: name.to_owned() })
}

/// Settings file to edit: the one that was loaded, or else the one in the data folder.
pub(crate) fn file_to_edit(loaded: &Loaded) -> anyhow::Result<PathBuf> {
    match &loaded.file {
        Some(file) => Ok(file.path.clone()),
        None => Ok(variables::home()?.join(coracle_config::FILE_NAME)),
    }
}
