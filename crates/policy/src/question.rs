use crate::call::Call;
use crate::{Verdict, shown};
use coracle_types::{ExecutionId, ServerName, SessionId, ToolHints, UserId};
use std::fmt;

/// Of a description a person sees so much.
pub const MAX_DESCRIPTION_CHARS: usize = 500;
/// Of the arguments a person sees so much.
pub const MAX_PREVIEW_CHARS: usize = 2_000;

/// One question to one person.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuestionId(String);

impl QuestionId {
    fn random() -> Self {
        // A machine without random numbers runs no sandbox either; then ids are alike, which harms no decision.
        Self(format!("ask-{:016x}", getrandom::u64().unwrap_or_default()))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a person is asked. Texts of the server are made fit for a screen: one line, capped, nothing hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Tells this question from others.
    pub id: QuestionId,
    /// Who is asked.
    pub user: UserId,
    /// In which session, if there is one.
    pub session: Option<SessionId>,
    /// For which execution.
    pub execution: ExecutionId,
    /// The server.
    pub server: ServerName,
    /// The name of the tool, to be shown.
    pub tool: String,
    /// What the server says that the tool does: not to be believed.
    pub description: String,
    /// What the tool would be called with, as JSON.
    pub arguments_preview: String,
    /// What the tool says of its effects: claims.
    pub hints: ToolHints,
    /// Why there is a question.
    pub why: String,
    /// The line of configuration with which there would be none: whole, so as long as the name of the tool makes it.
    pub allow_line: String,
}

impl Question {
    pub(crate) fn about(call: &Call<'_>, verdict: &Verdict) -> Self {
        Self {
            id: QuestionId::random(),
            user: call.user.clone(),
            session: call.session.cloned(),
            execution: call.execution.clone(),
            server: call.tool.server.clone(),
            tool: shown::name(&call.tool.name),
            description: shown::prose(&call.tool.description, MAX_DESCRIPTION_CHARS),
            arguments_preview: shown::arguments(call.arguments, MAX_PREVIEW_CHARS),
            hints: call.tool.hints,
            why: verdict.reason.to_string(),
            allow_line: verdict.allow_line.clone(),
        }
    }
}
