//! What a run needs of the server it runs in.

use crate::error::RunError;
use crate::spec::RunSpec;
use async_trait::async_trait;
use coracle_agent::{Agent, CodeFences};
use coracle_models::ModelProvider;
use coracle_store::Store;
use coracle_types::{RunId, UserId};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// What a run needs of the server it runs in.
#[async_trait]
pub trait Surroundings: fmt::Debug + Send + Sync {
    /// Finds the model and the tools for a run.
    async fn prepare(&self, user: &UserId, run: &RunTools, spec: &RunSpec) -> Result<Prepared, RunError>;
}

/// The run that tools work for.
#[derive(Clone, Debug)]
pub struct RunTools {
    /// The run ID.
    pub run: RunId,
    /// Where the calls of code are recorded.
    pub store: Arc<dyn Store>,
}

/// A model and tools for a run.
#[derive(Debug)]
pub struct Prepared {
    /// The model's provider.
    pub provider: Arc<dyn ModelProvider>,
    /// The model's name at the provider.
    pub model: String,
    /// The system prompt.
    pub instructions: String,
    /// The agent with its tools and limits.
    pub agent: Agent,
    /// Whether code in the text of an answer is run.
    pub fences: CodeFences,
}

/// The ID of the container of a user: the workspace that code runs in.
pub(crate) fn container(user: &UserId) -> String {
    let digest = Sha256::digest(user.as_str());
    format!("cntr_{}", &hex::encode(digest)[..24])
}
