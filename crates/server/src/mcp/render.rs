//! Renders an execution for a model: within a token budget, without the code, and with one line per call.

use super::{shape, token_count};
use crate::mcp::Frontend;
use crate::profile::Profile;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_types::{Artifact, Execution, ToolCall};
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};
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
    /// File with the complete result, if the result is a summary.
    result_file: Option<String>,
}

/// Result of `execute_code`.
pub(crate) async fn of_code(frontend: &Frontend, execution: Execution) -> CallToolResult {
    let fitted = fit(frontend, execution);
    let structured = match frontend.options.profile {
        Profile::Full => whole(&fitted),
        Profile::Code | Profile::Direct => compact(&fitted),
    };
    let mut content = vec![ContentBlock::text(text(&fitted))];
    content.extend(images_and_links(frontend, &fitted.execution.artifacts).await);
    answer(content, structured, !fitted.execution.success)
}

/// Result of `execute_bash`.
pub(crate) fn of_bash(frontend: &Frontend, execution: Execution) -> CallToolResult {
    use coracle_types::ErrorCode::{Exception, Output, Syntax};
    let Fitted { execution, .. } = fit(frontend, execution);
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

/// Shortens what exceeds the budget and keeps the complete text in the workspace.
fn fit(frontend: &Frontend, mut execution: Execution) -> Fitted {
    let budget = usize::try_from(execution.limits.requested.output_tokens).unwrap_or(usize::MAX);
    let mut cut = Cut { frontend, name: execution.execution_id.to_string(), whole: String::new() };
    if let Some(failure) = &mut execution.failure {
        cut.text(&mut failure.error, budget / 8, "error");
        if let Some(traceback) = &mut failure.traceback {
            cut.text(traceback, budget / 8, "traceback");
        }
    }
    let result_file = execution.result.as_mut().and_then(|result| cut.value(result, budget / 2));
    cut.text(&mut execution.stderr, budget / 8, "stderr");
    cut.text(&mut execution.stdout, budget / 4, "stdout");
    let kept = cut.keep(execution.output_file.take());
    execution.truncated |= kept.is_some() || result_file.is_some();
    if kept.is_some() {
        execution.output = execution.stdout.lines().map(str::to_owned).collect();
    }
    execution.output_file = kept;
    Fitted { execution, result_file }
}

struct Cut<'a> {
    frontend: &'a Frontend,
    name: String,
    /// Complete texts that were shortened.
    whole: String,
}

impl Cut<'_> {
    /// Keeps the start and the end of a text that exceeds the budget.
    fn text(&mut self, text: &mut String, budget: usize, name: &str) {
        if token_count::fits(text, budget) {
            return;
        }
        let (head, tail) = (token_count::head(text, budget * 2 / 3), token_count::tail(text, budget / 3));
        let left_out = text.len().saturating_sub(head.len() + tail.len());
        let short = format!("{head}\n… {left_out} bytes left out …\n{tail}");
        let _ = write!(self.whole, "--- {name}\n{text}\n");
        *text = short;
    }

    /// Replaces a value that exceeds the budget with a summary, and returns the file with the complete value.
    fn value(&self, value: &mut Value, budget: usize) -> Option<String> {
        let text = value.to_string();
        if token_count::fits(&text, budget) {
            return None;
        }
        let file = self.frontend.engine.keep(
            &self.frontend.user(),
            self.frontend.workspace(),
            &self.frontend.options.settings.limits(),
            &format!("{}.json", self.name),
            text.as_bytes(),
        );
        let mut summary = shape::summary(value);
        let shown = summary.to_string();
        if !token_count::fits(&shown, budget) {
            summary = Value::from(token_count::head(&shown, budget / 2));
        }
        *value = summary;
        Some(file.unwrap_or_else(|| "nowhere: cannot write to the workspace, or it is full".to_owned()))
    }

    /// Returns the file with the complete output: the one that the engine wrote, or else one with the shortened texts.
    fn keep(&self, already: Option<String>) -> Option<String> {
        if already.is_some() || self.whole.is_empty() {
            return already;
        }
        let (workspace, limits) = (self.frontend.workspace(), self.frontend.options.settings.limits());
        let name = format!("{}.txt", self.name);
        self.frontend.engine.keep(&self.frontend.user(), workspace, &limits, &name, self.whole.as_bytes())
    }
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
fn compact(fitted: &Fitted) -> Value {
    let execution = &fitted.execution;
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
    add("result", execution.result.clone().unwrap_or_default());
    add("result_file", json!(fitted.result_file));
    add("stdout", json!(execution.stdout));
    add("stderr", json!(execution.stderr));
    add("truncated", json!(execution.truncated));
    add("output_file", json!(execution.output_file));
    if let Some(failure) = &execution.failure {
        add("error", json!(failure.error));
        add("error_code", json!(failure.error_code));
        add("traceback", json!(failure.traceback));
        add("hint", json!(failure.hint));
    }
    add("session", json!(execution.session));
    add("session_restarted", json!(execution.session_restarted));
    add("calls", json!(call_lines(&execution.calls)));
    let artifacts: Vec<&str> = execution.artifacts.iter().map(|artifact| artifact.uri.as_str()).collect();
    add("artifacts", json!(artifacts));
    add("warnings", json!(execution.warnings));
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
    if let Some(result) = &execution.result {
        let shown = match result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        parts.push(match &fitted.result_file {
            None => shown,
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
