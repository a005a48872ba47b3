//! Requests of a gateway: resources, prompts, completion, and questions of servers.

use crate::http::real_everything;
use crate::lab::{arguments, npm, rogue, server, user};
use crate::web::http;
use async_trait::async_trait;
use coracle_types::{ServerName, UserId};
use coracle_upstream::{
    CallContext, Change, Changed, Options, Owner, Question, QuestionKind, Refusal, Resume, Reverse, Upstream,
};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Answers every question, and records it.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) asked: Mutex<Vec<Question>>,
    thinks: Duration,
}

#[async_trait]
impl Reverse for Person {
    async fn ask(&self, question: Question) -> Result<Value, Refusal> {
        let kind = question.kind;
        self.asked.lock().unwrap().push(question);
        tokio::time::sleep(self.thinks).await;
        match kind {
            QuestionKind::Elicitation => Ok(json!({"action": "accept", "content": {"name": "Ada"}})),
            QuestionKind::Sampling => Ok(json!({
                "role": "assistant", "model": "none", "content": {"type": "text", "text": "a model says so"}
            })),
            QuestionKind::Roots => Err(Refusal::invalid("there are no folders")),
        }
    }
}

fn ada() -> UserId {
    user("ada")
}

pub(crate) fn all_capabilities() -> Map<String, Value> {
    arguments(json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}))
}

pub(crate) fn asking(person: &Arc<Person>) -> CallContext {
    let reverse: Arc<dyn Reverse> = Arc::<Person>::clone(person);
    CallContext { reverse: Some(reverse), capabilities: all_capabilities(), ..CallContext::default() }
}

fn everything() -> (Upstream, ServerName) {
    let options = Options { capabilities: all_capabilities(), ..Options::default() };
    (Upstream::new(vec![npm("everything", &["stdio"])], options), server("everything"))
}

/// Waits for a tool that the server adds shortly after the start, when it knows the client's capabilities.
async fn wait_for_tool(upstream: &Upstream, name: &ServerName, tool: &str) {
    for _ in 0..500 {
        if upstream.tools(&ada(), name).await.unwrap().get(tool).is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the tool {tool} never came");
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn resources_prompts_and_completions_pass() {
    let (upstream, name) = everything();
    let offers = upstream.info(&ada(), &name).await.unwrap().offers;
    assert!(offers.resources && offers.subscriptions && offers.prompts && offers.completions && offers.logging);

    let resources = upstream.resources(&ada(), &name).await.unwrap();
    let uri = resources[0]["uri"].as_str().unwrap();
    let read = upstream.read_resource(&ada(), &name, uri, CallContext::default()).await.unwrap();
    assert_eq!(read["contents"][0]["uri"], uri);
    assert!(read["contents"][0]["text"].is_string());
    let templates = upstream.resource_templates(&ada(), &name).await.unwrap();
    assert!(templates.iter().all(|template| template["uriTemplate"].is_string()) && !templates.is_empty());
    let missing = upstream.read_resource(&ada(), &name, "demo://not/there", CallContext::default()).await;
    assert_eq!(missing.unwrap_err().code(), "refused");

    let prompts = upstream.prompts(&ada(), &name).await.unwrap();
    assert!(prompts.iter().any(|prompt| prompt["name"] == "completable-prompt"), "{prompts:?}");
    let with = arguments(json!({"department": "Sales", "name": "Eve"}));
    let prompt = upstream.get_prompt(&ada(), &name, "completable-prompt", with, CallContext::default()).await.unwrap();
    let said = &prompt["messages"][0]["content"]["text"];
    assert_eq!(said, "Please promote Eve to the head of the Sales team.");
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "completable-prompt"},
        "argument": {"name": "name", "value": "E"},
        "context": {"arguments": {"department": "Sales"}}
    });
    let completed = upstream.complete(&ada(), &name, arguments(params), CallContext::default()).await.unwrap();
    assert_eq!(completed["completion"]["values"], json!(["Eve"]));
    upstream.set_level(&ada(), &name, "debug").await.unwrap();
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_person_and_a_model_are_asked() {
    let (upstream, name) = everything();
    wait_for_tool(&upstream, &name, "trigger-elicitation-request").await;
    wait_for_tool(&upstream, &name, "trigger-sampling-request").await;
    let person = Arc::new(Person::default());
    let call = |tool: &'static str, with: Value, context: CallContext| {
        let (upstream, name) = (upstream.clone(), name.clone());
        async move { upstream.call_raw(&ada(), &name, tool, arguments(with), context).await.unwrap() }
    };
    let result = call("trigger-elicitation-request", json!({}), asking(&person)).await;
    assert!(result.to_string().contains("Ada"), "{result}");
    let result = call("trigger-sampling-request", json!({"prompt": "say so"}), asking(&person)).await;
    assert!(text(&result).contains("a model says so"), "{result}");
    let asked = std::mem::take(&mut *person.asked.lock().unwrap());
    assert_eq!(
        asked.iter().map(|asked| asked.kind).collect::<Vec<_>>(),
        [QuestionKind::Elicitation, QuestionKind::Sampling]
    );
    assert_eq!(asked[0].params["requestedSchema"]["properties"]["name"]["title"], "String");
    assert_eq!(asked[1].params["temperature"], 0.7);

    let refused = call("trigger-sampling-request", json!({"prompt": "say so"}), CallContext::default()).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(text(&refused).contains("no call is in progress whose caller can be asked"), "{refused}");
    let only_roots = arguments(json!({"roots": {}}));
    let context = CallContext { capabilities: only_roots, ..asking(&person) };
    let refused = call("trigger-sampling-request", json!({"prompt": "say so"}), context).await;
    assert!(text(&refused).contains("not supported for this call"), "{refused}");
    assert!(person.asked.lock().unwrap().is_empty());
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_question_goes_to_one_caller_and_stops_the_clock() {
    let options = Options { capabilities: all_capabilities(), ..Options::default() };
    let upstream = Upstream::new(vec![rogue("one", &["asks"])], options);
    let person = Arc::new(Person { thinks: Duration::from_millis(1500), ..Person::default() });
    let context = CallContext { timeout: Some(Duration::from_secs(1)), ..asking(&person) };
    let call = |context| {
        let upstream = upstream.clone();
        async move { upstream.call_raw(&ada(), &server("one"), "act", Map::new(), context).await.unwrap() }
    };
    let alone = call(context).await;
    let expected = json!({"s0": "ok", "s1": "ok", "s2": "there are no folders", "s3": "ok"});
    assert_eq!(serde_json::from_str::<Value>(text(&alone)).unwrap(), expected);
    assert_eq!(person.asked.lock().unwrap().len(), 3);
    upstream.shutdown().await;
}

#[tokio::test]
async fn over_http_the_stream_identifies_the_call() {
    let (_child, url) = real_everything("streamableHttp", "/mcp").await;
    let options = Options { capabilities: all_capabilities(), ..Options::default() };
    let upstream = Upstream::new(vec![http("web", &url)], options);
    wait_for_tool(&upstream, &server("web"), "trigger-sampling-request").await;
    let people = [Arc::new(Person::default()), Arc::new(Person::default())];
    let calls =
        people.iter().enumerate().map(|(number, person)| {
            let with = arguments(json!({"prompt": format!("number {number}")}));
            let (upstream, context) = (upstream.clone(), asking(person));
            async move {
                upstream.call_raw(&ada(), &server("web"), "trigger-sampling-request", with, context).await.unwrap()
            }
        });
    for result in futures::future::join_all(calls).await {
        assert!(text(&result).contains("a model says so"), "{result}");
    }
    for (number, person) in people.iter().enumerate() {
        let asked = person.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].params.to_string().contains(&format!("number {number}")), "{asked:?}");
    }
    upstream.shutdown().await;
}

#[tokio::test]
async fn since_2026_questions_are_results() {
    let upstream = Upstream::new(vec![rogue("one", &["input"])], Options::default());
    let call = |context| {
        let upstream = upstream.clone();
        async move { upstream.call_raw(&ada(), &server("one"), "act", Map::new(), context).await }
    };
    let person = Arc::new(Person::default());
    let answered = call(asking(&person)).await.unwrap();
    let expected = json!([{"q": {"action": "accept", "content": {"name": "Ada"}}}, "where it was"]);
    assert_eq!(serde_json::from_str::<Value>(text(&answered)).unwrap(), expected);
    assert_eq!(person.asked.lock().unwrap().len(), 1);

    let passed_on = call(CallContext::default()).await.unwrap();
    assert_eq!(
        (&passed_on["resultType"], &passed_on["requestState"]),
        (&json!("input_required"), &json!("where it was"))
    );
    let resume = Resume { responses: arguments(json!({"q": 1})), state: Some("where it was".to_owned()) };
    let resumed = call(CallContext { resume: Some(resume), ..CallContext::default() }).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(text(&resumed)).unwrap(), json!([{"q": 1}, "where it was"]));

    let unable = CallContext { capabilities: Map::new(), ..asking(&person) };
    assert_eq!(call(unable).await.unwrap_err().code(), "unanswered");
    upstream.shutdown().await;
}

#[tokio::test]
async fn results_and_definitions_are_unchanged() {
    let upstream = Upstream::new(vec![rogue("one", &["raw"])], Options::default());
    let one = server("one");
    let result = upstream.call_raw(&ada(), &one, "act", Map::new(), CallContext::default()).await.unwrap();
    let expected = json!({
        "content": [{"type": "text", "text": "x"}], "_meta": {"a": 1}, "unknown": [1], "structuredContent": [2]
    });
    assert_eq!(result, expected);
    let list = upstream.tools(&ada(), &one).await.unwrap();
    let definitions: Vec<Value> = list.definitions().collect();
    let rich = definitions.iter().find(|tool| tool["name"] == "rich").unwrap();
    assert_eq!(
        *rich,
        json!({
            "name": "rich", "title": "Rich", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,x"}],
            "_meta": {"b": 2}, "unknown": [3], "annotations": {"readOnlyHint": true}
        })
    );
    let heavy = definitions.iter().find(|tool| tool["name"] == "heavy").unwrap();
    assert_eq!(*heavy, json!({"name": "heavy", "inputSchema": {"type": "object"}}));
    assert!(list.warnings.iter().any(|warning| warning.tool == "heavy" && warning.kept));
    upstream.shutdown().await;
}

#[tokio::test]
async fn lists_are_limited_and_invalid_ones_are_reported() {
    let upstream = Upstream::new(vec![rogue("lists", &["lists"]), rogue("plain", &["plain"])], Options::default());
    let uris: Vec<_> = upstream.resources(&ada(), &server("lists")).await.unwrap();
    assert_eq!(uris.iter().map(|entry| entry["uri"].as_str().unwrap()).collect::<Vec<_>>(), ["x:0", "x:1", "x:2"]);
    assert_eq!(upstream.resource_templates(&ada(), &server("lists")).await.unwrap(), [] as [Value; 0]);
    assert_eq!(upstream.prompts(&ada(), &server("lists")).await.unwrap_err().code(), "protocol");
    assert_eq!(upstream.prompts(&ada(), &server("plain")).await.unwrap(), [] as [Value; 0]);
    upstream.shutdown().await;
}

#[tokio::test]
async fn log_messages_reach_the_call() {
    let upstream = Upstream::new(vec![rogue("one", &["log"])], Options::default());
    let (sender, mut log) = mpsc::channel(16);
    let context = CallContext { log: Some(sender), ..CallContext::default() };
    upstream.call_raw(&ada(), &server("one"), "act", Map::new(), context).await.unwrap();
    let mut seen = Vec::new();
    while let Some(message) = log.recv().await {
        seen.push(message["data"].clone());
    }
    assert_eq!(seen, [0, 1, 2]);
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_change_of_a_watched_resource_is_announced() {
    let (upstream, name) = everything();
    let mut changes = upstream.changes();
    let uri = "demo://resource/dynamic/text/1";
    upstream.subscribe(&ada(), &name, uri).await.unwrap();
    upstream.subscribe(&ada(), &name, uri).await.unwrap();
    upstream.unsubscribe(&ada(), &name, uri).await.unwrap();
    let (tool, context) = ("toggle-subscriber-updates", CallContext::default());
    upstream.call_raw(&ada(), &name, tool, Map::new(), context).await.unwrap();
    let expected =
        Change { owner: Owner::User(ada()), server: name.clone(), what: Changed::Resource { uri: uri.to_owned() } };
    let told = async { while changes.recv().await.unwrap() != expected {} };
    tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
    upstream.unsubscribe(&ada(), &name, uri).await.unwrap();
    upstream.shutdown().await;
}
