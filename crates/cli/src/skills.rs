//! `coracle skills`: saved code and folders with instructions.

mod add;
mod list;
mod remove;
mod search;
mod show;
mod test;

use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, backend};
use crate::python_environment::packages;
use crate::settings::{announce, load};
use crate::status::{Mistake, Status};
use crate::wiring::{Purpose, cancellable, check, engine, folders, store, toolbox_if_any};
use clap::{Args, Subcommand};
use coracle_config::Loaded;
use coracle_engine::{Engine, SkillError};
use coracle_types::UserId;
use serde_json::Map;
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SkillsArguments {
    /// User who owns the code skills.
    #[arg(long, value_name = "USER", global = true, default_value = "local", value_parser = user)]
    user: UserId,

    #[command(subcommand)]
    command: SkillsCommand,
}

const AFTER_HELP: &str = "\
A skill is either saved code (`from skills.NAME import f`, `import { f } from \"skills/NAME\"`) or a folder with
instructions in a SKILL.md. Skill folders are searched for in execution.skills_dir, in .agents/skills and .claude/skills
of the current folder, and in .agents/skills and .claude/skills of the home folder. If several have the same name, the
first one is used.

Examples:
  coracle skills list                          list all skills and their problems
  coracle skills search clean a table          find skills by purpose
  coracle skills add clean_csv.py --example try.py   save code if its example runs
  coracle skills add ./pdf                     add a folder with a SKILL.md
  coracle skills test clean_csv                check that the example still runs";

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List all skills, with their problems and changes to the tools they use.
    List(list::ListArguments),
    /// Search for skills by purpose.
    Search(search::SearchArguments),
    /// Print a skill.
    Show(show::ShowArguments),
    /// Add a Python or TypeScript file, or a folder with a SKILL.md.
    Add(add::AddArguments),
    /// Run the example of a code skill, or check the metadata and packages of a skill folder.
    Test(test::TestArguments),
    /// Remove a skill with all its versions.
    Remove(remove::RemoveArguments),
}

fn user(text: &str) -> Result<UserId, String> {
    coracle_accounts::user_name(text).map_err(|error| error.to_string())
}

pub(crate) fn run(arguments: &SkillsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let user = &arguments.user;
    cancellable(async {
        let (engine, toolbox) = opened(&loaded).await?;
        let outcome = match &arguments.command {
            SkillsCommand::List(arguments) => list::run(arguments, &engine, user).await,
            SkillsCommand::Search(arguments) => search::run(arguments, &engine, user).await,
            SkillsCommand::Show(arguments) => show::run(arguments, &engine, user).await,
            SkillsCommand::Add(arguments) => add::run(arguments, &engine, user, &loaded).await,
            SkillsCommand::Test(arguments) => test::run(arguments, &engine, user).await,
            SkillsCommand::Remove(arguments) => remove::run(arguments, &engine, user).await,
        };
        engine.shutdown().await;
        if let Some(toolbox) = toolbox {
            toolbox.upstream().shutdown().await;
        }
        outcome
    })
}

/// Creates an engine that starts a sandbox only if needed.
async fn opened(loaded: &Loaded) -> anyhow::Result<(Engine, Option<std::sync::Arc<coracle_engine::Toolbox>>)> {
    let settings = &loaded.settings;
    check(loaded)?;
    announce(loaded);
    let sandboxes = Sandboxes {
        pool: 0,
        preload: false,
        require_full_isolation: settings.execution.require_full_isolation,
        limits: settings.limits(),
        python: settings.execution.python.clone(),
        folders: folders(settings)?,
        packages: packages(settings)?,
        containers: Containers::wanted(settings),
    };
    let store = store().await?;
    let toolbox = toolbox_if_any(loaded, &store, Map::new(), Purpose::Command)?;
    let audit = Audit::new(loaded, Some(&store))?;
    Ok((engine(settings, audit.log(), backend(&sandboxes)?, store, toolbox.clone())?, toolbox))
}

/// Converts an error, as a usage error if it is one.
fn said(error: SkillError) -> anyhow::Error {
    match &error {
        SkillError::Files { .. } | SkillError::Internal(_) | SkillError::NotTried(_) => match error.hint() {
            Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
            None => error.into(),
        },
        SkillError::Missing { .. } => Mistake::new(&error, Some("`coracle skills list` lists the skills")).into(),
        _ => Mistake::new(&error, error.hint()).into(),
    }
}
