use crate::servers::Servers;
use async_trait::async_trait;
use coracle_types::{Scope, ServerName, ServerSpec, Tool, ToolResult, Transport, UserId};
use coracle_upstream::{CallContext, Change, ToolList, UpstreamError};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Implements a tool of this process. It is called on the thread of the caller, so it must not block.
pub type Handler = Box<dyn Fn(Map<String, Value>) -> ToolResult + Send + Sync>;

/// A server whose tools are functions of this process, for programs that embed the engine.
pub struct InProcess {
    spec: Arc<ServerSpec>,
    tools: Arc<ToolList>,
    handlers: HashMap<String, Handler>,
    changes: broadcast::Sender<Change>,
    ended: CancellationToken,
}

impl InProcess {
    /// A server with these tools, which never change. Of two tools with the same name, the first one counts.
    pub fn new(name: ServerName, tools: impl IntoIterator<Item = (Tool, Handler)>) -> Self {
        let mut handlers = HashMap::new();
        let mut listed = Vec::new();
        for (tool, handler) in tools {
            handlers.entry(tool.name.clone()).or_insert(handler);
            listed.push(tool);
        }
        let spec = ServerSpec {
            name,
            // Never started.
            transport: Transport::Stdio { command: String::new(), args: vec![], env: BTreeMap::new(), cwd: None },
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::ZERO,
            call_timeout: Duration::ZERO,
        };
        Self {
            spec: Arc::new(spec),
            tools: Arc::new(listed.into_iter().collect()),
            handlers,
            changes: broadcast::channel(1).0,
            ended: CancellationToken::new(),
        }
    }

    fn look(&self, server: &ServerName) -> Result<(), UpstreamError> {
        if *server != self.spec.name {
            return Err(UpstreamError::UnknownServer { server: server.clone() });
        }
        if self.ended.is_cancelled() { Err(UpstreamError::ShutDown) } else { Ok(()) }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("spec", &self.spec).field("tools", &self.tools).finish_non_exhaustive()
    }
}

#[async_trait]
impl Servers for InProcess {
    fn servers(&self) -> Vec<Arc<ServerSpec>> {
        vec![Arc::clone(&self.spec)]
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    async fn tools(&self, _user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        self.look(server)?;
        Ok(Arc::clone(&self.tools))
    }

    async fn call(
        &self,
        _user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        self.look(server)?;
        let Some(handler) = self.handlers.get(tool) else {
            return Err(UpstreamError::ToolNotFound { server: server.clone(), tool: shown(tool) });
        };
        if context.cancel.is_cancelled() {
            return Err(UpstreamError::Cancelled { server: server.clone() });
        }
        Ok(handler(arguments))
    }

    async fn shutdown(&self) {
        self.ended.cancel();
    }
}

/// Shortens a name from hostile code for an error message.
fn shown(name: &str) -> String {
    const MAX_CHARS: usize = 100;
    name.chars().take(MAX_CHARS).collect()
}
