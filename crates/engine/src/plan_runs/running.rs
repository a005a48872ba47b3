//! Lists plans, and runs those that a person has approved.

use super::error::PlanError;
use super::files;
use super::making::{forget, kept, shown};
use crate::broker::planning::answer_digest;
use crate::clock::Clock;
use crate::execution::Executor;
use crate::host_calls::{HostCallError, HostCalls, NoCalls, TOOL};
use crate::ids::new_execution_id;
use crate::json;
use crate::ledger::Ledger;
use crate::plans::{Content, Effect, FileEffect, Outcome, Progress, Read, Use};
use crate::request::Request;
use crate::sources::TrackedWorkspace;
use crate::tools::CallsOf;
use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question, definition_digest};
use coracle_types::{EffectState, ExecutionId, Language, Plan, PlanId, PlanState, ServerName, ToolHints, UserId};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// The clock of a plan never runs out: the time limits of its servers apply.
const NO_LIMIT: Duration = Duration::from_hours(24);
/// Maximum size of the result of an effect that is kept.
const MAX_RESULT_BYTES: u64 = 16 << 10;
/// Maximum size of all results that are kept.
const MAX_RESULTS_BYTES: u64 = 2 << 20;
/// Maximum length of an error that is kept, in characters.
const MAX_ERROR_CHARS: usize = 2_000;
/// Maximum number of changes that are told.
const MAX_CHANGES: usize = 20;

/// The approval of a plan by a person.
#[derive(Clone, Debug)]
pub struct PlanApproval {
    /// The user whose plan it is.
    pub user: UserId,
    /// The plan.
    pub plan: PlanId,
    /// The numbers of the approved effects; all of them if `None`.
    pub effects: Option<BTreeSet<u64>>,
    /// Stops before the next effect.
    pub cancel: CancellationToken,
}

/// Answers the questions about calls that a person has approved as part of a plan.
#[derive(Clone, Copy, Debug)]
struct Approved;

#[async_trait]
impl Approver for Approved {
    async fn ask(&self, _: Question) -> Answer {
        Answer::Once
    }
}

/// The plans of users.
#[derive(Clone, Debug)]
pub(crate) struct PlanRunner(pub(crate) Arc<Executor>);

impl PlanRunner {
    /// The plans of a user as the user sees them, the newest first.
    pub(crate) async fn list(&self, user: &UserId) -> Result<Vec<Plan>, PlanError> {
        let mut plans = Vec::new();
        for record in self.0.parts().store.plans(user).await? {
            plans.extend(shown(&self.0, &record).await);
        }
        Ok(plans)
    }

    /// One plan of a user as the user sees it.
    pub(crate) async fn get(&self, user: &UserId, id: &PlanId) -> Result<Plan, PlanError> {
        let record = self.0.parts().store.plan(user, id).await?.ok_or(PlanError::Missing)?;
        shown(&self.0, &record).await.ok_or(PlanError::Missing)
    }

    /// Deletes a plan. Returns whether there was one.
    pub(crate) async fn delete(&self, user: &UserId, id: &PlanId) -> Result<(), PlanError> {
        if !self.0.parts().store.delete_plan(user, id).await? {
            return match self.0.parts().store.plan(user, id).await? {
                Some(record) => Err(PlanError::NotOpen { state: record.state }),
                None => Err(PlanError::Missing),
            };
        }
        forget(&self.0, user, id).await;
        Ok(())
    }

    /// Runs the approved effects of a plan, in order, if nothing has changed. Ends at the first effect that fails. What has
    /// begun goes on if the future is dropped.
    pub(crate) async fn run(&self, approval: PlanApproval) -> Result<Plan, PlanError> {
        let runner = self.clone();
        let run = tokio::spawn(async move { runner.run_here(approval).await });
        run.await.unwrap_or_else(|error| Err(PlanError::Unavailable { reason: error.to_string() }))
    }

    async fn run_here(&self, approval: PlanApproval) -> Result<Plan, PlanError> {
        let executor = &self.0;
        let PlanApproval { user, plan: id, effects, cancel } = approval;
        let store = &executor.parts().store;
        let record = store.plan(&user, &id).await?.ok_or(PlanError::Missing)?;
        let state = if record.expires_at <= SystemTime::now() { PlanState::Expired } else { record.state };
        if record.state != PlanState::Open || state == PlanState::Expired {
            return Err(PlanError::NotOpen {
                state: if record.state == PlanState::Open { state } else { record.state },
            });
        }
        let Some(_busy) = executor.active().begin(&user) else {
            return Err(PlanError::Unavailable { reason: "the user's data is being deleted".to_owned() });
        };
        let content: Content = serde_json::from_value(record.content.clone()).map_err(|_| PlanError::Missing)?;
        let chosen = chosen(&content, effects)?;
        let execution = new_execution_id();
        let audit = executor.parts().tools.audit();
        let left_out = numbers(&content).filter(|number| !chosen.contains(number));
        let outcomes = left_out.map(|number| (number, Outcome::of(EffectState::LeftOut))).collect();
        let progress = Progress { outcomes, changes: Vec::new() };
        // From here on, nobody else can run it.
        if !store.begin_plan(&user, &id, &stored(&progress)).await? {
            return Err(PlanError::NotOpen { state: PlanState::Running });
        }
        if let Err(error) = audit.plan_approved(&user, &id, &execution, chosen.len() as u64).await {
            store.advance_plan(&user, &id, PlanState::Failed, &stored(&progress)).await?;
            return Err(error.into());
        }
        let mut run = Run { executor, user: &user, id: &id, content: &content, progress, calls: Arc::new(NoCalls) };
        run.calls = run.calls(&execution, &cancel);
        let state = run.go(&chosen, &cancel).await;
        let ended = store.advance_plan(&user, &id, state, &stored(&run.progress)).await;
        audit.plan_ended(&user, &id, &execution, state.as_str());
        forget(executor, &user, &id).await;
        ended?;
        if state == PlanState::Changed {
            return Err(PlanError::Changed { changes: run.progress.changes });
        }
        self.get(&user, &id).await
    }
}

fn stored(progress: &Progress) -> Value {
    serde_json::to_value(progress).unwrap_or_default()
}

fn numbers(content: &Content) -> impl Iterator<Item = u64> + '_ {
    let calls = content.effects.iter().map(|effect| effect.number);
    calls.chain(content.changes.iter().map(|change| change.number))
}

/// The effects to run. Each must exist, must not be blocked, and needs those whose results it uses.
fn chosen(content: &Content, wanted: Option<BTreeSet<u64>>) -> Result<BTreeSet<u64>, PlanError> {
    let refuse = |reason: String| PlanError::Selection { reason };
    let all: BTreeSet<u64> = numbers(content).collect();
    let chosen = wanted.unwrap_or_else(|| all.clone());
    if chosen.is_empty() {
        return Err(refuse("none is chosen".to_owned()));
    }
    if let Some(unknown) = chosen.difference(&all).next() {
        return Err(refuse(format!("there is no effect {unknown}")));
    }
    for effect in content.effects.iter().filter(|effect| chosen.contains(&effect.number)) {
        if let Some(why) = &effect.blocked {
            return Err(refuse(format!("effect {} depends on a result: {why}", effect.number)));
        }
        if let Some(missing) = effect.uses.difference(&chosen).next() {
            let number = effect.number;
            return Err(refuse(format!("effect {number} uses the result of effect {missing}, which is not chosen")));
        }
    }
    for change in content.changes.iter().filter(|change| chosen.contains(&change.number)) {
        if let Some(why) = &change.blocked {
            return Err(refuse(format!("the change of the file {} cannot be made: {why}", change.path)));
        }
    }
    Ok(chosen)
}

/// A plan that is being run.
struct Run<'a> {
    executor: &'a Arc<Executor>,
    user: &'a UserId,
    id: &'a PlanId,
    content: &'a Content,
    progress: Progress,
    calls: Arc<dyn HostCalls>,
}

impl Run<'_> {
    /// Calls of the plan pass the broker, as those of code do.
    fn calls(&self, execution: &ExecutionId, cancel: &CancellationToken) -> Arc<dyn HostCalls> {
        let mut request = Request::new(self.user.clone(), Language::default(), "");
        request.cancel = cancel.clone();
        request.approver = Arc::new(Approved);
        let (clock, ledger) = (Clock::new(NO_LIMIT), Ledger::default());
        let tools = &self.executor.parts().tools;
        // The calls may have data of everything that was read for the plan, and their answers stay beside it.
        let folder = self.content.workspace.as_deref();
        let place = self.executor.workspace_place(self.user, folder);
        let folder = folder.map_or_else(PathBuf::new, Path::to_owned);
        let workspace = TrackedWorkspace { folder, place, has_log: true };
        let sources = tools.toolbox().map(|toolbox| {
            let sources = toolbox.tracker(self.user, execution, Vec::new(), Some(workspace));
            let flows = toolbox.approvals().flows();
            let labels = |server: &ServerName| flows.labels().of_tool(server, ToolHints::default());
            sources.has_read(self.content.reads.iter().map(|read| (read.server.clone(), labels(&read.server))));
            sources
        });
        let (log, for_model, sources) = (None, None, sources.as_ref());
        let calls_of = CallsOf { execution, clock: &clock, ledger: &ledger, log, for_model, sources };
        tools.answering(&request, calls_of, None, Arc::new(NoCalls)).calls
    }

    async fn go(&mut self, chosen: &BTreeSet<u64>, cancel: &CancellationToken) -> PlanState {
        self.progress.changes = self.changes(chosen).await;
        if !self.progress.changes.is_empty() {
            return PlanState::Changed;
        }
        let content = self.content;
        let mut results: BTreeMap<u64, Value> = BTreeMap::new();
        let mut room = MAX_RESULTS_BYTES;
        for effect in content.effects.iter().filter(|effect| chosen.contains(&effect.number)) {
            let made = self.make(effect, &results, cancel).await;
            let is_made = made.is_ok();
            let outcome = match made {
                Ok(value) => {
                    let is_short = !json::is_longer(&value, room.min(MAX_RESULT_BYTES));
                    let shown = is_short.then(|| value.clone());
                    room -= shown.as_ref().map_or(0, json::length);
                    results.insert(effect.number, value);
                    Outcome { result: shown, ..Outcome::of(EffectState::Done) }
                }
                Err(error) => failed(&error.code, &error.message),
            };
            if !self.ended(effect.number, outcome).await || !is_made {
                return PlanState::Failed;
            }
        }
        for change in content.changes.iter().filter(|change| chosen.contains(&change.number)) {
            let made = self.change(change, cancel).await;
            let is_made = made.is_ok();
            let outcome = match made {
                Ok(()) => Outcome::of(EffectState::Done),
                Err((code, message)) => failed(code, &message),
            };
            if !self.ended(change.number, outcome).await || !is_made {
                return PlanState::Failed;
            }
        }
        PlanState::Done
    }

    /// Writes down that an effect is about to take place. Without that, it does not.
    async fn begins(&mut self, number: u64) -> Result<(), String> {
        self.progress.outcomes.insert(number, Outcome::of(EffectState::Begun));
        let store = &self.executor.parts().store;
        let written = store.advance_plan(self.user, self.id, PlanState::Running, &stored(&self.progress)).await;
        match written {
            Ok(true) => Ok(()),
            Ok(false) => Err("the plan was taken away".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes down what became of an effect. Returns whether the next one may begin.
    async fn ended(&mut self, number: u64, outcome: Outcome) -> bool {
        self.progress.outcomes.insert(number, outcome);
        let store = &self.executor.parts().store;
        let written = store.advance_plan(self.user, self.id, PlanState::Running, &stored(&self.progress)).await;
        if let Err(error) = &written {
            tracing::error!(user = %self.user, plan = %self.id, %error, "cannot record an effect of a plan");
        }
        matches!(written, Ok(true))
    }

    /// Makes a call, with the results of earlier ones filled in.
    async fn make(
        &mut self,
        effect: &Effect,
        results: &BTreeMap<u64, Value>,
        cancel: &CancellationToken,
    ) -> Result<Value, HostCallError> {
        let refuse = |code: &str, message: String| HostCallError { code: code.to_owned(), message, retryable: false };
        if cancel.is_cancelled() {
            return Err(refuse("cancelled", "the plan was cancelled before this call".to_owned()));
        }
        let filled = self.content.placeholders.fill(&effect.arguments, &mut |place, used| {
            let value = results.get(&place.effect).and_then(|result| result.pointer(&place.path));
            match (value, used) {
                (Some(value), Use::Whole) | (Some(value @ (Value::String(_) | Value::Number(_))), Use::Part) => {
                    Ok(value.clone())
                }
                _ => Err(format!("the result of effect {} has nothing fitting at {:?}", place.effect, place.path)),
            }
        });
        let arguments = filled.map_err(|why| refuse("plan_result", why))?;
        if let Some(changed) = self.definition(&effect.server, &effect.tool, &effect.definition).await {
            return Err(refuse("plan_changed", changed));
        }
        let number = effect.number;
        self.begins(number).await.map_err(|why| {
            self.progress.outcomes.remove(&number);
            refuse("not_logged", format!("the call was not made, because its beginning could not be recorded: {why}"))
        })?;
        let params = call(&effect.server, &effect.tool, &arguments);
        let wire = self.calls.call(TOOL.to_owned(), params).await?;
        Ok(wire.get("value").cloned().unwrap_or_default())
    }

    async fn change(&mut self, change: &FileEffect, cancel: &CancellationToken) -> Result<(), (&'static str, String)> {
        if cancel.is_cancelled() {
            return Err(("cancelled", "the plan was cancelled before this change".to_owned()));
        }
        self.begins(change.number).await.map_err(|why| ("not_logged", why))?;
        let (executor, user, content) = (Arc::clone(self.executor), self.user.clone(), self.content);
        let (folder, limits) = (content.workspace.clone(), content.limits.clone());
        let (change, kept) = (change.clone(), kept(&executor, &user, self.id));
        let work = move || {
            let files = executor.parts().workspaces.files(&user, folder.as_deref(), &limits);
            files.map_err(files::CopyError::from).and_then(|files| files::apply(&files, &change, &kept))
        };
        let applied = tokio::task::spawn_blocking(work).await;
        match applied {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(("file_failed", error.to_string())),
            Err(error) => Err(("file_failed", error.to_string())),
        }
    }

    /// What has changed since the plan was made.
    async fn changes(&self, chosen: &BTreeSet<u64>) -> Vec<String> {
        let mut changes = Vec::new();
        let effects = self.content.effects.iter().filter(|effect| chosen.contains(&effect.number));
        let called = effects.map(|effect| (&effect.server, &effect.tool, &effect.definition));
        let read = self.content.reads.iter().map(|read| (&read.server, &read.tool, &read.definition));
        let definitions: BTreeSet<(&ServerName, &String, &String)> = called.chain(read).collect();
        for (server, tool, definition) in definitions {
            changes.extend(self.definition(server, tool, definition).await);
        }
        changes.extend(self.file_changes().await);
        // The cheap checks come first: reads are repeated only if nothing else has changed.
        if changes.is_empty() {
            for read in &self.content.reads {
                changes.extend(self.read_again(read).await);
            }
        }
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        if more > 0 {
            changes.push(format!("and {more} more"));
        }
        changes
    }

    /// Whether the definition of a tool has changed.
    async fn definition(&self, server: &ServerName, tool: &str, digest: &str) -> Option<String> {
        let Some(toolbox) = self.executor.parts().tools.toolbox() else {
            return Some(format!("server {server} is no longer configured"));
        };
        match toolbox.tool(self.user, server, tool).await {
            Ok((found, _)) if definition_digest(&found) == digest => None,
            Ok(_) => Some(format!("the definition of {server}.{tool} has changed")),
            Err(error) => Some(format!("{server}.{tool} cannot be called: {}", error.message)),
        }
    }

    async fn read_again(&self, read: &Read) -> Option<String> {
        // Answers that vary are asked for, too: rules about the flow of data depend on what was read.
        let answer = self.calls.call(TOOL.to_owned(), call(&read.server, &read.tool, &read.arguments)).await;
        let (server, tool) = (&read.server, &read.tool);
        let before = read.answer.as_ref()?;
        (answer_digest(answer.as_ref()) != *before).then(|| format!("{server}.{tool} gives another answer"))
    }

    async fn file_changes(&self) -> Vec<String> {
        let (executor, user) = (Arc::clone(self.executor), self.user.clone());
        let (folder, limits) = (self.content.workspace.clone(), self.content.limits.clone());
        let work = move || {
            let files = executor.parts().workspaces.files(&user, folder.as_deref(), &limits)?;
            files::fingerprint(&files)
        };
        let now = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(now)) => now,
            Ok(Err(error)) => return vec![format!("the workspace cannot be read: {error}")],
            Err(error) => return vec![format!("the workspace cannot be read: {error}")],
        };
        let before = &self.content.files;
        let paths: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let told = |path: &&String| {
            let what = match (before.get(*path), now.get(*path)) {
                (Some(before), Some(now)) if before == now => return None,
                (Some(_), Some(_)) => "has changed",
                (Some(_), None) => "was deleted",
                (None, _) => "is new",
            };
            Some(format!("the file {path:?} {what}"))
        };
        paths.iter().filter_map(told).collect()
    }
}

fn call(server: &ServerName, tool: &str, arguments: &Map<String, Value>) -> Map<String, Value> {
    let params = json!({ "server": server.as_str(), "tool": tool, "arguments": arguments });
    params.as_object().cloned().unwrap_or_default()
}

fn failed(code: &str, message: &str) -> Outcome {
    let error = message.chars().take(MAX_ERROR_CHARS).collect();
    Outcome { error: Some(error), code: Some(code.to_owned()), ..Outcome::of(EffectState::Failed) }
}
