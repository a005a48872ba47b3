use super::not_changed;
use crate::settings::{file_to_edit, load_for_servers};
use crate::status::{Mistake, Status};
use crate::tokens::StoredTokens;
use crate::wiring::{runtime, store};
use clap::Args;
use coracle_config::{Origin, edit};
use coracle_types::{ServerName, UserId};
use coracle_upstream::{Owner, TokenStore};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    /// Which server.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(arguments: &RemoveArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let name = arguments.name.as_str();
    let path = match loaded.origins.get(&format!("mcpServers.{name}")) {
        Some(Origin::File { path, .. }) => path.clone(),
        Some(origin) => {
            let hint = "take it out there";
            return Err(
                Mistake::new(format!("server {name} is not in a file: it comes from {origin}"), Some(hint)).into()
            );
        }
        None => file_to_edit(&loaded)?,
    };
    let text = edit::read(&path).map_err(|error| not_changed(&error))?;
    let edited = edit::remove_server(&text, name).map_err(|error| not_changed(&error))?;
    edit::write(&path, &edited)?;
    // A name that no server can have has left nothing behind.
    if let Ok(name) = ServerName::new(name) {
        runtime()?.block_on(forget(&name))?;
    }
    eprintln!("removed {name} from {}", path.display());
    Ok(Status::Success)
}

/// Whatever later bears the name is another server: it gets neither the decisions nor the sign-ins of this one.
async fn forget(name: &ServerName) -> anyhow::Result<()> {
    let store = store().await?;
    store.forget_server(name).await?;
    let tokens = StoredTokens(Arc::clone(&store));
    for owner in [Owner::Everyone, Owner::User(UserId::local())] {
        tokens.delete(&owner, name).await?;
    }
    Ok(())
}
