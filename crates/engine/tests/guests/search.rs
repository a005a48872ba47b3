//! Code that searches for tools: results, valid parameters, and that a server that hangs does not delay a search.

use crate::fake::{FakeBackend, done, script};
use crate::tools::demo;
use async_trait::async_trait;
use coracle_catalog::Level;
use coracle_engine::{
    CallCaps, EmbedError, Embedder, EmbedderConfig, Engine, EngineConfig, Listing, Request, Servers, ToolSearch,
    Toolbox, ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_protocol::{Reply, ToGuest};
use coracle_store::MemoryStore;
use coracle_types::{ErrorCode, Execution, Language, Scope, Secret, ServerName, ServerSpec, Transport, UserId};
use coracle_upstream::{Options, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A call limit that no test reaches.
const MANY: u64 = 1_000;

/// Runs a guest that makes these calls one after the other. Returns the replies and the execution.
async fn said(toolbox: Option<Arc<Toolbox>>, most: u64, calls: Vec<(&'static str, Value)>) -> (Vec<Reply>, Execution) {
    said_over(Arc::new(MemoryStore::new()), toolbox, most, calls).await
}

/// Like [`said`], with the given store.
async fn said_over(
    store: Arc<MemoryStore>,
    toolbox: Option<Arc<Toolbox>>,
    most: u64,
    calls: Vec<(&'static str, Value)>,
) -> (Vec<Reply>, Execution) {
    let folder = TempDir::new().unwrap();
    let replies = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&replies);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        for (id, (method, params)) in calls.into_iter().enumerate() {
            guest.say(json!({ "type": "call", "id": id, "method": method, "params": params })).await;
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            heard.lock().unwrap().push(reply);
        }
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let config = EngineConfig { workspaces: folder.path().join("workspaces"), session_idle: Duration::from_mins(1) };
    let engine = Engine::new(config, backend, store, toolbox);
    // The code names no server, so it does not wait for any before it runs.
    let mut request = Request::new(UserId::local(), Language::Python, "1");
    request.limits.calls = most;
    let execution = engine.execute(request).await;
    engine.shutdown().await;
    let replies = std::mem::take(&mut *replies.lock().unwrap());
    (replies, execution)
}

/// Like [`said`], for searches only.
async fn searches(toolbox: Option<Arc<Toolbox>>, most: u64, params: Vec<Value>) -> (Vec<Reply>, Execution) {
    said(toolbox, most, params.into_iter().map(|params| ("search", params)).collect()).await
}

/// Like [`searches`], with the given servers.
async fn among(servers: impl Servers + 'static, caps: CallCaps, params: Vec<Value>) -> (Vec<Reply>, Execution) {
    let cache = TempDir::new().unwrap();
    let config =
        ToolboxConfig { cache: cache.path().to_owned(), registry: None, embedder: None, caps, unusable: Vec::new() };
    let toolbox = Toolbox::new(config, servers, Arc::new(MemoryStore::new()), Rules::new(vec![]).unwrap());
    let outcome = searches(Some(Arc::clone(&toolbox)), MANY, params).await;
    toolbox.upstream().shutdown().await;
    outcome
}

fn names(reply: &Reply) -> Vec<&str> {
    assert!(reply.ok, "{reply:?}");
    reply.value.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Returns the error code and the message of a refused call.
fn refusal(reply: &Reply) -> (&str, &str) {
    let error = reply.error.as_ref().unwrap();
    (&error.code, &error.message)
}

#[tokio::test]
async fn a_search_finds_tools_and_calls_none() {
    let reached = Arc::default();
    let asked = vec![
        json!({ "query": "echo" }),
        json!({}),
        json!({ "query": "", "server": "demo", "category": null, "limit": 1, "detail_level": "name" }),
        json!({ "query": "echo", "limit": 1, "detail_level": "full" }),
        json!({ "query": "echo", "limit": 100, "detail_level": "python" }),
        json!({ "query": "echo", "category": "demo", "detail_level": "typescript" }),
    ];
    let (replies, execution) = among(demo(&reached), CallCaps::default(), asked).await;
    assert!(execution.success, "{execution:?}");
    assert_eq!(names(&replies[0])[0], "demo.echo");
    assert!(replies[0].value[0]["summary"].is_string(), "{:?}", replies[0]);
    assert_eq!(names(&replies[1]), ["demo.echo", "demo.erase", "demo.grumble", "demo.note_p", "demo.note_q"]);
    assert_eq!(replies[2].value, json!([{ "name": "demo.echo" }]));
    assert_eq!(replies[3].value[0]["input_schema"]["required"], json!(["text"]));
    assert!(replies[4].value[0]["python"].as_str().unwrap().contains("def echo("), "{:?}", replies[4]);
    assert!(replies[5].value[0]["typescript"].as_str().unwrap().contains("echo("), "{:?}", replies[5]);
    assert_eq!((execution.calls, reached.load(std::sync::atomic::Ordering::SeqCst)), (vec![], 0));
}

#[tokio::test]
async fn successful_calls_rank_tools_higher_even_after_a_restart() {
    let (cache, store) = (TempDir::new().unwrap(), Arc::new(MemoryStore::new()));
    let toolbox = || {
        let caps = CallCaps::default();
        let config = ToolboxConfig {
            cache: cache.path().to_owned(),
            registry: None,
            embedder: None,
            caps,
            unusable: Vec::new(),
        };
        Toolbox::new(config, demo(&Arc::default()), Arc::clone(&store) as _, Rules::new(vec![]).unwrap())
    };
    let call = |tool: &str| ("tool", json!({ "server": "demo", "tool": tool, "arguments": { "text": "x" } }));
    let found = async |toolbox: &Arc<Toolbox>| {
        let (replies, _) = searches(Some(Arc::clone(toolbox)), MANY, vec![json!({ "query": "note" })]).await;
        names(&replies[0])[..2].iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    let first = toolbox();
    assert_eq!(found(&first).await, ["demo.note_p", "demo.note_q"], "as they come");
    let (_, execution) = said_over(Arc::clone(&store), Some(Arc::clone(&first)), MANY, vec![call("note_q"); 20]).await;
    assert_eq!(execution.calls.iter().filter(|call| call.ok).count(), 20);
    assert_eq!(found(&first).await, ["demo.note_q", "demo.note_p"], "it counts at once");
    assert_eq!(found(&toolbox()).await, ["demo.note_q", "demo.note_p"], "it is in the store");
}

#[tokio::test]
async fn invalid_searches_are_refused_with_a_short_message() {
    let long = "x".repeat(100 << 10);
    let wrong = [
        (json!({ "query": 1 }), "expected a string"),
        (json!({ "query": ["echo"] }), "expected a string"),
        (json!({ "query": null }), "expected a string"),
        (json!({ "query": long }), "`query` is 102400 bytes long: at most 8192 are taken"),
        (json!({ "query": "echo", "colour": "red" }), "unknown field `colour`"),
        (json!({ "query": "echo", &long: 1 }), "unknown field `xxx"),
        (json!({ "limit": 0 }), "it must be from 1 to 100"),
        (json!({ "limit": 101 }), "it must be from 1 to 100"),
        (json!({ "limit": -1 }), "invalid value: integer `-1`"),
        (json!({ "limit": 1.5 }), "invalid type: floating point `1.5`"),
        (json!({ "limit": long }), "invalid type: string"),
        (json!({ "detail_level": "everything" }), "use name, summary, full, python or typescript"),
        (json!({ "detail_level": long }), "is not a level of detail"),
        (json!({ "detail_level": 1 }), "expected a string"),
        (json!({ "server": "nobody" }), "there is no server \"nobody\"; there are: demo"),
        (json!({ "server": "../\0" }), "there is no server"),
        (json!({ "server": "x".repeat(1000) }), "there is no server"),
        (json!({ "server": long }), "`server` is 102400 bytes long"),
        (json!({ "category": "nothing" }), "there is no category \"nothing\"; there are: "),
        (json!({ "category": long }), "`category` is 102400 bytes long"),
    ];
    let (mut asked, expected): (Vec<Value>, Vec<&str>) = wrong.into_iter().unzip();
    asked.push(json!({ "query": "echo" }));
    let (replies, execution) = among(demo(&Arc::default()), CallCaps::default(), asked.clone()).await;
    assert!(execution.success, "{execution:?}");
    for ((asked, expected), reply) in asked.iter().zip(expected).zip(&replies) {
        let (code, message) = refusal(reply);
        assert!(code == "invalid_request" && message.contains(expected), "{asked}: {reply:?}");
        assert!(message.len() < 500, "{} bytes", message.len());
    }
    assert_eq!(names(replies.last().unwrap())[0], "demo.echo");
}

#[tokio::test]
async fn an_oversized_answer_is_refused() {
    let caps = CallCaps { answer_bytes: 200, ..CallCaps::default() };
    let asked = vec![json!({ "detail_level": "full" }), json!({ "detail_level": "name" })];
    let (replies, _) = among(demo(&Arc::default()), caps, asked).await;
    let (code, message) = refusal(&replies[0]);
    assert!(code == "too_large" && message.ends_with("search with a lower limit, or with less detail"), "{message}");
    assert_eq!(names(&replies[1]).len(), 5);
}

#[tokio::test]
async fn searches_count_as_calls_and_fail_without_tools() {
    let (replies, execution) = searches(None, 2, vec![json!({ "query": "x" }); 2]).await;
    assert!(execution.success, "{execution:?}");
    assert_eq!(refusal(&replies[0]), ("unavailable", "no servers are configured, so there are no tools"));
    let (replies, execution) = searches(None, 2, vec![json!({ "query": "x" }); 3]).await;
    assert_eq!((replies.len(), execution.failure.unwrap().error_code), (2, ErrorCode::Calls));
}

/// Specification of a child process as a server: one that speaks MCP, or one that never answers.
fn server(name: &str, args: &[&str]) -> ServerSpec {
    ServerSpec {
        name: ServerName::new(name).unwrap(),
        transport: Transport::Stdio {
            command: "/usr/bin/python3".to_owned(),
            args: args.iter().copied().map(Secret::new).collect(),
            env: BTreeMap::new(),
            cwd: None,
        },
        scope: Scope::User,
        description: None,
        category: None,
        client: None,
        start_timeout: Duration::from_mins(10),
        call_timeout: Duration::from_mins(1),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_does_not_wait_for_a_server_that_does_not_start() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../upstream/tests/fixtures/rogue.py");
    let servers =
        vec![server("mute", &["-I", "-c", "import time; time.sleep(600)"]), server("demo", &["-I", script, "good"])];
    let asked = vec![json!({ "query": "echo" }), json!({ "server": "mute" }), json!({ "server": "demo" })];
    let upstream = Upstream::new(servers, Options::default());
    let (replies, execution) = among(upstream, CallCaps::default(), asked).await;
    assert!(execution.success, "{execution:?}");
    assert_eq!(names(&replies[0])[0], "demo.echo");
    let message = "the tools of mute are not known: it is still starting; try again in some seconds";
    assert_eq!(refusal(&replies[1]), ("unavailable", message));
    assert!(replies[1].error.as_ref().unwrap().retryable);
    assert!(names(&replies[2]).contains(&"demo.echo"));
}

/// An embedder that records the texts it receives.
#[derive(Debug, Default)]
struct Reader(Mutex<Vec<String>>);

#[async_trait]
impl Embedder for Reader {
    fn identity(&self) -> String {
        "reader".to_owned()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.0.lock().unwrap().extend(texts.iter().cloned());
        Ok(texts.iter().map(|_| vec![1.0, 2.0]).collect())
    }
}

/// An embedder may be a remote service: it receives the queries of clients, but not those of code.
#[tokio::test]
async fn queries_of_code_are_not_sent_to_an_embedder() {
    let (cache, reader) = (TempDir::new().unwrap(), Arc::new(Reader::default()));
    let embedder = EmbedderConfig { embedder: Arc::clone(&reader) as _, cache: cache.path().join("embeddings") };
    let (folder, caps) = (cache.path().join("servers"), CallCaps::default());
    let config = ToolboxConfig { cache: folder, registry: None, embedder: Some(embedder), caps, unusable: Vec::new() };
    let store = Arc::new(MemoryStore::new());
    let toolbox = Toolbox::new(config, demo(&Arc::default()), store, Rules::new(vec![]).unwrap());
    let inventory = toolbox.inventory(&UserId::local(), Listing::All).await;
    toolbox.finish_reading(&inventory).await;
    assert_eq!(std::mem::take(&mut *reader.0.lock().unwrap()).len(), 5, "the tools");
    let query = "echo".to_owned();
    let search = ToolSearch { query, server: None, category: None, level: Level::Name, limit: 1 };
    assert_eq!(toolbox.search(&UserId::local(), &inventory, search).await.unwrap()[0].text, "demo.echo");
    assert_eq!(std::mem::take(&mut *reader.0.lock().unwrap()), ["echo"]);
    let (replies, _) = searches(Some(toolbox), MANY, vec![json!({ "query": "echo" })]).await;
    assert_eq!(names(&replies[0])[0], "demo.echo");
    assert!(reader.0.lock().unwrap().is_empty());
}
