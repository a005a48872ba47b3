//! The settings of this run: the file, the environment, the flags.

use crate::output::plain;
use crate::status::Mistake;
use crate::variables;
use anyhow::Context;
use coracle_config::{ConfigError, Flag, Guardrails, LoadOptions, Loaded, Origin, ServerProblem, Way};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A message is no longer than this.
const MAX_MESSAGE: usize = 1_000;

/// Reads them. What is probably not meant, and which servers cannot be used, is said on standard error.
pub(crate) fn load(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    let loaded = load_for_servers(file, flags)?;
    for problem in &loaded.server_problems {
        eprintln!("warning: {}", told(problem));
    }
    Ok(loaded)
}

/// The same for whoever shows by themselves which servers cannot be used.
pub(crate) fn load_for_servers(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    let loaded = coracle_config::load(&options(file, flags)?).map_err(explained)?;
    crate::log::follow(&loaded)?;
    for warning in &loaded.warnings {
        eprintln!("warning: {}", plain(&warning.to_string(), MAX_MESSAGE));
    }
    Ok(loaded)
}

/// Keys of which this version knows the meaning and does nothing about it.
const NOT_FOLLOWED: [&str; 10] = [
    "agent.azure_openai.api_key",
    "agent.azure_openai.api_version",
    "agent.azure_openai.deployment",
    "agent.azure_openai.endpoint",
    "agent.default_model",
    "execution.microsandbox.api_key",
    "execution.microsandbox.server_url",
    "execution.sandbox_image",
    "guardrails.security_checks",
    "guardrails.strict_mode",
];

/// Says which settings change nothing. Variables that other programs may mean are passed over.
pub(crate) fn warn_of_not_followed(loaded: &Loaded) {
    for key in NOT_FOLLOWED {
        let Some(origin) = loaded.origins.get(key) else { continue };
        let (guardrails, usual) = (&loaded.settings.guardrails, Guardrails::default());
        let is_usual = match key {
            "guardrails.security_checks" => guardrails.security_checks == usual.security_checks,
            "guardrails.strict_mode" => guardrails.strict_mode == usual.strict_mode,
            _ => false,
        };
        // The embedder falls back to these.
        let embedder = &loaded.settings.search.embedder;
        let is_used =
            key.starts_with("agent.azure_openai.") && !key.ends_with("deployment") && embedder.model.is_some();
        if is_usual || is_used {
            continue;
        }
        let is_ours = match origin {
            _ if key.starts_with("guardrails.") => true,
            Origin::Env { name } | Origin::DotEnv { name, .. } => name.starts_with("CORACLE_"),
            Origin::Default | Origin::Flag { .. } => false,
            Origin::File { .. } => true,
        };
        if is_ours {
            eprintln!("warning: {}", plain(&format!("{origin}: `{key}` changes nothing in this version"), MAX_MESSAGE));
        }
    }
}

/// What is the matter with a server, in two lines.
pub(crate) fn told(problem: &ServerProblem) -> String {
    let message = match &problem.origin {
        Origin::Default => problem.to_string(),
        origin => format!("{origin}: {problem}"),
    };
    format!("{}\n  hint: {}", plain(&message, MAX_MESSAGE), plain(&problem.fault.hint(), MAX_MESSAGE))
}

/// Settings that lie in the current folder may be somebody else's: whoever is about to use their servers says so.
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

/// The environment. What is no text can be no setting.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn options(file: Option<&Path>, flags: Vec<Flag>) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        file: file.map(Path::to_owned),
        env: variables(),
        folder: Some(std::env::current_dir().context("find the current folder")?),
        home: Some(variables::home()?),
        flags,
    })
}

fn explained(error: ConfigError) -> anyhow::Error {
    let hint = error.hint();
    Mistake::new(error, hint).into()
}

/// A flag that was given.
pub(crate) fn flag(key: &str, name: &str, value: Option<impl ToString>) -> Option<Flag> {
    value.map(|value| Flag { key: key.to_owned(), value: value.to_string(), name: name.to_owned() })
}

/// Where a settings file would be made: the one that was read, else in the data folder.
pub(crate) fn file_to_edit(loaded: &Loaded) -> anyhow::Result<PathBuf> {
    match &loaded.file {
        Some(file) => Ok(file.path.clone()),
        None => Ok(variables::home()?.join(coracle_config::FILE_NAME)),
    }
}
