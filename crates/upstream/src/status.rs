use coracle_types::{Scope, ServerName, UserId};
use std::fmt;
use std::time::Duration;

/// The owner of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// All users: the server is shared.
    Everyone,
    /// One user, who never shares it.
    User(UserId),
}

impl Owner {
    /// The owner of the connection that `user` gets to a server of this scope.
    pub fn of(user: &UserId, scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User(user.clone()),
            Scope::Shared => Self::Everyone,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::User(user) => user.fmt(f),
        }
    }
}

/// A change of something that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The owner of the connection that noticed it.
    pub owner: Owner,
    /// The server.
    pub server: ServerName,
    /// The kind of change.
    pub what: Changed,
}

/// The kind of change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Changed {
    /// The tools changed.
    Tools,
    /// The list of resources changed, according to the server.
    Resources,
    /// The prompts changed, according to the server.
    Prompts,
    /// The contents of a watched resource changed.
    Resource {
        /// The URI of the resource, or of something below it. Untrusted text.
        uri: String,
    },
}

/// The status of one server for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// The name of the server.
    pub name: ServerName,
    /// The state of its connection.
    pub state: ServerState,
    /// The number of tools, if known.
    pub tools: Option<usize>,
    /// The process ID of the child process, if it is one.
    pub pid: Option<u32>,
}

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Not connected: the connection starts when it is needed.
    Idle,
    /// Being started.
    Starting,
    /// Ready for use.
    Ready(ServerInfo),
    /// The start failed.
    Failed {
        /// The reason.
        reason: String,
        /// Time until the next attempt.
        retry_in: Duration,
    },
}

/// A server's description of itself, shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The revision of the protocol that is in use.
    pub protocol: String,
    /// The name.
    pub name: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// Instructions for a model. Untrusted text.
    pub instructions: Option<String>,
    /// The capabilities.
    pub offers: Offers,
}

/// The optional capabilities of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Tools.
    pub tools: bool,
    /// Resources.
    pub resources: bool,
    /// Notifications when a resource changes.
    pub subscriptions: bool,
    /// Prompts.
    pub prompts: bool,
    /// Completion of arguments.
    pub completions: bool,
    /// Log messages.
    pub logging: bool,
}
