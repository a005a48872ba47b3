//! Runs code in the mode `plan`.

use super::files::{self, CopyError};
use super::view::{Shown, for_person, view};
use crate::capture::Output;
use crate::execution::{Executor, Facts, nothing_ran};
use crate::files::{Quota, Usages, WorkspaceFiles};
use crate::host_calls::{HostCallError, HostCalls, refused};
use crate::plans::{Collected, Content, FileEffect, PlanSettings, Planner, Progress};
use crate::request::{CallLogging, Request};
use async_trait::async_trait;
use coracle_store::PlanRecord;
use coracle_types::{ErrorCode, Execution, Failure, Limits, Plan, PlanId, PlanState, UserId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Resolution of the times of files, with some reserve.
const TICK: Duration = Duration::from_millis(10);
/// Methods of the host that change something.
const CHANGING: [&str; 2] = ["skill.save", "skill.delete"];
/// The copy of the workspace, and the changed files, in the folder of a plan.
const COPY: &str = "workspace";
const KEPT: &str = "files";

/// Refuses calls of the host that change something.
#[derive(Debug)]
struct OnlyReading(Arc<dyn HostCalls>);

#[async_trait]
impl HostCalls for OnlyReading {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        if CHANGING.contains(&method.as_str()) {
            let message = "skills are not saved or deleted in the mode plan; do that in an execution of its own";
            return Err(refused("not_in_plan", message));
        }
        self.0.call(method, params).await
    }
}

/// The folder of a plan.
pub(super) fn folder(executor: &Executor, user: &UserId, plan: &PlanId) -> PathBuf {
    executor.parts().workspaces.of(user).plans().join(plan.as_str())
}

/// The changed files that a plan keeps.
pub(super) fn kept(executor: &Executor, user: &UserId, plan: &PlanId) -> PathBuf {
    folder(executor, user, plan).join(KEPT)
}

/// A folder that is removed, unless it is kept.
struct Folder(Option<PathBuf>);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take()
            && let Err(error) = coracle_sandbox::remove_folder(&folder)
        {
            tracing::warn!(%error, "cannot remove the copy of a workspace");
        }
    }
}

/// The workspace and its copy.
struct Workspaces {
    original: WorkspaceFiles,
    copy: WorkspaceFiles,
    /// The versions of the files in both, before the code runs.
    files: BTreeMap<String, String>,
    copied: BTreeMap<String, String>,
}

/// Runs code, and returns its execution with the plan.
pub(crate) async fn make(
    executor: &Arc<Executor>,
    settings: &Arc<PlanSettings>,
    mut request: Request,
) -> (Execution, Output) {
    let refuse = |request: &Request, failure: Failure| nothing_ran(Facts::new(request), request, failure);
    if matches!(request.call_log, CallLogging::Resuming(_)) {
        return refuse(&request, failure(ErrorCode::InvalidRequest, "an execution cannot be resumed in the mode plan"));
    }
    let (id, planner) = match (new_plan_id(), Planner::new(Arc::clone(settings))) {
        (Ok(id), Ok(planner)) => (id, Arc::new(planner)),
        (Err(error), _) | (_, Err(error)) => {
            let message = format!("cannot make a plan: the system provides no random numbers: {error}");
            return refuse(&request, failure(ErrorCode::Internal, &message));
        }
    };
    let own_folder = request.workspace.take();
    let place = folder(executor, &request.user, &id);
    let mut guard = Folder(Some(place.clone()));
    let workspaces = match copied(executor, &request, own_folder.clone(), place.join(COPY)).await {
        Ok(workspaces) => workspaces,
        Err(error) => return refuse(&request, not_copied(&error)),
    };
    // A change in the tick in which a file was copied would not be noticed.
    tokio::time::sleep(TICK).await;
    request.copied_from = Some(executor.workspace_place(&request.user, own_folder.as_deref()));
    request.workspace = Some(place.join(COPY));
    request.call_log = CallLogging::Off;
    request.planner = Some(Arc::clone(&planner));
    request.calls = Arc::new(OnlyReading(Arc::clone(&request.calls)));
    let session = request.session.take();
    let (user, limits, language) = (request.user.clone(), request.limits.clone(), request.language);
    let for_model = executor.for_model(&request).await.ok().flatten();
    let (mut execution, output) = executor.execute(request).await;
    if session.is_some() {
        let warning = "a plan is made in a fresh interpreter: variables of the session are not there";
        execution.warnings.push(warning.to_owned());
    }
    if execution.output_file.is_some() {
        keep_output(executor, &user, own_folder.as_deref(), &limits, &workspaces.copy, &mut execution);
    }
    let Collected { placeholders, effects, reads } = planner.collected();
    let first = effects.last().map_or(0, |effect| effect.number) + 1;
    let (files, changes) = match changed(workspaces, place.join(KEPT), first).await {
        Ok(changed) => changed,
        Err(error) => {
            fail(&mut execution, &format!("cannot tell which files the code has changed: {error}"));
            (BTreeMap::new(), Vec::new())
        }
    };
    let state = match (execution.success, effects.is_empty() && changes.is_empty()) {
        (false, _) => PlanState::Incomplete,
        (true, true) => PlanState::Empty,
        (true, false) => PlanState::Open,
    };
    let keeps_files = changes.iter().any(|change| change.digest.is_some());
    let content = Content {
        execution: execution.execution_id.clone(),
        language,
        placeholders,
        effects,
        reads,
        workspace: own_folder,
        limits,
        files,
        changes,
    };
    let created_at = SystemTime::now();
    let mut record = PlanRecord {
        id,
        user: user.clone(),
        state,
        created_at,
        expires_at: created_at + settings.kept_for(),
        content: serde_json::to_value(&content).unwrap_or_default(),
        progress: serde_json::to_value(Progress::default()).unwrap_or_default(),
    };
    if state == PlanState::Open {
        match executor.parts().store.add_plan(&record).await {
            Ok(()) => {
                let effects = (content.effects.len() + content.changes.len()) as u64;
                executor.parts().tools.audit().plan_made(&user, &record.id, &execution.execution_id, effects);
                if keeps_files {
                    guard.0 = None;
                    drop(Folder(Some(place.join(COPY))));
                }
            }
            Err(error) => {
                fail(&mut execution, &format!("the plan cannot be stored: {error}"));
                record.state = PlanState::Incomplete;
            }
        }
    }
    let mut plan = view(&record);
    if let Some(shown) = &mut plan {
        let protected = match &for_model {
            Some(for_model) => Shown::Tokenized(&for_model.0).apply(shown).await,
            None => for_person(executor.parts().privacy.in_use().as_deref(), &user, shown).await,
        };
        if let Err(error) = protected {
            plan = None;
            fail(
                &mut execution,
                &format!("the plan is withheld, because its personal data cannot be protected: {error}"),
            );
        }
    }
    execution.plan = plan;
    explain(&mut execution);
    tokio::spawn(sweep(Arc::clone(executor), user));
    (execution, output)
}

fn new_plan_id() -> Result<PlanId, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(PlanId::from_random(u128::from_be_bytes(bytes)))
}

fn failure(error_code: ErrorCode, message: &str) -> Failure {
    Failure { error: message.to_owned(), error_code, traceback: None, hint: None }
}

/// Reports a failure, unless the code has failed itself.
fn fail(execution: &mut Execution, message: &str) {
    execution.success = false;
    execution.failure.get_or_insert_with(|| failure(ErrorCode::Internal, message));
}

/// Says why code may have failed that works otherwise.
fn explain(execution: &mut Execution) {
    let has_effects = execution.plan.as_ref().is_some_and(|plan| !plan.effects.is_empty());
    if let (true, Some(failure)) = (has_effects, &mut execution.failure)
        && failure.error_code == ErrorCode::Exception
    {
        let why = "in the mode plan, calls that change something are not made, and their results are placeholders";
        failure.hint = Some(match failure.hint.take() {
            Some(hint) => format!("{hint}; {why}"),
            None => why.to_owned(),
        });
    }
}

fn not_copied(error: &CopyError) -> Failure {
    let hint = "plan mode runs code on a copy of the workspace: use a smaller folder, or move data out of it";
    Failure {
        hint: Some(hint.to_owned()),
        ..failure(ErrorCode::SandboxUnavailable, &format!("a plan cannot be made: {error}"))
    }
}

async fn copied(
    executor: &Arc<Executor>,
    request: &Request,
    own_folder: Option<PathBuf>,
    to: PathBuf,
) -> Result<Workspaces, CopyError> {
    let (executor, user, limits) = (Arc::clone(executor), request.user.clone(), request.limits.clone());
    let work = move || {
        let workspaces = &executor.parts().workspaces;
        let original = workspaces.files(&user, own_folder.as_deref(), &limits)?;
        std::fs::create_dir_all(&to)?;
        let files = files::copy(&original, &to, limits.workspace_mb.saturating_mul(1_000_000))?;
        let copy = WorkspaceFiles::open(to, Quota::NONE, Usages::default())?;
        let copied = files::fingerprint(&copy)?;
        Ok(Workspaces { original, copy, files, copied })
    };
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// The versions of the files of the workspace, and what the code has changed.
async fn changed(
    workspaces: Workspaces,
    kept: PathBuf,
    first: u64,
) -> Result<(BTreeMap<String, String>, Vec<FileEffect>), CopyError> {
    let work = move || {
        let Workspaces { original, copy, files, copied } = workspaces;
        let changes = files::changes(&copy, &original, &copied, &kept, first)?;
        Ok((files, changes))
    };
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// Moves output that was too long to return from the copy into the workspace.
fn keep_output(
    executor: &Executor,
    user: &UserId,
    workspace: Option<&Path>,
    limits: &Limits,
    copy: &WorkspaceFiles,
    execution: &mut Execution,
) {
    let name = format!("{}.txt", execution.execution_id);
    let most = limits.output_bytes.saturating_mul(2).saturating_add(4096);
    let text = copy.read(&format!("{}/{name}", crate::workspace::OUTPUT_FOLDER), most);
    let kept =
        text.and_then(|(_, bytes)| executor.parts().workspaces.keep_output(user, workspace, limits, &name, &bytes));
    match kept {
        Ok(path) => execution.output_file = Some(path),
        Err(error) => {
            execution.output_file = None;
            execution.warnings.push(format!("the whole output was not kept: {error}"));
        }
    }
}

/// Removes the files of plans that are no longer stored.
async fn sweep(executor: Arc<Executor>, user: UserId) {
    let Ok(plans) = executor.parts().store.plans(&user).await else { return };
    let folder = executor.parts().workspaces.of(&user).plans();
    let swept = tokio::task::spawn_blocking(move || {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_kept = |plan: &PlanRecord| {
                let is_needed = matches!(plan.state, PlanState::Open | PlanState::Running);
                is_needed && plan.expires_at > SystemTime::now() && entry.file_name() == plan.id.as_str()
            };
            // Others may be making plans at the moment.
            let is_old = || {
                let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
                age.is_some_and(|age| age > Duration::from_hours(48))
            };
            if !plans.iter().any(is_kept) && is_old() {
                drop(Folder(Some(entry.path())));
            }
        }
    });
    let _ = swept.await;
}

/// Removes the files that a plan keeps.
pub(super) async fn forget(executor: &Executor, user: &UserId, plan: &PlanId) {
    let folder = folder(executor, user, plan);
    let _ = tokio::task::spawn_blocking(move || drop(Folder(folder.is_dir().then_some(folder)))).await;
}

/// The plan of a record, as a person sees it.
pub(super) async fn shown(executor: &Executor, record: &PlanRecord) -> Option<Plan> {
    let mut plan = view(record)?;
    let privacy = executor.parts().privacy.in_use();
    if let Err(error) = for_person(privacy.as_deref(), &record.user, &mut plan).await {
        tracing::warn!(%error, "a plan is not shown: its tokens cannot be restored");
        return None;
    }
    Some(plan)
}
