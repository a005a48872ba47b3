//! Where data came from: the servers whose results are in a session, a conversation or a workspace, or are the values of
//! tokens; and what users have approved although a flow rule asks.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ConversationId, ExecutionId, RunId, ServerLabel, ServerName, SessionId, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The maximum number of servers in one place. One more is an error, so that none is forgotten.
pub const MAX_PLACE_SOURCES: usize = 1_000;
/// The number of tokens per user whose sources are kept. Those that were seen first are forgotten.
pub const KEPT_VALUE_SOURCES: usize = 400_000;
/// The maximum number of approvals of flows per user. One more replaces the oldest.
pub const MAX_FLOW_APPROVALS: usize = 10_000;
/// How long a connection of a client is remembered.
pub const KEPT_CLIENT_SOURCES: Duration = Duration::from_hours(30 * 24);

/// A place where data of servers may be: code that runs there may use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(String);

impl Place {
    /// The interpreter and the log of a session.
    pub fn session(id: &SessionId) -> Self {
        Self(format!("session:{id}"))
    }

    /// A conversation with the agent.
    pub fn conversation(id: &ConversationId) -> Self {
        Self(format!("conversation:{id}"))
    }

    /// A run of the agent that belongs to no conversation.
    pub fn run(id: &RunId) -> Self {
        Self(format!("run:{id}"))
    }

    /// The connection of a client, which has a name that no other connection has.
    pub fn client(name: &str) -> Self {
        Self(format!("client:{name}"))
    }

    /// The files of the user's own workspace, or of a folder that is used instead.
    pub fn workspace(folder: Option<&Path>) -> Self {
        Self(match folder {
            None => "workspace".to_owned(),
            Some(folder) => format!("workspace:{}", folder.display()),
        })
    }

    /// The code skills of the user.
    pub fn skills() -> Self {
        Self("skills".to_owned())
    }

    /// The artifacts of the user, which clients read.
    pub fn artifacts() -> Self {
        Self("artifacts".to_owned())
    }

    /// The name, as in listings.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place with this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Data of a server in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSource {
    /// The place.
    pub place: Place,
    /// The server.
    pub server: ServerName,
    /// The labels that it had then.
    pub labels: BTreeSet<ServerLabel>,
    /// The execution that may bring the data there, until it has ended.
    pub execution: Option<ExecutionId>,
    /// When it was last read from.
    pub seen_at: SystemTime,
}

/// A permanent approval of a flow that a rule asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowApproval {
    /// Digest of everything that it applies to: the definition of the tool, the rule, the sources and the kinds.
    pub digest: String,
    /// The server of the tool.
    pub server: ServerName,
    /// The tool's name on the wire.
    pub tool: String,
    /// The rule.
    pub rule: String,
    /// The servers that the data came from.
    pub sources: Vec<ServerName>,
    /// When it was approved.
    pub approved_at: SystemTime,
}

/// The part of a store that knows where data came from. Its contract is that of [`crate::Store`]. In addition, what was
/// added is on the disk when a function returns.
#[async_trait]
pub trait Provenance: Send + Sync + fmt::Debug {
    /// Notes that data of servers is in places. What is there already keeps the later time, and all labels.
    async fn add_sources(&self, user: &UserId, sources: &[PlacedSource]) -> Result<(), StoreError>;

    /// The servers whose data is in these places.
    async fn sources_in(&self, user: &UserId, places: &[Place]) -> Result<Vec<PlacedSource>, StoreError>;

    /// All places of a user with the data there, by place and server.
    async fn sources(&self, user: &UserId) -> Result<Vec<PlacedSource>, StoreError>;

    /// Ends what an execution may bring to a place: the data stays there if `kept`, and otherwise never came.
    async fn settle_sources(
        &self,
        user: &UserId,
        place: &Place,
        execution: &ExecutionId,
        kept: bool,
    ) -> Result<(), StoreError>;

    /// Notes that the data of one place is in another one, too.
    async fn copy_sources(&self, user: &UserId, from: &Place, to: &Place) -> Result<(), StoreError>;

    /// Forgets what data is in a place, or in all places of the user. Returns the number of entries.
    async fn forget_sources(&self, user: &UserId, place: Option<&Place>) -> Result<u64, StoreError>;

    /// Notes that the values of tokens came from a server. The [`KEPT_VALUE_SOURCES`] that were seen last are kept.
    async fn add_value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
        server: &ServerName,
    ) -> Result<(), StoreError>;

    /// The servers that the values of these tokens came from.
    async fn value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<ServerName>>, StoreError>;

    /// Stores a permanent approval.
    async fn approve_flow(&self, user: &UserId, approval: &FlowApproval) -> Result<(), StoreError>;

    /// The permanent approvals of a user, the latest first.
    async fn flow_approvals(&self, user: &UserId) -> Result<Vec<FlowApproval>, StoreError>;

    /// Deletes the approvals for a tool. Returns whether there were any.
    async fn forget_flow_approvals(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError>;
}

/// Checks sources. Both stores reject the same ones.
pub(crate) fn check_sources(sources: &[PlacedSource]) -> Result<(), StoreError> {
    sources.iter().try_for_each(|source| long_text("place", source.place.as_str()))
}

/// Checks that a place does not have too many servers.
pub(crate) fn check_count(servers: usize) -> Result<(), StoreError> {
    bounds::within("number of servers in one place", servers, MAX_PLACE_SOURCES)
}

pub(crate) fn check_approval(approval: &FlowApproval) -> Result<(), StoreError> {
    bounds::tool_name(&approval.tool)?;
    bounds::name("digest", &approval.digest)?;
    long_text("flow rule", &approval.rule)
}

/// Checks a text that may be as long as a path.
fn long_text(what: &'static str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() || text.contains('\0') {
        return Err(StoreError::InvalidName { what });
    }
    bounds::within(what, text.len(), 2 * bounds::MAX_PATH_BYTES)
}

/// Labels as one text.
pub(crate) fn labels_text(labels: &BTreeSet<ServerLabel>) -> String {
    labels.iter().map(|label| label.as_str()).collect::<Vec<_>>().join(",")
}

/// Labels from text. Those of a later version are left out.
pub(crate) fn read_labels(text: &str) -> BTreeSet<ServerLabel> {
    text.split(',').filter_map(ServerLabel::from_name).collect()
}
