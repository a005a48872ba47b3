//! What the engine itself offers to code, besides tools: each method that code may call on the host is named here once.
//!
//! Trust boundary: what comes from the code is hostile.

use crate::engine::Engine;
use crate::request::{HostCallError, HostCalls};
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Answers one execution's calls that are no calls of tools.
#[derive(Debug)]
pub(crate) struct Services {
    #[expect(dead_code, reason = "the first method of the engine's own uses it")]
    engine: Engine,
    /// What the embedding program offers.
    others: Arc<dyn HostCalls>,
}

impl Services {
    pub(crate) fn new(engine: Engine, others: Arc<dyn HostCalls>) -> Self {
        Self { engine, others }
    }
}

#[async_trait]
impl HostCalls for Services {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        self.others.call(method, params).await
    }
}
