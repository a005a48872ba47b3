use crate::timestamp::Timestamp;
use coracle_config::McpServer;
use coracle_policy::Labels;
use coracle_types::{Scope, ServerLabel};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// MCP server and its state
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Server)]
pub struct ServerView {
    /// Server name
    pub name: String,
    /// Command or URL of the server, without credentials; only for admins
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub transport: Option<Value>,
    /// Server scope: `user` (each user has a connection of their own) or `shared` (all users share one)
    #[schema(value_type = String)]
    pub scope: Scope,
    /// Whether the server is reached by URL, so that it can ask users to sign in
    pub can_sign_in: bool,
    /// Whether admins can remove the server here: it is in the settings file
    pub can_remove: bool,
    /// Place in the settings; only in the output of commands
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Server state: `listed` (its tools are known), `not_listed`, `failed` (to start), `switched_off` or
    /// `cannot_be_used`
    #[schema(value_type = String)]
    pub state: ServerCondition,
    /// State of the connection: `idle`, `starting`, `ready` or `failed`; only for servers that can be used
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<&'static str>,
    /// Number of tools, if known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Time at which the server last listed its tools
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub listed_at: Option<Timestamp>,
    /// Labels of the server
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
    /// Reason why the server cannot be used or started
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Fix for the problem
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Label of a server
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ServerLabel)]
pub struct LabelView {
    /// Label: `private`, `untrusted` or `exfil`
    #[schema(value_type = String)]
    pub label: ServerLabel,
    /// Source of a guessed label; null if the label is configured
    pub guessed_from: Option<String>,
}

impl LabelView {
    /// The labels of a server, in order.
    pub fn all(labels: &Labels) -> Vec<Self> {
        let reasons = labels.reasons().into_iter();
        reasons.map(|(label, reason)| Self { label, guessed_from: reason.map(str::to_owned) }).collect()
    }
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerCondition {
    /// Its tools are known.
    Listed,
    /// It has not listed its tools yet.
    NotListed,
    /// It failed to start recently.
    Failed,
    /// It is disabled.
    SwitchedOff,
    /// Its settings are wrong.
    CannotBeUsed,
}

impl ServerView {
    /// The transport in an entry of the settings, with credentials hidden.
    pub fn transport_of(entry: &McpServer) -> Value {
        let mut shown: Value = serde_json::from_str(&entry.masked_json()).unwrap_or_default();
        if let Value::Object(fields) = &mut shown {
            fields.retain(|key, _| {
                matches!(key.as_str(), "type" | "command" | "args" | "url" | "env" | "headers" | "cwd" | "envFile")
            });
        }
        shown
    }
}
