use super::said;
use crate::status::{Mistake, Status};
use anyhow::Context;
use clap::{Args, ValueEnum};
use coracle_engine::{Engine, Origin, SkillError};
use coracle_types::UserId;
use std::fs;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Code,
    Folder,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// Skill name.
    #[arg(value_name = "NAME")]
    name: String,

    /// Kind of skill to remove, if code and a folder have the same name.
    #[arg(long)]
    kind: Option<Kind>,
}

pub(super) async fn run(arguments: &RemoveArguments, engine: &Engine, user: &UserId) -> anyhow::Result<Status> {
    let RemoveArguments { name, kind } = arguments;
    let is_code = engine.load_skill(user, name, None).await.is_ok();
    let folder = engine.library().find(name).ok().filter(|skill| skill.origin != Origin::Builtin);
    match (kind, is_code, folder) {
        (None, true, Some(_)) => {
            let message = format!("both code and a folder have the name {name}");
            Err(Mistake::new(message, Some("say which: --kind code, or --kind folder")).into())
        }
        (None | Some(Kind::Folder), _, Some(skill)) => {
            if skill.origin == Origin::Project {
                let message = format!("the skill {name} belongs to the project: {}", skill.path.display());
                return Err(Mistake::new(message, Some("to remove it, delete that folder")).into());
            }
            // Renamed first, so that it disappears at once even if deleting fails.
            let parent = skill.path.parent().context("cannot find the folder of skills")?;
            let gone =
                tempfile::Builder::new().prefix(".removing-").tempdir_in(parent).context("cannot create a folder")?;
            fs::rename(&skill.path, gone.path().join("skill"))
                .with_context(|| format!("cannot remove {}", skill.path.display()))?;
            gone.close().with_context(|| format!("cannot remove {}", skill.path.display()))?;
            eprintln!("removed {}", skill.path.display());
            Ok(Status::Success)
        }
        (None | Some(Kind::Code), _, _) => {
            if !is_code && engine.library().find(name).is_ok() {
                let hint = "a skill with the same name in your own folder replaces it";
                return Err(Mistake::new(format!("the skill {name} is built in"), Some(hint)).into());
            }
            engine.delete_skill(user, name).await.map_err(said)?;
            eprintln!("removed {name}");
            Ok(Status::Success)
        }
        (Some(Kind::Folder), _, None) => Err(said(SkillError::Missing { name: name.clone(), near: None })),
    }
}
