//! A program of its own that runs code in sandboxes, with a tool of its own: `cargo run -p coracle-engine --example embed`.
//!
//! It needs three things that `coracle` brings along itself: a `main` that can be started as the launcher, a folder for
//! data, and a backend. The tool is a function of this process; code calls it as it would a tool of an MCP server.

use coracle_engine::{CallCaps, Engine, EngineConfig, Handler, InProcess, Request, Toolbox, ToolboxConfig};
use coracle_policy::Rules;
use coracle_sandbox::{LAUNCHER_ARGUMENT, NativeBackend, NativeConfig, launcher_main};
use coracle_store::{MemoryStore, Store};
use coracle_types::{Language, Limits, ServerName, Tool, ToolHints, ToolResult, UserId};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What the sandbox runs. It sees neither the stock nor anything else of this process, only the tool.
const CODE: &str = "
from servers.shop import stock
counts = {name: stock(article=name)['pieces'] for name in ('nail', 'screw', 'anvil')}
print('looked up', len(counts), 'articles')
[name for name, pieces in counts.items() if pieces < 10]
";

fn main() -> ExitCode {
    // The backend starts this program again, as the process that makes sandboxes. Before anything else: no threads yet.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == LAUNCHER_ARGUMENT) {
        return launcher_main();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Any error will do for an example.
type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn run() -> Result<(), Failure> {
    let home = tempfile::tempdir()?;
    let engine = engine(home.path())?;
    let mut request = Request::new(UserId::new("ada")?, Language::Python, CODE);
    request.limits = Limits { wall_ms: 10_000, memory_mb: 200, ..Limits::default() };
    let execution = engine.execute(request).await;
    // Nothing that it has started is left after this.
    engine.shutdown().await;
    print!("{}", execution.stdout);
    println!("to be ordered: {}", execution.result.clone().unwrap_or_default());
    println!("calls: {}", execution.calls.len());
    match execution.failure {
        Some(failure) => Err(failure.error.into()),
        None if execution.result == Some(json!(["anvil"])) => Ok(()),
        None => Err("not what the stock says".into()),
    }
}

/// An engine with everything below `home`.
fn engine(home: &Path) -> Result<Engine, Failure> {
    let backend = NativeBackend::new(NativeConfig {
        home: home.to_owned(),
        launcher: std::env::current_exe()?,
        python: None,
        // A server would keep some prepared, and have them import what code often needs.
        pool: 0,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    });
    // A server would keep what it knows: `SqliteStore`.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let name = ServerName::new("shop")?;
    let shop = InProcess::new(name.clone(), [stock(name)]);
    let tools = ToolboxConfig {
        cache: home.join("modules"),
        registry: None,
        embedder: None,
        caps: CallCaps::default(),
        unusable: Vec::new(),
    };
    let toolbox = Toolbox::new(tools, shop, Arc::clone(&store), Rules::default());
    let config = EngineConfig { workspaces: home.join("workspaces"), session_idle: Duration::from_mins(30) };
    Ok(Engine::new(config, Arc::new(backend), store, Some(toolbox)))
}

/// How many pieces of an article there are.
fn stock(server: ServerName) -> (Tool, Handler) {
    let article = json!({ "type": "string", "description": "Its name" });
    let schema = [
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), json!({ "article": article })),
        ("required".to_owned(), json!(["article"])),
    ];
    let tool = Tool {
        server,
        name: "stock".to_owned(),
        title: None,
        description: "How many pieces of an article there are".to_owned(),
        input_schema: schema.into_iter().collect(),
        output_schema: None,
        category: None,
        hints: ToolHints { read_only: Some(true), ..ToolHints::default() },
    };
    let handler = |arguments: Map<String, Value>| {
        let pieces = match arguments.get("article").and_then(Value::as_str) {
            Some("nail") => 5_000,
            Some("screw") => 1_200,
            Some("anvil") => 1,
            _ => 0,
        };
        ToolResult { structured: Some(json!({ "pieces": pieces })), ..ToolResult::default() }
    };
    (tool, Box::new(handler))
}
