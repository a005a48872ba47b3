//! An engine whose guest makes tool calls to a server of this process, which keeps what was done.

use crate::fake::{FakeBackend, done, script};
use async_trait::async_trait;
use coracle_engine::{
    CallCaps, Engine, EngineConfig, Handler, InProcess, PlanSettings, Request, ResumeError, Resumption, Toolbox,
    ToolboxConfig,
};
use coracle_policy::{Answer, Approver, Question, Rule, Rules};
use coracle_protocol::{Reply, ToGuest};
use coracle_store::MemoryStore;
use coracle_types::{
    Content, Decision, Event, Execution, ExecutionId, Language, ServerName, Tool, ToolHints, ToolResult, UserId,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Capacity of the channel for events.
const EVENTS: usize = 256;

/// What the server has done, in order: the tool and its text.
pub(crate) type Done = Arc<Mutex<Vec<String>>>;

/// The server `bank`. `pay` has an effect each time, `erase` is also destructive, `look` only reads, `put` is
/// idempotent, `late` fails the first time. All answer with their text, and `statement` with a text of a million
/// characters.
fn bank(done: &Done, description: &str) -> InProcess {
    let name = ServerName::new("bank").unwrap();
    let tool = |tool: &'static str, hints: ToolHints| {
        let definition = Tool {
            server: name.clone(),
            name: tool.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: serde_json::from_value(json!({ "type": "object" })).unwrap(),
            output_schema: None,
            category: None,
            hints,
        };
        let done = Arc::clone(done);
        let handler: Handler = Box::new(move |arguments| {
            let text = arguments["text"].as_str().unwrap().to_owned();
            let mut done = done.lock().unwrap();
            done.push(format!("{tool} {text}"));
            let is_error = tool == "late" && done.iter().filter(|done| done.starts_with("late")).count() == 1;
            let text = if tool.ends_with("statement") { "x".repeat(1_000_000) } else { text };
            ToolResult { content: vec![Content::Text { text }], is_error, ..ToolResult::default() }
        });
        (definition, handler)
    };
    let (none, reads) = (ToolHints::default(), ToolHints { read_only: Some(true), ..ToolHints::default() });
    let tools = [
        tool("pay", none),
        tool("erase", ToolHints { destructive: Some(true), ..none }),
        tool("look", reads),
        tool("put", ToolHints { idempotent: Some(true), ..none }),
        tool("statement", reads),
        tool("paid_statement", none),
        tool("late", none),
    ];
    InProcess::new(name.clone(), tools)
}

/// A call of a tool of the bank.
pub(crate) fn to_bank(tool: &str, text: &str) -> Value {
    crate::tools::to("bank", tool, &json!({ "text": text }))
}

pub(crate) fn rule(pattern: &str, decision: Decision) -> Rule {
    Rule { pattern: pattern.to_owned(), decision, origin: "a test".to_owned() }
}

/// The outcome of one execution.
pub(crate) struct Ran {
    pub(crate) execution: Execution,
    pub(crate) replies: Vec<Reply>,
    pub(crate) events: Vec<Event>,
}

impl Ran {
    /// The error code of each call, or `ok`.
    pub(crate) fn codes(&self) -> Vec<&str> {
        self.replies.iter().map(|reply| reply.error.as_ref().map_or("ok", |error| error.code.as_str())).collect()
    }

    /// The message of the error of a call.
    pub(crate) fn message(&self, place: usize) -> &str {
        &self.replies[place].error.as_ref().unwrap().message
    }
}

/// The data folder.
pub(crate) struct Home(TempDir);

impl Default for Home {
    fn default() -> Self {
        Self(TempDir::new().unwrap())
    }
}

/// The server, the store and the data folder, which outlive engines.
#[derive(Default)]
pub(crate) struct Lab {
    pub(crate) home: Home,
    pub(crate) done: Done,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) rules: Vec<Rule>,
    /// Description of all tools.
    pub(crate) described: String,
    pub(crate) plans: PlanSettings,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_rules(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// What the server has done so far.
    pub(crate) fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    /// A file in the data folder.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.home.0.path().join(path)
    }

    /// Takes an execution of an earlier engine, so that it can be resumed.
    pub(crate) async fn resume(&self, id: &ExecutionId) -> Result<Resumption, ResumeError> {
        self.engine(FakeBackend::new(Vec::new())).resume(&UserId::local(), id).await
    }

    pub(crate) fn engine(&self, backend: Arc<FakeBackend>) -> Engine {
        let Home(folder) = &self.home;
        let (cache, caps) = (folder.path().join("cache"), CallCaps::default());
        let config = ToolboxConfig { cache, registry: None, embedder: None, caps, unusable: Vec::new() };
        let rules = Rules::new(self.rules.clone()).unwrap();
        let toolbox = Toolbox::new(config, bank(&self.done, &self.described), Arc::clone(&self.store) as _, rules);
        let workspaces = folder.path().join("workspaces");
        let config = EngineConfig { workspaces, session_idle: Duration::from_mins(1) };
        Engine::new(config, backend, Arc::clone(&self.store) as _, Some(toolbox)).with_plans(self.plans.clone())
    }

    /// Runs a guest that makes these calls one after the other, in a new engine.
    pub(crate) async fn run(&self, calls: Vec<Value>, change: impl FnOnce(&mut Request)) -> Ran {
        let replies = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&replies);
        let backend = FakeBackend::new(vec![script(move |mut guest| async move {
            let run = guest.run().await;
            for (id, params) in calls.into_iter().enumerate() {
                guest.say(json!({ "type": "call", "id": id, "method": "tool", "params": params })).await;
                let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
                heard.lock().unwrap().push(reply);
            }
            guest.say(done(run)).await;
            guest.live_on().await
        })]);
        let (execution, events) = self.play(backend, change).await;
        let replies = std::mem::take(&mut *replies.lock().unwrap());
        Ran { execution, replies, events }
    }

    /// Runs the script of this backend.
    pub(crate) async fn play(
        &self,
        backend: Arc<FakeBackend>,
        change: impl FnOnce(&mut Request),
    ) -> (Execution, Vec<Event>) {
        let engine = self.engine(backend);
        let mut request = Request::new(UserId::local(), Language::Python, "servers.bank");
        let (sender, mut events) = mpsc::channel(EVENTS);
        request.events = Some(sender);
        change(&mut request);
        let listening = async {
            let mut all = Vec::new();
            while let Some(event) = events.recv().await {
                all.push(event);
            }
            all
        };
        tokio::join!(engine.execute(request), listening)
    }
}

/// Gives the same answer to each question, and keeps the questions.
#[derive(Debug)]
pub(crate) struct Says {
    answer: Answer,
    questions: Mutex<Vec<Question>>,
}

impl Says {
    pub(crate) fn new(answer: Answer) -> Arc<Self> {
        Arc::new(Self { answer, questions: Mutex::default() })
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap().clone()
    }
}

#[async_trait]
impl Approver for Says {
    async fn ask(&self, question: Question) -> Answer {
        self.questions.lock().unwrap().push(question);
        self.answer
    }
}
