//! `tokenize_pii` and `detokenize_pii`, which code calls.

use super::Privacy;
use crate::host_calls::{HostCallError, HostCalls, refused};
use async_trait::async_trait;
use coracle_privacy::PrivacyError;
use coracle_types::UserId;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The method that replaces personal data by tokens.
const TOKENIZE: &str = "pii.tokenize";
/// The inverse.
const DETOKENIZE: &str = "pii.detokenize";

/// Answers the calls of one execution about personal data, and passes all others on.
#[derive(Debug)]
pub(crate) struct PiiCalls {
    privacy: Arc<Privacy>,
    user: UserId,
    others: Arc<dyn HostCalls>,
}

impl PiiCalls {
    pub(crate) fn around(others: Arc<dyn HostCalls>, privacy: Arc<Privacy>, user: UserId) -> Arc<dyn HostCalls> {
        Arc::new(Self { privacy, user, others })
    }
}

#[async_trait]
impl HostCalls for PiiCalls {
    async fn call(&self, method: String, mut params: Map<String, Value>) -> Result<Value, HostCallError> {
        if method != TOKENIZE && method != DETOKENIZE {
            return self.others.call(method, params).await;
        }
        let Some(Value::String(mut text)) = params.remove("text") else {
            return Err(refused("invalid_request", "the argument of this function is a text"));
        };
        if method == DETOKENIZE && self.privacy.is_strict() {
            let message = "detokenize_pii is refused in privacy mode strict: pass the token to a tool, which gets what it \
                           stands for";
            return Err(refused("denied", message));
        }
        let vault = self.privacy.vault(&self.user).await.map_err(|error| failed(&error))?;
        let replaced = match method.as_str() {
            TOKENIZE => vault.tokenize_text(&mut text).await,
            _ => vault.restore_text(&mut text).await,
        };
        replaced.map_err(|error| failed(&error))?;
        Ok(Value::from(text))
    }
}

/// A failure of the vault, as code sees it.
pub(crate) fn failed(error: &PrivacyError) -> HostCallError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    HostCallError { code: error.code().to_owned(), message: format!("{error}{hint}"), retryable: false }
}
