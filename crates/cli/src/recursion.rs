//! Detects a Coracle that is among its own servers, at any depth.

use crate::listening::addresses;
use crate::status::Mistake;
use crate::variables;
use anyhow::Context;
use coracle_config::{Loaded, McpServer};
use coracle_upstream::CHAIN_VARIABLE;
use std::path::Path;

/// Number of times that this Coracle may be among its own ancestors. Once is allowed, because a server may start a
/// client on behalf of the user.
const MOST: usize = 1;

/// Commands that start Coracle, from whichever package.
const NAMES: [&str; 3] = ["coracle", "coracle.exe", "coracle-mcp"];

/// Identifies this Coracle by machine, data folder, settings file and names of servers.
pub(crate) fn identity(loaded: &Loaded) -> anyhow::Result<String> {
    let home = variables::home()?;
    let home = home.canonicalize().unwrap_or(home);
    let file = loaded.file.as_ref().map(|file| file.path.canonicalize().unwrap_or_else(|_| file.path.clone()));
    let servers: Vec<&String> = loaded.settings.mcp_servers.keys().collect();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(coracle_engine::digest(&(machine, home, file, servers)))
}

/// Identities of the ancestors and of this Coracle.
pub(crate) fn chain(loaded: &Loaded) -> anyhow::Result<Vec<String>> {
    let mut chain = ancestors();
    chain.push(identity(loaded)?);
    Ok(chain)
}

/// Identities of the ancestors, from the environment, which programs between two Coracles pass on.
fn ancestors() -> Vec<String> {
    let told = std::env::var(CHAIN_VARIABLE).unwrap_or_default();
    told.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Rejects serving as a server of itself.
pub(crate) fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let identity = identity(loaded)?;
    if ancestors().iter().filter(|of| **of == identity).count() > MOST {
        let hint = "one of its servers starts Coracle again: remove that server from mcpServers";
        return Err(Mistake::new("Coracle is among its own servers", Some(hint)).into());
    }
    Ok(())
}

/// Whether an entry of a client starts Coracle.
pub(crate) fn is_coracle(entry: &McpServer, loaded: &Loaded) -> bool {
    let words: Vec<&str> = entry.args.iter().map(coracle_types::Secret::expose).collect();
    let is_program = |word: &str| {
        Path::new(word).file_name().is_some_and(|name| NAMES.iter().any(|own| name == *own)) || is_this(word)
    };
    let started = entry.command.as_deref().is_some_and(&is_program) || words.iter().any(|word| is_program(word));
    let served = entry.url.as_ref().and_then(|url| url::Url::parse(url.expose()).ok()).is_some_and(|url| {
        let is_here = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let is_ours = |port: u16| addresses(loaded).is_ok_and(|all| all.iter().any(|address| address.port() == port));
        is_here && url.port().is_some_and(is_ours) && url.path().starts_with("/mcp")
    });
    served || started && words.contains(&"mcp")
}

/// Whether a path is that of this program.
fn is_this(program: &str) -> bool {
    let this = std::env::current_exe().context("cannot find this program").and_then(|path| Ok(path.canonicalize()?));
    Path::new(program).canonicalize().is_ok_and(|path| this.is_ok_and(|this| this == path))
}
