//! The contract of [`Servers`], as a test suite that every implementation must pass. The implementation under test has
//! one server, `demo`, with the tool `echo`, which answers with its arguments as JSON text.

use coracle_engine::Servers;
use coracle_types::{Content, ServerName, ToolResult, UserId};
use coracle_upstream::{CallContext, ServerState, UpstreamError};
use futures::FutureExt as _;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::TryRecvError;

/// Maximum duration of a single step; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);

fn demo() -> ServerName {
    ServerName::new("demo").unwrap()
}

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

fn arguments(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn within<T>(what: &str, act: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, act).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Calls `echo` and returns its answer.
async fn echo(servers: &dyn Servers, who: &str, given: &Value) -> Result<Value, UpstreamError> {
    let called = call(servers, who, demo(), "echo", arguments(given), CallContext::default());
    within("a call", called).await.map(|result| told(&result))
}

async fn call(
    servers: &dyn Servers,
    who: &str,
    server: ServerName,
    tool: &str,
    arguments: Map<String, Value>,
    context: CallContext,
) -> Result<ToolResult, UpstreamError> {
    servers.call(&user(who), &server, tool, arguments, context).await
}

fn told(result: &ToolResult) -> Value {
    let [Content::Text { text }] = result.content.as_slice() else { panic!("{result:?}") };
    serde_json::from_str(text).unwrap()
}

/// Runs the whole suite. The servers are shut down afterwards.
pub(crate) async fn holds(servers: &dyn Servers) {
    starts_nothing_by_itself(servers);
    gives_the_same_list_until_it_changes(servers).await;
    answers_each_call_with_its_own_answer(servers).await;
    refuses_what_is_not_there(servers).await;
    takes_a_caller_that_stops_waiting(servers).await;
    takes_a_caller_that_cancels(servers).await;
    ends_for_good(servers).await;
}

fn starts_nothing_by_itself(servers: &dyn Servers) {
    let mut changes = servers.changes();
    for _ in 0..2 {
        let specs = servers.servers();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["demo"]);
        for status in servers.status(&user("ada")) {
            assert!(matches!(status.state, ServerState::Idle), "{status:?}");
            assert_eq!((status.name, status.tools, status.pid), (demo(), None, None));
        }
    }
    assert_eq!(changes.try_recv(), Err(TryRecvError::Empty));
}

async fn gives_the_same_list_until_it_changes(servers: &dyn Servers) {
    for who in ["ada", "bob"] {
        let first = within("the tools", servers.tools(&user(who), &demo())).await.unwrap();
        assert!(first.get("echo").is_some(), "{first:?}");
        assert_eq!(first.get("echo").unwrap().server, demo());
        let mut all = Vec::new();
        for _ in 0..20 {
            all.push(servers.tools(&user(who), &demo()).await.unwrap());
        }
        echo(servers, who, &json!({})).await.unwrap();
        all.push(servers.tools(&user(who), &demo()).await.unwrap());
        assert!(all.iter().all(|list| Arc::ptr_eq(list, &first)), "the same list, and no other that is equal to it");
    }
    // Concurrent requests for a user who has not used the servers before.
    let new = user("cleo");
    let demo = demo();
    let lists = futures::future::join_all((0..20).map(|_| servers.tools(&new, &demo))).await;
    let first = lists[0].as_ref().unwrap();
    assert!(lists.iter().all(|list| Arc::ptr_eq(list.as_ref().unwrap(), first)));
}

async fn answers_each_call_with_its_own_answer(servers: &dyn Servers) {
    let given: Vec<Value> =
        (0..100).map(|number| json!({ "text": format!("number {number}"), "n": [number] })).collect();
    let calls = given.iter().enumerate().map(|(number, given)| {
        let who = if number % 2 == 0 { "ada" } else { "bob" };
        async move { echo(servers, who, given).await.unwrap() }
    });
    assert_eq!(within("a hundred calls", futures::future::join_all(calls)).await, given);
}

async fn refuses_what_is_not_there(servers: &dyn Servers) {
    for name in ["nobody", "Demo", "demo_", "x"] {
        let name = ServerName::new(name).unwrap();
        let listed = within("tools of nobody", servers.tools(&user("ada"), &name)).await;
        assert_eq!(listed.unwrap_err(), UpstreamError::UnknownServer { server: name.clone() });
        let called = call(servers, "ada", name.clone(), "echo", Map::new(), CallContext::default());
        let called = within("a call to nobody", called).await;
        assert_eq!(called.unwrap_err(), UpstreamError::UnknownServer { server: name });
    }
    let long = "x".repeat(1_000_000);
    for tool in ["", "ecko", "ECHO", "echo ", "../echo", "\0", "écho", &long] {
        let called = call(servers, "ada", demo(), tool, Map::new(), CallContext::default());
        let error = within("a call of nothing", called).await.unwrap_err();
        assert_eq!(error.code(), "tool_not_found", "{error}");
        assert!(error.to_string().len() < 2_000, "a name that somebody gave is cut");
    }
    assert_eq!(echo(servers, "ada", &json!({ "still": "there" })).await.unwrap(), json!({ "still": "there" }));
}

/// Drops futures before and after the first poll.
async fn takes_a_caller_that_stops_waiting(servers: &dyn Servers) {
    for number in 0..20 {
        let (who, demo) = (user("ada"), demo());
        let given = arguments(&json!({ "n": number }));
        let called = servers.call(&who, &demo, "echo", given, CallContext::default());
        if number % 2 == 0 {
            drop(called);
        } else {
            // Polls once; it does not matter whether the answer is ready.
            let _ = called.now_or_never();
        }
        drop(servers.tools(&who, &demo));
    }
    assert_eq!(echo(servers, "ada", &json!({ "after": 1 })).await.unwrap(), json!({ "after": 1 }));
}

async fn takes_a_caller_that_cancels(servers: &dyn Servers) {
    let context = CallContext::default();
    context.cancel.cancel();
    let called = call(servers, "ada", demo(), "echo", Map::new(), context);
    let error = within("a call that was cancelled before", called).await.unwrap_err();
    assert_eq!((error.code(), error.retryable()), ("cancelled", false), "{error}");
    assert_eq!(echo(servers, "ada", &json!({ "not": "mine" })).await.unwrap(), json!({ "not": "mine" }));
}

async fn ends_for_good(servers: &dyn Servers) {
    within("the shutdown", servers.shutdown()).await;
    let listed = within("tools afterwards", servers.tools(&user("ada"), &demo())).await;
    assert_eq!(listed.unwrap_err(), UpstreamError::ShutDown);
    assert_eq!(echo(servers, "bob", &json!({})).await.unwrap_err(), UpstreamError::ShutDown);
    assert_eq!(servers.servers().len(), 1);
    within("the second shutdown", servers.shutdown()).await;
}
