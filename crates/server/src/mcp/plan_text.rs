//! Plans as models see them.

use super::{shape, token_count};
use coracle_types::{Plan, PlanState, PlannedAction, PlannedEffect, is_hidden};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Maximum number of effects that a model sees.
const MAX_SHOWN: usize = 30;
/// Maximum length of a name in a line.
const MAX_NAME_CHARS: usize = 200;

/// Shortens a plan so that it fits a budget of tokens. The whole plan stays stored.
pub(super) fn fit(plan: &mut Plan, budget: usize) {
    let fits = |plan: &Plan| token_count::fits(&serde_json::to_string(plan).unwrap_or_default(), budget);
    if fits(plan) {
        return;
    }
    for effect in &mut plan.effects {
        if let PlannedAction::Call { arguments, preview, .. } = &mut effect.action {
            let short = |(name, value): (&String, &Value)| (name.clone(), shape::summary(value));
            *arguments = arguments.iter().map(short).collect();
            *preview = preview.as_ref().map(shape::summary);
        }
        effect.result = effect.result.as_ref().map(shape::summary);
    }
    plan.reads.clear();
    plan.effects.truncate(MAX_SHOWN);
    if fits(plan) {
        return;
    }
    for effect in &mut plan.effects {
        if let PlannedAction::Call { arguments, preview, .. } = &mut effect.action {
            (*arguments, *preview) = (Map::new(), None);
        }
        (effect.result, effect.error) = (None, None);
    }
    while !fits(plan) && plan.effects.pop().is_some() {}
}

/// A plan in the result of an execution, as text.
pub(super) fn text(plan: &Plan) -> String {
    let count = plan.effects.len();
    match plan.state {
        PlanState::Empty => return "plan: the code changes nothing".to_owned(),
        PlanState::Incomplete => {
            return format!("plan: {count} effects before the code failed; the plan is not kept");
        }
        _ => {}
    }
    let mut text = format!("plan {}: {count} effects, none of which has happened; a person has to approve:", plan.id);
    for effect in plan.effects.iter().take(MAX_SHOWN) {
        let _ = write!(text, "\n{}", line(effect));
    }
    if count > MAX_SHOWN {
        let _ = write!(text, "\n… {} more", count - MAX_SHOWN);
    }
    text
}

pub(super) fn line(effect: &PlannedEffect) -> String {
    let number = effect.number;
    let mut line = match &effect.action {
        PlannedAction::Call { server, tool, .. } => format!("[{number}] {server}.{}", short(tool)),
        PlannedAction::File { path, change, .. } => format!("[{number}] file {} {}", short(path), change.as_str()),
    };
    if let Some(blocked) = &effect.blocked {
        let _ = write!(line, " (cannot be run: {blocked})");
    }
    line
}

fn short(name: &str) -> String {
    name.chars().filter(|c| !is_hidden(*c)).take(MAX_NAME_CHARS).collect()
}
