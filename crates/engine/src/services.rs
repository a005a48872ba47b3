//! What the engine itself offers to code, besides tools: each method that code may call on the host is named here once.
//!
//! Trust boundary: what comes from the code is hostile.

use crate::engine::Engine;
use crate::journal::{CHECKPOINT, TaskPlace};
use crate::request::{HostCallError, HostCalls};
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers one execution's calls that are no calls of tools.
#[derive(Debug)]
pub(crate) struct Services {
    engine: Engine,
    /// Where the execution is in the log, if it runs in a session.
    task: Option<TaskPlace>,
    /// What the embedding program offers.
    others: Arc<dyn HostCalls>,
}

impl Services {
    pub(crate) fn new(engine: Engine, others: Arc<dyn HostCalls>) -> Self {
        Self { engine, task: None, others }
    }

    /// For an execution that is a task of a session.
    pub(crate) fn in_task(self, task: Option<&TaskPlace>) -> Self {
        Self { task: task.cloned(), ..self }
    }
}

#[async_trait]
impl HostCalls for Services {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        match method.as_str() {
            CHECKPOINT => self.engine.checkpoint(self.task.as_ref(), params).await,
            _ => self.others.call(method, params).await,
        }
    }
}
