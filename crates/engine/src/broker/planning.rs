//! Calls in the mode `plan`: reads are made, everything else is checked like any call, recorded, and answered with a
//! placeholder.

use super::{Arguments, Broker, Current};
use crate::audit::Stage;
use crate::call_log::digest;
use crate::host_calls::{ARRIVAL, HostCallError, TOOL};
use crate::json;
use crate::plans::{Effect, Planner, Read, ToolEffect};
use async_trait::async_trait;
use coracle_policy::{Answer, Approver, GroupAnswer, GroupApprover, Question, ToolNames, definition_digest};
use coracle_types::{Decision, ServerName, Tool};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Added to the number of a call for the call that asks what it would do.
const PREVIEW: u64 = 1 << 20;
/// Maximum size of what a tool says it would do.
const MAX_PREVIEW_BYTES: u64 = 16 << 10;

/// Notes that a person would be asked, and lets planning go on: whoever approves the plan sees the call.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    asked: AtomicBool,
}

#[async_trait]
impl Approver for Foreseen {
    async fn ask(&self, _: Question) -> Answer {
        self.asked.store(true, Ordering::Relaxed);
        Answer::Once
    }

    /// Members are asked when the plan runs, not while it is made.
    async fn ask_group(&self, question: Question, _: &dyn GroupApprover) -> GroupAnswer {
        self.asked.store(true, Ordering::Relaxed);
        question.quorum.map_or(GroupAnswer::Nobody, |quorum| GroupAnswer::Approved(quorum.members))
    }
}

/// A call, as the code makes it.
struct Planned<'a> {
    server: &'a ServerName,
    tool: &'a Arc<Tool>,
    names: &'a ToolNames,
    arguments: Map<String, Value>,
}

impl Broker {
    /// Number of a new call. Calls of plans are numbered as they arrive, whichever is answered first.
    pub(super) fn number(&self) -> u64 {
        let arrived = self.planner.as_ref().and_then(|_| ARRIVAL.try_with(|number| *number).ok());
        arrived.unwrap_or_else(|| self.ledger.next_number())
    }

    /// Makes a call that reads, and plans any other.
    pub(super) async fn plan(
        &self,
        planner: &Arc<Planner>,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        current: &mut Current,
    ) -> Result<(Value, u64), HostCallError> {
        let user = &self.caller.user;
        let name = ServerName::new(server).map_err(|_| self.toolbox.no_server(server))?;
        self.toolbox.recall(user, &name).await;
        if let Err(error) = self.toolbox.refused_early(user, &name, tool, None) {
            let bytes = json::length(&arguments);
            self.caller.audit.denied_early(self.call_of(&name, tool, bytes, current), &error).await;
            current.line.reached(Stage::Denied);
            return Err(error);
        }
        let (tool, validator) = self.started(&name, &mut current.line, self.toolbox.tool(user, &name, tool)).await?;
        let names = self.toolbox.names(user, &name, &tool.name);
        let uses = planner.uses(&arguments);
        let effect = planner.effect_of(&tool, &names);
        let is_independent = uses.as_ref().is_ok_and(BTreeSet::is_empty);
        let arguments = if is_independent { validator.complete(arguments) } else { arguments };
        let call = Planned { server: &name, tool: &tool, names: &names, arguments };
        if effect != ToolEffect::Writes && is_independent {
            return self.read(planner, call, effect, current).await;
        }
        let preview = if is_independent { self.preview(planner, &call).await } else { None };
        let decision = self.foreseen(&call, is_independent, current).await?;
        let Planned { arguments, .. } = call;
        let number = current.line.number();
        let (uses, blocked) = match uses {
            Ok(uses) => (uses, None),
            Err(why) => (BTreeSet::new(), Some(why)),
        };
        let planned = Effect {
            number,
            server: name.clone(),
            tool: tool.name.clone(),
            arguments,
            definition: definition_digest(&tool),
            decision,
            reads: effect != ToolEffect::Writes,
            preview,
            uses,
            blocked,
        };
        let shape = self.toolbox.shape(user, &name, &tool.name);
        let value = planner.effect(planned, &tool, shape.as_ref())?;
        current.line.planned();
        current.line.reached(Stage::Planned);
        let wire = json!({ "value": value, "media": [] });
        let length = json::length(&wire);
        Ok((wire, length))
    }

    async fn read(
        &self,
        planner: &Planner,
        call: Planned<'_>,
        effect: ToolEffect,
        current: &mut Current,
    ) -> Result<(Value, u64), HostCallError> {
        let Planned { server, tool, arguments, .. } = call;
        let outcome = self.call(server.as_str(), &tool.name, arguments.clone(), current).await;
        let shown = self.shown_to_code(outcome).await;
        let shown = self.with_sources(server.as_str(), shown).await;
        let answer = (effect == ToolEffect::Reads).then(|| answer_digest(shown.as_ref().map(|(wire, _)| wire)));
        let (server, definition) = (server.clone(), definition_digest(tool));
        let read = Read { server, tool: tool.name.clone(), arguments, definition, answer };
        planner.read(current.line.number(), read)?;
        shown
    }

    /// What the policy says about a call. The call is checked as if it were made.
    async fn foreseen(
        &self,
        call: &Planned<'_>,
        is_independent: bool,
        current: &mut Current,
    ) -> Result<Decision, HostCallError> {
        let arguments = self.restored(call.arguments.clone()).await?;
        let bytes = json::length(&arguments.0);
        // Arguments with results that do not exist yet are checked when they do.
        let checks = if is_independent { Arguments::Checked } else { Arguments::AsTheyAre };
        current.foreseen = Some(Foreseen::default());
        let admitted = self.admit(call.server, &call.tool.name, arguments, bytes, checks, current).await;
        let foreseen = current.foreseen.take();
        admitted?;
        let is_asked = foreseen.is_some_and(|foreseen| foreseen.asked.load(Ordering::Relaxed));
        Ok(if is_asked { Decision::Ask } else { Decision::Allow })
    }

    /// What the tool says the call would do, if it can be asked.
    async fn preview(&self, planner: &Planner, call: &Planned<'_>) -> Option<Value> {
        let argument = planner.preview_of(call.tool, call.names)?;
        let mut arguments = call.arguments.clone();
        arguments.insert(argument.to_owned(), true.into());
        let number = self.number() + PREVIEW;
        let mut line = self.ledger.begin(number, call.server.as_str(), &call.tool.name, json::length(&arguments));
        line.audit(self.in_progress(number));
        let mut current = Current { line, entry: None, foreseen: None };
        let outcome = self.call(call.server.as_str(), &call.tool.name, arguments, &mut current).await;
        let shown = self.shown_to_code(outcome).await;
        match self.with_sources(call.server.as_str(), shown).await {
            Ok((wire, length)) => {
                current.line.answered(length);
                wire.get("value").filter(|value| !json::is_longer(value, MAX_PREVIEW_BYTES)).cloned()
            }
            Err(error) => {
                current.line.failed(&error.code);
                Some(json!({ "error": error.message }))
            }
        }
    }
}

/// Digest of an answer, by which a later one is compared.
pub(crate) fn answer_digest(answer: Result<&Value, &HostCallError>) -> String {
    let mut fields = Map::new();
    match answer {
        Ok(wire) => fields.insert("answer".to_owned(), wire.clone()),
        Err(error) => fields.insert("error".to_owned(), error.code.as_str().into()),
    };
    digest(TOOL, &fields).1
}
