use super::said;
use crate::output::{json, plain, plain_lines};
use crate::status::Status;
use clap::Args;
use coracle_engine::{Engine, SkillError};
use coracle_types::UserId;
use std::io::{IsTerminal, Write};

const MAX_WARNING: usize = 500;

#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(super) struct ShowArguments {
    /// Skill name.
    #[arg(value_name = "NAME")]
    name: String,

    /// Version of a code skill [default: the newest].
    #[arg(long, value_name = "N")]
    version: Option<u32>,

    /// File of a skill folder to print instead of SKILL.md.
    #[arg(long, value_name = "PATH", conflicts_with = "version")]
    file: Option<String>,

    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &ShowArguments, engine: &Engine, user: &UserId) -> anyhow::Result<Status> {
    let ShowArguments { name, version, file, json: as_json } = arguments;
    if file.is_none() {
        match engine.load_skill(user, name, *version).await {
            Ok(loaded) => {
                let text = if *as_json { json(&loaded)? } else { render(&loaded.code) };
                std::io::stdout().write_all(text.as_bytes())?;
                return Ok(Status::Success);
            }
            Err(SkillError::Missing { .. } | SkillError::Name(_)) if version.is_none() => {}
            Err(error) => return Err(said(error)),
        }
    }
    let found = engine.library().get(name, file.as_deref()).await.map_err(said)?;
    for warning in &found.warnings {
        eprintln!("warning: {}", plain(warning, MAX_WARNING));
    }
    let text = if *as_json { json(&found)? } else { render(&found.content) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

/// Escapes hidden characters at a terminal. Programs get the text unchanged.
fn render(text: &str) -> String {
    if std::io::stdout().is_terminal() { plain_lines(text) } else { with_end(text) }
}

fn with_end(text: &str) -> String {
    text.trim_end().to_owned() + "\n"
}
