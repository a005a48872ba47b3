//! Where data came from, and where it goes.

use super::Broker;
use crate::host_calls::HostCallError;
use crate::privacy::failed;
use coracle_policy::{Cargo, Concern, Sink, Sources, ToolNames, Valuable};
use coracle_privacy::label_of_token;
use coracle_types::{ServerName, Tool, ToolHints};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What an answer has of personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// The data itself.
    Data,
    /// Tokens instead of all of it.
    Tokens,
}

impl Broker {
    /// The data that a call carries, as far as flow rules are about this tool. `tokens` are those that were restored in
    /// the arguments.
    pub(super) async fn cargo(
        &self,
        tool: &Tool,
        names: &ToolNames,
        arguments: &Value,
        tokens: BTreeSet<String>,
    ) -> Result<Cargo, HostCallError> {
        let flows = self.toolbox.approvals().flows();
        let concern = flows.concerns(&Sink::Tool { tool, names });
        if concern == Concern::Nothing {
            return Ok(Cargo::default());
        }
        let sources = self.caller.sources.all().await?;
        let valuables = match concern {
            Concern::Values => self.valuables(arguments, tokens, &sources).await?,
            Concern::Nothing | Concern::Sources => BTreeSet::new(),
        };
        Ok(Cargo { sources, valuables })
    }

    /// The personal data in arguments. What came from nowhere that is known may come from everywhere that was read.
    async fn valuables(
        &self,
        arguments: &Value,
        mut tokens: BTreeSet<String>,
        all: &Sources,
    ) -> Result<BTreeSet<Valuable>, HostCallError> {
        if let Some(privacy) = &self.caller.detection {
            let vault = privacy.vault(&self.caller.user).await.map_err(|error| failed(&error))?;
            tokens.extend(vault.tokens_of(arguments).await.map_err(|error| failed(&error))?);
        }
        if tokens.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut known: BTreeMap<String, BTreeSet<ServerName>> =
            self.toolbox.value_sources(&self.caller.user, &tokens).await?;
        let valuable = |token: String| {
            let kind = label_of_token(&token).to_owned();
            let sources = match known.remove(&token) {
                Some(servers) => servers.into_iter().collect(),
                None => all.clone(),
            };
            Valuable { kind, sources }
        };
        Ok(tokens.into_iter().map(valuable).collect())
    }

    /// Notes, before it happens, that the code gets an answer of a server.
    pub(super) async fn receives(&self, server: &ServerName, hints: ToolHints) -> Result<(), HostCallError> {
        let flows = self.toolbox.approvals().flows();
        let labels = flows.labels().of_tool(server, hints);
        self.caller.sources.receives(server, labels, flows.is_active()).await
    }

    /// The outcome of a call, when it is noted where its values came from.
    pub(super) async fn with_sources(
        &self,
        server: &str,
        outcome: Result<(Value, u64), HostCallError>,
    ) -> Result<(Value, u64), HostCallError> {
        let holds = match &self.caller.privacy {
            Some(privacy) if privacy.is_strict() => Holds::Tokens,
            _ => Holds::Data,
        };
        match &outcome {
            Ok((wire, _)) => self.came_from(server, wire, holds).await?,
            Err(error) => self.came_from(server, &Value::from(error.message.as_str()), holds).await?,
        }
        outcome
    }

    /// Notes where the values of an answer came from. `wire` is what code or the client gets.
    pub(super) async fn came_from(&self, server: &str, wire: &Value, holds: Holds) -> Result<(), HostCallError> {
        let Some(privacy) = &self.caller.detection else { return Ok(()) };
        let Ok(name) = ServerName::new(server) else { return Ok(()) };
        if !self.toolbox.approvals().flows().tells_values_apart(&name) {
            return Ok(());
        }
        let mut tokens = coracle_privacy::tokens_in(wire);
        if holds == Holds::Data {
            let vault = privacy.vault(&self.caller.user).await.map_err(|error| failed(&error))?;
            tokens.extend(vault.learn_tokens(wire).map_err(|error| failed(&error))?);
        }
        self.toolbox.add_value_sources(&self.caller.user, &tokens, &name).await
    }
}
