use super::said;
use crate::output::{columns, json, plain};
use crate::status::Status;
use clap::Args;
use coracle_engine::{Change, Engine, ListedSkill};
use coracle_types::UserId;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

/// Maximum length of a printed description in characters.
const MAX_DESCRIPTION: usize = 100;
const MAX_WARNING: usize = 500;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only list skills that match these words, best match first.
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &ListArguments, engine: &Engine, user: &UserId) -> anyhow::Result<Status> {
    let mut code = engine.list_skills(user).await.map_err(said)?;
    let mut shelved = engine.library().read().await;
    // An unknown result is no reason to list nothing.
    let missing = engine.missing_packages().await.unwrap_or_else(|error| {
        eprintln!("warning: {}", plain(&format!("cannot check the packages of skills: {error}"), MAX_WARNING));
        BTreeMap::default()
    });
    for skill in &mut shelved.skills {
        skill.warnings.extend(missing.get(&skill.name).cloned().unwrap_or_default());
    }
    if let Some(words) = &arguments.search {
        let found = engine.search_skills(user, words, usize::MAX).await.map_err(said)?;
        let place = |name: &str| found.iter().position(|found| found.name == name);
        code.retain(|listed| place(listed.skill.name.as_str()).is_some());
        code.sort_by_key(|listed| place(listed.skill.name.as_str()));
        shelved.skills.retain(|skill| place(&skill.name).is_some());
        shelved.skills.sort_by_key(|skill| place(&skill.name));
    }
    let text = if arguments.json {
        json(&json!({ "code": code, "folders": shelved.skills, "warnings": shelved.warnings }))?
    } else {
        let of_code = code.iter().map(|listed| {
            let skill = &listed.skill;
            [skill.name.to_string(), format!("code, version {}", skill.version), about(&skill.description)]
        });
        let folders = shelved.skills.iter().map(|skill| {
            [plain(&skill.name, MAX_DESCRIPTION), format!("folder, {}", origin(skill)), about(&skill.description)]
        });
        columns(of_code.chain(folders))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if !arguments.json {
        let drifted = code.iter().flat_map(drifts);
        let warned = shelved
            .skills
            .iter()
            .flat_map(|skill| skill.warnings.iter().map(|warning| format!("{}: {warning}", skill.path.display())));
        for warning in drifted.chain(warned).chain(shelved.warnings.iter().cloned()) {
            eprintln!("warning: {}", plain(&warning, MAX_WARNING));
        }
    }
    Ok(Status::Success)
}

fn about(description: &str) -> String {
    plain(description, MAX_DESCRIPTION)
}

fn origin(skill: &coracle_engine::SkillFolder) -> &'static str {
    match skill.origin {
        coracle_engine::Origin::Configured => "skills_dir",
        coracle_engine::Origin::Project => "project",
        coracle_engine::Origin::User => "user",
        coracle_engine::Origin::Builtin => "built in",
    }
}

fn drifts(listed: &ListedSkill) -> impl Iterator<Item = String> {
    listed.drift.iter().map(|drift| {
        let what = match drift.change {
            Change::Gone => "is gone",
            Change::Changed => "has changed since the skill was saved",
            Change::Unavailable => "is not available at the moment",
        };
        format!("{}: its tool {} {what}", listed.skill.name, drift.tool)
    })
}
