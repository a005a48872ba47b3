//! Which containers there are, and for whom. A container belongs to one user, for its whole life.
//!
//! Where a container keeps several sandboxes apart, a user has one, for all calls. Where it does not, each call has a
//! container of its own, and the next one is made when a call has ended.

use super::container::{Common, Container, Purpose};
use crate::SandboxError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest interval between two looks for idle containers.
const LOOK: Duration = Duration::from_secs(5);

/// The containers of all users.
#[derive(Debug)]
pub(super) struct Users {
    pub(super) common: Arc<Common>,
    places: Mutex<HashMap<Purpose, Arc<Place>>>,
    /// Every container, also those that are in use by one call only.
    all: Mutex<Vec<Weak<Container>>>,
    is_stopped: AtomicBool,
}

/// The containers for one purpose that may take another call.
#[derive(Debug, Default)]
struct Place {
    held: tokio::sync::Mutex<Vec<Arc<Held>>>,
}

#[derive(Debug)]
struct Held {
    container: Arc<Container>,
    state: Mutex<Usage>,
}

#[derive(Debug)]
struct Usage {
    calls: usize,
    last: Instant,
}

/// A container that is in use by a call.
#[derive(Debug)]
pub(super) struct Lease {
    held: Arc<Held>,
    users: Arc<Users>,
    purpose: Purpose,
}

impl Lease {
    pub(super) fn container(&self) -> &Container {
        &self.held.container
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        {
            let mut usage = self.held.usage();
            usage.calls -= 1;
            usage.last = Instant::now();
        }
        if self.held.container.hello.apart || self.users.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        // This container is dropped with its lease. The same user will probably want another.
        let (users, purpose) = (Arc::clone(&self.users), self.purpose.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { users.make_ahead(&purpose).await });
        }
    }
}

impl Held {
    fn new(container: Arc<Container>) -> Arc<Self> {
        Arc::new(Self { container, state: Mutex::new(Usage { calls: 0, last: Instant::now() }) })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self, since: Duration) -> bool {
        let usage = self.usage();
        usage.calls == 0 && usage.last.elapsed() >= since
    }
}

fn stopped() -> SandboxError {
    SandboxError::Unavailable("Coracle is shutting down".to_owned())
}

impl Users {
    pub(super) fn start(common: Arc<Common>) -> Arc<Self> {
        let (places, all, is_stopped) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let idle = common.config.idle;
        let users = Arc::new(Self { common, places, all, is_stopped });
        let watched = Arc::downgrade(&users);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep((idle / 4).clamp(Duration::from_millis(10), LOOK)).await;
                let Some(users) = watched.upgrade() else { return };
                users.remove_idle().await;
            }
        });
        users
    }

    fn place(&self, purpose: &Purpose) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(purpose.clone()).or_default())
    }

    /// Gives a container to a call, and makes one if there is none. If the future is dropped, the container is kept for
    /// the next call.
    pub(super) async fn take(self: &Arc<Self>, purpose: &Purpose) -> Result<Lease, SandboxError> {
        let place = self.place(purpose);
        if let Ok(mut held) = place.held.try_lock()
            && let Some(lease) = self.take_held(&mut held, purpose)
        {
            return Ok(lease);
        }
        let (users, purpose) = (Arc::clone(self), purpose.clone());
        let task = tokio::spawn(async move {
            let mut held = place.held.lock().await;
            if let Some(lease) = users.take_held(&mut held, &purpose) {
                return Ok(lease);
            }
            held.push(users.make(&purpose).await?);
            users
                .take_held(&mut held, &purpose)
                .ok_or_else(|| SandboxError::Unavailable("a container ended as soon as it was made".to_owned()))
        });
        task.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn take_held(self: &Arc<Self>, held: &mut Vec<Arc<Held>>, purpose: &Purpose) -> Option<Lease> {
        held.retain(|held| !held.container.mux.is_lost());
        let taken = if held.first()?.container.hello.apart { Arc::clone(held.first()?) } else { held.pop()? };
        taken.usage().calls += 1;
        Some(Lease { held: taken, users: Arc::clone(self), purpose: purpose.clone() })
    }

    async fn make(&self, purpose: &Purpose) -> Result<Arc<Held>, SandboxError> {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let container = Arc::new(Container::start(&self.common, purpose).await?);
        {
            let mut all = self.all();
            all.retain(|container| container.strong_count() > 0);
            all.push(Arc::downgrade(&container));
        }
        if self.is_stopped.load(Ordering::Relaxed) {
            container.remove().await;
            return Err(stopped());
        }
        if !container.hello.apart {
            tracing::debug!(why = container.hello.why, "containers of this runtime take one call each");
        }
        Ok(Held::new(container))
    }

    /// Makes the container for the next call, if there is none.
    async fn make_ahead(&self, purpose: &Purpose) {
        let place = self.place(purpose);
        let mut held = place.held.lock().await;
        if !held.is_empty() {
            return;
        }
        match self.make(purpose).await {
            Ok(made) => held.push(made),
            // The next call tries again, and gets the error.
            Err(error) => tracing::debug!(%error, "cannot make a container ahead of time"),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Container>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn remove_idle(&self) {
        let places: Vec<_> = {
            let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.iter().map(|(purpose, place)| (purpose.clone(), Arc::clone(place))).collect()
        };
        for (purpose, place) in places {
            // One that is locked is in use.
            let Ok(mut held) = place.held.try_lock() else { continue };
            let idle = self.common.config.idle;
            let removed: Vec<_> =
                held.extract_if(.., |held| held.is_idle(idle) || held.container.mux.is_lost()).collect();
            let is_empty = held.is_empty();
            for held in removed {
                held.container.remove().await;
            }
            drop(held);
            if is_empty {
                let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                // Two here and one in the map: no one is about to use it.
                if Arc::strong_count(&place) == 2 {
                    places.remove(&purpose);
                }
            }
        }
    }

    /// Removes all containers, and returns when they are gone.
    pub(super) async fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let places: Vec<_> = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.drain().map(|(_, place)| place).collect()
        };
        for place in places {
            // Waits for those that are being made.
            place.held.lock().await.clear();
        }
        let all: Vec<_> = self.all().drain(..).filter_map(|container| container.upgrade()).collect();
        futures::future::join_all(all.iter().map(|container| container.remove())).await;
    }

    /// The IDs of the containers that exist.
    pub(super) fn containers(&self) -> Vec<String> {
        self.all().iter().filter_map(Weak::upgrade).map(|container| container.id.clone()).collect()
    }
}
