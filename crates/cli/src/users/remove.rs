//! `coracle users remove`: deletes an account with all of its data.

use super::list::{size, usage};
use super::{existing, told};
use crate::output::{agreed, counted};
use crate::status::{Mistake, Status};
use crate::wiring::workspaces;
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_config::Loaded;
use coracle_types::UserId;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// User name.
    name: String,

    /// Delete without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) async fn run(arguments: &RemoveArguments, people: &People, loaded: &Loaded) -> anyhow::Result<Status> {
    let name = existing(people, &arguments.name).await?;
    if name == UserId::local() {
        let hint = "`coracle users disable` disables the account";
        let message =
            format!("{name} cannot be removed: the workspace of that name belongs to the user who runs Coracle");
        return Err(Mistake::new(message, Some(hint)).into());
    }
    let parent = workspaces(&loaded.settings)?;
    let folder = parent.join(name.as_str());
    // A link in place of a workspace does not count.
    let is_real = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let held = if is_real { usage(&folder) } else { super::list::Usage::default() };
    let files = counted(usize::try_from(held.files).unwrap_or(usize::MAX), "file");
    let question = format!("Delete {name}, their keys, sessions and skills, and {files} ({})?", size(held.bytes));
    if !arguments.yes && !agreed(&question, "add --yes to delete without asking")? {
        eprintln!("nothing was changed");
        return Ok(Status::Failed);
    }
    // The account is removed before the files, so that the user cannot return in between.
    people.remove(&name).await.map_err(told)?;
    if is_real {
        remove(&parent, &folder).with_context(|| {
            format!("removed {name}, but not the workspace {}: delete it by hand", folder.display())
        })?;
    }
    eprintln!("removed {name}");
    if !people.are_any().await.map_err(told)? {
        eprintln!("there are no users left: unless server.auth is `required`, `coracle up` serves without sign-in");
    }
    Ok(Status::Success)
}

/// Renames the folder first, so that it disappears at once even if deleting fails.
fn remove(parent: &Path, folder: &Path) -> anyhow::Result<()> {
    let gone = tempfile::Builder::new().prefix(".removing-").tempdir_in(parent)?;
    let aside = gone.path().join("workspace");
    std::fs::rename(folder, &aside)?;
    coracle_sandbox::remove_folder(&aside)?;
    Ok(gone.close()?)
}
