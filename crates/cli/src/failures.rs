//! Remembers for a few minutes that a server could not be started, so that not every command waits for it again.

use crate::variables;
use async_trait::async_trait;
use coracle_engine::{Servers, fingerprint};
use coracle_types::{ServerName, ServerSpec, ToolResult, UserId};
use coracle_upstream::{CallContext, Change, ServerStatus, ToolList, Upstream, UpstreamError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::broadcast;

/// Time for which a failure is remembered.
const KEPT_FOR: Duration = Duration::from_mins(5);
/// Failures that take less time than this are not remembered.
const WORTH_KEEPING: Duration = Duration::from_secs(1);

/// How remembered failures are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A server that failed recently is not started.
    Used,
    /// Every server is started, and the result is remembered.
    Renewed,
}

/// Servers of one command, with remembered failures.
#[derive(Debug)]
pub(crate) struct Remembering {
    upstream: Upstream,
    folder: PathBuf,
    memory: Memory,
    /// Later failures belong to this command, and the connection itself knows them.
    begun: SystemTime,
}

/// Failure to start a server.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    reason: String,
    at: SystemTime,
}

impl Remembering {
    pub(crate) fn new(upstream: Upstream, memory: Memory) -> anyhow::Result<Self> {
        Ok(Self { upstream, folder: folder()?, memory, begun: SystemTime::now() })
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    Ok(variables::home()?.join("cache").join("failures"))
}

fn file(folder: &Path, spec: &ServerSpec) -> PathBuf {
    folder.join(format!("{}.json", fingerprint(spec)))
}

/// Returns why a server could not be started recently, and how long ago that was.
pub(crate) fn recent(spec: &ServerSpec) -> Option<(String, Duration)> {
    recent_in(&folder().ok()?, spec)
}

fn recent_in(folder: &Path, spec: &ServerSpec) -> Option<(String, Duration)> {
    let failure: Failure = serde_json::from_slice(&fs::read(file(folder, spec)).ok()?).ok()?;
    let age = failure.at.elapsed().ok().filter(|age| *age < KEPT_FOR)?;
    Some((failure.reason, age))
}

fn keep(folder: &Path, spec: &ServerSpec, reason: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let failure = Failure { reason: reason.to_owned(), at: SystemTime::now() };
    let text = serde_json::to_vec(&failure).map_err(std::io::Error::other)?;
    let (place, new) = (file(folder, spec), file(folder, spec).with_extension(format!("{}.new", std::process::id())));
    let mut options = fs::OpenOptions::new();
    let mut made = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    std::io::Write::write_all(&mut made, &text)?;
    fs::rename(new, place)
}

#[async_trait]
impl Servers for Remembering {
    fn servers(&self) -> Vec<Arc<ServerSpec>> {
        self.upstream.servers()
    }

    fn server(&self, name: &ServerName) -> Option<Arc<ServerSpec>> {
        self.upstream.server(name)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.upstream.changes()
    }

    fn status(&self, user: &UserId) -> Vec<ServerStatus> {
        self.upstream.status(user)
    }

    async fn tools(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        let Some(spec) = self.server(server) else { return self.upstream.tools(user, server).await };
        if self.memory == Memory::Used
            && let Some((reason, age)) = recent_in(&self.folder, &spec)
            && SystemTime::now().checked_sub(age).is_some_and(|failed| failed < self.begun)
        {
            let reason = format!("the server failed to start {} s ago and is not retried yet: {reason}", age.as_secs());
            let retry_in = Some(KEPT_FOR.saturating_sub(age));
            return Err(UpstreamError::Unavailable { server: server.clone(), reason, retry_in });
        }
        let begun = Instant::now();
        let listed = self.upstream.tools(user, server).await;
        match &listed {
            Ok(_) => {
                // Usually there is no such file.
                let _ = fs::remove_file(file(&self.folder, &spec));
            }
            Err(UpstreamError::Unavailable { reason, retry_in: None, .. }) if begun.elapsed() > WORTH_KEEPING => {
                if let Err(error) = keep(&self.folder, &spec, reason) {
                    tracing::debug!(%server, %error, "cannot store the failure");
                }
            }
            Err(_) => {}
        }
        listed
    }

    async fn call(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        self.upstream.call(user, server, tool, arguments, context).await
    }

    fn passes_on(&self) -> Option<&Upstream> {
        Some(&self.upstream)
    }

    async fn shutdown(&self) {
        self.upstream.shutdown().await;
    }
}
