//! The contract of `Servers`, run over MCP servers and over tools of this process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod anticipation;
mod contract;

use coracle_engine::{Handler, InProcess};
use coracle_types::{Content, Schema, Scope, ServerName, Tool, ToolHints, ToolResult};
use coracle_upstream::{Options, Upstream};
use serde_json::Value;

fn demo() -> ServerName {
    ServerName::new("demo").unwrap()
}

fn in_process() -> InProcess {
    let tool = |name: &str| Tool {
        server: demo(),
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    };
    let echo: Handler = Box::new(|arguments| {
        let text = Value::Object(arguments).to_string();
        ToolResult { content: vec![Content::Text { text }], ..ToolResult::default() }
    });
    // The second tool with the same name is never called.
    let other: Handler = Box::new(|_| ToolResult { is_error: true, ..ToolResult::default() });
    InProcess::new(demo(), [(tool("echo"), echo), (tool("echo"), other)])
}

/// An MCP server in a child process: one for each user or one for all, depending on `scope`.
fn upstream(scope: Scope, mode: &str) -> Upstream {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../upstream/tests/fixtures/rogue.py");
    let spec = coracle_testing::servers::python("demo", scope, &[script, mode], &[]);
    Upstream::new(vec![spec], Options::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_process_servers_fulfil_the_contract() {
    contract::holds(&in_process()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn per_user_servers_fulfil_the_contract() {
    contract::holds(&upstream(Scope::User, "good")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_servers_fulfil_the_contract() {
    contract::holds(&upstream(Scope::Shared, "good")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_the_newest_protocol_fulfil_the_contract() {
    contract::holds(&upstream(Scope::User, "modern")).await;
}
