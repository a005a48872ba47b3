//! Tries a skill out in a sandbox before it is saved.

use super::Skills;
use crate::request::Request;
use crate::skill_store::{Kept, SkillError, SkillLanguage, blocking};
use coracle_types::{ErrorCode, Execution, UserId};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Compiles Python code without running it.
const COMPILES: &str = "with open('/coracle/skills/' + name, 'rb') as file:\n    source = file.read()\ncompile(source, 'skills/' + name, 'exec', dont_inherit=True)\nNone\n";

/// Time after which folders that a killed trial has left are removed.
const FORGOTTEN: Duration = Duration::from_hours(24);

/// Maximum length of a traceback in an error.
const MAX_TOLD_CHARS: usize = 4_000;

impl Skills {
    /// Runs the example. Without one, checks that Python code compiles; TypeScript code is not checked.
    pub(super) async fn try_out(self: &Arc<Self>, user: &UserId, kept: &Kept) -> Result<(), SkillError> {
        if let Some(execution) = self.run_example(user, kept).await? {
            return judged(&execution, SkillError::Example);
        }
        if kept.skill.language == SkillLanguage::Python {
            let mut request = Request::new(user.clone(), kept.skill.language.language(), COMPILES);
            request.vars.insert("name".to_owned(), Value::from(format!("{}.py", kept.skill.name)));
            let execution = self.run_trial(user, kept, request).await?;
            return judged(&execution, SkillError::Syntax);
        }
        Ok(())
    }

    /// Runs the example in an empty workspace in which this version is imported; `None` if there is no example.
    pub(super) async fn run_example(
        self: &Arc<Self>,
        user: &UserId,
        kept: &Kept,
    ) -> Result<Option<Execution>, SkillError> {
        let Some(example) = &kept.skill.example else { return Ok(None) };
        let request = Request::new(user.clone(), kept.skill.language.language(), example.clone());
        self.run_trial(user, kept, request).await.map(Some)
    }

    async fn run_trial(
        self: &Arc<Self>,
        user: &UserId,
        kept: &Kept,
        mut request: Request,
    ) -> Result<Execution, SkillError> {
        let trials = self.shelves.trials(user);
        let (shelf, kept) = (self.shelves.of(user), kept.clone());
        let (place, skills, files) = blocking(move || furnish(&trials, shelf.importable(), &kept)).await?;
        request.workspace = Some(files);
        request.limits = self.limits.get().cloned().unwrap_or_default();
        request.trial = Some(skills);
        // Boxed, because the code that is executed may save a skill, which is tried out in turn.
        let execution = Box::pin(self.execute(request)).await;
        // If this fails, a later trial removes the folder.
        let _ = tokio::task::spawn_blocking(move || place.close()).await;
        Ok(execution)
    }
}

/// Creates the folder of a trial, with all skills as they would be after saving.
fn furnish(trials: &Path, importable: &Path, kept: &Kept) -> Result<(TempDir, PathBuf, PathBuf), SkillError> {
    let make = || -> std::io::Result<(TempDir, PathBuf, PathBuf)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(trials)?;
        remove_forgotten(trials);
        let place = TempDir::new_in(trials)?;
        let (skills, files) = (place.path().join("skills"), place.path().join("files"));
        fs::DirBuilder::new().mode(0o755).create(&skills)?;
        fs::DirBuilder::new().mode(0o700).create(&files)?;
        for entry in fs::read_dir(importable)?.flatten() {
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), skills.join(entry.file_name()))?;
            }
        }
        let name = &kept.skill.name;
        let other = skills.join(format!("{name}.{}", kept.skill.language.other().ending()));
        if other.exists() {
            fs::remove_file(other)?;
        }
        let own = skills.join(format!("{name}.{}", kept.skill.language.ending()));
        fs::write(&own, &kept.code)?;
        for (path, mode) in [(&skills, 0o755), (&own, 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        Ok((place, skills, files))
    };
    make().map_err(|error| SkillError::NotTried(format!("{}: {error}", trials.display())))
}

fn remove_forgotten(trials: &Path) {
    let old = |entry: &fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > FORGOTTEN))
    };
    for entry in fs::read_dir(trials).into_iter().flatten().flatten().filter(old) {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, "cannot remove the folder of an earlier trial of a skill");
        }
    }
}

fn judged(execution: &Execution, failed: impl FnOnce(String) -> SkillError) -> Result<(), SkillError> {
    let Some(failure) = &execution.failure else { return Ok(()) };
    let said = failure.traceback.as_deref().filter(|traceback| !traceback.trim().is_empty());
    // The end of a traceback says what happened.
    let said = said.map_or_else(|| failure.error.clone(), |traceback| traceback.trim_end().to_owned());
    let surplus = said.chars().count().saturating_sub(MAX_TOLD_CHARS);
    let said: String = said.chars().skip(surplus).collect();
    Err(match failure.error_code {
        ErrorCode::SandboxUnavailable | ErrorCode::Internal | ErrorCode::Cancelled | ErrorCode::GuestProtocol => {
            SkillError::NotTried(said)
        }
        _ => failed(said),
    })
}
