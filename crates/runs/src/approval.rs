//! Questions to a person in the items of a run, and their answers.

use crate::error::RunError;
use coracle_agent::CallUpdate;
use coracle_types::{ItemId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Maximum number of answers in one request.
const MAX_ANSWERS: usize = 100;
/// Maximum length of the reason for an answer, in bytes.
const MAX_REASON_BYTES: usize = 4 << 10;

/// A question whether a call of code may be made, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedCall {
    /// The server.
    pub server: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as a JSON object.
    pub arguments: String,
    /// Digest of everything that the answer applies to.
    pub digest: String,
    /// Why a person is asked.
    pub why: String,
    /// The execution of the code.
    pub execution: String,
    /// When the question was asked, in milliseconds since 1970.
    pub asked_ms: u64,
}

impl AskedCall {
    /// The question of an event, as of now.
    pub(crate) fn of(update: &CallUpdate) -> Option<Self> {
        let CallUpdate::Asked { server, tool, why, arguments, digest, execution, .. } = update else { return None };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(Self {
            server: server.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            digest: digest.clone(),
            why: why.clone(),
            execution: execution.clone(),
            asked_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// When the question was asked.
    pub fn asked_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.asked_ms)
    }
}

/// The answer of a person to a question, as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The ID of the question.
    pub question: String,
    /// Whether the call may be made.
    pub approve: bool,
    /// What the person says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A run that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedRun {
    /// The run.
    pub run: RunId,
    /// Its questions.
    pub questions: Vec<ParkedQuestion>,
}

/// A question of a run that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedQuestion {
    /// The ID, which is also that of the item.
    pub id: String,
    /// The call.
    pub asked: AskedCall,
    /// Whether the run has learnt of an answer before it ended.
    pub is_answered: bool,
}

/// An answer for code that runs again because its first run is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateAnswer {
    /// Digest of everything that the answer applies to.
    pub digest: String,
    /// Whether the call may be made.
    pub approve: bool,
}

/// Where an input has answers to questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// The conversation is stored, so that the input is new.
    Stored,
    /// The client sends the whole conversation: everything before the last answer is known.
    Sent,
}

/// Takes the answers of people out of an input. The rest stays in its order.
pub fn take_answers(input: &mut Value, before: Before) -> Result<Vec<ApprovalAnswer>, RunError> {
    let Value::Array(items) = input else { return Ok(Vec::new()) };
    let is_answer = |item: &Value| item.get("type").and_then(Value::as_str) == Some("mcp_approval_response");
    let Some(last) = items.iter().rposition(is_answer) else { return Ok(Vec::new()) };
    let mut answers: Vec<ApprovalAnswer> = Vec::new();
    for (place, item) in items.iter().enumerate().filter(|(_, item)| is_answer(item)) {
        let invalid = |message: &str| RunError::invalid("input", format!("input[{place}]: {message}"));
        let question = item.get("approval_request_id").and_then(Value::as_str);
        let question = question.ok_or_else(|| invalid("`approval_request_id` is missing"))?;
        let approve = item.get("approve").and_then(Value::as_bool);
        let approve = approve.ok_or_else(|| invalid("`approve` must be true or false"))?;
        let reason = item.get("reason").and_then(Value::as_str).map(str::to_owned);
        if reason.as_ref().is_some_and(|reason| reason.len() > MAX_REASON_BYTES) {
            return Err(invalid(&format!("`reason` is longer than {MAX_REASON_BYTES} bytes")));
        }
        // What cannot be an ID is no question.
        ItemId::new(question).map_err(|_| missing(question))?;
        if answers.iter().any(|earlier| earlier.question == question) {
            return Err(invalid("the same question is answered twice"));
        }
        answers.push(ApprovalAnswer { question: question.to_owned(), approve, reason });
    }
    if answers.len() > MAX_ANSWERS {
        return Err(RunError::invalid("input", format!("more than {MAX_ANSWERS} answers to questions")));
    }
    match before {
        Before::Stored => items.retain(|item| !is_answer(item)),
        Before::Sent => {
            items.drain(..=last);
        }
    }
    Ok(answers)
}

/// There is no such question, or it is another user's.
pub(crate) fn missing(question: &str) -> RunError {
    let shown: String = question.chars().take(80).collect();
    RunError::Missing { what: format!("approval request `{shown}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(question: &str) -> Value {
        json!({"type": "mcp_approval_response", "approval_request_id": question, "approve": true})
    }

    #[test]
    fn answers_are_taken_out_of_the_input() {
        let (message, call) = (json!({"role": "user", "content": "x"}), json!({"type": "mcp_approval_request"}));
        let mut input = json!([message, call, answer("a"), answer("b"), message]);
        let mut all = input.clone();
        let answers = take_answers(&mut input, Before::Stored).unwrap();
        assert_eq!(answers.iter().map(|answer| answer.question.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(input, json!([message, call, message]));
        assert_eq!(take_answers(&mut all, Before::Sent).unwrap(), answers);
        assert_eq!(all, json!([message]));
        let mut text = json!("Hello");
        assert_eq!(take_answers(&mut text, Before::Sent).unwrap(), []);
        assert_eq!(text, json!("Hello"));
    }

    #[test]
    fn answers_that_cannot_be_understood_are_refused() {
        for (input, reason) in [
            (json!([{"type": "mcp_approval_response", "approve": true}]), "`approval_request_id` is missing"),
            (json!([{"type": "mcp_approval_response", "approval_request_id": "a", "approve": "yes"}]), "`approve`"),
            (json!([answer("a"), answer("a")]), "answered twice"),
            (json!([answer("../a")]), "not found"),
        ] {
            let error = take_answers(&mut input.clone(), Before::Stored).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
