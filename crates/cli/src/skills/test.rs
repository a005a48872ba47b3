use super::said;
use crate::output::{json, plain, quoted};
use crate::status::{Mistake, Status};
use clap::Args;
use coracle_engine::{Engine, SkillError};
use coracle_types::UserId;
use std::io::Write;

const MAX_WARNING: usize = 500;

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// Skill name.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print the result of the example as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &TestArguments, engine: &Engine, user: &UserId) -> anyhow::Result<Status> {
    let name = &arguments.name;
    match engine.test_skill(user, name).await {
        Ok(Some(execution)) => {
            if arguments.json {
                std::io::stdout().write_all(json(&execution)?.as_bytes())?;
            } else if let Some(failure) = &execution.failure {
                let said = failure.traceback.as_deref().unwrap_or(&failure.error);
                eprint!("{name}: the example failed\n{}", quoted(said.trim_end()));
            } else {
                eprintln!("{name}: the example succeeded ({:.0} ms)", execution.execution_time_ms);
            }
            Ok(Status::of(&execution))
        }
        Ok(None) => {
            let hint = "save it again with --example FILE";
            Err(Mistake::new(format!("the skill {name} has no example"), Some(hint)).into())
        }
        Err(SkillError::Missing { .. } | SkillError::Name(_)) => check_folder(name, engine).await,
        Err(error) => Err(said(error)),
    }
}

async fn check_folder(name: &str, engine: &Engine) -> anyhow::Result<Status> {
    let skill = engine.library().find(name).map_err(said)?;
    let missing = engine.missing_packages().await.map_err(said)?;
    let warnings = skill.warnings.iter().chain(missing.get(&skill.name).into_iter().flatten());
    let mut count = 0;
    for warning in warnings {
        eprintln!("warning: {}: {}", skill.path.display(), plain(warning, MAX_WARNING));
        count += 1;
    }
    if count == 0 {
        eprintln!("{}: no problems found in {}", plain(&skill.name, 100), skill.path.display());
        return Ok(Status::Success);
    }
    Ok(Status::Failed)
}
