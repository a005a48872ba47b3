//! The calls of an execution that has a [`CallLog`]: answers of earlier attempts are replayed, and those of this one
//! written down.
//!
//! A call whose repetition has an effect is on disk before it is sent, and its answer before the code sees it. If an
//! earlier attempt began such a call and has no answer, or if the calls of this attempt differ from the earlier ones,
//! there is a [`Doubt`], which is put to a person.

use crate::call_log::{CallAnswer, CallLog, CallLogError, EarlierCall, LoggedCall, digest, is_refusal, length};
use crate::host_calls::{CHECKPOINT, HostCallError, HostCalls, TOOL, refused};
use crate::ledger::Ledger;
use async_trait::async_trait;
use coracle_policy::{Doubt, Grant, Refusal};
use coracle_types::ToolHints;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Maximum size of the log of one execution. Later calls are written down only if they have an effect, without their
/// answers; the limit on calls limits their number.
const MAX_LOG_BYTES: usize = 8 << 20;
/// Size of a call without its answer, at most.
const CALL_BYTES: usize = 1 << 10;

/// Name and digest of a call.
type Key = (String, String);

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct Recording {
    log: Arc<dyn CallLog>,
    state: Mutex<State>,
    ledger: Ledger,
    /// Cancelled when the execution ends early: an error that a call then gets is no answer.
    cancel: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Calls of earlier attempts that this one has not made yet.
    left: HashMap<Key, VecDeque<EarlierCall>>,
    /// Number of them that have, or may have had, an effect.
    effects_left: usize,
    /// A person has accepted that calls differ from those of earlier attempts.
    may_differ: bool,
    /// Size of the log.
    bytes: usize,
}

/// What the log says about a call.
#[derive(Debug)]
pub(crate) enum Found {
    /// The number of the call and the answer that it had.
    Answered(u64, Result<Value, HostCallError>),
    /// The call has to be made.
    Due(Entry),
}

/// A call that is being made.
#[derive(Debug)]
pub(crate) struct Entry {
    recording: Arc<Recording>,
    call: LoggedCall,
    /// What an earlier attempt left of the call, if it may have had an effect then.
    earlier: Option<EarlierCall>,
    fate: Fate,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    NotSent,
    /// No one has said yes or no.
    Undecided,
    /// A person was asked because of a doubt, and said no.
    Refused,
    Sent,
}

fn has_effect(earlier: &EarlierCall) -> bool {
    !earlier.call.is_repeatable && !earlier.answer.as_ref().is_some_and(is_refusal)
}

impl State {
    fn put(&mut self, earlier: EarlierCall) {
        self.effects_left += usize::from(has_effect(&earlier));
        let key = (earlier.call.what.clone(), earlier.call.digest.clone());
        self.left.entry(key).or_default().push_back(earlier);
    }

    /// Takes out the first of these calls that has an answer, or else the first. Refusals stay.
    fn take(&mut self, key: &Key) -> Option<EarlierCall> {
        let calls = self.left.get_mut(key)?;
        let refusal = |earlier: &&EarlierCall| earlier.answer.as_ref().is_some_and(is_refusal);
        let answered = |earlier: &EarlierCall| {
            let is_kept = matches!(earlier.answer, Some(CallAnswer::Answer(_) | CallAnswer::Error { .. }));
            is_kept && !refusal(&earlier)
        };
        let place = match calls.iter().position(answered) {
            Some(place) => place,
            None => match calls.iter().find(refusal) {
                Some(refusal) => return Some(refusal.clone()),
                None => 0,
            },
        };
        let taken = calls.remove(place)?;
        if calls.is_empty() {
            self.left.remove(key);
        }
        self.effects_left -= usize::from(has_effect(&taken));
        Some(taken)
    }
}

impl Recording {
    pub(crate) fn new(log: Arc<dyn CallLog>, ledger: Ledger, cancel: CancellationToken) -> Self {
        let mut state = State::default();
        for earlier in log.earlier() {
            ledger.continue_after(earlier.call.number);
            state.bytes += CALL_BYTES + earlier.answer.as_ref().map_or(0, CallAnswer::kept_bytes);
            state.put(earlier);
        }
        Self { log, state: Mutex::new(state), ledger, cancel }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a call up in the log. The same entry is found only once.
    pub(crate) fn find(self: &Arc<Self>, key: Key) -> Found {
        let earlier = self.state().take(&key);
        let (what, digest) = key;
        let number = earlier.as_ref().map_or_else(|| self.ledger.next_number(), |earlier| earlier.call.number);
        match earlier {
            Some(EarlierCall { answer: Some(CallAnswer::Answer(answer)), .. }) => Found::Answered(number, Ok(answer)),
            Some(EarlierCall { answer: Some(CallAnswer::Error { code, message, retryable }), .. }) => {
                Found::Answered(number, Err(HostCallError { code, message, retryable }))
            }
            earlier => {
                let call = LoggedCall { number, what, digest, is_repeatable: true };
                let (recording, earlier) = (Arc::clone(self), earlier.filter(has_effect));
                Found::Due(Entry { recording, call, earlier, fate: Fate::NotSent })
            }
        }
    }

    /// The form of an answer that is kept; `None` if there is no room for a call that can be made again.
    fn kept(&self, call: &LoggedCall, outcome: Result<&Value, &HostCallError>, fate: Fate) -> Option<CallAnswer> {
        let bytes = length(outcome);
        let mut state = self.state();
        let room = MAX_LOG_BYTES.saturating_sub(state.bytes + CALL_BYTES);
        let answer = CallAnswer::of(outcome, bytes, room);
        if fate == Fate::Refused {
            state.put(EarlierCall { call: call.clone(), answer: Some(answer.clone()) });
        }
        if call.is_repeatable && matches!(answer, CallAnswer::NotRecorded { .. }) {
            return None;
        }
        state.bytes += CALL_BYTES + answer.kept_bytes();
        Some(answer)
    }

    /// Replays and writes down the answers to all calls that are not tool calls, which the broker hands to this
    /// recording itself. Checkpoints belong to one attempt.
    pub(crate) fn around(self: &Arc<Self>, calls: Arc<dyn HostCalls>) -> Arc<dyn HostCalls> {
        Arc::new(Recorder { calls, recording: Arc::clone(self) })
    }
}

impl Entry {
    /// Number of the call.
    pub(crate) fn number(&self) -> u64 {
        self.call.number
    }

    /// Why a person has to be asked before the call of this tool is made, if that is so.
    pub(crate) fn doubt(&self, hints: ToolHints) -> Option<Doubt> {
        match &self.earlier {
            Some(EarlierCall { answer: None, .. }) => Some(Doubt::Unanswered),
            Some(_) => Some(Doubt::AnswerNotKept),
            None if hints.is_repeatable() => None,
            None => {
                let state = self.recording.state();
                (state.effects_left > 0 && !state.may_differ).then_some(Doubt::Differs)
            }
        }
    }

    /// Takes note of the decision about the call.
    pub(crate) fn decided(&mut self, doubt: Option<Doubt>, decision: &Result<Grant, Refusal>) {
        match decision {
            Ok(Grant::Session) if doubt == Some(Doubt::Differs) => self.recording.state().may_differ = true,
            Ok(_) | Err(Refusal::Denied { .. } | Refusal::Remembered | Refusal::Refused) => {}
            Err(Refusal::InDoubt { was_refused: true, .. }) => self.fate = Fate::Refused,
            Err(_) => self.fate = Fate::Undecided,
        }
    }

    /// Writes down that the call is about to be sent, if its repetition would have an effect. Otherwise nothing is
    /// written until it has its answer.
    pub(crate) async fn begin(&mut self, hints: ToolHints) -> Result<(), HostCallError> {
        self.call.is_repeatable = self.earlier.is_none() && hints.is_repeatable();
        if !self.call.is_repeatable
            && let Err(error) = self.recording.log.began(&self.call).await
        {
            // It is not sent.
            self.call.is_repeatable = true;
            return Err(not_begun(&error));
        }
        self.fate = Fate::Sent;
        Ok(())
    }

    /// Writes the answer down. If that fails for a call with an effect, returns the error that the code gets instead.
    pub(crate) async fn end(self, outcome: Result<&Value, &HostCallError>) -> Result<(), HostCallError> {
        let Self { recording, mut call, earlier, fate } = self;
        if outcome.is_err() && recording.cancel.is_cancelled() {
            return Ok(());
        }
        match (fate, earlier) {
            // The next attempt may ask again.
            (Fate::Undecided, None) => return Ok(()),
            // It is still not known what became of it.
            (Fate::Undecided | Fate::NotSent, Some(earlier)) => {
                recording.state().put(earlier);
                return Ok(());
            }
            (Fate::Refused, earlier) => call.is_repeatable = earlier.is_none(),
            (Fate::NotSent, None) | (Fate::Sent, _) => {}
        }
        let Some(answer) = recording.kept(&call, outcome, fate) else { return Ok(()) };
        match recording.log.ended(&call, &answer).await {
            Err(error) if fate == Fate::Sent && !call.is_repeatable => Err(not_kept(&error)),
            Err(error) => {
                tracing::warn!(what = call.what, %error, code = error.code(), "cannot keep the answer of a call");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Recorder {
    calls: Arc<dyn HostCalls>,
    recording: Arc<Recording>,
}

#[async_trait]
impl HostCalls for Recorder {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        if matches!(method.as_str(), TOOL | CHECKPOINT) {
            return self.calls.call(method, params).await;
        }
        match self.recording.find(digest(&method, &params)) {
            Found::Answered(_, answer) => answer,
            Found::Due(entry) => {
                let outcome = self.calls.call(method, params).await;
                entry.end(outcome.as_ref()).await?;
                outcome
            }
        }
    }
}

fn with_hint(error: &CallLogError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

fn not_begun(error: &CallLogError) -> HostCallError {
    let message = format!("the call was not made, because its beginning could not be recorded: {}", with_hint(error));
    HostCallError { retryable: true, ..refused("not_logged", &message) }
}

fn not_kept(error: &CallLogError) -> HostCallError {
    let message = format!(
        "the call was made, but its answer could not be kept: {}; find out what it did before you make it again",
        with_hint(error)
    );
    refused("answer_not_kept", &message)
}
