use crate::call::{CallContext, Progress};
use crate::reverse::{Question, Refusal, Reverse};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A server that asks more than this during one call gets no more answers.
const MAX_QUESTIONS: u32 = 100;

/// A request under way. It travels with the request up to the transport, never over the wire: its id is known only
/// there, and this way nobody can be faster than the registration.
pub(crate) struct InFlight {
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    pub(crate) log: Option<mpsc::Sender<Value>>,
    pub(crate) reverse: Option<Arc<dyn Reverse>>,
    capabilities: Map<String, Value>,
    /// Nobody waits for it any more.
    pub(crate) over: CancellationToken,
    questions: AtomicU32,
    clock: Mutex<Clock>,
}

/// Stands still while somebody answers a question.
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

    /// Ends when the request has used up its time.
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
