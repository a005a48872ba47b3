//! Tasks for Coracle's own agent. Background tasks are runs in the background.

use super::selection::SelectedTools;
use super::{Frontend, arguments, structured};
use crate::agent_runtime::AgentRuntime;
use coracle_models::{Item, Part};
use coracle_runs::{LiveRun, RunSpec};
use coracle_types::RunId;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a task in bytes.
const MAX_TASK_BYTES: usize = 256 << 10;
/// Maximum length of a task in a list, in characters.
const MAX_LISTED_CHARS: usize = 200;
/// Maximum number of tasks in a list.
const MAX_LISTED: usize = 50;
/// Maximum time to wait for a task, in seconds.
const MAX_WAIT: f64 = 3_600.0;
/// Maximum length of the output of code in a result, in bytes.
const MAX_OUTPUT_BYTES: usize = 32 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    task_description: String,
    #[serde(default)]
    verbose: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTask {
    task_id: String,
    #[serde(default)]
    timeout: Option<f64>,
}

pub(super) async fn answer(
    frontend: &Frontend,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, String> {
    let agent = frontend.agent.get().ok_or("this server has no agent")?;
    let value = match request.name.as_ref() {
        "execute_task" => execute(frontend, agent, arguments(request)?, context).await?,
        "dispatch_background_task" => dispatch(frontend, agent, arguments(request)?).await?,
        "get_background_task_status" => status(frontend, agent, &arguments(request)?).await?,
        "wait_for_background_task" => wait(frontend, agent, &arguments(request)?, context).await?,
        "cancel_background_task" => cancel(frontend, agent, &arguments(request)?).await?,
        _ => list(frontend, agent).await?,
    };
    Ok(structured(&value.to_string(), value))
}

fn checked(task: &str) -> Result<(), String> {
    if task.trim().is_empty() {
        return Err("task_description is empty".to_owned());
    }
    if task.len() > MAX_TASK_BYTES {
        return Err(format!("task_description is longer than {MAX_TASK_BYTES} bytes"));
    }
    Ok(())
}

/// Starts a run for a task. Without a model, the error comes with the starter program.
async fn start(
    frontend: &Frontend,
    agent: &AgentRuntime,
    task: &str,
    selected: &SelectedTools,
    is_background: bool,
) -> Result<Arc<LiveRun>, String> {
    let found = agent.models.find(&frontend.user(), None).await.map_err(|error| error.to_string())?;
    let chosen = found.map_err(|error| {
        let starter = selected.starter.as_ref();
        let starter = starter.map(|starter| format!("\n\nA program to start with, for execute_code:\n{starter}"));
        format!("{error}: {}{}", error.hint(), starter.unwrap_or_default())
    })?;
    let listed: String = task.chars().take(MAX_LISTED_CHARS).collect();
    let spec = RunSpec {
        model: chosen.name(),
        instructions: Some(selected.instructions.clone()).filter(|text| !text.is_empty()),
        is_background,
        may_ask: is_background,
        is_stored: true,
        metadata: Map::from_iter([("task".to_owned(), Value::from(listed))]),
        ..RunSpec::default()
    };
    let input = vec![Item::User { parts: vec![Part::text(task)] }];
    agent.runs.start(&frontend.user(), spec, input).await.map_err(|error| error.to_string())
}

async fn execute(
    frontend: &Frontend,
    agent: &AgentRuntime,
    task: Task,
    context: &RequestContext<RoleServer>,
) -> Result<Value, String> {
    checked(&task.task_description)?;
    let selected = SelectedTools::of(frontend, &task.task_description).await;
    let run = start(frontend, agent, &task.task_description, &selected, false).await?;
    // The client is gone: so is the reason for the task.
    let _guard = run.stop_on_drop();
    let response = tokio::select! {
        response = run.ended() => response.ok_or("the server is stopping")?,
        () = context.ct.cancelled() => return Err("the task was cancelled".to_owned()),
    };
    let mut result = outcome(&response);
    if task.verbose {
        result["found_tools"] = json!(selected.found);
        result["selected_tools"] = json!(selected.names);
        result["code"] = codes(&response);
    }
    Ok(result)
}

async fn dispatch(frontend: &Frontend, agent: &AgentRuntime, task: Task) -> Result<Value, String> {
    checked(&task.task_description)?;
    let selected = SelectedTools::of(frontend, &task.task_description).await;
    let run = start(frontend, agent, &task.task_description, &selected, true).await?;
    let mut value = json!({"task_id": run.id.as_str(), "status": "running"});
    if task.verbose {
        value["found_tools"] = json!(selected.found);
        value["selected_tools"] = json!(selected.names);
    }
    Ok(value)
}

fn id(task: &OneTask) -> Result<RunId, String> {
    RunId::new(&task.task_id).map_err(|_| unknown(&task.task_id))
}

fn unknown(id: &str) -> String {
    let id: String = id.chars().take(MAX_LISTED_CHARS).collect();
    format!("there is no task `{id}`; list_background_tasks lists them")
}

async fn status(frontend: &Frontend, agent: &AgentRuntime, task: &OneTask) -> Result<Value, String> {
    let found = agent.runs.response(&frontend.user(), &id(task)?).await.map_err(|error| error.to_string())?;
    found.as_ref().map(described).ok_or_else(|| unknown(&task.task_id))
}

async fn wait(
    frontend: &Frontend,
    agent: &AgentRuntime,
    task: &OneTask,
    context: &RequestContext<RoleServer>,
) -> Result<Value, String> {
    let seconds = task.timeout.unwrap_or(300.0);
    if !(0.0..=MAX_WAIT).contains(&seconds) {
        return Err(format!("timeout must be from 0 to {MAX_WAIT} seconds"));
    }
    if let Some(run) = agent.runs.find_live(&frontend.user(), &id(task)?) {
        tokio::select! {
            _ = run.ended() => {}
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
            () = context.ct.cancelled() => return Err("the wait was cancelled".to_owned()),
        }
    }
    status(frontend, agent, task).await
}

async fn cancel(frontend: &Frontend, agent: &AgentRuntime, task: &OneTask) -> Result<Value, String> {
    let found = agent.runs.stop(&frontend.user(), &id(task)?).await.map_err(|error| error.to_string())?;
    found.as_ref().map(described).ok_or_else(|| unknown(&task.task_id))
}

async fn list(frontend: &Frontend, agent: &AgentRuntime) -> Result<Value, String> {
    let tasks = agent.runs.background(&frontend.user(), MAX_LISTED).await.map_err(|error| error.to_string())?;
    let tasks: Vec<Value> = tasks.iter().map(described).collect();
    Ok(json!({"count": tasks.len(), "tasks": tasks}))
}

/// A task with its state, and its result if it has one.
fn described(response: &Value) -> Value {
    let status = match response["status"].as_str() {
        Some("in_progress") => "running",
        Some(other) => other,
        None => "unknown",
    };
    let mut value = json!({
        "task_id": response["id"], "status": status, "task_description": response["metadata"]["task"],
        "created_at": response["created_at"],
    });
    if status != "running"
        && let (Some(value), Value::Object(outcome)) = (value.as_object_mut(), outcome(response))
    {
        value.extend(outcome);
    }
    value
}

/// The result of a task that has ended.
fn outcome(response: &Value) -> Value {
    let items = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_kind = |kind: &'static str| move |item: &&Value| item["type"] == kind;
    let text = |item: &Value| item["content"][0]["text"].as_str().map(str::to_owned);
    let result = items.iter().rfind(is_kind("message")).and_then(text).unwrap_or_default();
    let logs = items.iter().filter(is_kind("code_interpreter_call")).filter_map(|item| item["outputs"].as_array());
    let logs: Vec<&str> = logs.flatten().filter_map(|output| output["logs"].as_str()).collect();
    let output = logs.join("\n");
    let success = response["status"] == "completed";
    let error = response["coracle"]["message"].as_str().filter(|_| !success);
    json!({
        "success": success, "result": result, "output": output[..output.floor_char_boundary(MAX_OUTPUT_BYTES)],
        "error": error,
    })
}

fn codes(response: &Value) -> Value {
    let items = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
    let code = |item: &Value| match item["type"].as_str()? {
        "code_interpreter_call" => Some(item["code"].clone()),
        "shell_call" => Some(item["action"]["commands"][0].clone()),
        _ => None,
    };
    items.iter().filter_map(code).collect()
}
