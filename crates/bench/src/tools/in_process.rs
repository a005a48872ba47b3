//! Tools without a cost of their own, so that only Coracle is measured.

use async_trait::async_trait;
use coracle_engine::{Handler, HostCallError, HostCalls, InProcess};
use coracle_types::{Content, ServerName, Tool, ToolHints, ToolResult};
use serde_json::{Map, Value, json};

/// In-process server with the tool `echo`.
pub(super) fn echo(name: ServerName) -> InProcess {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let tool = Tool {
        server: name.clone(),
        name: "echo".to_owned(),
        title: None,
        description: "Give back the text.".to_owned(),
        input_schema: schema.as_object().cloned().unwrap_or_default().into(),
        // Without a schema the broker has to learn it, which is the more expensive case.
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    };
    let handler: Handler = Box::new(|mut arguments| {
        let text = match arguments.remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        ToolResult { content: vec![Content::Text { text }], ..ToolResult::default() }
    });
    InProcess::new(name, [(tool, handler)])
}

/// Answers like the tool, without the broker.
#[derive(Debug)]
pub(super) struct Straight;

#[async_trait]
impl HostCalls for Straight {
    async fn call(&self, _method: String, mut params: Map<String, Value>) -> Result<Value, HostCallError> {
        let text = params.get_mut("arguments").and_then(|arguments| arguments.get_mut("text")).map(Value::take);
        Ok(json!({ "value": text, "media": [] }))
    }
}
