//! Changes of the settings of a running server.

use coracle_config::McpServer;
use coracle_types::{Decision, ServerName};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The settings file of a running server.
///
/// Contract: methods are called concurrently, and those that change something may block. A change is written to the file
/// and applied, or neither.
pub trait Configuration: Send + Sync + fmt::Debug {
    /// All servers in the settings, also those that cannot be used.
    fn servers(&self) -> Arc<BTreeMap<String, McpServer>>;

    /// Whether a server is in the settings file, and not in a variable or a flag.
    fn is_in_file(&self, server: &str) -> bool;

    /// Whether admins may add servers that start a command, if there are users.
    fn allows_commands(&self) -> bool;

    /// Adds a server. Its credentials are kept apart from the settings.
    fn add_server(&self, new: NewServer) -> Result<(), ConfigurationError>;

    /// Removes a server, with its credentials.
    fn remove_server(&self, name: &str) -> Result<(), ConfigurationError>;

    /// Replaces the rules with the patterns `replaced` by one, or by none.
    fn set_rule(&self, replaced: &[String], rule: Option<(&str, Decision)>) -> Result<(), ConfigurationError>;
}

/// A server to add.
#[derive(Clone, Debug)]
pub struct NewServer {
    /// The name.
    pub name: ServerName,
    /// How to reach it.
    pub entry: McpServer,
}

/// Why the settings were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// There is a server with this name.
    #[error("there is already a server {name}")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such server.
    #[error("there is no server {name} in the settings")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The server cannot be used like this.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and how to fix it.
        reason: String,
    },
    /// The settings cannot be written, or have to be edited by hand.
    #[error("the settings cannot be changed: {reason}")]
    NotWritable {
        /// The reason, and how to fix it.
        reason: String,
    },
}

impl ConfigurationError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "exists",
            Self::NotFound { .. } => "not_found",
            Self::Invalid { .. } => "invalid_request",
            Self::NotWritable { .. } => "not_writable",
        }
    }
}
