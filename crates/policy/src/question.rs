use crate::call::Call;
use crate::definition::{flow_digest, question_digest};
use crate::{Doubt, FlowVerdict, Quorum, Verdict, render};
use coracle_types::{Decision, ExecutionId, ServerName, SessionId, ToolHints, UserId};
use serde_json::{Map, Value, json};
use std::fmt;

/// The maximum length of the description in a question.
pub const MAX_DESCRIPTION_CHARS: usize = 500;
/// The maximum length of the arguments in a question.
pub const MAX_PREVIEW_CHARS: usize = 2_000;

/// The maximum length of the complete arguments in a question, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 16 << 10;

/// The arguments of a call as a question shows them: JSON on one line, with long strings and lists shortened and hidden
/// characters escaped.
pub fn arguments_preview(arguments: &Map<String, Value>) -> String {
    render::named_arguments(arguments, MAX_PREVIEW_CHARS)
}

/// The ID of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuestionId(String);

impl QuestionId {
    fn random() -> Self {
        // Without random numbers the IDs are all the same, which affects no decision; and no sandbox starts either.
        Self(format!("ask-{:016x}", getrandom::u64().unwrap_or_default()))
    }

    /// The ID as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A question to a person. The server's texts are rendered for a screen: one line, capped, nothing hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The ID of this question.
    pub id: QuestionId,
    /// The user who is asked.
    pub user: UserId,
    /// The session of the code, if any.
    pub session: Option<SessionId>,
    /// The execution of the code.
    pub execution: ExecutionId,
    /// The server.
    pub server: ServerName,
    /// The name of the tool, rendered.
    pub tool: String,
    /// The server's description of the tool, rendered. Untrusted.
    pub description: String,
    /// The arguments of the call as JSON, rendered.
    pub arguments_preview: String,
    /// The arguments of the call as a JSON object, for programs. Arguments that are too long are `{"shortened": …}`.
    pub arguments_json: String,
    /// The arguments as people other than the user see them: as in `arguments_preview`, unless personal data in them is
    /// hidden.
    pub arguments_for_others: String,
    /// Digest of everything that an answer applies to: the definition of the tool, all arguments, and the doubt.
    pub digest: String,
    /// What the call is part of, such as the ID of a run.
    pub origin: Option<String>,
    /// What the server claims about the tool's effects.
    pub hints: ToolHints,
    /// Why a person is asked. Completes the sentence "you are asked because …".
    pub why: String,
    /// The doubt about this call, if that is why a person is asked. A yes then applies to this call only, or with
    /// [`Answer::Session`](crate::Answer::Session) to all calls of the execution that raise [`Doubt::Differs`].
    pub doubt: Option<Doubt>,
    /// The flow rules that want a person to approve, if that is why a person is asked. An answer then settles nothing
    /// but these rules for this tool and these sources.
    pub flow: Vec<FlowVerdict>,
    /// The configuration line that would allow the tool. It is complete, so a long tool name makes it long.
    pub allow_line: String,
    /// The people who must approve the call. Without them, the user is asked. A yes of them applies to this call only.
    pub quorum: Option<Quorum>,
}

impl Question {
    /// A question about the flow of data, not about the tool.
    pub(crate) fn about_flow(call: &Call<'_>, flow: Vec<FlowVerdict>) -> Self {
        let why = flow.iter().map(ToString::to_string).collect::<Vec<_>>().join("; besides, ");
        let allow_line = flow.iter().map(|verdict| verdict.hint.clone()).collect::<Vec<_>>().join("; ");
        let digest = flow_digest(call.tool, call.arguments, &flow);
        Self::of(call, why, None, flow, digest, allow_line)
    }

    pub(crate) fn about(call: &Call<'_>, verdict: &Verdict, is_wanted: bool) -> Self {
        let why = match call.doubt {
            None if is_wanted && verdict.decision == Decision::Allow => {
                "the client wants each call of this tool to be approved".to_owned()
            }
            None => verdict.reason.to_string(),
            Some(doubt) if verdict.decision == Decision::Ask => format!("{doubt}; besides, {}", verdict.reason),
            Some(doubt) => doubt.to_string(),
        };
        let why = match &verdict.quorum {
            Some(quorum) => format!("{why}; {quorum} must approve it"),
            None => why,
        };
        let digest = question_digest(call.tool, call.arguments, call.doubt);
        let question = Self::of(call, why, call.doubt, Vec::new(), digest, verdict.allow_line.clone());
        Self { quorum: verdict.quorum.clone(), ..question }
    }

    fn of(
        call: &Call<'_>,
        why: String,
        doubt: Option<Doubt>,
        flow: Vec<FlowVerdict>,
        digest: String,
        allow_line: String,
    ) -> Self {
        let arguments_preview = render::arguments(call.arguments, MAX_PREVIEW_CHARS);
        let mut arguments_json = call.arguments.to_string();
        if arguments_json.len() > MAX_ARGUMENTS_BYTES {
            arguments_json = json!({ "shortened": arguments_preview }).to_string();
        }
        Self {
            id: QuestionId::random(),
            user: call.user.clone(),
            session: call.session.cloned(),
            execution: call.execution.clone(),
            arguments_for_others: arguments_preview.clone(),
            server: call.tool.server.clone(),
            tool: render::name(&call.tool.name),
            description: render::prose(&call.tool.description, MAX_DESCRIPTION_CHARS),
            arguments_preview,
            arguments_json,
            digest,
            origin: None,
            hints: call.tool.hints,
            why,
            doubt,
            flow,
            allow_line,
            quorum: None,
        }
    }
}
