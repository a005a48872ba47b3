//! The connections that come out of one sandbox.

use coracle_egress::{Authority, AuthorityError, Gate};
use coracle_protocol::RunNetwork;
use coracle_sandbox::{Connections, PROXY};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Connections of one sandbox that are accepted at once. One more than a gate serves, so that the gate knows when one
/// waits, and ends another one that is idle.
const ACCEPTED: usize = 65;

/// Maximum time that the end of an execution waits until its connections have ended.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// The connections of one sandbox. They are accepted as long as this exists, and served while there is a [`Passage`].
#[derive(Debug)]
pub(crate) struct Doorway {
    current: Arc<Mutex<Option<Served>>>,
    /// Signs the certificates that code of this sandbox sees, whichever execution it is.
    authority: Arc<Authority>,
    _accepting: AbortOnDropHandle<()>,
}

/// What serves connections now.
#[derive(Clone)]
struct Served {
    gate: Gate,
    tasks: TaskTracker,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// The right of one execution to use the network. All of its connections end with it.
#[derive(Debug)]
pub(crate) struct Passage {
    current: Arc<Mutex<Option<Served>>>,
    tasks: TaskTracker,
    cancel: Option<DropGuard>,
    /// What the guest is told.
    pub(crate) network: RunNetwork,
}

impl Doorway {
    /// Accepts connections until the sandbox ends or this is dropped.
    pub(crate) fn new(connections: Connections) -> Result<Self, AuthorityError> {
        let current = Arc::default();
        let accepting = tokio::spawn(accept(connections, Arc::clone(&current)));
        let authority = Arc::new(Authority::generate()?);
        Ok(Self { current, authority, _accepting: AbortOnDropHandle::new(accepting) })
    }

    /// Serves connections from now on, by the gate that `make` opens with the authority of the sandbox.
    pub(crate) fn open(&self, make: impl FnOnce(Arc<Authority>, CancellationToken) -> Gate) -> Passage {
        let cancel = CancellationToken::new();
        let gate = make(Arc::clone(&self.authority), cancel.clone());
        let network = RunNetwork { proxy: PROXY.to_string(), certificates: gate.certificate_pem() };
        let tasks = TaskTracker::new();
        *lock(&self.current) = Some(Served { gate, tasks: tasks.clone() });
        Passage { current: Arc::clone(&self.current), tasks, cancel: Some(cancel.drop_guard()), network }
    }
}

impl Passage {
    /// Ends all connections, and waits for that.
    pub(crate) async fn close(mut self) {
        self.end();
        if timeout(ENDED_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections of an execution that has ended are still open");
        }
    }

    fn end(&mut self) {
        *lock(&self.current) = None;
        self.tasks.close();
        drop(self.cancel.take());
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(mut connections: Connections, current: Arc<Mutex<Option<Served>>>) {
    let places = Arc::new(Semaphore::new(ACCEPTED));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some(stream) = connections.accept().await else { return };
        // Without an execution, the connection is closed.
        let Some(Served { gate, tasks }) = lock(&current).clone() else { continue };
        tasks.spawn(async move {
            serve(&gate, stream).await;
            drop(place);
        });
    }
}

async fn serve(gate: &Gate, stream: TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set an option of a connection from a sandbox");
    }
    gate.serve(stream).await;
}

fn lock(current: &Mutex<Option<Served>>) -> MutexGuard<'_, Option<Served>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}
