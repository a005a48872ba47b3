use super::said;
use crate::output::{columns, json, plain};
use crate::status::Status;
use clap::Args;
use coracle_engine::Engine;
use coracle_types::UserId;
use std::io::Write;

/// Maximum length of a printed description in characters.
const MAX_DESCRIPTION: usize = 100;

#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// Words that describe the skill.
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,

    /// Maximum number of results.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &SearchArguments, engine: &Engine, user: &UserId) -> anyhow::Result<Status> {
    let query = arguments.query.join(" ");
    let found = engine.search_skills(user, &query, arguments.limit.into()).await.map_err(said)?;
    let text = if arguments.json {
        json(&found)?
    } else {
        columns(found.iter().map(|skill| {
            let about = plain(&skill.description, MAX_DESCRIPTION);
            [plain(&skill.name, MAX_DESCRIPTION), plain(&skill.usage, MAX_DESCRIPTION), about]
        }))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if found.is_empty() {
        eprintln!("no skill matches; `coracle skills list` lists all");
        return Ok(Status::Failed);
    }
    Ok(Status::Success)
}
