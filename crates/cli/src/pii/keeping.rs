//! `coracle pii rotate` and `coracle pii forget`: new keys for vaults, and the end of a vault.

use crate::audit::Audit;
use crate::output::{agreed, counted};
use crate::settings::load;
use crate::status::Status;
use crate::users::told;
use crate::wiring::{cancellable, store};
use clap::Args;
use coracle_accounts::{People, user_name};
use coracle_types::UserId;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct RotateArguments {
    /// User name [default: `local`, the user of `coracle exec` and `coracle mcp`, and of `coracle up` without users].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Rotate the vaults of all users.
    #[arg(long, conflicts_with = "user")]
    all: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArguments {
    /// User name [default: `local`, the user of `coracle exec` and `coracle mcp`, and of `coracle up` without users].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Delete without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) fn rotate(arguments: &RotateArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    with_people(config, async |people| {
        let users = if arguments.all {
            let all = people.all().await.map_err(told)?.into_iter().map(|user| user.id);
            [UserId::local()].into_iter().chain(all).collect()
        } else {
            vec![named(&people, arguments.user.as_deref()).await?]
        };
        for user in users {
            people.record_rotated_vault(&user).await.map_err(told)?;
            let count = people.store().rotate_vault(&user).await?;
            eprintln!("{user}: {} encrypted with a new key", counted(count, "value"));
        }
        Ok(Status::Success)
    })
}

pub(super) fn forget(arguments: &ForgetArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    with_people(config, async |people| {
        let user = named(&people, arguments.user.as_deref()).await?;
        let question = format!("Delete the vault of {user}? Its tokens can never be restored.");
        if !arguments.yes && !agreed(&question, "add --yes to delete without asking")? {
            eprintln!("nothing was changed");
            return Ok(Status::Failed);
        }
        people.record_deleted_vault(&user).await.map_err(told)?;
        if people.store().delete_vault(&user).await? {
            eprintln!("the vault of {user} is deleted");
        } else {
            eprintln!("{user} has no vault");
        }
        Ok(Status::Success)
    })
}

fn with_people(
    config: Option<&Path>,
    work: impl AsyncFnOnce(People) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    cancellable(async {
        let store = store().await?;
        let people = People::new(Arc::clone(&store)).with_audit(Audit::new(&loaded, Some(&store))?.log());
        work(people).await
    })
}

/// The user of a command: one with an account, or the local one.
async fn named(people: &People, name: Option<&str>) -> anyhow::Result<UserId> {
    let Some(name) = name else { return Ok(UserId::local()) };
    let name = user_name(name).map_err(told)?;
    if name == UserId::local() { Ok(name) } else { Ok(people.find(&name).await.map_err(told)?.id) }
}
