//! What the engine records in the audit log: executions, and the calls of tools with their decisions and approvals.
//!
//! A call is sent only after its decision is in the log. Everything else is recorded as soon as possible.

use crate::host_calls::{HostCallError, refused};
use crate::json;
use crate::request::Request;
use coracle_audit::{AuditError, AuditLog, Entry, Event, Verdict};
use coracle_policy::{Answer, Grant, GroupAnswer, Question, Reason, Refusal};
use coracle_types::{Execution, ExecutionId, Failure, PlanId, ServerName, ToolCall, UserId};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum length of a tool name that is recorded as it is.
const MAX_PLAIN: usize = 64;

/// Why code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// Somebody wants its result.
    Execution,
    /// A session is replayed, with recorded answers.
    Replay,
}

/// The audit log, if there is one. Cheap to clone; the log is set later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit {
    log: Arc<OnceLock<Arc<dyn AuditLog>>>,
}

impl Audit {
    /// Sets the log. Only the first call has an effect.
    pub(crate) fn set(&self, log: Arc<dyn AuditLog>) {
        let _ = self.log.set(log);
    }

    fn log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.log.get()
    }

    fn later(&self, user: &UserId, event: Event) {
        if let Some(log) = self.log() {
            log.append_later(Entry::of(user, event));
        }
    }

    /// Records that code is about to run. Returns the reason if that is not possible now: the code may run, but every
    /// call that it makes is refused for the same reason.
    pub(crate) async fn began(
        &self,
        request: &Request,
        execution: &ExecutionId,
        kind: RunKind,
    ) -> (Running, Option<AuditError>) {
        let mut running = Running { audit: self.clone(), user: request.user.clone(), began: Instant::now(), end: None };
        let Some(log) = self.log() else { return (running, None) };
        running.end = Some((execution.clone(), None, 0));
        let code = log.digest(request.code.as_bytes()).await;
        let event = |code| Event::ExecutionBegan {
            execution: execution.clone(),
            session: request.session.clone(),
            language: request.language,
            code,
            code_bytes: request.code.len() as u64,
            decision: Verdict::Allow,
            replay: kind == RunKind::Replay,
        };
        let appended = match code {
            Ok(code) => log.append(Entry::of(&request.user, event(code))).await,
            Err(error) => Err(error),
        };
        if appended.is_err() {
            log.append_later(Entry::of(&request.user, event(String::new())));
        }
        (running, appended.err())
    }

    /// Records that the guardrails do not allow code, which is therefore not run.
    pub(crate) async fn not_run(&self, request: &Request, execution: &ExecutionId, failure: &Failure) {
        self.refused(request, execution, failure.error_code.as_str(), None).await;
    }

    /// Records that a policy does not let code run.
    pub(crate) async fn execution_denied(&self, request: &Request, execution: &ExecutionId, reason: &Reason) {
        let (reason, rule) = reason_of(reason);
        self.refused(request, execution, reason, rule).await;
    }

    async fn refused(&self, request: &Request, execution: &ExecutionId, reason: &str, rule: Option<String>) {
        let Some(log) = self.log() else { return };
        // A digest that cannot be made is no reason to leave the refusal out.
        let code = log.digest(request.code.as_bytes()).await.unwrap_or_default();
        let event = Event::ExecutionDenied {
            execution: execution.clone(),
            session: request.session.clone(),
            language: request.language,
            code,
            code_bytes: request.code.len() as u64,
            decision: Verdict::Deny,
            reason: reason.to_owned(),
            rule,
        };
        // The process may end at once, because nothing runs.
        let entry = Entry::of(&request.user, event);
        if log.append(entry.clone()).await.is_err() {
            log.append_later(entry);
        }
    }

    /// Records that a call is allowed. If this fails, it must not be made.
    pub(crate) async fn allowed(
        &self,
        call: CallOf<'_>,
        arguments: &Map<String, Value>,
        grant: &Grant,
    ) -> Result<(), HostCallError> {
        let Some(log) = self.log() else { return Ok(()) };
        let (reason, rule) = match grant {
            Grant::Policy(reason) => reason_of(reason),
            Grant::Once => ("person_once", None),
            Grant::Session => ("person_session", None),
            Grant::Always => ("person_always", None),
            Grant::Group(_) => ("group", None),
        };
        let appended = async {
            let event = call.decided(log, Some(arguments), Verdict::Allow, reason, (rule, Vec::new())).await?;
            log.append(Entry::of(call.user, event)).await
        };
        appended.await.map_err(|error| unavailable(&error))
    }

    /// Records that a call is denied.
    pub(crate) async fn denied(&self, call: CallOf<'_>, arguments: &Map<String, Value>, refusal: &Refusal) {
        let rule = match refusal {
            Refusal::Denied { reason, .. } => (reason_of(reason).1, Vec::new()),
            Refusal::Flow { verdict }
            | Refusal::NobodyToAsk { reason: Reason::Flow(verdict), .. }
            | Refusal::TimedOut { reason: Reason::Flow(verdict), .. } => {
                (Some(verdict.rule.clone()), verdict.sources.iter().cloned().collect())
            }
            _ => (None, Vec::new()),
        };
        self.deny(call, Some(arguments), refusal.code(), rule).await;
    }

    /// Records that the rules deny a call, before its arguments were looked at.
    pub(crate) async fn denied_early(&self, call: CallOf<'_>, error: &HostCallError) {
        self.deny(call, None, &error.code, (None, Vec::new())).await;
    }

    async fn deny(&self, call: CallOf<'_>, arguments: Option<&Map<String, Value>>, code: &str, rule: Decisive) {
        let Some(log) = self.log() else { return };
        match call.decided(log, arguments, Verdict::Deny, code, rule).await {
            Ok(event) => log.append_later(Entry::of(call.user, event)),
            Err(error) => tracing::warn!(%error, "a refusal is not in the audit log"),
        }
    }

    /// Records that a person is asked.
    pub(crate) fn asked(&self, number: u64, question: &Question) -> Asked {
        let sources: BTreeSet<&ServerName> = question.flow.iter().flat_map(|verdict| &verdict.sources).collect();
        let asked = Event::ApprovalAsked {
            execution: question.execution.clone(),
            number,
            question: question.id.to_string(),
            server: question.server.clone(),
            tool: question.tool.clone(),
            rules: question.flow.iter().map(|verdict| verdict.rule.clone()).collect(),
            sources: sources.into_iter().cloned().collect(),
        };
        self.later(&question.user, asked);
        let (user, execution) = (question.user.clone(), question.execution.clone());
        Asked { audit: self.clone(), user, execution, number, question: question.id.to_string(), answer: "withdrawn" }
    }
}

/// Plans.
impl Audit {
    /// Records that a plan was made.
    pub(crate) fn plan_made(&self, user: &UserId, plan: &PlanId, execution: &ExecutionId, effects: u64) {
        self.later(user, Event::PlanMade { plan: plan.clone(), execution: execution.clone(), effects });
    }

    /// Records that a person has approved effects of a plan, which then run as this execution. If this fails, nothing may
    /// be run.
    pub(crate) async fn plan_approved(
        &self,
        user: &UserId,
        plan: &PlanId,
        execution: &ExecutionId,
        effects: u64,
    ) -> Result<(), AuditError> {
        let Some(log) = self.log() else { return Ok(()) };
        let event = Event::PlanApproved { plan: plan.clone(), execution: execution.clone(), effects };
        log.append(Entry::of(user, event)).await
    }

    /// Records what became of a plan.
    pub(crate) fn plan_ended(&self, user: &UserId, plan: &PlanId, execution: &ExecutionId, state: &'static str) {
        self.later(user, Event::PlanEnded { plan: plan.clone(), execution: execution.clone(), state });
    }
}

/// The error that code gets when its call cannot be recorded.
fn unavailable(error: &AuditError) -> HostCallError {
    HostCallError {
        retryable: true,
        ..refused(error.code(), &format!("the call was not made: {error}; {}", error.hint()))
    }
}

fn reason_of(reason: &Reason) -> (&'static str, Option<String>) {
    match reason {
        Reason::Rule { pattern, .. } => ("rule", Some(pattern.clone())),
        Reason::Flow(verdict) => ("flow", Some(verdict.rule.clone())),
        Reason::Wish => ("wish", None),
        Reason::Default { .. } => ("default", None),
        Reason::Named { kind, name, .. } => (kind.as_str(), Some(name.clone())),
    }
}

/// The rule that decided, and the servers that the data came from if it is a flow rule.
type Decisive = (Option<String>, Vec<ServerName>);

/// A call that is decided about.
#[derive(Clone, Copy)]
pub(crate) struct CallOf<'a> {
    pub(crate) user: &'a UserId,
    pub(crate) execution: &'a ExecutionId,
    pub(crate) number: u64,
    pub(crate) server: &'a ServerName,
    pub(crate) tool: &'a str,
    pub(crate) bytes: u64,
}

impl CallOf<'_> {
    async fn decided(
        &self,
        log: &Arc<dyn AuditLog>,
        arguments: Option<&Map<String, Value>>,
        decision: Verdict,
        reason: &str,
        (rule, sources): Decisive,
    ) -> Result<Event, AuditError> {
        let digest = match arguments {
            None => String::new(),
            Some(arguments) => {
                let mut hash = Sha256::new();
                json::hash(&mut hash, arguments);
                log.digest(&hash.finalize()).await?
            }
        };
        // Code can call a tool by any text, which may be anything.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
        let tool = if self.tool.len() <= MAX_PLAIN && self.tool.chars().all(is_plain) {
            self.tool.to_owned()
        } else {
            format!("digest {}", log.digest(self.tool.as_bytes()).await?)
        };
        Ok(Event::CallDecided {
            execution: self.execution.clone(),
            number: self.number,
            server: self.server.clone(),
            tool,
            arguments: digest,
            arguments_bytes: self.bytes,
            decision,
            reason: reason.to_owned(),
            rule,
            sources,
        })
    }
}

/// An execution that has begun. Its end is recorded when this is dropped.
#[derive(Debug)]
#[expect(clippy::option_option, reason = "no outcome yet, success, or an error code")]
pub(crate) struct Running {
    audit: Audit,
    user: UserId,
    began: Instant,
    /// Its ID, its outcome if it is known, and the number of its calls.
    end: Option<(ExecutionId, Option<Option<String>>, u64)>,
}

impl Running {
    /// Sets the outcome. Without one, the execution counts as cancelled.
    pub(crate) fn ended(mut self, execution: &Execution) {
        if let Some((_, outcome, calls)) = &mut self.end {
            let code = execution.failure.as_ref().map(|failure| failure.error_code.as_str().to_owned());
            (*outcome, *calls) = (Some(code), execution.calls.len() as u64);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((execution, outcome, calls)) = self.end.take() else { return };
        let error_code = outcome.unwrap_or_else(|| Some("cancelled".to_owned()));
        let ms = self.began.elapsed().as_millis() as u64;
        self.audit.later(&self.user, Event::ExecutionEnded { execution, error_code, ms, calls });
    }
}

/// An open question. Its answer is recorded when this is dropped.
#[derive(Debug)]
pub(crate) struct Asked {
    audit: Audit,
    user: UserId,
    execution: ExecutionId,
    number: u64,
    question: String,
    answer: &'static str,
}

impl Asked {
    /// Who has approved is in records of their own.
    pub(crate) fn answered_by_group(mut self, answer: &GroupAnswer) {
        self.answer = match answer {
            GroupAnswer::Approved(_) => "group",
            GroupAnswer::Refused => "refused",
            GroupAnswer::Nobody => "nobody",
            GroupAnswer::TimedOut => "timed_out",
            GroupAnswer::TooMany => "too_many",
        };
    }

    pub(crate) fn answered(mut self, answer: Answer) {
        self.answer = match answer {
            Answer::Once => "once",
            Answer::Session => "session",
            Answer::SessionSameArguments => "session_same_arguments",
            Answer::Always => "always",
            Answer::AlwaysSameArguments => "always_same_arguments",
            Answer::Refuse => "refused",
            Answer::Nobody => "nobody",
            Answer::TimedOut => "timed_out",
            Answer::TooMany => "too_many",
        };
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let event = Event::ApprovalAnswered {
            execution: self.execution.clone(),
            number: self.number,
            question: std::mem::take(&mut self.question),
            answer: self.answer,
        };
        self.audit.later(&self.user, event);
    }
}

/// The state of a call, as far as the log is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was decided.
    Begun,
    Allowed,
    Denied,
    /// It is part of a plan, and not made.
    Planned,
}

/// A call in progress. What it came to is recorded at its end.
#[derive(Debug)]
pub(crate) struct CallInProgress {
    pub(crate) audit: Audit,
    pub(crate) user: UserId,
    pub(crate) execution: ExecutionId,
    pub(crate) number: u64,
    pub(crate) stage: Stage,
}

impl CallInProgress {
    /// Records the end of the call.
    pub(crate) fn ended(&self, call: &ToolCall) {
        let (execution, number, code) = (self.execution.clone(), self.number, call.code.clone());
        let event = match self.stage {
            Stage::Denied => return,
            Stage::Planned => {
                Event::CallPlanned { execution, number, server: call.server.clone(), tool: call.tool.clone() }
            }
            // Calls that are answered from a log reach no server.
            Stage::Begun if call.replayed => return,
            Stage::Begun => Event::CallRefused { execution, number, code: code.unwrap_or_default() },
            Stage::Allowed => {
                Event::CallEnded { execution, number, ok: call.ok, code, ms: call.ms, bytes: call.bytes_out }
            }
        };
        self.audit.later(&self.user, event);
    }
}
