//! What one sandbox may reach, and the state that its connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::address::PrivateAddresses;
use crate::authority::Authority;
use crate::credential::Credentials;
use crate::decide::{Attempt, Decide, Decision, Refusal, RefusalKind};
use crate::limits::Share;
use crate::proxy::Proxy;
use crate::rules::Rules;
use crate::ticket::Ticket;

/// What one sandbox may reach.
#[derive(Debug)]
pub struct Grant {
    /// Which requests are allowed.
    pub rules: Rules,
    /// Which hosts may have addresses that are not public.
    pub private_addresses: PrivateAddresses,
    /// What is added to requests.
    pub credentials: Credentials,
}

/// What the connections of one sandbox share.
pub(crate) struct Access {
    pub(crate) proxy: Proxy,
    pub(crate) grant: Grant,
    pub(crate) authority: Arc<Authority>,
    pub(crate) decide: Arc<dyn Decide>,
    pub(crate) cancel: CancellationToken,
    pub(crate) share: Share,
    /// Places for connections of this sandbox.
    pub(crate) places: Arc<Semaphore>,
    /// Told when a place is needed: a connection that waits for its next request then ends.
    pub(crate) needed: Notify,
    pub(crate) attempts: AtomicU64,
}

impl Access {
    /// A place for a connection of this sandbox. The semaphore is never closed.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        self.needed.notify_one();
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Asks whether an attempt that the rules allow may be made.
    pub(crate) async fn decided(&self, attempt: Attempt) -> Result<Ticket, Refusal> {
        match self.decide.decide(&attempt).await {
            Decision::Allow => Ok(Ticket::new(Arc::clone(&self.decide), attempt)),
            Decision::Deny { reason, hint } => {
                Err(Refusal { kind: RefusalKind::Decision, subject: attempt.subject(), reason, hint })
            }
        }
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        tracing::debug!(kind = refusal.kind.code(), subject = %refusal.subject, reason = %refusal.reason, "network request refused");
        self.decide.refused(refusal);
    }

    pub(crate) fn next_attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether connections of the sandbox may stay open without a request.
    pub(crate) fn has_places(&self) -> bool {
        self.places.available_permits() > 0
    }
}
