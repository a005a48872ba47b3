//! `coracle users rename`: renames a user, with all of their data.

use super::told;
use crate::output::plain;
use crate::status::Mistake;
use crate::wiring::workspaces;
use anyhow::Context;
use clap::Args;
use coracle_accounts::{AccountError, NameSource, People, is_local_user, new_user_name, user_name};
use coracle_config::Loaded;
use coracle_types::UserId;
use std::io::ErrorKind;
use std::path::Path;

/// Maximum length of a printed name in characters.
const MAX_NAME: usize = 64;

#[derive(Debug, Args)]
pub(super) struct RenameArguments {
    /// Current user name. Old names with capital letters and reserved names such as `local` are accepted.
    name: String,

    /// New user name.
    new_name: String,
}

pub(super) async fn run(arguments: &RenameArguments, people: &People, loaded: &Loaded) -> anyhow::Result<()> {
    let to = new_user_name(&arguments.new_name, NameSource::Operator).map_err(told)?;
    let folders = workspaces(&loaded.settings)?;
    let from = current(people, &folders, &arguments.name).await?;
    if from == to {
        return Err(Mistake::new(format!("the user is already named {to}"), None::<&str>).into());
    }
    let (old, new) = (folders.join(from.as_str()), folders.join(to.as_str()));
    let has_folder = old.symlink_metadata().is_ok();
    // Names that differ only in case are one folder on some file systems.
    if new.symlink_metadata().is_ok() && !is_same(&old, &new) {
        let hint = "choose another name, or move that folder away";
        return Err(Mistake::new(format!("{} already has a workspace: {}", to, new.display()), Some(hint)).into());
    }
    match people.rename(&from, &to).await {
        Ok(()) => {}
        // Files without an account can be renamed as well.
        Err(AccountError::Unknown(_)) if has_folder => {}
        Err(AccountError::Taken(_)) => {
            let message = format!("the name {to} is taken or has data");
            return Err(Mistake::new(message, Some("coracle users list lists the users")).into());
        }
        Err(error) => return Err(told(error)),
    }
    if has_folder && let Err(error) = std::fs::rename(&old, &new) {
        // Undoes the rename: an account without its files would be worse than the old name.
        let back = people.rename(&to, &from).await;
        let context = format!("cannot move {} to {}", old.display(), new.display());
        return Err(match back {
            Ok(()) | Err(AccountError::Unknown(_)) => anyhow::Error::new(error).context(context),
            Err(back) => anyhow::Error::new(error)
                .context(format!("{context}; the account already has the new name: {back}; move the folder by hand")),
        });
    }
    eprintln!("{from} is now {to}");
    if is_local_user(&from) {
        eprintln!(
            "data of `coracle exec` and `coracle mcp` on this machine now belongs to {to}; sign-ins to servers are not moved"
        );
    }
    Ok(())
}

/// Finds the user by exact name, or else by the normalized name.
async fn current(people: &People, folders: &Path, text: &str) -> anyhow::Result<UserId> {
    if let Ok(exact) = UserId::new(text)
        && (people.find(&exact).await.is_ok() || is_folder_of(folders, text).context("cannot read the workspaces")?)
    {
        return Ok(exact);
    }
    user_name(text).map_err(told)
}

/// Whether there is a folder with exactly this name.
fn is_folder_of(folders: &Path, name: &str) -> std::io::Result<bool> {
    match std::fs::read_dir(folders) {
        Ok(entries) => Ok(entries.flatten().any(|entry| entry.file_name() == *name)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| path.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some() && identity(one) == identity(other)
}

/// Warns about workspaces whose names are no longer valid, because names are lower case now.
pub(crate) fn warn_of_old_names(folders: &Path) {
    let Ok(entries) = std::fs::read_dir(folders) else { return };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter(|name| UserId::new(name).is_ok()) {
        if let Ok(usual) = user_name(&name)
            && usual.as_str() != name
        {
            let name = plain(&name, MAX_NAME);
            eprintln!(
                "warning: the workspace of {name} is not used: names are lower case now. Run `coracle users rename {name} {usual}`"
            );
        }
    }
}
