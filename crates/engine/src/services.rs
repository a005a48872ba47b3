//! What the engine itself offers to code, besides tools: each method that code may call on the host is named here once.
//!
//! Trust boundary: what comes from the code is hostile.

use crate::engine::Engine;
use crate::host_calls::{CHECKPOINT, HostCallError, HostCalls, SKILL_PREFIX};
use crate::journal::TaskPlace;
use crate::request::Request;
use async_trait::async_trait;
use coracle_types::UserId;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers one execution's calls that are no calls of tools.
#[derive(Debug)]
pub(crate) struct Services {
    engine: Engine,
    /// Where the execution is in the log, if it runs in a session.
    task: Option<TaskPlace>,
    user: UserId,
    /// A skill is tried out, which may not change skills.
    in_trial: bool,
    /// What the embedding program offers.
    others: Arc<dyn HostCalls>,
}

impl Services {
    pub(crate) fn new(engine: Engine, request: &Request) -> Self {
        let (user, in_trial) = (request.user.clone(), request.trial.is_some());
        Self { engine, user, in_trial, task: None, others: Arc::clone(&request.calls) }
    }

    /// For an execution that is a task of a session.
    pub(crate) fn in_task(self, task: Option<&TaskPlace>) -> Self {
        Self { task: task.cloned(), ..self }
    }
}

#[async_trait]
impl HostCalls for Services {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        if let Some(act) = method.strip_prefix(SKILL_PREFIX) {
            return self.engine.skill_call(&self.user, self.in_trial, act, params).await;
        }
        match method.as_str() {
            CHECKPOINT => self.engine.checkpoint(self.task.as_ref(), params).await,
            _ => self.others.call(method, params).await,
        }
    }
}
