//! Requests to models without personal data.

mod aliases;

use aliases::Aliases;
use async_trait::async_trait;
use coracle_engine::Engine;
use coracle_models::{
    Call, Item, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest, Native, Part, ResponseFormat,
};
use coracle_privacy::{Item as Searched, PrivacyError, UserVault};
use coracle_types::UserId;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of events that wait while names in them are replaced.
const RELAYED: usize = 64;

/// Returns a provider that replaces personal data in all requests by tokens of this user, as the settings say. A request
/// whose text cannot be searched is not sent.
pub fn without_personal_data(
    provider: Arc<dyn ModelProvider>,
    engine: &Engine,
    user: &UserId,
) -> Arc<dyn ModelProvider> {
    Arc::new(Private { provider, engine: engine.clone(), user: user.clone() })
}

#[derive(Debug)]
struct Private {
    provider: Arc<dyn ModelProvider>,
    engine: Engine,
    user: UserId,
}

#[async_trait]
impl ModelProvider for Private {
    fn identity(&self) -> &str {
        self.provider.identity()
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let withheld = |error: &dyn std::fmt::Display| ModelError::Failed {
            provider: "this server".to_owned(),
            message: format!("the request is withheld, because personal data in it could not be replaced: {error}"),
        };
        let vault = self.engine.vault_for_model(&self.user).await.map_err(|error| withheld(&error))?;
        let Some(vault) = vault else { return self.provider.ask(request, events).await };
        let mut request = request.clone();
        let aliases = hide(&vault, &mut request).await.map_err(|error| withheld(&error))?;
        if aliases.is_empty() {
            return self.provider.ask(&request, events).await;
        }
        let (sender, mut receiver) = mpsc::channel(RELAYED);
        let relay = async {
            while let Some(event) = receiver.recv().await {
                // Without a receiver, the answer is still awaited.
                let _ = events.send(aliases.resolve_event(event)).await;
            }
        };
        let asking = async {
            let answer = self.provider.ask(&request, &sender).await;
            drop(sender);
            answer
        };
        let (answer, ()) = tokio::join!(asking, relay);
        answer.map(|answer| aliases.resolve_answer(answer))
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        self.provider.models().await
    }
}

/// Replaces personal data in everything of a request that people, tools, code or programs have written.
async fn hide(vault: &UserVault, request: &mut ModelRequest) -> Result<Aliases, PrivacyError> {
    let aliases = Aliases::of(vault, request).await?;
    aliases.apply(request);
    hide_in_native(vault, request).await?;
    let mut schemas: Vec<Value> =
        request.tools.iter_mut().map(|tool| Value::Object(std::mem::take(&mut tool.parameters))).collect();
    let mut texts: Vec<Searched<'_>> = schemas.iter_mut().map(Searched::Json).collect();
    add_texts(request, &mut texts);
    vault.tokenize(&mut texts).await?;
    for (tool, schema) in request.tools.iter_mut().zip(schemas) {
        if let Value::Object(schema) = schema {
            tool.parameters = schema;
        }
    }
    Ok(aliases)
}

fn add_texts<'a>(request: &'a mut ModelRequest, texts: &mut Vec<Searched<'a>>) {
    let ModelRequest { instructions, items, stop, tools, format, .. } = request;
    texts.push(Searched::Text(instructions));
    texts.extend(stop.iter_mut().map(Searched::Text));
    texts.extend(tools.iter_mut().map(|tool| Searched::Text(&mut tool.description)));
    if let Some(ResponseFormat::JsonSchema { schema, .. }) = format {
        texts.push(Searched::Json(schema));
    }
    for item in items {
        match item {
            Item::System { text } | Item::Assistant { text, .. } | Item::Reasoning { text, .. } => {
                texts.push(Searched::Text(text));
            }
            Item::User { parts } => add_parts(parts, texts),
            Item::Call(call) => texts.push(Searched::Text(&mut call.arguments)),
            Item::Result(result) => add_parts(&mut result.parts, texts),
        }
    }
}

fn add_parts<'a>(parts: &'a mut [Part], texts: &mut Vec<Searched<'a>>) {
    texts.extend(parts.iter_mut().filter_map(|part| match part {
        Part::Text { text } => Some(Searched::Text(text)),
        Part::ImageUrl { url } => Some(Searched::Text(url)),
        Part::Image { .. } => None,
    }));
}

/// Drops items in the form of their provider that have personal data, which they have if the data was not hidden yet when
/// they were made. They may be signed, and must not be changed. The items themselves stay.
async fn hide_in_native(vault: &UserVault, request: &mut ModelRequest) -> Result<(), PrivacyError> {
    let natives = request.items.iter_mut().filter_map(|item| match item {
        Item::Assistant { native, .. } | Item::Reasoning { native, .. } | Item::Call(Call { native, .. }) => {
            native.is_some().then_some(native)
        }
        Item::System { .. } | Item::User { .. } | Item::Result(_) => None,
    });
    let natives: Vec<&mut Option<Native>> = natives.collect();
    let before: Vec<Value> = natives
        .iter()
        .map(|native| native.as_ref().map(|native| readable(&native.value)).unwrap_or_default())
        .collect();
    let mut after = before.clone();
    let mut texts: Vec<Searched<'_>> = after.iter_mut().map(Searched::Json).collect();
    vault.tokenize(&mut texts).await?;
    for ((native, before), after) in natives.into_iter().zip(before).zip(after) {
        if before != after {
            *native = None;
        }
    }
    Ok(())
}

/// Members of items with signatures, encrypted content or IDs of their provider.
const OPAQUE: [&str; 6] = ["signature", "thought_signature", "encrypted_content", "data", "id", "call_id"];

/// What can be read of an item.
fn readable(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, value)| !(value.is_string() && OPAQUE.contains(&name.as_str())))
            .map(|(name, value)| (name.clone(), readable(value)))
            .collect(),
        Value::Array(items) => items.iter().map(readable).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::hide;
    use coracle_models::{Call, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition};
    use coracle_privacy::{Detector, Vaults};
    use coracle_store::MemoryStore;
    use coracle_types::UserId;
    use serde_json::{Map, Value, json};
    use std::sync::Arc;

    const MAIL: &str = "kim.quinn@example.org";

    fn native(value: Value) -> Native {
        Native { origin: "lab".to_owned(), value }
    }

    fn call(name: &str, native: Option<Native>) -> Item {
        Item::Call(Call {
            id: "c".to_owned(),
            name: name.to_owned(),
            arguments: format!("{{\"to\":\"{MAIL}\"}}"),
            native,
        })
    }

    /// A request with an address of mail, or another word, in each of its parts.
    fn request(word: &str) -> ModelRequest {
        let schema = json!({ "type": "object", "properties": { "to": {
            "type": "string", "description": format!("such as {word}"), "enum": [word], "default": word,
        } } });
        let parameters: Map<String, Value> = schema.as_object().cloned().unwrap();
        let tool = |name: String| ToolDefinition {
            name,
            description: format!("writes to {word}"),
            parameters: parameters.clone(),
            strict: None,
        };
        ModelRequest {
            model: "m".to_owned(),
            instructions: format!("write to {word}"),
            items: vec![
                Item::User { parts: vec![Part::text(word)] },
                Item::Reasoning {
                    text: word.to_owned(),
                    native: Some(native(json!({ "summary": word, "signature": "c2ln" }))),
                },
                Item::Reasoning {
                    text: String::new(),
                    native: Some(native(json!({ "text": "plain", "signature": "c2ln" }))),
                },
                call("send", Some(native(json!({ "extra": word })))),
                call(&format!("ask {word}"), None),
            ],
            tools: vec![tool("send".to_owned()), tool(format!("ask {word}"))],
            tool_choice: ToolChoice::Tool(format!("ask {word}")),
            parallel_calls: None,
            max_output_tokens: None,
            temperature: None,
            top_p: None,
            stop: vec![word.to_owned()],
            effort: None,
            format: Some(ResponseFormat::JsonSchema {
                name: "form".to_owned(),
                schema: json!({ "type": "object", "description": word }),
                strict: None,
            }),
            cache_key: None,
        }
    }

    #[tokio::test]
    async fn nothing_of_a_request_has_personal_data() {
        let vaults = Vaults::new(Arc::new(MemoryStore::new()), Detector::default(), None);
        let vault = vaults.of(&UserId::local()).await.unwrap();
        let mut hidden = request(MAIL);
        let aliases = hide(&vault, &mut hidden).await.unwrap();
        let shown = format!("{hidden:?}");
        assert!(!shown.contains("kim.quinn") && shown.contains("[EMAIL_"), "{shown}");
        assert!(!aliases.is_empty());
        let alias = &hidden.tools[1].name;
        assert!(alias.starts_with("ask__EMAIL_"), "{alias}");
        assert_eq!(hidden.tool_choice, ToolChoice::Tool(alias.clone()));
        assert_eq!(hidden.tools[0].name, "send");
        // Items in the form of the provider stay unless they have personal data.
        let natives: Vec<bool> = hidden
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Reasoning { native, .. } | Item::Call(Call { native, .. }) => Some(native.is_some()),
                _ => None,
            })
            .collect();
        assert_eq!(natives, [false, true, false, false]);
        // The control: without personal data, everything but the arguments of the calls stays.
        let mut plain = request("somebody");
        assert!(hide(&vault, &mut plain).await.unwrap().is_empty());
        let original = request("somebody");
        assert_eq!((plain.tools, plain.format, plain.stop), (original.tools, original.format, original.stop));
        assert_eq!(plain.items[..3], original.items[..3]);
    }
}
