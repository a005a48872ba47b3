//! Tools that cost nothing themselves: what is left is Coracle.

use async_trait::async_trait;
use coracle_engine::{HostCallError, HostCalls, Servers};
use coracle_types::{Content, Scope, ServerName, ServerSpec, Tool, ToolHints, ToolResult, Transport, UserId};
use coracle_upstream::{CallContext, Change, ToolList, UpstreamError};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// A server in this process, with the tool `echo`.
#[derive(Debug)]
pub(super) struct InProcess {
    spec: ServerSpec,
    tools: Arc<ToolList>,
    changes: broadcast::Sender<Change>,
}

impl InProcess {
    pub(super) fn new(name: ServerName) -> Self {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let tool = Tool {
            server: name.clone(),
            name: "echo".to_owned(),
            title: None,
            description: "Give back the text.".to_owned(),
            input_schema: schema.as_object().cloned().unwrap_or_default(),
            // None, so that the broker has to learn it: the dearer case.
            output_schema: None,
            hints: ToolHints::default(),
        };
        let spec = ServerSpec {
            name,
            // Nobody starts it.
            transport: Transport::Stdio { command: String::new(), args: vec![], env: BTreeMap::new(), cwd: None },
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::ZERO,
            call_timeout: Duration::ZERO,
        };
        Self { spec, tools: Arc::new([tool].into_iter().collect()), changes: broadcast::channel(1).0 }
    }

    fn known(&self, server: &ServerName) -> Result<(), UpstreamError> {
        if *server == self.spec.name { Ok(()) } else { Err(UpstreamError::UnknownServer { server: server.clone() }) }
    }
}

#[async_trait]
impl Servers for InProcess {
    fn servers(&self) -> Vec<&ServerSpec> {
        vec![&self.spec]
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    async fn tools(&self, _user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        self.known(server)?;
        Ok(Arc::clone(&self.tools))
    }

    async fn call(
        &self,
        _user: &UserId,
        server: &ServerName,
        _tool: &str,
        mut arguments: Map<String, Value>,
        _context: CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        self.known(server)?;
        let text = match arguments.remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        Ok(ToolResult { content: vec![Content::Text { text }], ..ToolResult::default() })
    }

    async fn shutdown(&self) {}
}

/// Answers as the tool would, without the broker.
#[derive(Debug)]
pub(super) struct Straight;

#[async_trait]
impl HostCalls for Straight {
    async fn call(&self, _method: String, mut params: Map<String, Value>) -> Result<Value, HostCallError> {
        let text = params.get_mut("arguments").and_then(|arguments| arguments.get_mut("text")).map(Value::take);
        Ok(json!({ "value": text, "media": [] }))
    }
}
