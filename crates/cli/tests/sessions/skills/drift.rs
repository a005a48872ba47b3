//! Skills record the tools that they were saved with.

use super::code::{ada, draft};
use coracle_engine::{
    CallCaps, Change, Engine, EngineConfig, Handler, InProcess, ListedSkill, SkillDraft, Toolbox, ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_store::MemoryStore;
use coracle_types::{Content, Limits, ServerName, Tool, ToolHints, ToolResult};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Engine on this folder with one server that has these tools, each with a description.
fn engine(home: &Path, tools: &[(&str, &str)]) -> Engine {
    let server = ServerName::new("demo").unwrap();
    let tools = tools.iter().map(|(name, description)| {
        let tool = Tool {
            server: server.clone(),
            name: (*name).to_owned(),
            title: None,
            description: (*description).to_owned(),
            input_schema: json!({ "type": "object", "properties": { "n": { "type": "integer" } } })
                .as_object()
                .unwrap()
                .into(),
            output_schema: None,
            category: None,
            hints: ToolHints { read_only: Some(true), ..ToolHints::default() },
        };
        let echo: Handler = Box::new(|arguments: Map<String, Value>| ToolResult {
            content: vec![Content::Text { text: Value::Object(arguments).to_string() }],
            ..ToolResult::default()
        });
        (tool, echo)
    });
    let store = Arc::new(MemoryStore::new());
    let config = ToolboxConfig {
        cache: home.join("cache/servers"),
        registry: None,
        embedder: None,
        caps: CallCaps::default(),
        unusable: Vec::new(),
    };
    let toolbox = Toolbox::new(
        config,
        InProcess::new(server.clone(), tools),
        Arc::<MemoryStore>::clone(&store),
        Rules::new(Vec::new()).unwrap(),
    );
    let backend = NativeBackend::new(NativeConfig {
        home: home.to_owned(),
        launcher: coracle_testing::harness::built(),
        python: None,
        pool: 0,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    });
    let config = EngineConfig { workspaces: home.join("workspaces"), session_idle: Duration::from_mins(1) };
    Engine::new(config, Arc::new(backend), store, Some(toolbox))
}

fn drifts(listed: &[ListedSkill]) -> Vec<(String, Change)> {
    listed.iter().flat_map(|listed| &listed.drift).map(|drift| (drift.tool.clone(), drift.change)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_with_changed_tools_are_marked() {
    let home = TempDir::new().unwrap();
    let first = engine(home.path(), &[("echo", "Says it again"), ("other", "Something else")]);
    let code = "from servers.demo import echo\ndef f(n):\n    return echo(n=n)['n'] + 1\n";
    let example = "from skills.uses import f\nassert f(1) == 2";
    let saved = first
        .save_skill(&ada(), SkillDraft { example: Some(example.to_owned()), ..draft("uses", code) })
        .await
        .unwrap();
    assert_eq!(saved.tools.len(), 1, "{saved:?}");
    assert!(saved.tools[0].tool == "demo.echo" && saved.tools[0].digest.is_some(), "{saved:?}");
    let declared =
        SkillDraft { tools: Some(vec!["demo.other".to_owned(), "far.away".to_owned()]), ..draft("says", "x = 1") };
    first.save_skill(&ada(), declared).await.unwrap();
    let listed = first.list_skills(&ada()).await.unwrap();
    assert_eq!(drifts(&listed), [("far.away".to_owned(), Change::Gone)]);
    first.shutdown().await;
    let second = engine(home.path(), &[("echo", "Says it otherwise")]);
    let listed = second.list_skills(&ada()).await.unwrap();
    let expected = [("demo.other", Change::Gone), ("far.away", Change::Gone), ("demo.echo", Change::Changed)];
    assert_eq!(drifts(&listed), expected.map(|(tool, change)| (tool.to_owned(), change)));
    // Saved again, the skill is for the current tools.
    second.save_skill(&ada(), draft("uses", code)).await.unwrap();
    let listed = second.list_skills(&ada()).await.unwrap();
    assert_eq!(
        drifts(&listed),
        expected[..2].iter().map(|(tool, change)| ((*tool).to_owned(), *change)).collect::<Vec<_>>()
    );
    second.shutdown().await;
}
