//! Plans as text. Everything in them is hostile.

use crate::output::plain;
use coracle_types::{Decision, EffectState, Plan, PlanState, PlannedAction, PlannedEffect};
use serde_json::Value;
use std::fmt::Write as _;

/// Maximum length of a value, in characters.
const MAX_VALUE: usize = 300;
/// Maximum length of a line, in characters.
const MAX_LINE: usize = 2_000;

/// The plan as text: one paragraph per effect, with all arguments.
pub(super) fn text(plan: &Plan) -> String {
    let mut text = format!("plan {} ({})\n", plan.id, plan.state.as_str());
    if plan.state == PlanState::Incomplete {
        text.push_str("  the code failed, so the list is not complete and cannot be run\n");
    }
    for effect in &plan.effects {
        text.push_str(&paragraph(effect));
    }
    if !plan.reads.is_empty() {
        let _ = writeln!(text, "  it is based on {} reads, which are repeated before it runs", plan.reads.len());
    }
    for change in &plan.changes {
        let _ = writeln!(text, "  changed: {}", plain(change, MAX_LINE));
    }
    text
}

fn paragraph(effect: &PlannedEffect) -> String {
    let state = match effect.state {
        EffectState::Planned => "",
        EffectState::Begun => " - may have happened",
        EffectState::Done => " - done",
        EffectState::Failed => " - failed",
        EffectState::LeftOut => " - left out",
    };
    let number = effect.number;
    let mut text = String::new();
    match &effect.action {
        PlannedAction::Call { server, tool, arguments, decision, reads, preview } => {
            let note = match (reads, decision) {
                (true, _) => " (reads, after an effect)",
                (false, Decision::Ask) => " (needs approval)",
                (false, _) => "",
            };
            let _ = writeln!(text, "  [{number}] {server}.{}{note}{state}", plain(tool, MAX_VALUE));
            for (name, value) in arguments {
                let _ = writeln!(text, "      {}: {}", plain(name, MAX_VALUE), short(value));
            }
            if let Some(preview) = preview {
                let _ = writeln!(text, "      the tool says: {}", short(preview));
            }
        }
        PlannedAction::File { path, change, bytes } => {
            let _ = writeln!(
                text,
                "  [{number}] file {} {} ({bytes} bytes){state}",
                plain(path, MAX_LINE),
                change.as_str()
            );
        }
    }
    if !effect.uses.is_empty() {
        let uses: Vec<String> = effect.uses.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "      uses the result of {}", uses.join(", "));
    }
    if let Some(blocked) = &effect.blocked {
        let _ = writeln!(text, "      cannot be run: {}", plain(blocked, MAX_LINE));
    }
    if let Some(result) = &effect.result {
        let _ = writeln!(text, "      result: {}", short(result));
    }
    if let Some(error) = &effect.error {
        let _ = writeln!(text, "      error: {}", plain(error, MAX_LINE));
    }
    text
}

fn short(value: &Value) -> String {
    plain(&value.to_string(), MAX_VALUE)
}

/// What a plan does, in one line.
pub(super) fn summary(plan: &Plan) -> String {
    let names = plan.effects.iter().map(|effect| match &effect.action {
        PlannedAction::Call { server, tool, .. } => format!("{server}.{tool}"),
        PlannedAction::File { path, .. } => path.clone(),
    });
    names.collect::<Vec<_>>().join(", ")
}
