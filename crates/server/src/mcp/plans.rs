//! `run_plan`, for which a person has to approve.

use super::client_requests::ClientRequests;
use super::plan_text::{fit, line};
use super::progress::Progress;
use super::run::{Call, Run};
use super::{arguments, refusal, render};
use crate::mcp::Frontend;
use coracle_engine::PlanApproval;
use coracle_policy::arguments_preview;
use coracle_types::{EffectState, Plan, PlanId, PlanState, PlannedAction};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunPlan {
    plan_id: PlanId,
    #[serde(default)]
    effects: Option<BTreeSet<u64>>,
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
