//! `execute_code`, `execute_bash`, and the tools that are a small program in the sandbox.

use super::progress::Progress;
use super::run::{Call, Run};
use super::{arguments, refusal, shown, tokens};
use crate::mcp::Face;
use coracle_engine::Request;
use coracle_policy::NobodyToAsk;
use coracle_types::{Language, SessionId};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteCode {
    code: String,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    context_vars: Option<Map<String, Value>>,
    #[serde(default)]
    timeout_seconds: Option<f64>,
    #[serde(default)]
    memory_mb: Option<u64>,
    #[serde(default)]
    session: Option<String>,
    /// For the person who reads along.
    #[serde(default)]
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteBash {
    command: String,
    #[serde(default)]
    timeout: Option<f64>,
}

/// Which answer the caller expects.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Bash,
}

pub(crate) async fn execute_code(
    face: &Face,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    execute(face, request, context, Kind::Code, code_request).await
}

pub(crate) async fn execute_bash(
    face: &Face,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    execute(face, request, context, Kind::Bash, bash_request).await
}

async fn execute(
    face: &Face,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    kind: Kind,
    read: fn(&Face, &CallToolRequestParams) -> Result<Request, String>,
) -> Result<CallToolResponse, ErrorData> {
    let call = Call::of(&face.user(), &request);
    if let Some(resumed) = face.parked.resume(&request, &call) {
        return resumed?.of(&context).follow(face.client(), &call, &context).await;
    }
    let mut code = match read(face, &request) {
        Ok(code) => code,
        Err(mistake) => return Ok(refusal(mistake).into()),
    };
    let (progress, events) = Progress::of_code(&context);
    code.events = events;
    let run = Run::start(&context, progress, |cancel, outward| {
        code.cancel = cancel;
        code.approver = outward;
        let face = face.clone();
        async move {
            let execution = face.execute(code).await;
            Ok(match kind {
                Kind::Code => shown::of_code(&face, execution).await.into(),
                Kind::Bash => shown::of_bash(&face, execution).into(),
            })
        }
    });
    run.follow(face.client(), &call, &context).await
}

fn code_request(face: &Face, request: &CallToolRequestParams) -> Result<Request, String> {
    let wanted: ExecuteCode = arguments(request)?;
    let language = match &wanted.language {
        None => Language::default(),
        Some(name) => name.parse::<Language>().map_err(|error| error.to_string())?,
    };
    let mut code = fresh(face, language, wanted.code);
    code.vars = wanted.context_vars.unwrap_or_default();
    code.session = match wanted.session.filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(SessionId::new(&name).map_err(|error| error.to_string())?),
    };
    if let Some(seconds) = wanted.timeout_seconds {
        code.limits.wall_ms = milliseconds("timeout_seconds", seconds)?;
    }
    if let Some(memory) = wanted.memory_mb {
        code.limits.memory_mb = memory;
    }
    code.limits = face.options.settings.within_guardrails(code.limits);
    code.description = wanted.description;
    Ok(code)
}

fn bash_request(face: &Face, request: &CallToolRequestParams) -> Result<Request, String> {
    let wanted: ExecuteBash = arguments(request)?;
    let mut code = fresh(face, Language::Bash, wanted.command);
    if let Some(seconds) = wanted.timeout {
        code.limits.wall_ms = milliseconds("timeout", seconds)?;
    }
    code.limits = face.options.settings.within_guardrails(code.limits);
    Ok(code)
}

fn fresh(face: &Face, language: Language, code: String) -> Request {
    let mut request = Request::new(face.user(), language, code);
    request.workspace = face.workspace().map(Path::to_owned);
    request.limits = face.options.settings.limits();
    request
}

pub(crate) fn milliseconds(name: &str, seconds: f64) -> Result<u64, String> {
    const DAY: f64 = 86_400.0;
    if seconds.is_finite() && seconds > 0.0 && seconds <= DAY {
        return Ok(((seconds * 1e3).round() as u64).max(1));
    }
    Err(format!("{name} is {seconds}: give more than 0 and at most {DAY} seconds"))
}

/// The programs behind tools that are no more than that: what they read is hostile, and in the sandbox it is held.
pub(crate) const READ_FILE: &str = r#"
import itertools, os
with open(os.path.join("/workspace", file_path), encoding="utf-8", errors="replace", newline="") as opened:
    last = None if line_count is None else offset + line_count
    result = "".join(itertools.islice(opened, offset, last))
"#;

/// See [`READ_FILE`]. Whoever reads the file meanwhile sees the old or the new one.
pub(crate) const WRITE_FILE: &str = r#"
import os, tempfile
path = os.path.join("/workspace", file_path)
folder = os.path.dirname(path)
os.makedirs(folder, exist_ok=True)
data = content.encode("utf-8", "surrogatepass")
if os.path.isdir(path):
    raise IsADirectoryError(f"{file_path} is a folder")
descriptor, fresh = tempfile.mkstemp(dir=folder, prefix=".coracle-")
try:
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)
    os.chmod(fresh, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
    os.replace(fresh, path)
except BaseException:
    os.unlink(fresh)
    raise
result = f"Successfully wrote {len(data)} bytes to {file_path}"
"#;

/// See [`READ_FILE`].
pub(crate) const READ_DOCSTRING: &str = r#"
import ast, os
try:
    with open(os.path.join("/workspace", file_path), encoding="utf-8") as opened:
        body = ast.parse(opened.read(), file_path).body
except FileNotFoundError:
    body = None
kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
node = None
for part in function_name.split(".") if body is not None else ():
    node = next((each for each in body if isinstance(each, kinds) and each.name == part), None)
    if node is None:
        there = ", ".join(each.name for each in body if isinstance(each, kinds)) or "none"
        raise LookupError(f"{file_path} has no {part}; there are: {there}")
    body = node.body
result = "" if body is None else ast.get_docstring(node) or f"{function_name} has no docstring"
"#;

/// Runs one of these; its result is the answer, as a text.
pub(crate) async fn program(
    face: &Face,
    program: &str,
    vars: Map<String, Value>,
    cancel: CancellationToken,
) -> CallToolResult {
    let mut request = fresh(face, Language::Python, program.to_owned());
    request.vars = vars;
    request.cancel = cancel;
    request.approver = Arc::new(NobodyToAsk);
    let execution = face.execute(request).await;
    let budget = usize::try_from(execution.limits.requested.output_tokens).unwrap_or(usize::MAX);
    if let Some(failure) = execution.failure {
        return refusal(failure.error);
    }
    let Some(Value::String(text)) = execution.result else { return refusal("the file is too large to be read") };
    if tokens::fits(&text, budget) {
        return CallToolResult::success(vec![ContentBlock::text(text)]);
    }
    let head = tokens::head(&text, budget);
    let lines = head.lines().count();
    CallToolResult::success(vec![ContentBlock::text(format!(
        "{head}\n… cut after {lines} lines: read on with `offset`, or work on the file with execute_code"
    ))])
}
