use super::not_changed;
use crate::oauth_tokens::StoredTokens;
use crate::settings::{file_to_edit, load_for_servers};
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::{runtime, store};
use clap::Args;
use coracle_config::{Loaded, Origin, edit};
use coracle_types::{ServerName, UserId};
use coracle_upstream::{Owner, TokenStore};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// Server name.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(arguments: &RemoveArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let name = arguments.name.as_str();
    let path = match loaded.origins.get(&format!("mcpServers.{name}")) {
        Some(Origin::File { path, .. }) => path.clone(),
        Some(origin) => {
            let hint = "remove it there";
            return Err(
                Mistake::new(format!("server {name} is not in a file: it comes from {origin}"), Some(hint)).into()
            );
        }
        None => file_to_edit(&loaded)?,
    };
    let text = edit::read(&path).map_err(|error| not_changed(&error))?;
    let edited = edit::remove_server(&text, name).map_err(|error| not_changed(&error))?;
    edit::write(&path, &edited)?;
    // An invalid server name cannot have any data.
    if let Ok(name) = ServerName::new(name) {
        runtime()?.block_on(forget(&name))?;
    }
    eprintln!("removed {name} from {}", path.display());
    remove_credentials(&loaded, name)?;
    Ok(Status::Success)
}

/// Removes the variables in the data folder's `.env` that only this server refers to. The `.env` of a project is for
/// other programs as well.
fn remove_credentials(loaded: &Loaded, name: &str) -> anyhow::Result<()> {
    let servers = &loaded.settings.mcp_servers;
    let Some(removed) = servers.get(name) else { return Ok(()) };
    let mut variables = removed.variables();
    for (_, other) in servers.iter().filter(|(other, _)| *other != name) {
        for used in other.variables() {
            variables.remove(&used);
        }
    }
    let file = variables::home()?.join(".env");
    let text = edit::read(&file).map_err(|error| not_changed(&error))?;
    let edited = edit::remove_variables(&text, &variables).map_err(|error| not_changed(&error))?;
    if edited != text {
        edit::write(&file, &edited)?;
        let names: Vec<&str> = variables.iter().map(String::as_str).collect();
        eprintln!("removed its credentials from {}: {}", file.display(), names.join(", "));
    }
    Ok(())
}

/// Deletes decisions and sign-ins, so that a later server with the same name does not get them.
async fn forget(name: &ServerName) -> anyhow::Result<()> {
    let store = store().await?;
    store.forget_server(name).await?;
    let tokens = StoredTokens(Arc::clone(&store));
    for owner in [Owner::Everyone, Owner::User(UserId::local())] {
        tokens.delete(&owner, name).await?;
    }
    Ok(())
}
