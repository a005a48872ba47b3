use crate::{Accounts, Artifacts, ExecutionRecord, Journal, Kept, ListedTools, Owner, Shape, StoreError, ToolDecision};
use async_trait::async_trait;
use coracle_types::{ExecutionId, Secret, ServerName, UserId};
use serde_json::Value;
use std::fmt;

/// What survives a restart.
///
/// Contract:
/// - a write that has returned is seen by every read that starts later, in this process and in others;
/// - a write is whole or not there, also when its future is dropped or the process killed;
/// - what one owner or user has put is never seen, changed or deleted in the name of another;
/// - putting again replaces, and deleting what is not there is no error;
/// - times are kept to the millisecond, everything else as it was given;
/// - what is beyond a cap of this crate is refused with [`StoreError::TooLarge`] and changes nothing;
/// - names of tools and secrets are any text, compared byte by byte, but not empty and without `\0`.
#[async_trait]
pub trait Store: Accounts + Artifacts + Journal + Send + Sync + fmt::Debug {
    /// Keeps the tools that a server has listed.
    async fn put_tools(&self, owner: &Owner, server: &ServerName, listed: &ListedTools) -> Result<(), StoreError>;

    /// The tools that a server has last listed for this owner.
    async fn tools(&self, owner: &Owner, server: &ServerName) -> Result<Option<ListedTools>, StoreError>;

    /// What is known of the results of a tool.
    async fn shape(&self, owner: &Owner, server: &ServerName, tool: &str) -> Result<Option<Shape>, StoreError>;

    /// Writes a shape if it is still at version `expected`; 0 means that there is none. Returns the new version.
    ///
    /// Of any number of writers with the same `expected` exactly one succeeds: the others get
    /// [`StoreError::Conflict`].
    async fn put_shape(
        &self,
        owner: &Owner,
        server: &ServerName,
        tool: &str,
        shape: &Value,
        expected: u64,
    ) -> Result<u64, StoreError>;

    /// All shapes of a server, by the names of the tools, in the order of these.
    async fn shapes(&self, owner: &Owner, server: &ServerName) -> Result<Vec<(String, Shape)>, StoreError>;

    /// Keeps what a user has decided about a tool.
    async fn remember(&self, user: &UserId, decision: &ToolDecision) -> Result<(), StoreError>;

    /// What a user has decided about a tool.
    async fn decision(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<ToolDecision>, StoreError>;

    /// All that a user has decided, by server and tool.
    async fn decisions(&self, user: &UserId) -> Result<Vec<ToolDecision>, StoreError>;

    /// Takes a decision back. Returns whether there was one.
    async fn forget(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError>;

    /// Forgets the tools, shapes and decisions of a server, for every owner: it is no longer configured, and one that
    /// later bears its name is another. Secrets stay.
    async fn forget_server(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Deletes a user and everything that is the user's: the account with its keys, sessions and links, decisions, what
    /// their servers listed, secrets, executions, the log of sessions, and the index of artifacts. Whoever gets the name
    /// later starts with nothing. Returns whether there was an account.
    async fn delete_user(&self, user: &UserId) -> Result<bool, StoreError>;

    /// Keeps a secret, encrypted where it leaves the process.
    async fn put_secret(&self, owner: &Owner, name: &str, secret: &Secret) -> Result<(), StoreError>;

    /// A secret that was kept.
    async fn secret(&self, owner: &Owner, name: &str) -> Result<Option<Secret>, StoreError>;

    /// Deletes a secret; needs no key. Returns whether there was one.
    async fn delete_secret(&self, owner: &Owner, name: &str) -> Result<bool, StoreError>;

    /// Sets how much is kept from now on.
    fn keep(&self, kept: Kept);

    /// Whether something can be kept and read at this moment, found by trying; also whether the secrets can be opened.
    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps an execution; one with the same user and id is replaced, unless the new one is said to run: that is for the
    /// beginning, and changes nothing if the end is there already. Of each user the newest [`Kept::executions`] stay, and
    /// for a while a few more. [`Journal::interrupt_lost`] tells those whose process is gone from those that run.
    async fn record(&self, record: &ExecutionRecord) -> Result<(), StoreError>;

    /// One execution of a user, if it is kept.
    async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// Executions of a user, the newest first and those of the same millisecond by falling id, at most `limit` and
    /// never more than [`crate::MAX_PAGE`]; only those that come after `before` in this order, if it is given. An
    /// unknown `before` has none after it.
    async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError>;
}
