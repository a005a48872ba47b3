//! The JSON of sessions, accounts, API keys and more: the same in `/api` and in the `--json` output of commands.

mod approvals;
mod conversations;
mod decisions;
mod server_test;
mod servers;
mod sources;

use crate::timestamp::Timestamp;
pub(crate) use approvals::ApprovalView;
pub(crate) use conversations::{ConversationView, RunView};
use coracle_accounts::is_good;
use coracle_store::{ApiKey, KeyScope, SessionRecord, User};
pub use decisions::DecisionView;
use serde::Serialize;
pub use server_test::ServerTestView;
pub use servers::{LabelView, ServerCondition, ServerView};
pub use sources::{FlowApprovalView, SourceView};
use std::time::SystemTime;
use utoipa::ToSchema;
use utoipa::openapi::{Array, ObjectBuilder, Type};

/// Session: a series of executions that share variables
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionView {
    /// Session ID, which cannot be guessed
    session_id: String,
    /// Session number, counted for each user from 1
    number: u64,
    /// Session name chosen by the caller; null if the session has none
    label: Option<String>,
    /// Creation time
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Start time of the most recent task
    #[schema(value_type = String, format = DateTime)]
    last_used: Timestamp,
    /// End time; null if the session has not ended
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Number of tasks started in the session, including those no longer stored
    tasks: u64,
}

impl From<&SessionRecord> for SessionView {
    fn from(record: &SessionRecord) -> Self {
        Self {
            session_id: record.id.as_str().to_owned(),
            number: record.number,
            label: record.label.clone(),
            started_at: record.started_at.into(),
            last_used: record.last_used.into(),
            ended_at: record.ended_at.map(Timestamp::from),
            tasks: record.tasks,
        }
    }
}

/// User account, as visible to admins
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    /// User name
    name: String,
    /// Display name; null if none is set
    display_name: Option<String>,
    /// User role: `admin` or `user`
    role: &'static str,
    /// Whether the account is disabled. A disabled user cannot sign in or use API keys.
    disabled: bool,
    /// Whether the account has a password
    has_password: bool,
    /// Issuer URL of the linked OpenID Connect provider; null if there is none
    issuer: Option<String>,
    /// Creation time
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last request, accurate to about a minute; null if there was none
    #[schema(value_type = Option<String>, format = DateTime)]
    last_seen: Option<Timestamp>,
}

impl From<&User> for AccountView {
    fn from(user: &User) -> Self {
        Self {
            name: user.id.to_string(),
            display_name: user.display_name.clone(),
            role: user.role.as_str(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            issuer: user.foreign.as_ref().map(|foreign| foreign.issuer.clone()),
            created_at: user.created_at.into(),
            last_seen: user.last_seen.map(Timestamp::from),
        }
    }
}

/// API key, without its secret
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyView {
    /// Key ID, which is not secret
    id: String,
    /// Key name, chosen by the owner
    name: String,
    /// Key scopes: any of `mcp`, `api`, `admin`, `metrics` and `approve`
    #[schema(schema_with = scopes)]
    scopes: Vec<&'static str>,
    /// Key state: `active`, `expired` or `revoked`
    state: &'static str,
    /// Whether the key is active: neither revoked nor expired
    active: bool,
    /// Creation time
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Expiration time; null if the key does not expire
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Time of last use, accurate to about a minute; null if never used
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used: Option<Timestamp>,
    /// Revocation time; null if the key is not revoked
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// ID of the API key that created this key; null if no key did
    made_by: Option<String>,
}

impl KeyView {
    /// The key as it is at this moment.
    pub fn of(key: &ApiKey, now: SystemTime) -> Self {
        let state = key_state(key, now);
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            state,
            active: state == ACTIVE,
            created_at: key.created_at.into(),
            expires_at: key.expires_at.map(Timestamp::from),
            last_used: key.last_used.map(Timestamp::from),
            revoked_at: key.revoked_at.map(Timestamp::from),
            made_by: key.made_by.clone(),
        }
    }
}

const ACTIVE: &str = "active";

/// The state of a key at a moment, in one word.
pub fn key_state(key: &ApiKey, now: SystemTime) -> &'static str {
    match (key.revoked_at, is_good(key, now)) {
        (Some(_), _) => "revoked",
        (None, false) => "expired",
        (None, true) => ACTIVE,
    }
}

/// Returns the schema of a list of scopes.
pub(crate) fn scopes() -> Array {
    let names = KeyScope::ALL.map(KeyScope::as_str);
    Array::new(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)))
}
