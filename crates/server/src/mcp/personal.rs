//! Personal data in MCP: everything that an MCP client gets may be shown to a model.

use super::{arguments, refusal, structured};
use crate::mcp::Frontend;
use coracle_engine::tokenize_message;
use coracle_privacy::{Item, PrivacyError, UserVault};
use coracle_upstream::QuestionKind;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptResponse, ReadResourceResponse, Tool,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Maximum length of a text that is sanitized or restored, in bytes.
const MAX_TEXT: usize = 4 << 20;

/// Arguments of Coracle's own tools that name something: tokens in them are restored, because that is how a model knows
/// the names.
const NAMES: [&str; 7] = ["file_path", "filename", "subpath", "state_file", "key", "path", "name"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

impl Frontend {
    /// The vault of the user, if personal data is replaced by tokens.
    async fn vault(&self) -> Result<Option<Arc<UserVault>>, ErrorData> {
        self.engine.vault_for_model(&self.user()).await.map_err(|error| withheld(&error))
    }

    /// Replaces personal data in an answer, or in the error.
    pub(super) async fn for_model<T: Serialize + DeserializeOwned>(
        &self,
        answer: Result<T, ErrorData>,
    ) -> Result<T, ErrorData> {
        let Some(vault) = self.vault().await? else { return answer };
        match answer {
            Ok(answer) => tokenized(&vault, answer).await,
            Err(error) => Err(tokenized(&vault, error).await?),
        }
    }

    /// The same for the result of a tool. Questions are for the person at the client.
    pub(super) async fn tool_result_for_model(
        &self,
        answer: Result<CallToolResponse, ErrorData>,
    ) -> Result<CallToolResponse, ErrorData> {
        match answer {
            Ok(CallToolResponse::Complete(result)) => {
                self.for_model::<CallToolResult>(Ok(result)).await.map(CallToolResponse::Complete)
            }
            Ok(question) => Ok(question),
            Err(error) => Err(self.for_model::<Value>(Err(error)).await.err().unwrap_or_else(nothing)),
        }
    }

    /// The same for a prompt.
    pub(super) async fn prompt_for_model(
        &self,
        answer: Result<GetPromptResponse, ErrorData>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match answer {
            Ok(GetPromptResponse::Complete(result)) => {
                self.for_model(Ok(result)).await.map(GetPromptResponse::Complete)
            }
            Ok(question) => Ok(question),
            Err(error) => Err(self.for_model::<Value>(Err(error)).await.err().unwrap_or_else(nothing)),
        }
    }

    /// The same for a resource.
    pub(super) async fn resource_for_model(
        &self,
        answer: Result<ReadResourceResponse, ErrorData>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match answer {
            Ok(ReadResourceResponse::Complete(result)) => {
                self.for_model(Ok(result)).await.map(ReadResourceResponse::Complete)
            }
            Ok(question) => Ok(question),
            Err(error) => Err(self.for_model::<Value>(Err(error)).await.err().unwrap_or_else(nothing)),
        }
    }

    /// Replaces personal data in a text that is reported during a call. Without success, nothing is reported.
    pub(super) async fn report_for_model(&self, text: Option<String>) -> Option<String> {
        let mut text = text?;
        let vault = self.vault().await.ok()?;
        if let Some(vault) = vault {
            vault.tokenize_text(&mut text).await.ok()?;
        }
        Some(text)
    }

    /// Replaces personal data in what definitions of tools say. Names, of tools and of arguments, stay as they are: the server
    /// would not know others.
    pub(super) async fn definitions_for_model(&self, tools: Vec<Tool>) -> Result<Vec<Tool>, ErrorData> {
        let Some(vault) = self.vault().await? else { return Ok(tools) };
        let mut definitions = serde_json::to_value(tools).map_err(|_| nothing())?;
        let mut texts = Vec::new();
        add_words(&mut definitions, &mut texts);
        vault.tokenize(&mut texts).await.map_err(|error| withheld(&error))?;
        serde_json::from_value(definitions).map_err(|_| nothing())
    }

    /// Replaces personal data in those questions of a server that a model answers.
    pub(super) async fn questions_for_model(&self, answer: &mut Value) -> Result<(), ErrorData> {
        let requests = answer.get_mut("inputRequests").and_then(Value::as_object_mut);
        for request in requests.into_iter().flat_map(Map::values_mut) {
            let is_for_model = request["method"] == QuestionKind::Sampling.method();
            if let Some(params) = request.get_mut("params").filter(|_| is_for_model) {
                *params = self.for_model(Ok(params.take())).await?;
            }
        }
        Ok(())
    }

    /// Restores tokens in what a client sends to a server.
    pub(super) async fn restored(&self, mut value: Value) -> Result<Value, ErrorData> {
        if let Some(vault) = self.vault().await? {
            vault.restore_json(&mut value).await.map_err(|error| withheld(&error))?;
        }
        Ok(value)
    }

    /// Restores tokens in what names a file or a resource.
    pub(super) async fn restored_name(&self, mut name: String) -> Result<String, ErrorData> {
        if let Some(vault) = self.vault().await? {
            vault.restore_text(&mut name).await.map_err(|error| withheld(&error))?;
        }
        Ok(name)
    }

    /// Restores tokens in the names that a call of one of Coracle's own tools has.
    pub(super) async fn restored_names(&self, request: &mut CallToolRequestParams) -> Result<(), ErrorData> {
        for (name, value) in request.arguments.iter_mut().flatten() {
            if NAMES.contains(&name.as_str())
                && let Value::String(text) = value
            {
                *text = self.restored_name(std::mem::take(text)).await?;
            }
        }
        Ok(())
    }

    /// `sanitize_pii`.
    pub(super) async fn sanitize_pii(&self, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
        let mut text = bounded(arguments::<Text>(request)?)?;
        let privacy = self.engine.privacy().ok_or(NO_VAULT)?;
        let vault = privacy.vault(&self.user()).await.map_err(|error| error.to_string())?;
        let replaced = vault.tokenize_text(&mut text).await.map_err(|error| error.to_string())?;
        let answer = json!({ "sanitized_text": text, "pii_found": replaced.count, "pii_types": replaced.labels });
        Ok(structured(&text, answer))
    }

    /// `restore_pii`.
    pub(super) async fn restore_pii(&self, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
        let mut text = bounded(arguments::<Text>(request)?)?;
        let privacy = self.engine.privacy().ok_or(NO_VAULT)?;
        if !privacy.restores_to_model() {
            return Ok(refusal(NOT_RESTORED));
        }
        let vault = privacy.vault(&self.user()).await.map_err(|error| error.to_string())?;
        vault.restore_text(&mut text).await.map_err(|error| error.to_string())?;
        Ok(structured(&text, json!({ "restored_text": text })))
    }
}

const NO_VAULT: &str = "this server has no vault for personal data";

const NOT_RESTORED: &str = "restore_pii is refused: what a token stands for is for code and tools, not for a model. Pass the \
    token to a tool, which gets the value, or use detokenize_pii in code; the setting privacy.restore_to_model: true \
    allows restore_pii";

fn bounded(Text { text }: Text) -> Result<String, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("the text is {} bytes long: at most {MAX_TEXT} are taken", text.len()));
    }
    Ok(text)
}

/// Adds the texts of definitions that a model reads.
fn add_words<'a>(definition: &'a mut Value, texts: &mut Vec<Item<'a>>) {
    match definition {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("title" | "description" | "pattern" | "$comment", Value::String(text)) => {
                        texts.push(Item::Text(text));
                    }
                    // Values, which the server gets back as what the tokens stand for.
                    ("default" | "const" | "enum" | "examples" | "enumNames", member) => texts.push(Item::Json(member)),
                    (_, member) => add_words(member, texts),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| add_words(item, texts)),
        _ => {}
    }
}

async fn tokenized<T: Serialize + DeserializeOwned>(vault: &UserVault, message: T) -> Result<T, ErrorData> {
    let mut value = serde_json::to_value(&message).map_err(|_| nothing())?;
    tokenize_message(vault, &mut value).await.map_err(|error| withheld(&error))?;
    serde_json::from_value(value).map_err(|_| nothing())
}

/// The error if an answer cannot be searched.
fn withheld(error: &PrivacyError) -> ErrorData {
    let message = format!("the answer is withheld, because personal data in it could not be replaced: {error}");
    ErrorData::internal_error(message, None)
}

fn nothing() -> ErrorData {
    ErrorData::internal_error("the answer is withheld, because it could not be searched for personal data", None)
}
