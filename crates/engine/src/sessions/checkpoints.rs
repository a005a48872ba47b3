use super::Sessions;
use crate::host_calls::{CHECKPOINT, HostCallError, HostCalls};
use crate::journal::TaskPlace;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers one execution's calls that record checkpoints, and passes all others on.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    sessions: Arc<Sessions>,
    /// The task in the log, if the execution runs in a session.
    task: Option<TaskPlace>,
    others: Arc<dyn HostCalls>,
}

impl Checkpoints {
    pub(crate) fn new(sessions: Arc<Sessions>, task: Option<TaskPlace>, others: Arc<dyn HostCalls>) -> Self {
        Self { sessions, task, others }
    }
}

#[async_trait]
impl HostCalls for Checkpoints {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        match method.as_str() {
            CHECKPOINT => self.sessions.checkpoint(self.task.as_ref(), params).await,
            _ => self.others.call(method, params).await,
        }
    }
}
