use crate::call::{CallContext, Progress};
use crate::reverse::{Question, Refusal, Reverse};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The maximum number of questions of a server during one call.
const MAX_QUESTIONS: u32 = 100;

/// A request in flight. It is attached to the request up to the transport, and never sent: the ID of the request is
/// only known there, and this way no answer can arrive before the registration.
pub(crate) struct InFlight {
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    pub(crate) log: Option<mpsc::Sender<Value>>,
    pub(crate) reverse: Option<Arc<dyn Reverse>>,
    capabilities: Map<String, Value>,
    /// Cancelled when the caller has stopped waiting.
    pub(crate) over: CancellationToken,
    questions: AtomicU32,
    clock: Mutex<Clock>,
}

/// A clock that is stopped while a question is being answered.
struct Clock {
    started: Instant,
    asking: u32,
    asking_since: Instant,
    asked: Duration,
}

impl InFlight {
    pub(crate) fn new(context: &CallContext) -> Self {
        let now = Instant::now();
        Self {
            progress: context.progress.clone(),
            log: context.log.clone(),
            reverse: context.reverse.clone(),
            capabilities: context.capabilities.clone(),
            over: CancellationToken::new(),
            questions: AtomicU32::new(0),
            clock: Mutex::new(Clock { started: now, asking: 0, asking_since: now, asked: Duration::ZERO }),
        }
    }

    pub(crate) async fn answer(&self, question: Question) -> Result<Value, Refusal> {
        let kind = question.kind;
        let Some(reverse) = &self.reverse else {
            return Err(Refusal::unsupported("the caller cannot be asked"));
        };
        if !kind.is_within(&self.capabilities, &question.params) {
            return Err(Refusal::unsupported(format!("{} is not supported for this call", kind.method())));
        }
        if self.questions.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            return Err(Refusal::invalid(format!("more than {MAX_QUESTIONS} questions during one call")));
        }
        let _standing = StandingStill::new(self);
        tokio::select! {
            biased;
            answer = reverse.ask(question) => answer,
            () = self.over.cancelled() => Err(Refusal::invalid("the call is over")),
        }
    }

    /// Returns when the request has used up its time.
    pub(crate) async fn time_out(&self, after: Duration) {
        loop {
            let left = after.saturating_sub(self.clock().used());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock {
    fn used(&self) -> Duration {
        let asking = if self.asking > 0 { self.asking_since.elapsed() } else { Duration::ZERO };
        self.started.elapsed().saturating_sub(self.asked + asking)
    }
}

struct StandingStill<'a>(&'a InFlight);

impl<'a> StandingStill<'a> {
    fn new(flight: &'a InFlight) -> Self {
        let mut clock = flight.clock();
        if clock.asking == 0 {
            clock.asking_since = Instant::now();
        }
        clock.asking += 1;
        Self(flight)
    }
}

impl Drop for StandingStill<'_> {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        clock.asking = clock.asking.saturating_sub(1);
        if clock.asking == 0 {
            let asked = clock.asking_since.elapsed();
            clock.asked += asked;
        }
    }
}
