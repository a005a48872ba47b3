//! Plans as people and models see them.

use crate::plans::{Content, Effect, FileEffect, Outcome, Progress};
use crate::privacy::Privacy;
use coracle_privacy::{Item, PrivacyError, UserVault};
use coracle_store::PlanRecord;
use coracle_types::{EffectState, Plan, PlanState, PlannedAction, PlannedEffect, PlannedRead, UserId};
use serde_json::{Map, Value};
use std::time::SystemTime;

/// What becomes of personal data in a plan that is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'a> {
    /// It is shown as it would be sent.
    Restored(&'a UserVault),
    /// It is replaced by tokens.
    Tokenized(&'a UserVault),
}

/// The plan that a record has.
pub(crate) fn view(record: &PlanRecord) -> Option<Plan> {
    let content: Content = serde_json::from_value(record.content.clone()).ok()?;
    let progress: Progress = serde_json::from_value(record.progress.clone()).ok()?;
    let is_expired = record.state == PlanState::Open && record.expires_at <= SystemTime::now();
    let stamp = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
    let mut effects: Vec<PlannedEffect> =
        content.effects.iter().map(|effect| call(&content, effect, progress.outcomes.get(&effect.number))).collect();
    effects.extend(content.changes.iter().map(|change| file(change, progress.outcomes.get(&change.number))));
    let reads = content.reads.iter();
    let reads = reads.map(|read| PlannedRead {
        server: read.server.clone(),
        tool: read.tool.clone(),
        arguments: read.arguments.clone(),
    });
    Some(Plan {
        id: record.id.clone(),
        state: if is_expired { PlanState::Expired } else { record.state },
        created_at: stamp(record.created_at),
        expires_at: stamp(record.expires_at),
        reads: reads.collect(),
        changes: progress.changes,
        effects,
        execution_id: content.execution,
        language: content.language,
    })
}

fn effect(number: u64, action: PlannedAction, outcome: Option<&Outcome>) -> PlannedEffect {
    let outcome = outcome.cloned().unwrap_or_else(|| Outcome::of(EffectState::Planned));
    PlannedEffect {
        number,
        action,
        uses: Vec::new(),
        blocked: None,
        state: outcome.state,
        result: outcome.result,
        error: outcome.error,
        error_code: outcome.code,
    }
}

fn call(content: &Content, planned: &Effect, outcome: Option<&Outcome>) -> PlannedEffect {
    let action = PlannedAction::Call {
        server: planned.server.clone(),
        tool: planned.tool.clone(),
        arguments: content.placeholders.shown(&planned.arguments),
        decision: planned.decision,
        reads: planned.reads,
        preview: planned.preview.clone(),
    };
    let (uses, blocked) = (planned.uses.iter().copied().collect(), planned.blocked.clone());
    PlannedEffect { uses, blocked, ..effect(planned.number, action, outcome) }
}

fn file(change: &FileEffect, outcome: Option<&Outcome>) -> PlannedEffect {
    let action = PlannedAction::File { path: change.path.clone(), change: change.change, bytes: change.bytes };
    PlannedEffect { blocked: change.blocked.clone(), ..effect(change.number, action, outcome) }
}

impl Shown<'_> {
    /// Replaces or restores the personal data in a plan.
    pub(crate) async fn apply(self, plan: &mut Plan) -> Result<(), PrivacyError> {
        let mut values = Vec::new();
        each(plan, &mut |value| values.push(std::mem::take(value)));
        match self {
            Self::Restored(vault) => {
                for value in &mut values {
                    vault.restore_json(value).await?;
                }
            }
            Self::Tokenized(vault) => {
                let mut items: Vec<Item<'_>> = values.iter_mut().map(Item::Json).collect();
                vault.tokenize(&mut items).await?;
            }
        }
        let mut values = values.into_iter();
        each(plan, &mut |value| *value = values.next().unwrap_or_default());
        Ok(())
    }
}

/// Visits everything in a plan that comes from code or servers, always in the same order.
fn each(plan: &mut Plan, visit: &mut dyn FnMut(&mut Value)) {
    for effect in &mut plan.effects {
        match &mut effect.action {
            PlannedAction::Call { tool, arguments, preview, .. } => {
                text(tool, visit);
                object(arguments, visit);
                preview.iter_mut().for_each(&mut *visit);
            }
            PlannedAction::File { path, .. } => text(path, visit),
        }
        effect.result.iter_mut().for_each(&mut *visit);
        effect.error.iter_mut().for_each(|error| text(error, visit));
    }
    for read in &mut plan.reads {
        text(&mut read.tool, visit);
        object(&mut read.arguments, visit);
    }
    plan.changes.iter_mut().for_each(|change| text(change, visit));
}

fn object(object: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    let mut value = Value::Object(std::mem::take(object));
    visit(&mut value);
    if let Value::Object(visited) = value {
        *object = visited;
    }
}

fn text(text: &mut String, visit: &mut dyn FnMut(&mut Value)) {
    let mut value = Value::String(std::mem::take(text));
    visit(&mut value);
    if let Value::String(visited) = value {
        *text = visited;
    }
}

/// Replaces personal data in a plan by tokens, for programs that may show it to a model.
pub async fn hide_in_plan(vault: &UserVault, plan: &mut Plan) -> Result<(), PrivacyError> {
    Shown::Tokenized(vault).apply(plan).await
}

/// The plan as a person sees it: with the data that would be sent.
pub(crate) async fn for_person(privacy: Option<&Privacy>, user: &UserId, plan: &mut Plan) -> Result<(), PrivacyError> {
    let Some(privacy) = privacy else { return Ok(()) };
    let vault = privacy.vault(user).await?;
    Shown::Restored(&vault).apply(plan).await
}
