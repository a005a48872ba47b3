//! `coracle config`: settings, their origins and their schema.

use crate::output::{json, plain};
use crate::settings::{self, load};
use crate::status::Status;
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_config::{FILE_NAME, Way};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Maximum length of a value on one line in characters.
const MAX_VALUE: usize = 4_000;
/// Comment of a setting that is read and not used.
const NO_EFFECT: &str = "no effect in this version";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

const AFTER_HELP: &str = "\
Sources of settings, highest precedence first: command-line options, environment variables such as
CORACLE_EXECUTION_LIMITS_TIME=60, .env in the current folder, .env in the data folder, the settings file, defaults.
The settings file is the one given by --config or CORACLE_CONFIG, otherwise coracle.yaml in the current folder,
otherwise coracle.yaml in the data folder.

Examples:
  coracle config show --origin             print all settings and their origins
  coracle config schema > coracle.json     write the schema for editors that validate YAML";

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print all settings; credentials are hidden.
    Show(ShowArguments),
    /// Print the JSON Schema of coracle.yaml.
    Schema,
    /// Print the path of the settings file and how it was found; exits with status 1 if there is none.
    Path,
}

#[derive(Debug, Args)]
struct ShowArguments {
    /// Also print the origin of each value.
    #[arg(long)]
    origin: bool,

    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ConfigArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    match &arguments.command {
        ConfigCommand::Show(arguments) => show(arguments, config),
        ConfigCommand::Schema => {
            std::io::stdout().write_all(coracle_config::schema().as_bytes())?;
            Ok(Status::Success)
        }
        ConfigCommand::Path => path(config),
    }
}

fn show(arguments: &ShowArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    settings::warn_of_not_followed(&loaded);
    let rows = loaded.show();
    let text = if arguments.json {
        let mut all = Map::new();
        for row in rows {
            let value: Value = serde_json::from_str(&row.value).context("cannot read a setting")?;
            let value = if arguments.origin {
                serde_json::json!({ "value": value, "origin": row.origin.to_string() })
            } else {
                value
            };
            all.insert(row.key, value);
        }
        json(&all)?
    } else {
        let mut text = String::new();
        for row in rows {
            let (key, value) = (plain(&row.key, MAX_VALUE), plain(&row.value, MAX_VALUE));
            let origin = arguments.origin.then(|| plain(&row.origin.to_string(), MAX_VALUE));
            let note = (!row.has_effect).then(|| NO_EFFECT.to_owned());
            let comment: Vec<String> = origin.into_iter().chain(note).collect();
            let _ = if comment.is_empty() {
                writeln!(text, "{key}: {value}")
            } else {
                writeln!(text, "{key}: {value}  # {}", comment.join("; "))
            };
        }
        text
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

fn path(config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let Some(file) = &loaded.file else {
        let place = settings::file_to_edit(&loaded)?;
        eprintln!("there is no settings file: neither {FILE_NAME} in this folder nor {}", place.display());
        return Ok(Status::Failed);
    };
    let how = match file.way {
        Way::Flag => "named by --config",
        Way::Variable => "named by CORACLE_CONFIG",
        Way::CurrentFolder => "found in the current folder",
        Way::DataFolder => "found in the data folder",
    };
    eprintln!("{how}:");
    writeln!(std::io::stdout(), "{}", file.path.display())?;
    Ok(Status::Success)
}
