use crate::{Schema, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum size of a call's arguments, and of its answer, as JSON. Each crosses the sandbox boundary in one frame
/// of 8 MiB, which leaves 64 KiB for the rest of the frame.
pub const MAX_CALL_BYTES: u64 = (8 << 20) - (64 << 10);

/// A tool as its server describes it. Every text in it is untrusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The server that offers the tool.
    pub server: ServerName,
    /// The tool's name on the wire, which can be any text.
    pub name: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub input_schema: Schema,
    /// JSON Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    /// The category that the server assigns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What the server claims about the tool's effects.
    #[serde(default)]
    pub hints: ToolHints,
}

/// What a server claims about a tool's effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHints {
    /// The tool does not change anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling the tool again with the same arguments has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool reaches beyond the server's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// Whether the server claims that calling the tool again has no further effect: it only reads, or is idempotent.
    pub fn is_repeatable(self) -> bool {
        self.read_only == Some(true) || self.idempotent == Some(true)
    }
}

/// The result of a tool call, as its server sent it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The structured result, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The content parts, in order.
    #[serde(default)]
    pub content: Vec<Content>,
    /// The tool reports that it failed. The content says why.
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
    /// An image, a sound or a binary resource, which becomes a file in the sandbox.
    Media {
        /// The media type, for example `image/png`.
        mime: String,
        /// The data in Base64, as received.
        data: String,
        /// The URI, if this is a resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
    /// A text resource.
    Resource {
        /// The URI.
        uri: String,
        /// The media type, if the server sent one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// The text.
        text: String,
    },
    /// A link to a resource that was not sent.
    Link {
        /// The URI.
        uri: String,
        /// The name.
        name: String,
        /// The media type, if the server sent one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// A description of the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
}

/// Whether a tool may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call is allowed.
    Allow,
    /// A person has to approve the call.
    Ask,
    /// The call is denied.
    Deny,
}
