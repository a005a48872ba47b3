//! What a run needs of the server it runs in.

use crate::approval::{ApprovalAnswer, LateAnswer};
use crate::error::RunError;
use crate::owner::Owner;
use crate::spec::RunSpec;
use async_trait::async_trait;
use coracle_agent::{Agent, CodeFences};
use coracle_models::ModelProvider;
use coracle_store::Store;
use coracle_types::{ArtifactId, RunId, UserId};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// What a run needs of the server it runs in.
#[async_trait]
pub trait Surroundings: fmt::Debug + Send + Sync {
    /// Finds the model and the tools for a run.
    async fn prepare(&self, user: &UserId, run: &RunTools, spec: &RunSpec) -> Result<Prepared, RunError>;

    /// The owner of calls that this run has parked and that are still under way in this process.
    fn parked(&self, _user: &UserId, _run: &RunId) -> Option<Owner> {
        None
    }

    /// Ends calls that this run has parked.
    fn let_go(&self, _user: &UserId, _run: &RunId) {}
}

/// The run that tools work for.
#[derive(Clone, Debug)]
pub struct RunTools {
    /// The run ID.
    pub run: RunId,
    /// Where the calls of code are recorded.
    pub store: Arc<dyn Store>,
    /// The run that they are recorded for.
    pub owner: Owner,
    /// The parked run that this one continues.
    pub continued: Option<Continued>,
}

/// The parked run that a run continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    /// The parked run.
    pub run: RunId,
    /// IDs of the calls that it has left.
    pub calls: Vec<String>,
    /// Answers to questions that are gone, for code that runs again. Each counts once.
    pub late: Vec<LateAnswer>,
}

/// A parked run whose questions a person has answered.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) continued: Continued,
    pub(crate) answers: Vec<ApprovalAnswer>,
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
pub fn container(user: &UserId) -> String {
    let digest = Sha256::digest(user.as_str());
    format!("cntr_{}", &hex::encode(digest)[..24])
}

/// What the IDs of files in a container begin with.
const FILE: &str = "cfile_";
/// What the IDs of artifacts begin with.
const ARTIFACT: &str = "art-";

/// The ID of a version of an artifact as a file of its user's container.
pub fn file_id(artifact: &ArtifactId, version: u64) -> String {
    let artifact = artifact.as_str();
    format!("{FILE}{}_{version}", artifact.strip_prefix(ARTIFACT).unwrap_or(artifact))
}

/// The artifact and the version that a file of a container is.
pub fn artifact_of_file(id: &str) -> Option<(ArtifactId, Option<u64>)> {
    let (artifact, version) = id.strip_prefix(FILE)?.rsplit_once('_')?;
    let artifact = ArtifactId::new(format!("{ARTIFACT}{artifact}")).ok()?;
    Some((artifact, Some(version.parse().ok()?)))
}
