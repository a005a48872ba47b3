//! Errors in the shapes of the wires.

use serde_json::{Value, json};

use crate::conversation::Wire;
use crate::script::{Status, StreamError};

/// An error that a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    pub(crate) shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// That of the wire.
    Usual,
    /// That of Gemini behind the Chat wire.
    Google,
}

impl Fault {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, code: None, param: None, message: message.into(), shape: Shape::Usual }
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: &str) -> Self {
        self.code = Some(code.to_owned());
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn google(mut self) -> Self {
        self.shape = Shape::Google;
        self
    }

    /// A parameter that OpenAI's servers miss.
    pub(crate) fn missing(param: &str) -> Self {
        Self::invalid(format!("Missing required parameter: '{param}'.")).param(param).code("missing_required_parameter")
    }

    /// A parameter of a type that OpenAI's servers do not accept.
    pub(crate) fn wrong_type(param: &str, expected: &str) -> Self {
        Self::invalid(format!("Invalid type for '{param}': expected {expected}.")).param(param).code("invalid_type")
    }

    /// The error of a step.
    pub(crate) fn of_status(status: &Status) -> Self {
        let code = status.error.clone().or_else(|| openai_code(status.code).map(str::to_owned));
        let message = status.message.clone().unwrap_or_else(|| usual_message(status.code, code.as_deref()).to_owned());
        Self { status: status.code, code, param: None, message, shape: Shape::Usual }
    }

    /// The error of a step inside an answer.
    pub(crate) fn of_stream(error: &StreamError) -> Self {
        let message = error.message.clone().unwrap_or_else(|| usual_message(500, None).to_owned());
        Self { status: 500, code: error.error.clone(), param: None, message, shape: Shape::Usual }
    }

    /// The body of the error.
    pub(crate) fn body(&self, wire: Wire) -> Value {
        match (wire, self.shape) {
            (_, Shape::Google) => json!([{
                "error": {"code": self.status, "message": self.message, "status": "INVALID_ARGUMENT"}
            }]),
            (Wire::Messages, Shape::Usual) => json!({
                "type": "error",
                "error": {"type": self.anthropic_type(), "message": self.message},
                "request_id": null,
            }),
            (Wire::Chat | Wire::Responses, Shape::Usual) => json!({"error": self.openai_error()}),
        }
    }

    pub(crate) fn openai_error(&self) -> Value {
        let kind = match self.status {
            429 => "requests",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"message": self.message, "type": kind, "param": self.param, "code": self.code})
    }

    fn anthropic_type(&self) -> &str {
        if let Some(code) = self.code.as_deref().filter(|code| code.ends_with("_error")) {
            return code;
        }
        match self.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }
}

fn openai_code(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("invalid_api_key"),
        429 => Some("rate_limit_exceeded"),
        _ => None,
    }
}

fn usual_message(status: u16, code: Option<&str>) -> &'static str {
    match (status, code) {
        (_, Some("context_length_exceeded")) => {
            "prompt is too long: your input exceeds the context window of this model. Please adjust your input and try \
             again."
        }
        (401, _) => "Incorrect API key provided.",
        (429, _) => "Rate limit reached for requests.",
        (529, _) => "Overloaded",
        (500.., _) => "The server had an error while processing your request. Sorry about that!",
        _ => "The request was rejected by the script.",
    }
}
