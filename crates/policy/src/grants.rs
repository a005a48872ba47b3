//! Tools that people have allowed for a session. The grants end with the process.

use crate::call::Call;
use coracle_types::{ExecutionId, ServerName, SessionId, UserId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of sessions that have grants. Beyond it the oldest is forgotten, and its user is asked again.
const MAX_SPANS: usize = 10_000;

/// How long a grant lasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    Session(UserId, SessionId),
    Execution(UserId, ExecutionId),
}

impl Span {
    fn user(&self) -> &UserId {
        match self {
            Self::Session(user, _) | Self::Execution(user, _) => user,
        }
    }

    fn of(call: &Call<'_>) -> Self {
        match call.session {
            Some(session) => Self::Session(call.user.clone(), session.clone()),
            None => Self::Execution(call.user.clone(), call.execution.clone()),
        }
    }
}

/// The server, the tool, and the digest of the definition that the person saw.
type Granted = (ServerName, String, String);

#[derive(Debug, Default)]
pub(crate) struct Grants {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_span: HashMap<Span, HashSet<Granted>>,
    /// Spans, oldest first.
    order: VecDeque<Span>,
}

impl Grants {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn holds(&self, call: &Call<'_>, definition: &str) -> bool {
        let kept = self.kept();
        let granted = kept.by_span.get(&Span::of(call));
        granted.is_some_and(|granted| granted.contains(&key(call, definition)))
    }

    pub(crate) fn add(&self, call: &Call<'_>, definition: &str) {
        let span = Span::of(call);
        let mut kept = self.kept();
        if !kept.by_span.contains_key(&span) {
            if kept.order.len() >= MAX_SPANS
                && let Some(oldest) = kept.order.pop_front()
            {
                kept.by_span.remove(&oldest);
            }
            kept.order.push_back(span.clone());
        }
        kept.by_span.entry(span).or_default().insert(key(call, definition));
    }

    /// Ends all grants of a user for a tool.
    pub(crate) fn revoke(&self, user: &UserId, server: &ServerName, tool: &str) {
        for (span, granted) in &mut self.kept().by_span {
            if span.user() == user {
                granted.retain(|(of, name, _)| of != server || name != tool);
            }
        }
    }

    pub(crate) fn end(&self, span: &Span) {
        let mut kept = self.kept();
        if kept.by_span.remove(span).is_some() {
            kept.order.retain(|other| other != span);
        }
    }
}

fn key(call: &Call<'_>, definition: &str) -> Granted {
    (call.tool.server.clone(), call.tool.name.clone(), definition.to_owned())
}
