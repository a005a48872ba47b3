use super::candidate::Candidate;
use super::not_changed;
use crate::settings::{file_to_edit, load_for_servers};
use crate::status::{Mistake, Status};
use crate::wiring::{runtime, store};
use clap::Args;
use coracle_config::Origin;
use coracle_types::ServerName;
use std::path::Path;

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
    let mut candidate = Candidate::read(path)?;
    let variables = candidate.remove(name, &loaded.settings.mcp_servers).map_err(|error| not_changed(&error))?;
    candidate.write()?;
    // An invalid server name cannot have any data.
    if let Ok(name) = ServerName::new(name) {
        // A later server with this name does not get the decisions and sign-ins.
        runtime()?.block_on(async { anyhow::Ok(store().await?.forget_server(&name).await?) })?;
    }
    eprintln!("removed {name} from {}", candidate.file().display());
    if !variables.is_empty() {
        let names: Vec<&str> = variables.iter().map(String::as_str).collect();
        eprintln!("removed its credentials from {}: {}", candidate.variables_file().display(), names.join(", "));
    }
    Ok(Status::Success)
}
