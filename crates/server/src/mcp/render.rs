//! Renders an execution for a model: within a token budget, without the code, and with one line per call.

use super::budget::{self, Budget};
use super::{plan_text, shape, token_count};
use crate::mcp::Frontend;
use crate::profile::Profile;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_engine::{Output, output_lines};
use coracle_types::{Artifact, Execution, ToolCall};
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum number of calls that are listed; others are counted.
const MAX_CALLS: usize = 30;
/// Maximum number of links to artifacts.
const MAX_LINKS: usize = 20;
/// Maximum number of images, and their maximum size in bytes.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: u64 = 1 << 20;

/// Execution whose texts fit the budget.
struct Fitted {
    execution: Execution,
    /// The result, or its summary, as text.
    result: Option<String>,
    /// File with the complete result, if the result is a summary.
    result_file: Option<String>,
}

/// Result of `execute_code`.
pub(crate) async fn of_code(frontend: &Frontend, execution: Execution, output: &Output) -> CallToolResult {
    let fitted = fit(frontend, execution, output);
    let mut content = vec![ContentBlock::text(text(&fitted))];
    content.extend(images_and_links(frontend, &fitted.execution.artifacts).await);
    let failed = !fitted.execution.success;
    let structured = match frontend.options.profile {
        Profile::Full => whole(&fitted),
        Profile::Code | Profile::Direct => compact(fitted),
    };
    answer(content, structured, failed)
}

/// Result of `execute_code` for the built-in agent: what programs get has all fields that a person may want to see.
pub(crate) async fn for_agent(frontend: &Frontend, execution: Execution, output: &Output) -> CallToolResult {
    let fitted = fit(frontend, execution, output);
    let mut content = vec![ContentBlock::text(text(&fitted))];
    content.extend(images_and_links(frontend, &fitted.execution.artifacts).await);
    let mut structured = whole(&fitted);
    if let Some(fields) = structured.as_object_mut() {
        // The same as standard output.
        fields.remove("output");
    }
    answer(content, structured, !fitted.execution.success)
}

/// Result of `execute_bash`.
pub(crate) fn of_bash(frontend: &Frontend, execution: Execution, output: &Output) -> CallToolResult {
    use coracle_types::ErrorCode::{Exception, Output, Syntax};
    let Fitted { execution, .. } = fit(frontend, execution, output);
    // The exit code describes how a command ended. Other failures come from the sandbox.
    let failure =
        execution.failure.as_ref().filter(|failure| !matches!(failure.error_code, Exception | Syntax | Output));
    let exit_code = if failure.is_some() { -1 } else { execution.exit_code };
    let mut stderr = execution.stderr;
    if let Some(failure) = failure {
        let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let _ = write!(stderr, "{}{}{hint}", if stderr.is_empty() { "" } else { "\n" }, failure.error);
    }
    let structured = json!({ "exit_code": exit_code, "stdout": execution.stdout, "stderr": stderr });
    answer(vec![ContentBlock::text(structured.to_string())], structured, failure.is_some())
}

pub(crate) fn answer(content: Vec<ContentBlock>, structured: Value, failed: bool) -> CallToolResult {
    let mut result = if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(structured);
    result
}

/// Shortens what exceeds the budget and keeps the complete text in the workspace. The streams are shortened from the
/// whole output, not from what the engine has recorded of it.
fn fit(frontend: &Frontend, mut execution: Execution, output: &Output) -> Fitted {
    let budget = Budget::of(&execution.limits.requested);
    let stdout = stream(&mut execution.stdout, output.stdout(), budget.stdout());
    let stderr = stream(&mut execution.stderr, output.stderr(), budget.stderr());
    if stdout != Shown::AsRecorded {
        execution.output = output_lines(&execution.stdout);
    }
    let is_short = stdout == Shown::InPart || stderr == Shown::InPart;
    let mut texts = String::new();
    if let Some(failure) = &mut execution.failure {
        let error = ("error", Some(&mut failure.error));
        for (name, text) in [error, ("traceback", failure.traceback.as_mut())] {
            let Some(text) = text else { continue };
            let Some(short) = budget::shortened(text.as_bytes(), budget.error()) else { continue };
            let _ = write!(texts, "--- {name}\n{text}\n");
            *text = short;
        }
    }
    if let Some(plan) = &mut execution.plan {
        plan_text::fit(plan, budget.result());
    }
    let keep = |name: &str, bytes: &[u8]| {
        let (workspace, limits) = (frontend.workspace(), frontend.options.settings.limits());
        frontend.engine.keep(&frontend.user(), workspace, &limits, name, bytes)
    };
    let is_cut = is_short || !texts.is_empty();
    if is_cut && execution.output_file.is_none() {
        let mut whole = if is_short { output.both() } else { Cow::default() };
        if !texts.is_empty() {
            whole.to_mut().extend_from_slice(texts.as_bytes());
        }
        execution.output_file = keep(&format!("{}.txt", execution.execution_id), &whole);
    }
    let (mut result, mut result_file) = (None, None);
    if let Some(value) = &mut execution.result {
        let json = value.to_string();
        if token_count::fits(&json, budget.result()) {
            result = Some(shown(value, json));
        } else {
            let file = keep(&format!("{}.json", execution.execution_id), json.as_bytes());
            let file = file.unwrap_or_else(|| "nowhere: cannot write to the workspace, or it is full".to_owned());
            result_file = Some(file);
            *value = summary(value, budget.result());
            result = Some(shown(value, value.to_string()));
        }
    }
    execution.truncated |= is_cut || result_file.is_some();
    Fitted { execution, result, result_file }
}

/// How much of a stream an answer has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsRecorded,
    Whole,
    InPart,
}

/// Sets a stream to all of the output, or to its start and end if it exceeds its budget.
fn stream(text: &mut String, output: &[u8], budget: usize) -> Shown {
    match budget::shortened(output, budget) {
        Some(short) => {
            *text = short;
            Shown::InPart
        }
        None if text.as_bytes() == output => Shown::AsRecorded,
        None => {
            *text = String::from_utf8_lossy(output).into_owned();
            Shown::Whole
        }
    }
}

/// A value as text, from its JSON.
fn shown(value: &Value, json: String) -> String {
    match value {
        Value::String(text) => text.clone(),
        _ => json,
    }
}

/// Summary of a value that exceeds the budget.
fn summary(value: &Value, budget: usize) -> Value {
    let summary = shape::summary(value);
    let text = summary.to_string();
    if token_count::fits(&text, budget) { summary } else { Value::from(token_count::head(&text, budget / 2)) }
}

/// The complete result, for programs that rely on it.
fn whole(fitted: &Fitted) -> Value {
    let mut value = serde_json::to_value(&fitted.execution).unwrap_or_default();
    if let (Some(file), Some(fields)) = (&fitted.result_file, value.as_object_mut()) {
        fields.insert("result_file".to_owned(), Value::from(file.as_str()));
    }
    value
}

/// The result without fields that are empty, redundant or useless to a model.
fn compact(fitted: Fitted) -> Value {
    let execution = fitted.execution;
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if !is_empty {
            fields.insert(name.to_owned(), value);
        }
    };
    add("result", execution.result.unwrap_or_default());
    add("result_file", fitted.result_file.into());
    add("stdout", execution.stdout.into());
    add("stderr", execution.stderr.into());
    add("truncated", execution.truncated.into());
    add("output_file", execution.output_file.into());
    if let Some(failure) = execution.failure {
        add("error", failure.error.into());
        add("error_code", json!(failure.error_code));
        add("traceback", failure.traceback.into());
        add("hint", failure.hint.into());
    }
    add("session", json!(execution.session));
    add("session_restarted", execution.session_restarted.into());
    add("calls", call_lines(&execution.calls).into());
    add("artifacts", execution.artifacts.into_iter().map(|artifact| Value::from(artifact.uri)).collect());
    add("warnings", execution.warnings.into());
    add("plan", json!(execution.plan));
    fields.insert("success".to_owned(), Value::from(execution.success));
    Value::Object(fields)
}

/// The result as text.
fn text(fitted: &Fitted) -> String {
    let execution = &fitted.execution;
    let mut parts: Vec<String> = Vec::new();
    if let Some(failure) = &execution.failure {
        let said = failure.traceback.as_ref().unwrap_or(&failure.error);
        parts.push(format!("error ({}): {}", failure.error_code, said.trim_end()));
        if let Some(hint) = &failure.hint {
            parts.push(format!("hint: {hint}"));
        }
    }
    if let Some(shown) = &fitted.result {
        parts.push(match &fitted.result_file {
            None => shown.clone(),
            Some(file) => {
                format!("{shown}\nthe result is too large; this is a summary, and the complete result is in {file}")
            }
        });
    }
    for (name, stream) in [("stdout", &execution.stdout), ("stderr", &execution.stderr)] {
        if !stream.is_empty() {
            parts.push(format!("{name}:\n{}", stream.trim_end()));
        }
    }
    if let Some(file) = &execution.output_file {
        parts.push(format!("the complete output is in {file}"));
    }
    if execution.session_restarted {
        parts.push("the session was restarted: variables of earlier calls are lost".to_owned());
    }
    let calls = call_lines(&execution.calls);
    if !calls.is_empty() {
        parts.push(format!("calls:\n{}", calls.join("\n")));
    }
    for artifact in &execution.artifacts {
        parts.push(format!("artifact: {} ({}, {} bytes)", artifact.path, artifact.mime, artifact.bytes));
    }
    parts.extend(execution.plan.as_ref().map(plan_text::text));
    parts.extend(execution.warnings.iter().map(|warning| format!("warning: {warning}")));
    if parts.is_empty() { "done, without output".to_owned() } else { parts.join("\n") }
}

/// One line per call; consecutive calls of the same tool share a line.
fn call_lines(calls: &[ToolCall]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut groups = calls.chunk_by(|one, other| {
        (&one.server, &one.tool, one.ok, &one.code) == (&other.server, &other.tool, other.ok, &other.code)
    });
    for group in groups.by_ref().take(MAX_CALLS) {
        let Some(first) = group.first() else { continue };
        let outcome = if first.ok { "ok" } else { first.code.as_deref().unwrap_or("failed") };
        let times = if group.len() > 1 { format!(" ×{}", group.len()) } else { String::new() };
        let ms: u64 = group.iter().map(|call| call.ms).sum();
        let bytes: u64 = group.iter().map(|call| call.bytes_out).sum();
        let (server, tool) = (short(&first.server), short(&first.tool));
        lines.push(format!("{server}.{tool}{times} {outcome} {ms} ms {bytes} B"));
    }
    let more: usize = groups.map(<[ToolCall]>::len).sum();
    if more > 0 {
        lines.push(format!("… {more} more"));
    }
    lines
}

/// Shortens names of calls, which come from hostile code.
fn short(name: &str) -> String {
    name.chars().filter(|c| !coracle_types::is_hidden(*c)).take(64).collect()
}

async fn images_and_links(frontend: &Frontend, artifacts: &[Artifact]) -> Vec<ContentBlock> {
    let mut blocks = Vec::new();
    let mut images = 0;
    for artifact in artifacts.iter().take(MAX_LINKS) {
        let is_image = matches!(artifact.mime.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
        if is_image && images < MAX_IMAGES && artifact.bytes <= MAX_IMAGE_BYTES {
            match frontend.engine.artifact(&frontend.user(), &artifact.uri).await {
                Ok((_, bytes)) => {
                    blocks.push(ContentBlock::image(STANDARD.encode(bytes), artifact.mime.clone()));
                    images += 1;
                }
                Err(error) => tracing::warn!(%error, "cannot read an image"),
            }
        }
        blocks.push(ContentBlock::resource_link(resource(artifact)));
    }
    blocks
}

/// Resource of an artifact.
pub(crate) fn resource(artifact: &Artifact) -> Resource {
    Resource::new(&artifact.uri, &artifact.name).with_mime_type(&artifact.mime).with_size(artifact.bytes)
}
