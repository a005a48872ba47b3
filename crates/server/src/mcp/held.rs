//! Executions of runs that have ended because a call waits for a person. They go on by themselves, and the run that
//! continues takes them over.

use coracle_agent::{CallUpdate, ToolOutput};
use coracle_runs::Owner;
use coracle_types::{RunId, UserId};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Maximum number of executions of one user that are held. If there are more, the oldest is stopped: its code runs again
/// when its run continues.
const MAX_OF_USER: usize = 32;
/// The same for all users.
const MAX_HELD: usize = 512;
/// Events of an execution that may wait to be passed on.
const MAX_WAITING_EVENTS: usize = 64;

/// Executions that wait for the run that takes them over. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldExecutions {
    /// The oldest first.
    held: Arc<Mutex<VecDeque<Place>>>,
}

#[derive(Debug)]
struct Place {
    user: UserId,
    run: RunId,
    call: String,
    execution: HeldExecution,
}

/// An execution that can outlive the run that began it. Stopped when it is dropped.
pub(crate) struct HeldExecution {
    cancel: CancellationToken,
    owner: Owner,
    listening: Arc<Mutex<Listening>>,
    output: watch::Receiver<Option<ToolOutput>>,
}

#[derive(Default)]
struct Listening {
    /// The run that listens now.
    listener: Option<mpsc::Sender<CallUpdate>>,
    /// Questions that no run knows of.
    untold: Vec<CallUpdate>,
}

impl HeldExecutions {
    fn held(&self) -> MutexGuard<'_, VecDeque<Place>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an execution for the run that continues this one.
    pub(super) fn keep(&self, user: &UserId, run: &RunId, call: &str, execution: HeldExecution) {
        let mut held = self.held();
        held.push_back(Place { user: user.clone(), run: run.clone(), call: call.to_owned(), execution });
        if held.iter().filter(|place| place.user == *user).count() > MAX_OF_USER {
            let oldest = held.iter().position(|place| place.user == *user);
            oldest.and_then(|oldest| held.remove(oldest));
        }
        if held.len() > MAX_HELD {
            held.pop_front();
        }
    }

    /// Takes an execution over.
    pub(super) fn take(&self, user: &UserId, run: &RunId, call: &str) -> Option<HeldExecution> {
        let mut held = self.held();
        let is_meant = |place: &Place| place.user == *user && place.run == *run && place.call == call;
        let place = held.iter().position(is_meant)?;
        held.remove(place).map(|place| place.execution)
    }

    /// The owner of the executions that this run has left.
    pub(crate) fn owner(&self, user: &UserId, run: &RunId) -> Option<Owner> {
        let held = self.held();
        let mut of_run = held.iter().filter(|place| place.user == *user && place.run == *run);
        of_run.next().map(|place| place.execution.owner.clone())
    }

    /// Stops the executions that this run has left.
    pub(crate) fn stop(&self, user: &UserId, run: &RunId) {
        self.held().retain(|place| place.user != *user || place.run != *run);
    }
}

impl HeldExecution {
    /// Begins an execution. `work` sends its events to the sender that it gets, and ends soon after a cancellation.
    pub(super) fn begin<W>(owner: Owner, work: impl FnOnce(mpsc::Sender<CallUpdate>, CancellationToken) -> W) -> Self
    where
        W: Future<Output = ToolOutput> + Send + 'static,
    {
        let (sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
        let (cancel, listening) = (CancellationToken::new(), Arc::<Mutex<Listening>>::default());
        let (result, output) = watch::channel(None);
        let working = work(sender, cancel.clone());
        let passing = pass_on(events, Arc::clone(&listening));
        tokio::spawn(async move {
            let (output, ()) = tokio::join!(working, passing);
            result.send_replace(Some(output));
        });
        Self { cancel, owner, listening, output }
    }

    /// Passes events on to this listener from now on, beginning with the questions that no run knows of.
    pub(super) async fn listen(&self, listener: &mpsc::Sender<CallUpdate>) {
        let untold = {
            let mut listening = lock(&self.listening);
            listening.listener = Some(listener.clone());
            std::mem::take(&mut listening.untold)
        };
        for question in untold {
            // The run does not depend on who listens.
            let _ = listener.send(question).await;
        }
    }

    /// Passes no more events on.
    pub(super) fn leave(&self) {
        lock(&self.listening).listener = None;
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> ToolOutput {
        let mut output = self.output.clone();
        let ended = output.wait_for(Option::is_some).await.ok().and_then(|output| output.clone());
        ended.unwrap_or_else(|| ToolOutput::error("the execution was interrupted"))
    }

    /// Stops the execution, and returns what there is.
    pub(super) async fn stop(&self) -> ToolOutput {
        self.cancel.cancel();
        self.ended().await
    }
}

impl Drop for HeldExecution {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl fmt::Debug for HeldExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldExecution").finish_non_exhaustive()
    }
}

fn lock(listening: &Mutex<Listening>) -> MutexGuard<'_, Listening> {
    listening.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes events on to whoever listens. Without a listener, only open questions are kept.
async fn pass_on(mut events: mpsc::Receiver<CallUpdate>, listening: Arc<Mutex<Listening>>) {
    while let Some(event) = events.recv().await {
        let listener = {
            let mut listening = lock(&listening);
            if listening.listener.is_none() {
                listening.note(&event);
            }
            listening.listener.clone()
        };
        if let Some(listener) = listener {
            // A listener that is gone has left, or is about to.
            let _ = listener.send(event).await;
        }
    }
}

impl Listening {
    fn note(&mut self, event: &CallUpdate) {
        match event {
            CallUpdate::Asked { .. } => self.untold.push(event.clone()),
            CallUpdate::Answered { question, .. } => {
                self.untold.retain(|asked| !matches!(asked, CallUpdate::Asked { question: id, .. } if id == question));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::new(name).unwrap()
    }

    fn asked(question: &str) -> CallUpdate {
        let text = String::new;
        CallUpdate::Asked {
            number: 1,
            question: question.to_owned(),
            server: text(),
            tool: text(),
            why: text(),
            arguments: text(),
            digest: text(),
            execution: text(),
        }
    }

    fn forever(run: &RunId) -> (HeldExecution, mpsc::Sender<CallUpdate>, CancellationToken) {
        let (mut parts, owner) = (None, Owner::new(run.clone()));
        let execution = HeldExecution::begin(owner, |events, cancel| {
            parts = Some((events.clone(), cancel.clone()));
            async move {
                let _events = events;
                cancel.cancelled().await;
                ToolOutput::text("stopped")
            }
        });
        let (events, cancel) = parts.unwrap();
        (execution, events, cancel)
    }

    #[tokio::test]
    async fn questions_are_told_once_to_the_run_that_listens() {
        let run = RunId::from_random(1);
        let (execution, events, _) = forever(&run);
        let (first, mut heard) = mpsc::channel(8);
        execution.listen(&first).await;
        events.send(asked("a")).await.unwrap();
        assert_eq!(heard.recv().await, Some(asked("a")));
        execution.leave();
        let answered = CallUpdate::Answered { number: 1, question: "b".to_owned(), allowed: true };
        for event in [asked("b"), asked("c"), answered] {
            events.send(event).await.unwrap();
        }
        // What is sent now comes after everything that was sent before.
        drop(events);
        execution.cancel.cancel();
        execution.ended().await;
        let (second, mut heard) = mpsc::channel(8);
        execution.listen(&second).await;
        assert_eq!(heard.recv().await, Some(asked("c")));
        drop((second, execution));
        assert_eq!(heard.recv().await, None);
    }

    #[tokio::test]
    async fn executions_are_held_for_their_user_and_within_limits() {
        let all = HeldExecutions::default();
        let (ann, bob, run) = (user("ann"), user("bob"), RunId::from_random(1));
        let (execution, _, of_bob) = forever(&run);
        all.keep(&bob, &run, "call", execution);
        let mut oldest = None;
        for number in 0..=MAX_OF_USER {
            let (execution, _, cancel) = forever(&run);
            oldest.get_or_insert(cancel);
            all.keep(&ann, &run, &number.to_string(), execution);
        }
        assert!(oldest.unwrap().is_cancelled() && !of_bob.is_cancelled());
        assert!(all.take(&ann, &run, "0").is_none() && all.take(&ann, &run, "call").is_none());
        let taken = all.take(&ann, &run, "1").unwrap();
        assert!(all.take(&ann, &run, "1").is_none());
        assert_eq!(taken.stop().await, ToolOutput::text("stopped"));
        all.stop(&ann, &run);
        assert!(all.owner(&ann, &run).is_none() && all.owner(&bob, &run).is_some());
        assert!(all.take(&bob, &run, "call").is_some());
    }
}
