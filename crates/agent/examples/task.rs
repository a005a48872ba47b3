//! A program of its own that gives a model a task and a tool: `cargo run -p coracle-agent --example task`.
//!
//! With `MODEL_URL`, `MODEL` and `MODEL_KEY` it asks any server with the Chat Completions API; without them, a scripted
//! model that comes along, so that it runs without a key.

use async_trait::async_trait;
use coracle_agent::{Agent, AgentTools, CallUpdate, Ended, RunEvent, RunLimits, RunRequest, ToolOutput};
use coracle_models::{Api, Call, Directory, Item, ModelEvent, ModelRequest, Part, ProviderSettings, ToolDefinition};
use coracle_scripted_model::{Library, ScriptedModel, Step, serve};
use coracle_types::Secret;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Any error will do for an example.
type Failure = Box<dyn std::error::Error>;

/// A tool of this program.
#[derive(Debug)]
struct Stock;

#[async_trait]
impl AgentTools for Stock {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let parameters = json!({
            "type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"],
        });
        vec![ToolDefinition {
            name: "stock".to_owned(),
            description: "How many pieces of an article are in stock".to_owned(),
            parameters: parameters.as_object().cloned().unwrap_or_default(),
            strict: None,
        }]
    }

    async fn run(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        _updates: &mpsc::Sender<CallUpdate>,
        _cancel: &CancellationToken,
    ) -> ToolOutput {
        // Name and arguments come from a model, so both are checked.
        match (call.name.as_str(), arguments.get("article").and_then(Value::as_str)) {
            ("stock", Some("anvil")) => ToolOutput::text("3"),
            ("stock", Some(_)) => ToolOutput::text("0"),
            _ => ToolOutput::error("there is only stock(article)"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let model = std::env::var("MODEL").unwrap_or_else(|_| "demo".to_owned());
    let url = match std::env::var("MODEL_URL") {
        Ok(url) => url,
        Err(_) => scripted(&stop).await?,
    };
    let key = std::env::var("MODEL_KEY").ok().map(Secret::new);
    let settings = ProviderSettings { url: Some(url), api_key: key, api: Some(Api::Chat), api_version: None };
    let models = Directory::new(&BTreeMap::from([("any".to_owned(), settings)]), None)?;
    let chosen = models.find(Some(&format!("any/{model}")))?;

    let request = ModelRequest {
        model: chosen.model,
        items: vec![Item::User { parts: vec![Part::text("How many anvils are left?")] }],
        ..ModelRequest::default()
    };
    let (sender, mut events) = mpsc::channel(64);
    let agent = Agent::new(Arc::new(Stock), RunLimits { steps: 10, ..RunLimits::default() });
    let showing = async {
        while let Some(event) = events.recv().await {
            match event {
                RunEvent::Model(ModelEvent::Text(text)) => print!("{text}"),
                RunEvent::CallEnded { id, output } => println!("[{id}: {:?}]", output.parts),
                _ => {}
            }
            std::io::stdout().flush()?;
        }
        println!();
        Ok::<_, std::io::Error>(())
    };
    let (outcome, shown) = tokio::join!(agent.run(RunRequest::new(chosen.provider, request), sender), showing);
    shown?;
    println!("{} steps, {} output tokens", outcome.steps, outcome.usage.output_tokens);
    match outcome.ended {
        Ended::Done => Ok(()),
        ended => Err(format!("the task was not finished: {ended:?}").into()),
    }
}

/// Starts a model that follows a script, and returns its address.
async fn scripted(stop: &CancellationToken) -> Result<String, Failure> {
    let turns =
        [vec![Step::call("stock", json!({"article": "anvil"}))], vec![Step::text("There are {{result}} anvils left.")]];
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(serve(listener, ScriptedModel::new(Library::single(turns))?, stop.clone().cancelled_owned()));
    Ok(url)
}
