//! Plans: how models see them, and `run_plan`, for which a person has to approve.

use super::client_requests::ClientRequests;
use super::progress::Progress;
use super::run::{Call, Run};
use super::{arguments, refusal, render, shape, token_count};
use crate::mcp::Frontend;
use coracle_engine::PlanApproval;
use coracle_policy::arguments_preview;
use coracle_types::{EffectState, Plan, PlanId, PlanState, PlannedAction, PlannedEffect, is_hidden};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Maximum number of effects that a model sees.
const MAX_SHOWN: usize = 30;
/// Maximum length of a name in a line.
const MAX_NAME_CHARS: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunPlan {
    plan_id: PlanId,
    #[serde(default)]
    effects: Option<BTreeSet<u64>>,
}

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

fn line(effect: &PlannedEffect) -> String {
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

pub(crate) async fn run_plan(
    frontend: &Frontend,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let user = frontend.user();
    let call = Call { user: &user, request: &request };
    if let Some(resumed) = frontend.parked.resume(call) {
        return resumed?.of(&context).follow(frontend.client(), call, &context).await;
    }
    let wanted: RunPlan = match arguments(&request) {
        Ok(wanted) => wanted,
        Err(mistake) => return Ok(refusal(mistake).into()),
    };
    let run = Run::start(&context, Progress::none(), |cancel, client| {
        let (frontend, user) = (frontend.clone(), user.clone());
        async move {
            let plan = match frontend.engine.plan(&user, &wanted.plan_id).await {
                Ok(plan) => plan,
                Err(error) => return Ok(refusal(error.to_string()).into()),
            };
            if plan.state == PlanState::Open
                && let Err(reason) = approved(&client, &plan, wanted.effects.as_ref()).await
            {
                return Ok(refusal(reason).into());
            }
            let approval = PlanApproval { user, plan: plan.id, effects: wanted.effects, cancel };
            Ok(match frontend.engine.run_plan(approval).await {
                Ok(mut plan) => {
                    fit(&mut plan, super::budget::Budget::of(&frontend.options.settings.limits()).result());
                    answer(&plan).into()
                }
                Err(error) => {
                    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                    refusal(format!("{error}{hint}")).into()
                }
            })
        }
    });
    run.follow(frontend.client(), call, &context).await
}

fn answer(plan: &Plan) -> CallToolResult {
    let lines = plan.effects.iter().map(|effect| {
        let why = effect.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("{} {}{why}", line(effect), effect.state.as_str())
    });
    let text = format!("plan {} is {}\n{}", plan.id, plan.state.as_str(), lines.collect::<Vec<_>>().join("\n"));
    let failed = plan.state != PlanState::Done || plan.effects.iter().any(|effect| effect.state == EffectState::Failed);
    render::answer(vec![ContentBlock::text(text)], json!(plan), failed)
}

/// Asks the person behind the client. Only an accepted form is an approval.
async fn approved(client: &ClientRequests, plan: &Plan, only: Option<&BTreeSet<u64>>) -> Result<(), String> {
    let mut message = "May these effects take place?".to_owned();
    for effect in plan.effects.iter().filter(|effect| only.is_none_or(|only| only.contains(&effect.number))) {
        let _ = write!(message, "\n{}", line(effect));
        if let PlannedAction::Call { arguments, .. } = &effect.action {
            let _ = write!(message, "\n  with: {}", arguments_preview(arguments));
        }
    }
    let form = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "answer": { "type": "string", "title": "Answer", "enum": ["yes", "no"], "enumNames": ["Yes", "No"] },
            },
            "required": ["answer"],
        },
    });
    let id = &plan.id;
    match client.put("elicitation/create", form).await {
        Ok(answer) if answer["action"] == "accept" && answer["content"]["answer"] == "yes" => Ok(()),
        Ok(_) => Err("the user did not approve the plan".to_owned()),
        Err(reason) => Err(format!(
            "the plan needs the approval of a person, and the client cannot ask: {reason}\nhint: `coracle plans run {id}` \
             asks at the terminal, and the page shows the plan"
        )),
    }
}
