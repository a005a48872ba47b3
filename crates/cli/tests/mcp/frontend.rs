//! Coracle as an MCP server with real clients: the official ones of both generations of the protocol, over stdio and
//! HTTP, and hostile peers.

mod ask;
mod clients;
pub(crate) mod driver;
mod first_start;
mod hostile;
mod install;
mod leaving;
mod legacy_tools;
mod privacy;
mod profiles;
mod recursion;
mod results;
mod savings;
mod skills;
mod unusable;
mod users;
pub(crate) mod wire;
mod workspace;
