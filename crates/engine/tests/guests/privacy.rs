//! What tools, code and models see of personal data in each mode, through the whole engine.

use crate::fake::{FakeBackend, script};
use coracle_engine::{
    Audience, CallCaps, Engine, EngineConfig, Handler, InProcess, Privacy, PrivacyModes, Request, Toolbox,
    ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_privacy::{Detector, Vaults};
use coracle_protocol::{Reply, ToGuest};
use coracle_store::MemoryStore;
use coracle_types::{
    Content, Event, Execution, Language, PrivacyMode, ServerName, Tool, ToolHints, ToolResult, UserId,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

const MAIL: &str = "kim.quinn@example.org";
const CARD: &str = "4111 1111 1111 1111";

fn customer() -> Value {
    json!({
        "mail": MAIL, "card": CARD, "note": format!("ask {MAIL} \"today\""),
        "phone": 4_155_550_123_u64, MAIL: [1, 2.5, null, true],
    })
}

/// `crm.customer` returns a customer, `crm.fail` an error, and `crm.put` keeps what it gets.
fn crm(got: &Arc<Mutex<Vec<Value>>>) -> InProcess {
    let name = ServerName::new("crm").unwrap();
    let tool = |tool: &'static str| {
        let definition = Tool {
            server: name.clone(),
            name: tool.to_owned(),
            title: None,
            description: String::new(),
            input_schema: serde_json::from_value(json!({ "type": "object" })).unwrap(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        };
        let got = Arc::clone(got);
        let handler: Handler = Box::new(move |arguments| match tool {
            "customer" => ToolResult { structured: Some(customer()), ..ToolResult::default() },
            "fail" => {
                let content = vec![Content::Text { text: format!("no mailbox {MAIL}") }];
                ToolResult { content, is_error: true, structured: None }
            }
            _ => {
                got.lock().unwrap().push(Value::Object(arguments));
                ToolResult { structured: Some(json!({ "ok": true })), ..ToolResult::default() }
            }
        });
        (definition, handler)
    };
    InProcess::new(name.clone(), [tool("customer"), tool("fail"), tool("put")])
}

struct Seen {
    replies: Vec<Reply>,
    got: Vec<Value>,
    execution: Execution,
    events: Vec<Event>,
}

impl Seen {
    /// Everything that the audience of the execution sees.
    fn told(&self) -> String {
        let output = self.events.iter().map(|event| match event {
            Event::Output { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        });
        let outcome = serde_json::to_string(&self.execution).unwrap();
        format!("{outcome}\n{}", output.collect::<Vec<_>>().join("\n"))
    }
}

fn modes(general: PrivacyMode, crm: Option<PrivacyMode>) -> PrivacyModes {
    let servers: BTreeMap<_, _> = crm.map(|mode| (ServerName::new("crm").unwrap(), mode)).into_iter().collect();
    PrivacyModes { general, servers, restore_to_model: false }
}

/// Runs code that reads a customer, passes it on, fails at something, prints it in several forms and returns it.
async fn run(modes: PrivacyModes, audience: Audience) -> Seen {
    let folder = TempDir::new().unwrap();
    let replies = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&replies);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        let mut customer = Value::Null;
        for id in 0..4 {
            let params = match id {
                0 => crate::tools::to("crm", "customer", &json!({})),
                1 => crate::tools::to("crm", "put", &json!({ "customer": customer })),
                2 => crate::tools::to("crm", "fail", &json!({})),
                _ => json!({ "text": customer["mail"].as_str().unwrap() }),
            };
            let method = if id == 3 { "pii.detokenize" } else { "tool" };
            guest.say(json!({ "type": "call", "id": id, "method": method, "params": params })).await;
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            if id == 0 {
                customer = reply.value["value"].clone();
            }
            heard.lock().unwrap().push(reply);
        }
        guest.print(format!("{customer}\n{}", hex::encode(customer["mail"].as_str().unwrap())).as_bytes()).await;
        guest
            .say(json!({
                "type": "done", "id": run, "ok": false, "exit_code": 1, "result": customer,
                "error": {
                    "code": "exception", "message": format!("ValueError: {}", customer["mail"]),
                    "traceback": format!("line 1: {}", customer["card"]), "hint": null,
                },
            }))
            .await;
        guest.live_on().await
    })]);
    let got = Arc::new(Mutex::new(Vec::new()));
    let (cache, caps) = (folder.path().join("cache"), CallCaps::default());
    let config = ToolboxConfig { cache, registry: None, embedder: None, caps, unusable: Vec::new() };
    let store = Arc::new(MemoryStore::new());
    let toolbox = Toolbox::new(config, crm(&got), Arc::clone(&store) as _, Rules::new(Vec::new()).unwrap());
    let config = EngineConfig { workspaces: folder.path().join("workspaces"), session_idle: Duration::from_mins(1) };
    let engine = Engine::new(config, backend, Arc::clone(&store) as _, Some(toolbox));
    engine.protect(Privacy::new(Arc::new(Vaults::new(store, Detector::default(), None)), modes));
    let mut request = Request::new(UserId::local(), Language::Python, "servers.crm");
    request.audience = audience;
    let (sender, mut receiver) = mpsc::channel(256);
    request.events = Some(sender);
    let listening = async {
        let mut events = Vec::new();
        while let Some(event) = receiver.recv().await {
            events.push(event);
        }
        events
    };
    let (execution, events) = tokio::join!(engine.execute(request), listening);
    let replies = std::mem::take(&mut *replies.lock().unwrap());
    let got = std::mem::take(&mut *got.lock().unwrap());
    Seen { replies, got, execution, events }
}

/// The forms in which the personal data of the customer would be recognized.
fn raw() -> Vec<String> {
    vec![MAIL.to_owned(), CARD.to_owned(), hex::encode(MAIL), "kim.quinn".to_owned()]
}

fn assert_hidden(text: &str) {
    for raw in raw() {
        assert!(!text.contains(&raw), "{raw} in {text}");
    }
    assert!(text.contains("[EMAIL_"), "{text}");
}

#[tokio::test]
async fn off_hides_nothing() {
    let seen = run(modes(PrivacyMode::Off, None), Audience::Model).await;
    assert_eq!(seen.replies[0].value["value"], customer());
    assert_eq!(seen.got, [json!({ "customer": customer() })]);
    for raw in raw() {
        assert!(seen.told().contains(&raw), "{raw} in {}", seen.told());
    }
}

#[tokio::test]
async fn model_hides_personal_data_from_the_model_only() {
    for modes in [modes(PrivacyMode::Model, None), modes(PrivacyMode::Off, Some(PrivacyMode::Model))] {
        let seen = run(modes.clone(), Audience::Model).await;
        assert_eq!(seen.replies[0].value["value"], customer(), "code sees the data itself");
        assert_eq!(seen.got, [json!({ "customer": customer() })]);
        assert!(seen.replies[2].error.as_ref().unwrap().message.contains(MAIL));
        assert_eq!(seen.replies[3].value, MAIL, "detokenize_pii is allowed");
        assert_hidden(&seen.told());
        let failure = seen.execution.failure.as_ref().unwrap();
        assert!(failure.error.starts_with("ValueError: \"[EMAIL_"), "{failure:?}");
        assert!(failure.traceback.as_ref().unwrap().starts_with("line 1: \"[CREDIT_CARD_"), "{failure:?}");
        assert!(seen.execution.stdout.contains("[EMAIL_"), "{}", seen.execution.stdout);

        let person = run(modes, Audience::Person).await;
        for raw in raw() {
            assert!(person.told().contains(&raw), "{raw} in {}", person.told());
        }
    }
}

#[tokio::test]
async fn code_that_is_strict_gets_tokens_from_servers_of_other_modes_too() {
    for other in [PrivacyMode::Off, PrivacyMode::Model] {
        let seen = run(modes(PrivacyMode::Strict, Some(other)), Audience::Model).await;
        assert_hidden(&seen.replies[0].value.to_string());
        assert!(!seen.replies[2].error.as_ref().unwrap().message.contains(MAIL), "{other:?}");
        assert_eq!(seen.got, [json!({ "customer": customer() })], "the tool gets the data itself");
        let control = run(modes(PrivacyMode::Model, Some(other)), Audience::Model).await;
        assert_eq!(control.replies[0].value["value"], customer(), "{other:?}");
    }
}

#[tokio::test]
async fn strict_hides_personal_data_from_code_and_tools_get_it_exactly() {
    for modes in [modes(PrivacyMode::Strict, None), modes(PrivacyMode::Off, Some(PrivacyMode::Strict))] {
        let seen = run(modes, Audience::Model).await;
        assert_hidden(&seen.replies[0].value.to_string());
        assert_eq!(seen.got, [json!({ "customer": customer() })], "with the same keys and types");
        let error = seen.replies[2].error.as_ref().unwrap();
        assert!(error.message.starts_with("no mailbox [EMAIL_"), "{error:?}");
        let refused = seen.replies[3].error.as_ref().unwrap();
        assert!(refused.code == "denied" && refused.message.contains("strict"), "{refused:?}");
        assert_hidden(&seen.told());
    }
}
