//! `execute_code`, `execute_bash`, and the tools that are implemented as a small program in the sandbox.

use super::budget::Budget;
use super::code_request::{CodeRequest, milliseconds, with_defaults};
use super::progress::Progress;
use super::run::{Call, Run};
use super::{arguments, refusal, render, token_count};
use crate::mcp::Frontend;
use coracle_engine::{CallLogging, Request};
use coracle_policy::NobodyToAsk;
use coracle_types::Language;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteBash {
    command: String,
    #[serde(default)]
    timeout: Option<f64>,
}

/// Format of the result.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Bash,
}

pub(crate) async fn execute_code(
    frontend: &Frontend,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    execute(frontend, request, context, Kind::Code).await
}

pub(crate) async fn execute_bash(
    frontend: &Frontend,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    execute(frontend, request, context, Kind::Bash).await
}

async fn execute(
    frontend: &Frontend,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    kind: Kind,
) -> Result<CallToolResponse, ErrorData> {
    let user = frontend.user();
    let call = Call { user: &user, request: &request };
    if let Some(resumed) = frontend.parked.resume(call) {
        return resumed?.of(&context).follow(frontend.client(), call, &context).await;
    }
    let code = match kind {
        Kind::Code => code_request(frontend, &request).await,
        Kind::Bash => bash_request(frontend, &request),
    };
    let mut code = match code {
        Ok(code) => code,
        Err(mistake) => return Ok(refusal(mistake).into()),
    };
    let (progress, events) = Progress::of_code(&context);
    code.events = events;
    let run = Run::start(&context, progress, |cancel, client| {
        code.cancel = cancel;
        code.approver = client;
        let frontend = frontend.clone();
        async move {
            let (execution, output) = frontend.execute_with_output(code).await;
            Ok(match kind {
                Kind::Code => render::of_code(&frontend, execution, &output).await.into(),
                Kind::Bash => render::of_bash(&frontend, execution, &output).into(),
            })
        }
    });
    run.follow(frontend.client(), call, &context).await
}

async fn code_request(frontend: &Frontend, request: &CallToolRequestParams) -> Result<Request, String> {
    arguments::<CodeRequest>(request)?.into_request(frontend).await
}

fn bash_request(frontend: &Frontend, request: &CallToolRequestParams) -> Result<Request, String> {
    let wanted: ExecuteBash = arguments(request)?;
    let mut code = with_defaults(frontend, Language::Bash, wanted.command);
    if let Some(seconds) = wanted.timeout {
        code.limits.wall_ms = milliseconds("timeout", seconds)?;
    }
    code.limits = frontend.options.settings.within_guardrails(code.limits);
    code.call_log = CallLogging::Resumable;
    Ok(code)
}

/// Programs of simple tools. They run in the sandbox because the files that they read are hostile.
pub(crate) const READ_FILE: &str = r#"
import itertools, os
with open(os.path.join("/workspace", file_path), encoding="utf-8", errors="replace", newline="") as opened:
    last = None if line_count is None else offset + line_count
    result = "".join(itertools.islice(opened, offset, last))
"#;

/// See [`READ_FILE`]. The write is atomic.
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

/// Runs one of these programs and returns its result as text.
pub(crate) async fn program(
    frontend: &Frontend,
    program: &str,
    vars: Map<String, Value>,
    cancel: CancellationToken,
) -> CallToolResult {
    let mut request = with_defaults(frontend, Language::Python, program.to_owned());
    request.vars = vars;
    request.cancel = cancel;
    request.approver = Arc::new(NobodyToAsk);
    let execution = frontend.execute(request).await;
    let budget = Budget::of(&execution.limits.requested).whole;
    if let Some(failure) = execution.failure {
        return refusal(failure.error);
    }
    let Some(Value::String(text)) = execution.result else { return refusal("the file is too large") };
    if token_count::fits(&text, budget) {
        return CallToolResult::success(vec![ContentBlock::text(text)]);
    }
    let head = token_count::head(&text, budget);
    let lines = head.lines().count();
    CallToolResult::success(vec![ContentBlock::text(format!(
        "{head}\n… cut after {lines} lines: read on with `offset`, or work on the file with execute_code"
    ))])
}
