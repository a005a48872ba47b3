use crate::{Schema, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The largest arguments of a call of a tool, and the largest answer to one, as JSON: they go to and from a sandbox in one
/// frame of 8 MiB, with some words around them.
pub const MAX_CALL_BYTES: u64 = (8 << 20) - (64 << 10);

/// A tool as its server describes it. Every text in it is hostile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The server that offers it.
    pub server: ServerName,
    /// Its name on the wire: any text.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub input_schema: Schema,
    /// JSON Schema of its structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    /// Where its server says that it belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What it says of its effects.
    #[serde(default)]
    pub hints: ToolHints,
}

/// What a tool says of its effects: claims, not facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHints {
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches beyond what its server holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// What a call of a tool came to, as its server said it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The structured result, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The parts, in order.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The tool says that it failed; the content tells why.
    #[serde(default)]
    pub is_error: bool,
}

/// One part of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text, often JSON.
    Text {
        /// The text.
        text: String,
    },
    /// An image, a sound or a resource in bytes: becomes a file in the sandbox.
    Media {
        /// For example `image/png`.
        mime: String,
        /// Base64, as it came.
        data: String,
        /// Where it is from, if it is a resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
    /// A resource in text.
    Resource {
        /// Its address.
        uri: String,
        /// Its kind, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// The text.
        text: String,
    },
    /// The address of a resource that was not sent along.
    Link {
        /// Its address.
        uri: String,
        /// Its name.
        name: String,
        /// Its kind, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
}

/// May this happen?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Yes.
    Allow,
    /// If a person says so.
    Ask,
    /// No.
    Deny,
}
