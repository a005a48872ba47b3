//! Requests to models without personal data.

use async_trait::async_trait;
use coracle_engine::Engine;
use coracle_models::{Item, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest, Part};
use coracle_privacy::Item as Searched;
use coracle_types::UserId;
use std::sync::Arc;
use tokio::sync::mpsc;

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
        vault.tokenize(&mut texts(&mut request)).await.map_err(|error| withheld(&error))?;
        self.provider.ask(&request, events).await
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        self.provider.models().await
    }
}

/// All texts of a request that people, tools or code have written. What the model itself wrote in the form of its provider
/// is signed, and has only what the model has seen.
fn texts(request: &mut ModelRequest) -> Vec<Searched<'_>> {
    let ModelRequest { instructions, items, stop, .. } = request;
    let mut texts = vec![Searched::Text(instructions)];
    texts.extend(stop.iter_mut().map(Searched::Text));
    for item in items {
        match item {
            Item::System { text } | Item::Assistant { text, .. } | Item::Reasoning { text, .. } => {
                texts.push(Searched::Text(text));
            }
            Item::User { parts } => add_parts(parts, &mut texts),
            Item::Call(call) => texts.push(Searched::Text(&mut call.arguments)),
            Item::Result(result) => add_parts(&mut result.parts, &mut texts),
        }
    }
    texts
}

fn add_parts<'a>(parts: &'a mut [Part], texts: &mut Vec<Searched<'a>>) {
    texts.extend(parts.iter_mut().filter_map(|part| match part {
        Part::Text { text } => Some(Searched::Text(text)),
        Part::ImageUrl { url } => Some(Searched::Text(url)),
        Part::Image { .. } => None,
    }));
}
