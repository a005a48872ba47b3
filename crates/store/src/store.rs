use crate::{
    Accounts, ApprovalLog, Artifacts, Conversations, DerivedKey, ExecutionRecord, Journal, Kept, LimitUse, ListedTools,
    Owner, Plans, Provenance, Runs, Shape, StoreError, TokenUse, TokenVault, ToolDecision,
};
use async_trait::async_trait;
use coracle_types::{ExecutionId, Secret, ServerName, UserId};
use serde_json::Value;
use std::fmt;

/// Persistent data.
///
/// Contract:
/// - a write that has returned is visible to every later read, in this process and in others;
/// - a write is complete or absent, even if its future is dropped or the process is killed;
/// - data of one owner or user is never visible to, changed or deleted by another;
/// - putting again replaces, and deleting something that does not exist is not an error;
/// - times are kept to the millisecond, everything else unchanged;
/// - values beyond a limit of this crate are rejected with [`StoreError::TooLarge`], without any change;
/// - names of tools and secrets can be any text without `\0` that is not empty, and are compared byte by byte.
#[async_trait]
pub trait Store:
    Accounts
    + ApprovalLog
    + Artifacts
    + Conversations
    + Journal
    + LimitUse
    + Plans
    + Provenance
    + Runs
    + TokenUse
    + TokenVault
    + Send
    + Sync
    + fmt::Debug
{
    /// Stores the tools that a server has listed.
    async fn put_tools(&self, owner: &Owner, server: &ServerName, listed: &ListedTools) -> Result<(), StoreError>;

    /// The tools that a server last listed for this owner.
    async fn tools(&self, owner: &Owner, server: &ServerName) -> Result<Option<ListedTools>, StoreError>;

    /// The learned shape of a tool's results.
    async fn shape(&self, owner: &Owner, server: &ServerName, tool: &str) -> Result<Option<Shape>, StoreError>;

    /// Writes a shape if its version is still `expected`, where 0 means that there is none. Returns the new version.
    ///
    /// Exactly one of several writers with the same `expected` succeeds. The others get [`StoreError::Conflict`].
    async fn put_shape(
        &self,
        owner: &Owner,
        server: &ServerName,
        tool: &str,
        shape: &Value,
        expected: u64,
    ) -> Result<u64, StoreError>;

    /// All shapes of a server, sorted by tool name.
    async fn shapes(&self, owner: &Owner, server: &ServerName) -> Result<Vec<(String, Shape)>, StoreError>;

    /// Stores a user's decision about a tool. It replaces all earlier ones about the tool. One that is bound to arguments
    /// replaces only that about the same arguments; the newest [`crate::MAX_ARGUMENT_DECISIONS`] of these are kept.
    async fn remember(&self, user: &UserId, decision: &ToolDecision) -> Result<(), StoreError>;

    /// A user's decision about all calls of a tool.
    async fn decision(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<ToolDecision>, StoreError>;

    /// All decisions of a user about a tool: that about all calls first, then by the digest of the arguments.
    async fn decisions_about(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Vec<ToolDecision>, StoreError>;

    /// All decisions of a user, by server and tool, and then as in [`Store::decisions_about`].
    async fn decisions(&self, user: &UserId) -> Result<Vec<ToolDecision>, StoreError>;

    /// Deletes all decisions about a tool. Returns whether there was one.
    async fn forget(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError>;

    /// Deletes the decision that is bound to the arguments with this digest. Returns whether there was one.
    async fn forget_arguments(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: &str,
    ) -> Result<bool, StoreError>;

    /// Deletes the tools, shapes, decisions, approvals of flows and sign-ins (see [`sign_in_secret`]) of a server for every owner, because
    /// it is no longer configured, and a later server with its name is a different one. Other secrets stay.
    async fn forget_server(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Deletes a user and all data of the user: the account with its keys, sessions and links, decisions, tools and
    /// shapes of their servers, secrets, executions, the logs of sessions and approvals, conversations with their runs,
    /// token counts, what was used of limits, the vault, plans, where data came from, approvals of flows, and the index of
    /// artifacts. A later user with this name starts with nothing. Returns whether there was an account.
    async fn delete_user(&self, user: &UserId) -> Result<bool, StoreError>;

    /// Deletes all data of a user, like [`Store::delete_user`], except the account with its keys, sessions and links.
    async fn delete_user_data(&self, user: &UserId) -> Result<(), StoreError>;

    /// Removes what was deleted from the disk. Without this, deleted data may stay in unused parts of files until they
    /// are used again. Rewrites the whole database, and other writes wait meanwhile.
    async fn erase_deleted(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Stores a secret, encrypted if it leaves the process.
    async fn put_secret(&self, owner: &Owner, name: &str, secret: &Secret) -> Result<(), StoreError>;

    /// Returns a secret.
    async fn secret(&self, owner: &Owner, name: &str) -> Result<Option<Secret>, StoreError>;

    /// The names of an owner's secrets, in order. Requires no key.
    async fn secret_names(&self, owner: &Owner) -> Result<Vec<String>, StoreError>;

    /// Deletes a secret, which requires no key. Returns whether there was one.
    async fn delete_secret(&self, owner: &Owner, name: &str) -> Result<bool, StoreError>;

    /// The key for a purpose, derived from the master key, which is created if there is none. A missing or wrong one is an
    /// error while there are secrets that only it can decrypt.
    async fn derived_key(&self, purpose: &str) -> Result<DerivedKey, StoreError>;

    /// Sets how much history is kept from now on.
    fn keep(&self, kept: Kept);

    /// Checks that the store is readable and writable, by trying, and that secrets can be decrypted.
    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Stores an execution. Replaces one with the same user and ID, unless the new one is running: that marks the
    /// beginning, and changes nothing if the end is already stored. The newest [`Kept::executions`] of each user are
    /// kept, and temporarily a few more. [`Journal::interrupt_lost`] marks those whose process is gone.
    async fn record(&self, record: &ExecutionRecord) -> Result<(), StoreError>;

    /// One execution of a user, if it is kept.
    async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError>;

    /// Executions of a user, newest first, and those of the same millisecond by descending ID. At most `limit`, and
    /// never more than [`crate::MAX_PAGE`]. If `before` is given, only those after it in this order, and none if it is
    /// unknown.
    async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError>;
}

/// The name of the secret with an owner's sign-in to a server.
pub fn sign_in_secret(server: &ServerName) -> String {
    format!("oauth:{server}")
}
