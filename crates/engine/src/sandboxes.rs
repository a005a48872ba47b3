//! Opens sandboxes, within their limit.

use crate::artifacts::ArtifactFolder;
use crate::clock::Clock;
use crate::journal::Shown;
use crate::network::Doorway;
use crate::request::Request;
use crate::run::Ran;
use crate::sessions::Live;
use crate::skill_store::Shelves;
use crate::verdict::Ending;
use coracle_sandbox::{Backend, Network, SandboxError, Spec};
use coracle_types::{ErrorCode, Failure};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The backend, and the limit on open sandboxes.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    backend: Arc<dyn Backend>,
    skills: Arc<Shelves>,
    /// Permits for sandboxes that may still be opened, and the maximum number of open sandboxes.
    places: OnceLock<(Arc<Semaphore>, usize)>,
}

impl Sandboxes {
    pub(crate) fn new(backend: Arc<dyn Backend>, skills: Arc<Shelves>) -> Self {
        Self { backend, skills, places: OnceLock::new() }
    }

    /// Limits the number of sandboxes that are open at once. Only the first call has an effect; sandboxes that are open
    /// already are not counted.
    pub(crate) fn limit(&self, most: usize) {
        let _ = self.places.set((Arc::new(Semaphore::new(most)), most));
    }

    /// Opens a sandbox for a request, with these modules for its servers.
    pub(crate) async fn open(
        &self,
        request: &Request,
        workspace: &Path,
        servers: Option<PathBuf>,
        clock: &Clock,
        network: Network,
    ) -> Result<Live, Ran> {
        let place = match self.places.get() {
            None => None,
            Some((places, most)) => match Arc::clone(places).try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => return Err(Ran::not_at_all(Ending::Refused(too_many(*most)))),
            },
        };
        clock.start(Duration::from_millis(request.limits.wall_ms));
        let skills = match &request.trial {
            Some(folder) => Some(folder.clone()),
            None => self.skills.seen(&request.user).await,
        };
        let spec = Spec { workspace: workspace.to_owned(), servers, skills, limits: request.limits.clone(), network };
        let opened = tokio::select! {
            biased;
            () = request.cancel.cancelled() => return Err(Ran::not_at_all(Ending::Cancelled)),
            opened = self.backend.open(spec) => opened,
            () = clock.expired() => return Err(Ran::not_at_all(Ending::timed_out(request.limits.wall_ms))),
        };
        let mut sandbox = opened.map_err(|error| Ran::not_at_all(Ending::NoSandbox(error)))?;
        let artifacts = ArtifactFolder::new(sandbox.artifacts.clone());
        let doorway = sandbox.connections.take().map(Doorway::new).transpose().map_err(|error| {
            let reason = format!("its network cannot be set up: {error}");
            Ran::not_at_all(Ending::NoSandbox(SandboxError::Unavailable(reason)))
        })?;
        Ok(Live {
            sandbox,
            artifacts,
            doorway,
            workspace: workspace.to_owned(),
            shown: Shown::default(),
            runs: 0,
            last_task: 0,
            last_used: Instant::now(),
            _place: place,
        })
    }

    /// Ends all sandboxes.
    pub(crate) async fn close(&self) {
        self.backend.shutdown().await;
    }
}

fn too_many(most: usize) -> Failure {
    Failure {
        error: format!("{most} sandboxes are in use, as many as the limit on open files of this server allows"),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some(
            "end sessions that are not needed, or let the server open more files: raise `ulimit -n`, or LimitNOFILE= of \
             its systemd unit"
                .to_owned(),
        ),
    }
}
