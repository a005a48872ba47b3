//! Personal data in calls: tools get what tokens stand for, and code gets tokens where it must not see more.

use super::Broker;
use crate::host_calls::HostCallError;
use crate::json;
use crate::privacy::{failed, learn_message, tokenize_message};
use coracle_privacy::{Item, PrivacyError, UserVault, tokens_in};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

impl Broker {
    /// Restores the tokens in arguments. Returns those that were restored, too.
    pub(super) async fn restored(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<(Map<String, Value>, BTreeSet<String>), HostCallError> {
        let Some(privacy) = &self.caller.privacy else { return Ok((arguments, BTreeSet::new())) };
        let vault = privacy.vault(&self.caller.user).await.map_err(|error| failed(&error))?;
        let mut arguments = Value::Object(arguments);
        let mut tokens = tokens_in(&arguments);
        vault.restore_json(&mut arguments).await.map_err(|error| failed(&error))?;
        if !tokens.is_empty() {
            // The others are not in the vault, and stand for nothing.
            let left = tokens_in(&arguments);
            tokens.retain(|token| !left.contains(token));
        }
        let Value::Object(arguments) = arguments else { return Ok((Map::new(), tokens)) };
        Ok((arguments, tokens))
    }

    /// What code gets of the outcome of a call to any server.
    pub(super) async fn shown_to_code(
        &self,
        outcome: Result<(Value, u64), HostCallError>,
    ) -> Result<(Value, u64), HostCallError> {
        let Some(privacy) = &self.caller.privacy else { return outcome };
        let vault = privacy.vault(&self.caller.user).await.map_err(|error| failed(&error))?;
        // Every server may return what it, or another one, was given instead of tokens: once code must not see the data of one
        // server, it gets tokens from all of them.
        let protected = if privacy.is_strict() {
            tokenized(&vault, outcome).await
        } else {
            // What code sees is found in what it writes.
            learned(&vault, outcome)
        };
        protected.unwrap_or_else(|error| Err(failed(&error)))
    }
}

type Outcome = Result<(Value, u64), HostCallError>;

async fn tokenized(vault: &UserVault, outcome: Outcome) -> Result<Outcome, PrivacyError> {
    match outcome {
        Ok((mut wire, _)) => {
            tokenize_message(vault, &mut wire).await?;
            let length = json::length(&wire);
            Ok(Ok((wire, length)))
        }
        Err(mut error) => {
            vault.tokenize(&mut [Item::Text(&mut error.message)]).await?;
            Ok(Err(error))
        }
    }
}

fn learned(vault: &UserVault, outcome: Outcome) -> Result<Outcome, PrivacyError> {
    match &outcome {
        Ok((wire, _)) => learn_message(vault, wire)?,
        Err(error) => vault.learn(&Value::from(error.message.as_str()))?,
    }
    Ok(outcome)
}
