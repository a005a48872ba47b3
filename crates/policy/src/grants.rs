//! Tools that people have allowed for a session. The grants end with the process.

use crate::call::Call;
use crate::definition::arguments_digest;
use coracle_types::{ExecutionId, ServerName, SessionId, UserId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of sessions that have grants. Beyond it the oldest is forgotten, and its user is asked again.
const MAX_SPANS: usize = 10_000;

/// The maximum number of grants of one session. Beyond it none is added, and the user is asked again.
const MAX_GRANTS: usize = 10_000;

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

/// The server, the tool, the digest of the definition that the person saw, and that of the arguments if the grant applies
/// to them only.
type Granted = (ServerName, String, String, Option<[u8; 32]>);

/// The calls of a tool that an answer applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All calls.
    AllArguments,
    /// Calls with the same arguments.
    SameArguments,
}

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
        granted.is_some_and(|granted| {
            [Reach::AllArguments, Reach::SameArguments]
                .into_iter()
                .any(|reach| granted.contains(&key(call, definition, reach)))
        })
    }

    pub(crate) fn add(&self, call: &Call<'_>, definition: &str, reach: Reach) {
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
        let granted = kept.by_span.entry(span).or_default();
        if granted.len() < MAX_GRANTS {
            granted.insert(key(call, definition, reach));
        }
    }

    /// Ends all grants of a user for a tool.
    pub(crate) fn revoke(&self, user: &UserId, server: &ServerName, tool: &str) {
        for (span, granted) in &mut self.kept().by_span {
            if span.user() == user {
                granted.retain(|(of, name, ..)| of != server || name != tool);
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

fn key(call: &Call<'_>, definition: &str, reach: Reach) -> Granted {
    let arguments = (reach == Reach::SameArguments).then(|| arguments_digest(definition, call.arguments));
    (call.tool.server.clone(), call.tool.name.clone(), definition.to_owned(), arguments)
}
