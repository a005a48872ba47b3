//! The front of the crate: one method for each thing that a caller can do. The components behind it own the state.

use crate::artifacts::{ArtifactError, Artifacts, Lasting};
use crate::belongings::Belongings;
use crate::call_file::{ResumeError, Resumption, newest};
use crate::capture::Output;
use crate::execution::{Executor, Parts};
use crate::files::{FileError, WorkspaceFiles};
use crate::history::History;
use crate::housekeeping::Housekeeping;
use crate::network::{CurrentNetwork, Network};
use crate::plan_runs::{PlanApproval, PlanError, PlanRunner, make};
use crate::plans::PlanSettings;
use crate::privacy::{CurrentPrivacy, PiiCalls, Privacy};
use crate::replay::{Replay, ReplayError, ReplayFiles, replay};
use crate::request::{DirectCall, DirectError, DirectRequest, Request};
use crate::sandboxes::Sandboxes;
use crate::sessions::Sessions;
use crate::skill_store::{CodeSkill, Library, Shelves, SkillError};
use crate::skills::{FoundSkill, ListedSkill, LoadedSkill, SkillDraft, Skills};
use crate::toolbox::Toolbox;
use crate::tools::Tools;
use crate::workspace::Workspaces;
use coracle_audit::AuditLog;
use coracle_guardrails::Guardrails;
use coracle_privacy::{PrivacyError, UserVault};
use coracle_sandbox::Backend;
use coracle_store::{
    ArtifactRecord, ArtifactUsage, ArtifactVersion, ExecutionRecord, Kept, Place, SessionRecord, Store, StoreError,
};
use coracle_types::{Artifact, ArtifactId, Execution, ExecutionId, Limits, Mode, Plan, PlanId, UserId};
use coracle_upstream::UpstreamError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum time that executions get to end on shutdown.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// Configuration of the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Folder that contains the folders of the users, with workspace and artifacts.
    pub workspaces: PathBuf,
    /// Time without use after which the interpreter of a session ends.
    pub session_idle: Duration,
}

/// Runs code. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    components: Arc<Components>,
}

#[derive(Debug)]
struct Components {
    executor: Arc<Executor>,
    skills: Arc<Skills>,
    /// What the operator says about plans. Set once.
    plans: OnceLock<Arc<PlanSettings>>,
}

impl Engine {
    /// Creates an engine on a backend. Its code can call tools if there is a toolbox. Must be called within a tokio runtime.
    pub fn new(
        config: EngineConfig,
        backend: Arc<dyn Backend>,
        store: Arc<dyn Store>,
        toolbox: Option<Arc<Toolbox>>,
    ) -> Self {
        let shelves = Arc::new(Shelves::new(&config.workspaces));
        let privacy = CurrentPrivacy::default();
        let workspaces = Arc::new(Workspaces::new(config.workspaces));
        let executor = Arc::new(Executor::new(Parts {
            artifacts: Arc::new(Artifacts::new(Arc::clone(&workspaces), Arc::clone(&store))),
            sessions: Sessions::new(Arc::clone(&store), Arc::clone(&workspaces), config.session_idle),
            sandboxes: Sandboxes::new(backend, Arc::clone(&shelves)),
            tools: Tools::new(toolbox, privacy.clone()),
            privacy,
            network: CurrentNetwork::default(),
            store,
            workspaces,
        }));
        let skills = Skills::new(Arc::clone(&executor), shelves);
        Self { components: Arc::new(Components { executor, skills, plans: OnceLock::new() }) }
    }

    fn parts(&self) -> &Parts {
        self.components.executor.parts()
    }

    fn artifact_store(&self) -> &Arc<Artifacts> {
        &self.parts().artifacts
    }

    fn skills(&self) -> &Arc<Skills> {
        &self.components.skills
    }

    /// Runs one piece of code to its end. Dropping the future ends the code.
    pub async fn execute(&self, request: Request) -> Execution {
        self.execute_with_output(request).await.0
    }

    /// The same as [`Self::execute`], with all output: the execution has only the head and the tail of a long one.
    pub async fn execute_with_output(&self, mut request: Request) -> (Execution, Output) {
        request.calls = self.skills().answering(&request);
        if let Some(privacy) = self.parts().privacy.get() {
            request.calls = PiiCalls::around(request.calls, privacy, request.user.clone());
        }
        if request.mode == Mode::Plan {
            let settings = self.components.plans.get().cloned().unwrap_or_default();
            return Box::pin(make(&self.components.executor, &settings, request)).await;
        }
        // Boxed, because the futures of callers contain this one.
        Box::pin(self.components.executor.execute(request)).await
    }

    fn plan_runner(&self) -> PlanRunner {
        PlanRunner(Arc::clone(&self.components.executor))
    }

    /// The plans of a user as the user sees them, the newest first.
    pub async fn plans(&self, user: &UserId) -> Result<Vec<Plan>, PlanError> {
        self.plan_runner().list(user).await
    }

    /// One plan of a user as the user sees it.
    pub async fn plan(&self, user: &UserId, id: &PlanId) -> Result<Plan, PlanError> {
        self.plan_runner().get(user, id).await
    }

    /// Deletes a plan that is not being run.
    pub async fn delete_plan(&self, user: &UserId, id: &PlanId) -> Result<(), PlanError> {
        self.plan_runner().delete(user, id).await
    }

    /// Runs the effects of a plan that a person has approved, in order, if nothing has changed. Only a person may approve.
    pub async fn run_plan(&self, approval: PlanApproval) -> Result<Plan, PlanError> {
        self.plan_runner().run(approval).await
    }

    /// Sets what the operator says about plans. Only the first call has an effect.
    #[must_use]
    pub fn with_plans(self, settings: PlanSettings) -> Self {
        let _ = self.components.plans.set(Arc::new(settings));
        self
    }

    /// Takes an execution that may have been interrupted, or has failed, so that it can be resumed: with
    /// [`CallLogging::Resuming`](crate::CallLogging::Resuming), a request does not repeat the calls that it made.
    pub async fn resume(&self, user: &UserId, id: &ExecutionId) -> Result<Resumption, ResumeError> {
        let (folder, own) = (self.parts().workspaces.of(user).calls(), id.clone());
        let opened = tokio::task::spawn_blocking(move || Resumption::open(folder, &own)).await;
        opened.unwrap_or_else(|error| Err(ResumeError::File { id: id.clone(), error: std::io::Error::other(error) }))
    }

    /// The execution of a user that made a logged call last, if any.
    pub fn last_resumable(&self, user: &UserId) -> Option<ExecutionId> {
        newest(&self.parts().workspaces.of(user).calls())
    }

    /// Ends all executions, records them as interrupted, and reports that to their callers. No further execution can
    /// begin. Returns when all have ended.
    pub async fn interrupt(&self) {
        self.components.executor.interrupt().await;
    }

    /// Waits until the copies of logs are written into the workspaces, and a little for what the store did not accept.
    pub async fn settled(&self) {
        self.parts().sessions.settled().await;
        self.components.executor.settled().await;
    }

    /// Whether the store can be written to at the moment.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.parts().store.ready().await
    }

    /// Protects personal data in this way from now on. Executions that are running go on as they began.
    pub fn protect(&self, privacy: Privacy) {
        self.parts().privacy.set(privacy);
    }

    /// How personal data is protected, if it can be.
    pub fn privacy(&self) -> Option<Arc<Privacy>> {
        self.parts().privacy.get()
    }

    /// The name of a user's workspace, or of the folder that is used instead of it, for [`Engine::carry`].
    pub fn workspace_place(&self, user: &UserId, workspace: Option<&Path>) -> Place {
        self.components.executor.workspace_place(user, workspace)
    }

    /// Notes that a client carries data from one place to another. Does nothing while no flow rule depends on it.
    pub async fn carry(&self, user: &UserId, from: &Place, to: &Place) -> Result<(), StoreError> {
        match self.parts().tools.toolbox() {
            Some(toolbox) if toolbox.approvals().flows().is_active() => toolbox.carry(user, from, to).await,
            _ => Ok(()),
        }
    }

    /// The vault of a user, if what goes to a model has tokens instead of personal data.
    pub async fn vault_for_model(&self, user: &UserId) -> Result<Option<Arc<UserVault>>, PrivacyError> {
        match self.parts().privacy.in_use() {
            Some(privacy) => privacy.vault(user).await.map(Some),
            None => Ok(None),
        }
    }

    /// Ends all sandboxes; returns when nothing is left.
    pub async fn shutdown(&self) {
        if tokio::time::timeout(ENDED_WITHIN, self.interrupt()).await.is_err() {
            tracing::warn!("executions that should have ended are still running");
        }
        self.settled().await;
        self.parts().sessions.interpreters().clear();
        self.parts().sandboxes.close().await;
    }

    /// Limits the number of sandboxes that are open at once. To be called once, before the first execution.
    pub fn limit_sandboxes(&self, most: usize) {
        self.parts().sandboxes.limit(most);
    }

    /// Limits how much of what has run is kept, and how many sessions of one user may have an interpreter at once.
    pub fn limit_history(&self, kept: Kept, live_sessions: usize) {
        self.parts().sessions.limit(kept, live_sessions);
    }

    /// The executions of a user, the newest first; only those before one of them, if it is given.
    pub async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.components.executor.list(user, limit, before).await
    }

    /// One execution of a user, if it is kept.
    pub async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.components.executor.get(user, id).await
    }

    /// The toolbox, if the engine has one.
    pub fn toolbox(&self) -> Option<&Arc<Toolbox>> {
        self.parts().tools.toolbox()
    }

    /// Calls one tool for a client that does not write code, through the same broker as calls from code.
    pub async fn call_tool(&self, call: DirectCall) -> Result<Value, DirectError> {
        self.parts().tools.call(call).await
    }

    /// Makes a request of a client that is no call of a tool, if the rules allow it. `make` gets the arguments for the server.
    pub async fn pass_on<R>(
        &self,
        request: DirectRequest,
        make: impl FnOnce(Map<String, Value>) -> R,
    ) -> Result<Value, DirectError>
    where
        R: Future<Output = Result<Value, UpstreamError>>,
    {
        self.parts().tools.request(request, make).await
    }

    /// The log of sessions.
    pub fn history(&self) -> History {
        self.parts().sessions.history()
    }

    /// Ends a session and its interpreter, and frees its name. Returns whether it had not ended before.
    pub async fn end_session(&self, user: &UserId, session: &SessionRecord) -> Result<bool, StoreError> {
        self.parts().sessions.end(user, session).await
    }

    /// Number of sessions that have an interpreter.
    pub fn live_sessions(&self) -> usize {
        self.parts().sessions.interpreters().live()
    }

    /// Runs the code of a session again with the answers that were recorded.
    pub async fn replay(
        &self,
        user: &UserId,
        session: &SessionRecord,
        files: ReplayFiles,
        limits: &Limits,
        cancel: &CancellationToken,
    ) -> Result<Replay, ReplayError> {
        replay(&self.components.executor, user, session, files, limits, cancel).await
    }

    /// The files of a user's workspace, or of the folder that is used instead of it, with the quota in `limits`.
    pub fn files(&self, user: &UserId, workspace: Option<&Path>, limits: &Limits) -> Result<WorkspaceFiles, FileError> {
        self.parts().workspaces.files(user, workspace, limits)
    }

    /// Hides a folder, Coracle's own, from file tools in workspaces that contain it. Only the first call has an effect.
    pub fn hide(&self, folder: &Path) {
        self.parts().workspaces.hide(folder);
    }

    /// Writes a text that is too long to return into the workspace; returns its path as code sees it.
    pub fn keep(
        &self,
        user: &UserId,
        workspace: Option<&Path>,
        limits: &Limits,
        name: &str,
        bytes: &[u8],
    ) -> Option<String> {
        let kept = self.parts().workspaces.keep_output(user, workspace, limits, name, bytes);
        kept.map_err(|error| tracing::warn!(%error, name, "cannot keep output that is too long to return")).ok()
    }

    /// Finds and deletes unused workspaces. Workspaces in which code is running are left alone.
    pub fn housekeeping(&self) -> Housekeeping {
        let (workspaces, store) = (self.parts().workspaces.root().to_owned(), Arc::clone(&self.parts().store));
        Housekeeping::new(workspaces, store).knowing(self.components.executor.active().clone())
    }

    /// Deletes everything that a user has, unless code of the user is running.
    pub fn belongings(&self) -> Belongings {
        let (workspaces, store) = (self.parts().workspaces.root().to_owned(), Arc::clone(&self.parts().store));
        Belongings::new(workspaces, store).knowing(self.components.executor.active().clone())
    }

    /// Cancels all executions of a user, ends the interpreters of their sessions, and waits for writes under way.
    pub async fn end_all_of(&self, user: &UserId) {
        self.components.executor.cancel_all_of(user);
        self.parts().sessions.interpreters().forget_all_of(user);
        if let Some(privacy) = self.privacy() {
            privacy.vaults().forget(user);
        }
        self.parts().sessions.settled().await;
    }

    /// Records artifacts in another store, because that of this engine is only in memory. Only the first call has an
    /// effect.
    pub fn keep_artifacts_in(&self, lasting: Lasting) {
        self.artifact_store().keep_in(lasting);
    }

    /// Sets the maximum size of all artifacts of a user, in bytes.
    pub fn limit_artifacts(&self, bytes: u64) {
        self.artifact_store().set_limit(bytes);
    }

    /// Maximum size of all artifacts of a user, in bytes.
    pub fn artifact_limit(&self) -> u64 {
        self.artifact_store().limit()
    }

    /// A user's artifacts with the newest version of each, those changed last first.
    pub async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, ArtifactError> {
        self.artifact_store().list(user, limit, before).await
    }

    /// The artifacts changed last, in the form in which executions report them.
    pub async fn newest_artifacts(&self, user: &UserId) -> Vec<Artifact> {
        self.artifact_store().newest(user).await
    }

    /// An artifact with its versions.
    pub async fn artifact_versions(&self, user: &UserId, id: &ArtifactId) -> Result<ArtifactRecord, ArtifactError> {
        self.artifact_store().versions(user, id).await
    }

    /// One version of an artifact, by default the newest: its record and the open file.
    pub async fn open_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(ArtifactRecord, ArtifactVersion, File), ArtifactError> {
        self.artifact_store().open(user, id, version).await
    }

    /// The artifact with this address, and its content.
    pub async fn artifact(&self, user: &UserId, uri: &str) -> Result<(Artifact, Vec<u8>), ArtifactError> {
        self.artifact_store().read(user, uri).await
    }

    /// Deletes an artifact, or one version of it.
    pub async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<(), ArtifactError> {
        self.artifact_store().delete(user, id, version).await
    }

    /// Disk usage of a user's artifacts.
    pub async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, ArtifactError> {
        self.artifact_store().usage(user).await
    }

    /// Sets the folders with a `SKILL.md`. Only the first call has an effect.
    #[must_use]
    pub fn with_library(self, library: Arc<Library>) -> Self {
        self.skills().set_library(library);
        self
    }

    /// Sets the limits of the code that is run to try out skills, instead of the defaults. Only the first call has an
    /// effect.
    #[must_use]
    pub fn with_trial_limits(self, limits: Limits) -> Self {
        self.skills().set_trial_limits(limits);
        self
    }

    /// Records executions and calls in an audit log: no call is made that is not in it. Only the first call has an effect.
    #[must_use]
    pub fn with_audit(self, log: Arc<dyn AuditLog>) -> Self {
        self.parts().tools.audit().set(log);
        self
    }

    /// Gives code the network. Requests are decided about like calls of tools, so an engine without a toolbox has none.
    /// Only the first call has an effect.
    #[must_use]
    pub fn with_network(self, network: Arc<Network>) -> Self {
        self.parts().network.set(network);
        self
    }

    /// Sets the checks of code before it runs. Without them, nothing is checked. Only the first call has an effect.
    #[must_use]
    pub fn with_guardrails(self, guardrails: Guardrails) -> Self {
        self.components.executor.guards().set(guardrails);
        self
    }

    /// The folders with a `SKILL.md`.
    pub fn library(&self) -> &Arc<Library> {
        self.skills().library()
    }

    /// Saves a skill, or a further version of it, if its example succeeds, or without one, if Python code compiles.
    ///
    /// A further version keeps the description, the tags and the example of the version before, unless it has its own.
    pub async fn save_skill(&self, user: &UserId, draft: SkillDraft) -> Result<CodeSkill, SkillError> {
        self.skills().save(user, draft).await
    }

    /// A skill with its code: by default the newest version.
    pub async fn load_skill(&self, user: &UserId, name: &str, version: Option<u32>) -> Result<LoadedSkill, SkillError> {
        self.skills().load(user, name, version).await
    }

    /// All code skills of a user, with the changes of their tools.
    pub async fn list_skills(&self, user: &UserId) -> Result<Vec<ListedSkill>, SkillError> {
        self.skills().list(user).await
    }

    /// Number of code skills of a user.
    pub async fn count_skills(&self, user: &UserId) -> usize {
        self.skills().count(user).await
    }

    /// Skills of both kinds that match, best first; all of them if the query is empty.
    pub async fn search_skills(&self, user: &UserId, query: &str, limit: usize) -> Result<Vec<FoundSkill>, SkillError> {
        self.skills().search(user, query, limit).await
    }

    /// Removes a skill with all its versions.
    pub async fn delete_skill(&self, user: &UserId, name: &str) -> Result<(), SkillError> {
        self.skills().delete(user, name).await
    }

    /// Runs the example of a saved skill; `None` if it has none.
    pub async fn test_skill(&self, user: &UserId, name: &str) -> Result<Option<Execution>, SkillError> {
        self.skills().test(user, name).await
    }

    /// Handles one request about skills: `save`, `load`, `list`, `search`, `delete` or `get`.
    pub async fn skill_request(
        &self,
        user: &UserId,
        act: &str,
        params: Map<String, Value>,
    ) -> Result<Value, SkillError> {
        self.skills().request(user, act, params).await
    }

    /// The Python packages that folders with a `SKILL.md` require and sandboxes do not have, by name of the skill.
    pub async fn missing_packages(&self) -> Result<BTreeMap<String, Vec<String>>, SkillError> {
        self.skills().missing_packages().await
    }
}
