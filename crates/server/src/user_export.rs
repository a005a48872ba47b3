//! Everything that one user has, as one tar archive: records as JSON, and the files. Secrets are only named.

use crate::timestamp::Timestamp;
use crate::views::{AccountView, ApprovalView, DecisionView, FlowApprovalView, KeyView, SourceView};
use coracle_store::{
    ArtifactRecord, ExecutionRecord, ItemPage, ItemRecord, ItemsOf, KEPT_VAULT_VALUES, MAX_PAGE, Owner, RunRecord,
    SessionRecord, Store, StoreError, TaskRecord, UserArchive, VaultValue,
};
use coracle_types::{Secret, UserId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::mpsc;

/// Number of files that wait to be written. If there are more, reading waits.
const AHEAD: usize = 4;
/// Number of items that are read at once.
const ITEMS: usize = 100;
/// The name of the secret with the keys of model providers.
const PROVIDER_KEYS: &str = "provider_keys";

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive could not be written.
    #[error("cannot write the archive: {0}")]
    File(#[from] io::Error),
}

/// A file of the archive.
type Entry = (String, Value);

/// Writes everything that a user has to an archive. `folder` is the user's folder with workspace, artifacts and skills.
pub async fn export_user<W: Write + Send + 'static>(
    store: Arc<dyn Store>,
    user: UserId,
    folder: PathBuf,
    writer: W,
) -> Result<W, ExportError> {
    let (sender, mut receiver) = mpsc::channel::<Entry>(AHEAD);
    let (complete, is_complete) = std::sync::mpsc::channel::<()>();
    let writing = tokio::task::spawn_blocking(move || -> io::Result<W> {
        let mut archive = UserArchive::new(writer);
        while let Some((name, value)) = receiver.blocking_recv() {
            archive.json(&name, &value)?;
        }
        // Without its end, the archive can be recognized as incomplete.
        if is_complete.recv().is_err() {
            return Err(io::Error::other("the export was interrupted"));
        }
        archive.folder("workspace", &folder)?;
        let mut writer = archive.finish()?;
        writer.flush()?;
        Ok(writer)
    });
    let gathered = Gathering { store: &*store, user: &user, sender }.all().await;
    if gathered.is_ok() {
        // Fails only if writing has failed, which is reported below.
        let _ = complete.send(());
    }
    drop(complete);
    let written = writing.await.map_err(io::Error::other)?;
    // The reason why reading failed is more useful than that the archive is incomplete.
    match gathered {
        Err(Stopped::Store(error)) => Err(error.into()),
        Err(Stopped::Writer) | Ok(()) => Ok(written?),
    }
}

/// Why no more files are sent.
enum Stopped {
    Store(StoreError),
    /// The archive cannot be written any more.
    Writer,
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

struct Gathering<'a> {
    store: &'a dyn Store,
    user: &'a UserId,
    sender: mpsc::Sender<Entry>,
}

impl Gathering<'_> {
    async fn all(self) -> Result<(), Stopped> {
        let now = SystemTime::now();
        let about = json!({
            "format": 1, "coracle": env!("CARGO_PKG_VERSION"), "user": self.user, "exported_at": Timestamp::from(now),
        });
        self.put("export.json", about).await?;
        self.account(now).await?;
        self.conversations().await?;
        self.runs().await?;
        self.executions().await?;
        self.sessions().await?;
        self.artifacts().await?;
        let approvals = self.store.all_approvals(self.user).await?;
        let approvals: Vec<ApprovalView> = approvals.into_iter().map(ApprovalView::from).collect();
        self.put("approvals.json", json!(approvals)).await?;
        let decisions = self.store.decisions(self.user).await?;
        self.put("decisions.json", json!(decisions.into_iter().map(DecisionView::from).collect::<Vec<_>>())).await?;
        let plans = self.store.plans(self.user).await?.into_iter().map(|plan| {
            json!({
                "id": plan.id, "state": plan.state, "created_at": Timestamp::from(plan.created_at),
                "expires_at": Timestamp::from(plan.expires_at), "content": plan.content, "progress": plan.progress,
            })
        });
        self.put("plans.json", plans.collect()).await?;
        self.put("vault.json", self.vault().await?).await?;
        self.put("sources.json", self.sources().await?).await?;
        let days = self.store.token_days(self.user).await?;
        let days = days.iter().map(|(day, tokens)| json!({"day": Timestamp::from(day.start()), "tokens": tokens}));
        self.put("token_use.json", days.collect()).await
    }

    /// Where data came from, and what was approved of its flow.
    async fn sources(&self) -> Result<Value, StoreError> {
        let places: Vec<SourceView> = self.store.sources(self.user).await?.into_iter().map(SourceView::from).collect();
        let approvals = self.store.flow_approvals(self.user).await?;
        let approvals: Vec<FlowApprovalView> = approvals.into_iter().map(FlowApprovalView::from).collect();
        let values: BTreeSet<String> = self
            .store
            .recent_values(self.user, KEPT_VAULT_VALUES)
            .await?
            .into_iter()
            .map(|value| value.token)
            .collect();
        let values = self.store.value_sources(self.user, &values).await?;
        Ok(json!({ "places": places, "tokens": values, "approvals": approvals }))
    }

    async fn put(&self, name: impl Into<String>, value: Value) -> Result<(), Stopped> {
        self.sender.send((name.into(), value)).await.map_err(|_| Stopped::Writer)
    }

    /// The account, and credentials without their secrets.
    async fn account(&self, now: SystemTime) -> Result<(), Stopped> {
        if let Some(user) = self.store.user(self.user).await? {
            self.put("account.json", json!(AccountView::from(&user))).await?;
        }
        let keys = self.store.keys(self.user).await?;
        self.put("keys.json", json!(keys.iter().map(|key| KeyView::of(key, now)).collect::<Vec<_>>())).await?;
        let owner = Owner::User(self.user.clone());
        let names = self.store.secret_names(&owner).await?;
        let mut providers = Value::Null;
        if names.iter().any(|name| name == PROVIDER_KEYS) {
            // Without the master key, the providers are not known, which does not make the rest less useful.
            providers = match self.store.secret(&owner, PROVIDER_KEYS).await {
                Ok(secret) => secret.and_then(|secret| providers_of(secret.expose())).unwrap_or_default(),
                Err(error) => json!({ "error": error.to_string() }),
            };
        }
        self.put("secrets.json", json!({ "names": names, "provider_keys": providers })).await
    }

    /// The tokens of the user, and what they stand for.
    async fn vault(&self) -> Result<Value, Stopped> {
        match self.store.recent_values(self.user, KEPT_VAULT_VALUES).await {
            Ok(values) => Ok(values.iter().map(vault_value).collect()),
            // As with providers above.
            Err(StoreError::Key(error)) => Ok(json!({ "error": error.to_string() })),
            Err(error) => Err(error.into()),
        }
    }

    async fn conversations(&self) -> Result<(), Stopped> {
        let mut before = None;
        loop {
            let page = self.store.conversations(self.user, MAX_PAGE, before.as_ref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.id.clone());
            for record in &page {
                let whole = json!({
                    "id": record.id, "title": record.title, "metadata": record.metadata,
                    "created_at": Timestamp::from(record.created_at), "changed_at": Timestamp::from(record.changed_at),
                    "items": self.items(ItemsOf::Conversation(&record.id)).await?,
                    "queue": self.store.queue(self.user, &record.id).await?.and_then(|queue| queue.content),
                });
                self.put(format!("conversations/{}.json", record.id), whole).await?;
            }
        }
    }

    async fn items(&self, of: ItemsOf<'_>) -> Result<Vec<Value>, Stopped> {
        let mut items: Vec<Value> = Vec::new();
        let mut after = None;
        loop {
            let page = ItemPage { after: after.as_ref(), limit: Some(ITEMS), newest_first: false };
            let page = self.store.items(self.user, of, page).await?;
            let Some(last) = page.last() else { return Ok(items) };
            after = Some(last.id.clone());
            items.extend(page.iter().map(item));
        }
    }

    /// All runs. The items of those in a conversation are there.
    async fn runs(&self) -> Result<(), Stopped> {
        let mut before = None;
        loop {
            let page = self.store.runs(self.user, MAX_PAGE, before.as_ref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.id.clone());
            for record in &page {
                let items = match &record.conversation {
                    Some(_) => Vec::new(),
                    None => self.items(ItemsOf::Run(&record.id)).await?,
                };
                let (steps, calls) = self.steps(record).await?;
                let name = format!("runs/{}.json", record.id);
                self.put(name, run(record, &items, &steps, &calls)).await?;
            }
        }
    }

    async fn steps(&self, record: &RunRecord) -> Result<(Vec<Value>, Vec<Value>), Stopped> {
        let (mut steps, mut calls) = (Vec::new(), Vec::new());
        for step in self.store.steps(self.user, &record.id).await? {
            for call in self.store.calls(self.user, &record.id, &step.begun.subject).await? {
                calls.push(json!({
                    "step": step.number, "number": call.number, "call": call.call, "answer": call.answer,
                }));
            }
            steps.push(json!({
                "number": step.number, "kind": step.begun.kind.as_str(), "subject": step.begun.subject,
                "begun_at": Timestamp::from(step.begun.begun_at), "ended_at": step.ended_at.map(Timestamp::from),
                "outcome": step.outcome,
            }));
        }
        Ok((steps, calls))
    }

    async fn executions(&self) -> Result<(), Stopped> {
        let mut before = None;
        loop {
            let page = self.store.executions(self.user, MAX_PAGE, before.as_ref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.execution_id.clone());
            for record in &page {
                self.put(format!("executions/{}.json", record.execution_id), execution(record)).await?;
            }
        }
    }

    async fn sessions(&self) -> Result<(), Stopped> {
        let mut before = None;
        loop {
            let page = self.store.sessions(self.user, MAX_PAGE, before).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.number);
            for record in page {
                let tasks = self.tasks(&record).await?;
                let point = self.store.last_checkpoint(self.user, &record.id).await?;
                let point = point.map(|point| {
                    let made_at = Timestamp::from(point.made_at);
                    json!({"step": point.step, "context": point.context, "last_task": point.last_task, "made_at": made_at})
                });
                let whole = json!({
                    "session_id": record.id, "number": record.number, "label": record.label,
                    "started_at": Timestamp::from(record.started_at), "last_used": Timestamp::from(record.last_used),
                    "ended_at": record.ended_at.map(Timestamp::from), "tasks": tasks, "checkpoint": point,
                });
                self.put(format!("sessions/{:06}.json", record.number), whole).await?;
            }
        }
    }

    /// The tasks of a session, newest first.
    async fn tasks(&self, session: &SessionRecord) -> Result<Vec<Value>, Stopped> {
        let mut tasks = Vec::new();
        let mut before = None;
        loop {
            let page = self.store.tasks(self.user, &session.id, MAX_PAGE, before).await?;
            let Some(last) = page.last() else { return Ok(tasks) };
            before = Some(last.number);
            for record in &page {
                let recording = self.store.recording(self.user, &session.id, record.number).await?;
                tasks.push(task(record, recording.as_ref()));
            }
        }
    }

    /// The index of artifacts. Their contents are among the files.
    async fn artifacts(&self) -> Result<(), Stopped> {
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let page = self.store.artifacts(self.user, MAX_PAGE, before.as_ref()).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id.clone());
            for record in page {
                let versions = self.store.artifact(self.user, &record.id).await?;
                all.push(artifact(&versions.unwrap_or(record)));
            }
        }
        self.put("artifacts.json", Value::Array(all)).await
    }
}

/// The names of the providers that there are keys of.
fn providers_of(secret: &str) -> Option<Value> {
    let keys: std::collections::BTreeMap<String, Secret> = serde_json::from_str(secret).ok()?;
    Some(keys.into_keys().collect())
}

fn item(record: &ItemRecord) -> Value {
    json!({"id": record.id, "run": record.run, "is_output": record.is_output, "content": record.content})
}

fn run(record: &RunRecord, items: &[Value], steps: &[Value], calls: &[Value]) -> Value {
    json!({
        "id": record.id, "conversation": record.conversation, "previous": record.previous,
        "background": record.is_background, "request": record.request, "state": record.state.as_str(),
        "created_at": Timestamp::from(record.created_at), "ended_at": record.ended_at.map(Timestamp::from),
        "outcome": record.outcome, "attempts": record.attempts, "items": items, "steps": steps, "calls": calls,
    })
}

fn execution(record: &ExecutionRecord) -> Value {
    json!({
        "execution_id": record.execution_id, "session_id": record.session,
        "started_at": Timestamp::from(record.started_at), "language": record.language.as_str(), "code": record.code,
        "state": record.state.as_str(), "outcome": record.outcome,
    })
}

fn task(record: &TaskRecord, recording: Option<&Value>) -> Value {
    let begun = &record.begun;
    json!({
        "number": record.number, "execution_id": begun.execution_id, "description": begun.description,
        "language": begun.language.as_str(), "code": begun.code, "context_vars": begun.vars,
        "started_at": Timestamp::from(begun.started_at), "ended_at": record.ended_at.map(Timestamp::from),
        "state": record.state.as_str(), "outcome": record.outcome, "recorded": recording,
    })
}

fn artifact(record: &ArtifactRecord) -> Value {
    let versions = record.versions.iter().map(|version| {
        json!({
            "version": version.version, "execution_id": version.execution_id, "mime": version.mime,
            "bytes": version.bytes, "sha256": version.sha256, "created_at": Timestamp::from(version.created_at),
        })
    });
    json!({"id": record.id, "name": record.name, "versions": versions.collect::<Vec<_>>()})
}

fn vault_value(value: &VaultValue) -> Value {
    let text = value.value.expose();
    let number = value.is_number.then(|| serde_json::from_str::<serde_json::Number>(text).ok()).flatten();
    json!({
        "token": value.token, "value": number.map_or_else(|| json!(text), Value::Number),
        "last_used": Timestamp::from(value.last_used),
    })
}
