//! Tool calls through the broker to servers in the same process: lookup, checks, and records.

use crate::fake::{FakeBackend, script};
use coracle_engine::{CallCaps, Engine, EngineConfig, Handler, InProcess, Request, Toolbox, ToolboxConfig};
use coracle_policy::{Rule, Rules};
use coracle_protocol::{Reply, ToGuest};
use coracle_store::MemoryStore;
use coracle_types::{Content, Decision, Execution, Language, ServerName, Tool, ToolHints, ToolResult, UserId};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A server in this process. `echo` returns its text, `grumble` reports a failure, `erase` is destructive.
pub(crate) fn demo(calls: &Arc<AtomicUsize>) -> InProcess {
    let name = ServerName::new("demo").unwrap();
    let tool = |tool: &str, destructive| {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let definition = Tool {
            server: name.clone(),
            name: tool.to_owned(),
            title: None,
            description: String::new(),
            input_schema: serde_json::from_value(schema).unwrap(),
            output_schema: None,
            category: None,
            hints: ToolHints { destructive, ..ToolHints::default() },
        };
        let (calls, is_error) = (Arc::clone(calls), tool == "grumble");
        let handler: Handler = Box::new(move |arguments| {
            calls.fetch_add(1, Ordering::SeqCst);
            let text = arguments["text"].as_str().unwrap().to_owned();
            ToolResult { content: vec![Content::Text { text }], is_error, structured: None }
        });
        (definition, handler)
    };
    let echoes = [tool("echo", None), tool("echo", Some(true)), tool("note_p", None), tool("note_q", None)];
    let tools = echoes.into_iter().chain([tool("grumble", None), tool("erase", Some(true))]);
    InProcess::new(name.clone(), tools)
}

/// Replies to the calls, the execution with its records, and the number of calls that reached the server.
struct Outcome {
    replies: Vec<Reply>,
    execution: Execution,
    reached: usize,
}

impl Outcome {
    /// Returns the error code of a failed call.
    fn code(&self, place: usize) -> &str {
        &self.replies[place].error.as_ref().unwrap().code
    }
}

/// Runs a guest that makes these calls one after the other.
async fn calls(rules: Vec<Rule>, params: Vec<Value>) -> Outcome {
    let folder = TempDir::new().unwrap();
    let replies = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&replies);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        for (id, params) in params.into_iter().enumerate() {
            guest.say(json!({ "type": "call", "id": id, "method": "tool", "params": params })).await;
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            heard.lock().unwrap().push(reply);
        }
        guest.say(crate::fake::done(run)).await;
        guest.live_on().await
    })]);
    let reached = Arc::new(AtomicUsize::new(0));
    let (cache, caps) = (folder.path().join("cache"), CallCaps::default());
    let config = ToolboxConfig { cache, registry: None, embedder: None, caps, unusable: Vec::new() };
    let servers = demo(&reached);
    let store = Arc::new(MemoryStore::new());
    let toolbox = Toolbox::new(config, servers, Arc::clone(&store) as _, Rules::new(rules).unwrap());
    let config = EngineConfig { workspaces: folder.path().join("workspaces"), session_idle: Duration::from_mins(1) };
    let engine = Engine::new(config, backend, store, Some(toolbox));
    let request = Request::new(UserId::local(), Language::Python, "servers.demo");
    let execution = engine.execute(request).await;
    assert!(execution.success, "{execution:?}");
    let replies = std::mem::take(&mut *replies.lock().unwrap());
    Outcome { replies, execution, reached: reached.load(Ordering::SeqCst) }
}

pub(crate) fn to(server: &str, tool: &str, arguments: &Value) -> Value {
    json!({ "server": server, "tool": tool, "arguments": arguments })
}

#[tokio::test]
async fn a_tool_call_is_answered_and_recorded() {
    let outcome = calls(vec![], vec![to("demo", "echo", &json!({ "text": "hello" }))]).await;
    assert_eq!(outcome.replies[0].value, json!({ "value": "hello", "media": [] }));
    let call = &outcome.execution.calls[0];
    assert_eq!((call.server.as_str(), call.tool.as_str(), call.ok, &call.code), ("demo", "echo", true, &None));
    let arguments = r#"{"text":"hello"}"#;
    assert_eq!(
        (call.bytes_in, call.bytes_out),
        (arguments.len() as u64, r#"{"media":[],"value":"hello"}"#.len() as u64)
    );
    assert_eq!((outcome.execution.calls.len(), outcome.reached), (1, 1));
    let end = Duration::from_millis(call.began_ms.unwrap() + call.ms).as_secs_f64();
    assert!(end * 1_000.0 <= outcome.execution.execution_time_ms, "{:?}", outcome.execution);
}

#[tokio::test]
async fn invalid_calls_do_not_reach_the_server() {
    let text = json!({ "text": "x" });
    let outcome = calls(
        vec![],
        vec![
            to("nobody", "echo", &text),
            to("../x", "echo", &text),
            to("demo", "ecko", &text),
            to("demo", "echo", &json!({ "text": 1 })),
            to("demo", "echo", &json!([])),
            to("demo", "erase", &text),
            to("demo", "echo", &text),
        ],
    )
    .await;
    let codes: Vec<&str> = (0..6).map(|place| outcome.code(place)).collect();
    let expected = [
        "unknown_server",
        "unknown_server",
        "tool_not_found",
        "invalid_arguments",
        "invalid_request",
        "denied_unasked",
    ];
    assert_eq!(codes, expected);
    assert!(outcome.replies[6].ok, "{:?}", outcome.replies);
    assert_eq!(outcome.reached, 1);
    assert_eq!(outcome.execution.calls.iter().filter(|call| call.ok).count(), 1);
}

#[tokio::test]
async fn errors_of_tools_are_returned_and_a_rule_allows_a_call() {
    let rule = Rule { pattern: "demo.erase".to_owned(), decision: Decision::Allow, origin: "a test".to_owned() };
    let text = json!({ "text": "it rains" });
    let outcome = calls(vec![rule], vec![to("demo", "grumble", &text), to("demo", "erase", &text)]).await;
    let error = outcome.replies[0].error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("tool_error", "it rains"));
    assert!(outcome.replies[1].ok, "{:?}", outcome.replies);
    assert_eq!(outcome.reached, 2);
}
