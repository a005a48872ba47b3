//! The connection of one server for one owner: idle, starting, ready, or failed until a retry is allowed.

use crate::challenge::Challenge;
use crate::connect::{self, Lifecycle};
use crate::connection::{Connection, Idle, Lease, keep};
use crate::error::UpstreamError;
use crate::login::{self, SignInReturn};
use crate::scrub::Scrubber;
use crate::shared::Shared;
use crate::status::{Owner, ServerState, ServerStatus};
use coracle_types::{ServerSpec, Transport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The pause after the first failed start. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The maximum number of connections for one call, if they end right after they start.
const ATTEMPTS: usize = 2;

/// One server for one owner.
pub(crate) struct Slot {
    owner: Owner,
    spec: Arc<ServerSpec>,
    scrubber: Arc<Scrubber>,
    shared: Arc<Shared>,
    /// The last challenge, for the next sign-in.
    challenge: Arc<Challenge>,
    state: Mutex<State>,
    /// Cancelled when the server is removed or changed, and when all servers end.
    retired: CancellationToken,
}

struct State {
    phase: Phase,
    /// Failures in a row.
    failures: u32,
    /// The handshake of the last successful start.
    lifecycle: Lifecycle,
}

type Outcome = Option<Result<(), UpstreamError>>;

enum Phase {
    Idle,
    /// One start for all callers that wait for it. It continues when they stop waiting.
    Starting(watch::Receiver<Outcome>),
    Ready(Arc<Connection>),
    Failed {
        error: UpstreamError,
        until: Instant,
    },
}

impl Slot {
    pub(crate) fn new(owner: Owner, spec: Arc<ServerSpec>, shared: Arc<Shared>) -> Self {
        let scrubber = Arc::new(Scrubber::new(&spec));
        let state = State { phase: Phase::Idle, failures: 0, lifecycle: Lifecycle::Unknown };
        let retired = shared.shutdown.child_token();
        Self { owner, spec, scrubber, shared, challenge: Arc::default(), state: Mutex::new(state), retired }
    }

    pub(crate) fn spec(&self) -> &Arc<ServerSpec> {
        &self.spec
    }

    /// Ends the connection for good, because the server was removed or changed.
    pub(crate) fn retire(&self) {
        self.retired.cancel();
    }

    fn has_ended(&self) -> UpstreamError {
        if self.shared.shutdown.is_cancelled() {
            return UpstreamError::ShutDown;
        }
        let reason = "its configuration has changed".to_owned();
        UpstreamError::Unavailable { server: self.spec.name.clone(), reason, retry_in: None }
    }

    /// A lease of the connection, which is started if necessary.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<Lease, UpstreamError> {
        for _ in 0..ATTEMPTS {
            let mut outcome = match self.lease_or_start()? {
                Ok(lease) => return Ok(lease),
                Err(outcome) => outcome,
            };
            match outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
                Ok(Some(Err(error))) => return Err(error),
                Ok(_) => {}
                // The task that starts it is gone, because the runtime is shutting down.
                Err(_) => return Err(UpstreamError::ShutDown),
            }
            let state = self.state();
            if let Phase::Ready(connection) = &state.phase
                && !connection.has_ended()
            {
                return Ok(Lease::new(connection));
            }
        }
        if let Phase::Ready(connection) = &self.state().phase {
            return Err(connection.ended());
        }
        let reason = "its connection ends right after it starts".to_owned();
        Err(UpstreamError::Unavailable { server: self.spec.name.clone(), reason, retry_in: None })
    }

    fn lease_or_start(self: &Arc<Self>) -> Result<Result<Lease, watch::Receiver<Outcome>>, UpstreamError> {
        if self.retired.is_cancelled() {
            return Err(self.has_ended());
        }
        let mut state = self.state();
        match &state.phase {
            Phase::Ready(connection) if !connection.has_ended() => return Ok(Ok(Lease::new(connection))),
            Phase::Starting(outcome) => return Ok(Err(outcome.clone())),
            Phase::Failed { error, until } => {
                let rest = until.saturating_duration_since(Instant::now());
                if !rest.is_zero() {
                    return Err(self.not_yet(error, rest));
                }
            }
            Phase::Idle | Phase::Ready(_) => {}
        }
        let (sender, outcome) = watch::channel(None);
        state.phase = Phase::Starting(outcome.clone());
        let lifecycle = state.lifecycle;
        drop(state);
        let slot = Arc::clone(self);
        self.shared.tasks.spawn(async move {
            let result = tokio::select! {
                result = slot.connect(lifecycle) => result,
                () = slot.retired.cancelled() => Err(slot.has_ended()),
            };
            let result = slot.started(result);
            // There may be no one left waiting.
            let _ = sender.send(Some(result));
        });
        Ok(Err(outcome))
    }

    async fn connect(&self, lifecycle: Lifecycle) -> Result<connect::Started, UpstreamError> {
        connect::connect(&self.spec, &self.owner, &self.scrubber, &self.shared, &self.challenge, lifecycle).await
    }

    /// Signs in with OAuth. The next use makes a new connection.
    pub(crate) async fn login(
        self: &Arc<Self>,
        place: SignInReturn,
        open: impl FnOnce(&str) + Send,
    ) -> Result<(), UpstreamError> {
        // The server's own challenge is the best source of where to sign in, and for what.
        if matches!(self.spec.transport, Transport::Http { .. }) && !self.challenge.is_noted() {
            let _ = self.lease().await;
        }
        let challenge = self.challenge.take();
        login::login(&self.spec, &self.owner, &self.shared.options, challenge.as_deref(), place, open).await?;
        self.reset();
        Ok(())
    }

    fn started(self: &Arc<Self>, result: Result<connect::Started, UpstreamError>) -> Result<(), UpstreamError> {
        let mut state = self.state();
        match result {
            Ok(started) => {
                let connection = started.connection;
                state.phase = Phase::Ready(Arc::clone(&connection));
                state.failures = 0;
                state.lifecycle = started.lifecycle;
                let slot = Arc::clone(self);
                let idle_timeout = self.shared.options.idle_timeout;
                self.shared.tasks.spawn(async move {
                    let retired = slot.retired.clone();
                    let closing = connection.close.clone();
                    let keeping =
                        keep(started.service, connection, idle_timeout, |idle| slot.give_up(idle, idle_timeout));
                    tokio::pin!(keeping);
                    tokio::select! {
                        () = &mut keeping => {}
                        () = retired.cancelled() => {
                            closing.cancel();
                            keeping.await;
                        }
                    }
                });
                Ok(())
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                // After a failure, the handshake that the server expects is unknown.
                state.lifecycle = Lifecycle::Unknown;
                let pause = match &error {
                    // Only a person can fix this, and at any time.
                    UpstreamError::Unauthorized { .. } => Duration::ZERO,
                    _ => pause_after(state.failures),
                };
                tracing::warn!(server = %self.spec.name, %error, ?pause, "cannot start a server");
                state.phase = Phase::Failed { error: error.clone(), until: Instant::now() + pause };
                Err(error)
            }
        }
    }

    /// Ends an idle connection. No call can begin meanwhile, because leases are given out under the same lock.
    fn give_up(&self, connection: &Connection, idle_timeout: Duration) -> Idle {
        let mut state = self.state();
        if !connection.is_idle(idle_timeout) {
            return Idle::KeepOn;
        }
        if matches!(&state.phase, Phase::Ready(current) if std::ptr::eq(current.as_ref(), connection)) {
            state.phase = Phase::Idle;
        }
        Idle::GiveUp
    }

    /// Forgets failures and ends the connection. The next use makes a new one.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        if let Phase::Ready(connection) = &state.phase {
            connection.close.cancel();
        }
        if !matches!(state.phase, Phase::Starting(_)) {
            state.phase = Phase::Idle;
        }
        state.failures = 0;
    }

    fn not_yet(&self, error: &UpstreamError, rest: Duration) -> UpstreamError {
        let reason = match error {
            UpstreamError::Unavailable { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        UpstreamError::Unavailable { server: self.spec.name.clone(), reason, retry_in: Some(rest) }
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let name = self.spec.name.clone();
        let idle = ServerStatus { name, state: ServerState::Idle, tools: None, pid: None };
        match &self.state().phase {
            Phase::Starting(_) => ServerStatus { state: ServerState::Starting, ..idle },
            Phase::Ready(connection) if !connection.has_ended() => ServerStatus {
                state: ServerState::Ready(connection.info().clone()),
                tools: Some(connection.known_tools().tools.len()),
                pid: connection.pid(),
                ..idle
            },
            Phase::Failed { error, until } => {
                let retry_in = until.saturating_duration_since(Instant::now());
                let reason = match error {
                    UpstreamError::Unavailable { reason, .. } => reason.clone(),
                    other => other.to_string(),
                };
                ServerStatus { state: ServerState::Failed { reason, retry_in }, ..idle }
            }
            Phase::Idle | Phase::Ready(_) => idle,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Grows with the number of failures, with some randomness, so that servers that failed together do not retry together.
fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
    pause.mul_f64(0.75 + 0.5 * fastrand::f64()).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        for (failures, least, most) in [(1, 0.75, 1.25), (2, 1.5, 2.5), (4, 6.0, 10.0), (100, 45.0, 60.0)] {
            for _ in 0..100 {
                let pause = pause_after(failures).as_secs_f64();
                assert!((least..=most).contains(&pause), "{failures}: {pause}");
            }
        }
    }
}
