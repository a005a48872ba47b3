//! Code that is refused before it runs, and tasks that only read.

use crate::fake::{FakeBackend, done, script};
use crate::tools::to;
use coracle_engine::{
    Access, CallCaps, Engine, EngineConfig, Guardrails, Handler, InProcess, Request, Toolbox, ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_protocol::{Reply, ToGuest};
use coracle_store::MemoryStore;
use coracle_types::{
    Content, ErrorCode, Execution, Language, ServerName, SessionId, Tool, ToolHints, ToolResult, UserId,
};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A server with a tool that is marked as read-only, and one that is not.
fn notes(calls: &Arc<AtomicUsize>) -> InProcess {
    let name = ServerName::new("notes").unwrap();
    let tool = |tool: &str, read_only| {
        let definition = Tool {
            server: name.clone(),
            name: tool.to_owned(),
            title: None,
            description: String::new(),
            input_schema: serde_json::from_value(json!({ "type": "object" })).unwrap(),
            output_schema: None,
            category: None,
            hints: ToolHints { read_only, ..ToolHints::default() },
        };
        let calls = Arc::clone(calls);
        let handler: Handler = Box::new(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            ToolResult { content: vec![Content::Text { text: "done".to_owned() }], is_error: false, structured: None }
        });
        (definition, handler)
    };
    let tools = [tool("read_note", Some(true)), tool("write_note", Some(false)), tool("move_note", None)];
    InProcess::new(name.clone(), tools)
}

struct Outcome {
    execution: Execution,
    replies: Vec<Reply>,
    reached: usize,
}

struct Case {
    guardrails: Guardrails,
    access: Access,
    session: Option<SessionId>,
    /// Tools that the guest calls, whatever its code says.
    calls: Vec<&'static str>,
}

fn strict() -> Case {
    let guardrails = Guardrails { is_enabled: true, is_strict: true, ..Guardrails::default() };
    Case { guardrails, access: Access::Any, session: None, calls: vec![] }
}

fn lax() -> Case {
    let guardrails = Guardrails { is_strict: false, ..strict().guardrails };
    Case { guardrails, ..strict() }
}

async fn run(case: Case, code: &str) -> Outcome {
    let folder = TempDir::new().unwrap();
    let replies = Arc::new(Mutex::new(Vec::new()));
    let (heard, calls) = (Arc::clone(&replies), case.calls);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        for (id, tool) in calls.into_iter().enumerate() {
            let params = to("notes", tool, &json!({}));
            guest.say(json!({ "type": "call", "id": id, "method": "tool", "params": params })).await;
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            heard.lock().unwrap().push(reply);
        }
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let reached = Arc::new(AtomicUsize::new(0));
    let (cache, caps) = (folder.path().join("cache"), CallCaps::default());
    let config = ToolboxConfig { cache, registry: None, embedder: None, caps, unusable: Vec::new() };
    let store = Arc::new(MemoryStore::new());
    let toolbox = Toolbox::new(config, notes(&reached), Arc::clone(&store) as _, Rules::new(vec![]).unwrap());
    // Once the tools are listed, they are known without asking the server.
    toolbox.refresh(&UserId::local(), &ServerName::new("notes").unwrap()).await.unwrap();
    let config = EngineConfig { workspaces: folder.path().join("workspaces"), session_idle: Duration::from_mins(1) };
    let engine = Engine::new(config, backend, store, Some(toolbox)).with_guardrails(case.guardrails);
    let mut request = Request::new(UserId::local(), Language::Python, code);
    (request.access, request.session) = (case.access, case.session);
    let execution = engine.execute(request).await;
    let replies = std::mem::take(&mut *replies.lock().unwrap());
    Outcome { execution, replies, reached: reached.load(Ordering::SeqCst) }
}

fn code_of(outcome: &Outcome) -> Option<ErrorCode> {
    outcome.execution.failure.as_ref().map(|failure| failure.error_code)
}

const SHELL: &str = "import os\nos.system('id')";

#[tokio::test]
async fn strict_mode_refuses_dangerous_code_before_it_runs() {
    let outcome = run(Case { calls: vec!["write_note"], ..strict() }, SHELL).await;
    assert_eq!((code_of(&outcome), outcome.reached), (Some(ErrorCode::Denied), 0));
    let failure = outcome.execution.failure.unwrap();
    assert!(failure.error.contains("line 2, column 1: os.system") && failure.hint.is_some(), "{failure:?}");
    // Control: harmless code runs.
    let outcome = run(Case { calls: vec!["write_note"], ..strict() }, "print(1)").await;
    assert_eq!((code_of(&outcome), outcome.reached), (None, 1));
}

#[tokio::test]
async fn code_that_cannot_be_parsed_has_a_syntax_error_in_strict_mode() {
    assert_eq!(code_of(&run(strict(), "print(").await), Some(ErrorCode::Syntax));
    assert_eq!(code_of(&run(lax(), "print(").await), None, "the interpreter reports it");
}

#[tokio::test]
async fn otherwise_a_finding_is_a_warning() {
    let outcome = run(lax(), SHELL).await;
    assert_eq!(code_of(&outcome), None);
    let warnings = outcome.execution.warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("os.system"), "{warnings:?}");
    let off = Guardrails { is_enabled: false, ..strict().guardrails };
    let outcome = run(Case { guardrails: off, ..strict() }, SHELL).await;
    assert_eq!((code_of(&outcome), outcome.execution.warnings), (None, vec![]));
}

#[tokio::test]
async fn unknown_tools_cause_a_warning_with_the_nearest_names() {
    let outcome = run(lax(), "from servers.notes import reed_note").await;
    let warnings = outcome.execution.warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("the nearest are read_note"), "{warnings:?}");
    assert_eq!(run(lax(), "from servers.notes import read_note").await.execution.warnings, Vec::<String>::new());
}

#[tokio::test]
async fn strict_mode_refuses_tools_that_do_not_exist() {
    let outcome = run(strict(), "from servers.notes import reed_note").await;
    assert_eq!(code_of(&outcome), Some(ErrorCode::Denied));
    assert!(outcome.execution.failure.unwrap().error.contains("the nearest are read_note"));
    assert_eq!(code_of(&run(strict(), "from servers.nodes import read_note").await), Some(ErrorCode::Denied));
    assert_eq!(code_of(&run(strict(), "from servers.notes import read_note").await), None, "the control");
}

#[tokio::test]
async fn the_broker_refuses_writes_of_a_task_that_only_reads() {
    let calls = vec!["read_note", "write_note", "move_note"];
    // The code does not name the tools: only the broker can see the calls.
    let outcome = run(Case { access: Access::ReadOnly, calls: calls.clone(), ..lax() }, "servers").await;
    let codes: Vec<Option<&str>> =
        outcome.replies.iter().map(|reply| reply.error.as_ref().map(|error| error.code.as_str())).collect();
    assert_eq!(codes, [None, Some("denied_read_only"), Some("denied_read_only")]);
    assert_eq!((code_of(&outcome), outcome.reached), (None, 1));
    // Control: without the flag, all calls are made.
    let outcome = run(Case { calls, ..lax() }, "servers").await;
    assert_eq!((outcome.replies.iter().all(|reply| reply.ok), outcome.reached), (true, 3));
}

#[tokio::test]
async fn strict_mode_refuses_code_that_names_a_tool_that_writes() {
    let code = "from servers.notes import read_note, write_note";
    let outcome = run(Case { access: Access::ReadOnly, ..strict() }, code).await;
    assert_eq!(code_of(&outcome), Some(ErrorCode::Denied));
    assert_eq!(code_of(&run(strict(), code).await), None, "control: the task may write");
    let code = "from servers.notes import read_note";
    assert_eq!(code_of(&run(Case { access: Access::ReadOnly, ..strict() }, code).await), None);
}

#[tokio::test]
async fn code_of_sessions_is_checked_too() {
    let session = Some(SessionId::new("work").unwrap());
    let outcome = run(Case { session: session.clone(), ..strict() }, "e = eval").await;
    assert_eq!(code_of(&outcome), Some(ErrorCode::Denied));
    assert_eq!(code_of(&run(Case { session, ..strict() }, "e = len").await), None);
}
