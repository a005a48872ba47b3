use super::configured;
use crate::output::plain;
use crate::settings::{announce, load_for_servers};
use crate::status::Status;
use crate::wiring::{Purpose, cancellable, runtime, store, upstream};
use clap::Args;
use coracle_types::UserId;
use coracle_upstream::SignInReturn;
use serde_json::Map;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Maximum length of a printed address in characters.
const MAX_ADDRESS: usize = 8_000;

#[derive(Debug, Args)]
pub(super) struct LoginArguments {
    /// Server name.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct LogoutArguments {
    /// Server name.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn login(arguments: &LoginArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let name = configured(&loaded, &arguments.name)?;
    announce(&loaded);
    let user = UserId::local();
    cancellable(async {
        let upstream = upstream(&loaded, &store().await?, Map::new(), Purpose::Own);
        match upstream.login(&user, &name, SignInReturn::Loopback, show_address).await {
            Ok(()) => {
                eprintln!("signed in to {name}: try it with `coracle servers test {name}`");
                Ok(Status::Success)
            }
            // The hint would suggest this command.
            Err(error) => {
                eprintln!("error: {}", plain(&error.to_string(), MAX_ADDRESS));
                Ok(Status::Failed)
            }
        }
    })
}

pub(super) fn logout(arguments: &LogoutArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let name = configured(&loaded, &arguments.name)?;
    runtime()?.block_on(async {
        let upstream = upstream(&loaded, &store().await?, Map::new(), Purpose::Own);
        upstream.logout(&UserId::local(), &name).await?;
        eprintln!("deleted the sign-in to {name}");
        Ok(Status::Success)
    })
}

/// Prints the address, and opens it if it is a web page and there is a screen. The server chose the address.
fn show_address(address: &str) {
    eprintln!("open this address in a browser on this machine to sign in:");
    if let Err(error) = writeln!(std::io::stdout(), "{}", plain(address, MAX_ADDRESS)) {
        tracing::debug!(%error, "cannot print the address");
    }
    if !address.starts_with("https://") && !address.starts_with("http://") {
        return;
    }
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let opener = if cfg!(target_os = "macos") {
        Some("open")
    } else {
        (set("DISPLAY") || set("WAYLAND_DISPLAY")).then_some("xdg-open")
    };
    let Some(opener) = opener else { return };
    let started =
        Command::new(opener).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        tracing::debug!(%error, "cannot open a browser");
    }
}
