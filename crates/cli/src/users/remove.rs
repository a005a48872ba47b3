//! `coracle users remove`: deletes an account with all of its data.

use super::list::{size, usage};
use super::{known, named, told};
use crate::output::{agreed, counted};
use crate::status::Status;
use crate::wiring::workspaces;
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_config::Loaded;
use coracle_engine::{AccountFate, Belongings};
use coracle_types::UserId;

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// User name; `local` for the user of `coracle exec` and `coracle mcp`, and of `coracle up` without users.
    name: String,

    /// Delete without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) async fn run(arguments: &RemoveArguments, people: &People, loaded: &Loaded) -> anyhow::Result<Status> {
    let name = named(&arguments.name)?;
    let belongings = Belongings::new(workspaces(&loaded.settings)?, people.shared_store());
    known(people, &belongings, &name).await?;
    let folder = belongings.folder(&name);
    // A link in place of a workspace does not count.
    let is_real = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let held = if is_real { usage(&folder) } else { super::list::Usage::default() };
    let files = counted(usize::try_from(held.files).unwrap_or(usize::MAX), "file");
    let what = "their keys, conversations, sessions and skills";
    let question = format!("Delete {name}, {what}, and {files} ({})?", size(held.bytes));
    if !arguments.yes && !agreed(&question, "add --yes to delete without asking")? {
        eprintln!("nothing was changed");
        return Ok(Status::Failed);
    }
    let deleted = belongings.delete(&name, AccountFate::Deleted).await;
    people.record_removal(&name);
    deleted.with_context(|| format!("{name} was not deleted completely: run the command again"))?;
    // A server that was still working for the user may have added something.
    if belongings.has_files(&name) || people.store().has_data(&name).await? {
        anyhow::bail!("a running coracle still adds data of {name}\nhint: run the command again, or stop it first");
    }
    eprintln!("removed {name}");
    if name != UserId::local() && !people.are_any().await.map_err(told)? {
        eprintln!("there are no users left: unless server.auth is `required`, `coracle up` serves without sign-in");
    }
    Ok(Status::Success)
}
