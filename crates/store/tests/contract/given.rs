//! Test data.

use coracle_store::{ExecutionRecord, ListedTools, Owner, ToolDecision};
use coracle_types::{Decision, ExecutionId, Language, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner::User(user(name))
}

/// Owners that could be confused with each other: a user may be named `shared`.
pub(crate) fn owners() -> [Owner; 4] {
    [Owner::Shared, owner("shared"), owner("ann"), owner("ann.b")]
}

pub(crate) fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

pub(crate) fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

pub(crate) fn tool(name: &str) -> Tool {
    Tool {
        server: server("git"),
        name: name.to_owned(),
        title: Some("A tool\0".to_owned()),
        description: "does ünusual things\u{0}\n".to_owned(),
        input_schema: json!({"type": "object", "properties": {"a\u{0}": {"default": 0.1}}}).as_object().unwrap().into(),
        output_schema: None,
        category: None,
        hints: ToolHints { destructive: Some(true), ..ToolHints::default() },
    }
}

pub(crate) fn listed(fingerprint: &str, tools: &[&str]) -> ListedTools {
    ListedTools {
        fingerprint: fingerprint.to_owned(),
        tools: tools.iter().map(|name| Arc::new(tool(name))).collect(),
        listed_at: at(1_790_000_000_123),
    }
}

pub(crate) fn decision(server_name: &str, tool: &str, definition: &str) -> ToolDecision {
    ToolDecision {
        server: server(server_name),
        tool: tool.to_owned(),
        definition: definition.to_owned(),
        arguments: None,
        decision: Decision::Allow,
        decided_at: at(1_790_000_000_456),
    }
}

pub(crate) fn record(whose: &str, id: &str, started: u64) -> ExecutionRecord {
    ExecutionRecord {
        execution_id: ExecutionId::new(id).unwrap(),
        user: user(whose),
        session: None,
        started_at: at(started),
        language: Language::Python,
        code: format!("print({started})"),
        state: coracle_store::TaskState::Done,
        outcome: json!({"success": true, "result": started}),
    }
}
