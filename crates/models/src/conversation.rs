//! The input of a model: a conversation, tools and options, independent of any wire format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The model's name at the provider.
    pub model: String,
    /// The system prompt.
    pub instructions: String,
    /// The conversation so far, oldest item first.
    pub items: Vec<Item>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Whether the model may, must or must not call tools.
    pub tool_choice: ToolChoice,
    /// Whether one answer may contain several calls. `None` is the provider's default.
    pub parallel_calls: Option<bool>,
    /// Maximum number of tokens of the answer, including reasoning.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: the probability mass that is considered.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// How much the model reasons before it answers.
    pub effort: Option<Effort>,
    /// The required form of the answer.
    pub format: Option<ResponseFormat>,
    /// A key that groups requests with a common beginning, for providers that route by it.
    pub cache_key: Option<String>,
}

/// One item of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// An instruction that applies from here on.
    System {
        /// The instruction.
        text: String,
    },
    /// A message of the user.
    User {
        /// Its text and images.
        parts: Vec<Part>,
    },
    /// A message of the model.
    Assistant {
        /// The text.
        text: String,
        /// The provider's form, if it has more than the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// Reasoning of the model.
    Reasoning {
        /// The readable part, which may be empty.
        text: String,
        /// The provider's form, with signatures or encrypted content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A tool call of the model.
    Call(Call),
    /// The result of a tool call.
    Result(CallResult),
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The ID that its result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: usually a JSON object, but not checked.
    pub arguments: String,
    /// The provider's form, with the fields that Coracle does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The ID of the call.
    pub call_id: String,
    /// Text and images.
    pub parts: Vec<Part>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

/// A part of a message or of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image with its content.
    Image {
        /// The media type, for example `image/png`.
        mime: String,
        /// The content in base64.
        data: String,
    },
    /// An image that the provider fetches.
    ImageUrl {
        /// The address.
        url: String,
    },
}

impl Part {
    /// A part with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// An item in the form of the provider that made it. It is sent back unchanged, but only to that provider: signatures and
/// encrypted content mean nothing to others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// [`ModelProvider::identity`](crate::ModelProvider::identity) of the provider.
    pub origin: String,
    /// The item, or the fields of it that Coracle does not know.
    pub value: Value,
}

impl Native {
    /// The value, if this provider made it.
    pub(crate) fn of<'a>(native: Option<&'a Self>, origin: &str) -> Option<&'a Value> {
        native.filter(|native| native.origin == origin).map(|native| &native.value)
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Map<String, Value>,
    /// Whether the provider must enforce the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// Whether the model may call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Tool(String),
}

/// How much the model reasons before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all, where the model supports that.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// The usual amount.
    Medium,
    /// Much.
    High,
    /// Very much.
    #[serde(rename = "xhigh")]
    ExtraHigh,
    /// As much as possible.
    Max,
}

impl Effort {
    /// The name that OpenAI uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// The required form of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The name of the schema.
        name: String,
        /// The schema.
        schema: Value,
        /// Whether the provider must enforce it.
        strict: Option<bool>,
    },
}
