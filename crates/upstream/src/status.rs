use coracle_types::{Scope, ServerName, UserId};
use std::fmt;
use std::time::Duration;

/// To whom a connection belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// To all users: the server is shared.
    Everyone,
    /// To one user, and nobody else ever uses it.
    User(UserId),
}

impl Owner {
    /// Whose connection `user` gets to a server of this scope.
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

/// Something that a server offers is no longer what it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// Whose connection noticed it.
    pub owner: Owner,
    /// Which server.
    pub server: ServerName,
    /// What has changed.
    pub what: Changed,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Changed {
    /// The tools.
    Tools,
    /// Which resources there are, as the server says.
    Resources,
    /// The prompts, as the server says.
    Prompts,
    /// What is in a resource that somebody watches.
    Resource {
        /// Its address, or that of something below it. Hostile text.
        uri: String,
    },
}

/// How one server is doing for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Which server.
    pub name: ServerName,
    /// What its connection does.
    pub state: ServerState,
    /// How many tools it has, once that is known.
    pub tools: Option<usize>,
    /// The child process, if it is one.
    pub pid: Option<u32>,
}

/// What a connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Nothing: it starts when it is needed.
    Idle,
    /// It is being started.
    Starting,
    /// It can be used.
    Ready(ServerInfo),
    /// It could not be started.
    Failed {
        /// Why.
        reason: String,
        /// When it may be tried again.
        retry_in: Duration,
    },
}

/// What a server says of itself, shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The revision of the protocol that is spoken with it.
    pub protocol: String,
    /// Its name for itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// How it wants to be used, for a model. Hostile text.
    pub instructions: Option<String>,
    /// What it offers.
    pub offers: Offers,
}

/// What a server offers beyond what every one must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Tools.
    pub tools: bool,
    /// Resources.
    pub resources: bool,
    /// Word when a resource changes.
    pub subscriptions: bool,
    /// Prompts.
    pub prompts: bool,
    /// Completion of arguments.
    pub completions: bool,
    /// Log messages.
    pub logging: bool,
}
