//! What a client sends to run code: the body of `POST /api/executions` and the arguments of `execute_code`.

use super::frontend::Frontend;
use coracle_engine::Request;
use coracle_types::{Language, Limits, MAX_SECONDS, SessionId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use utoipa::ToSchema;

/// Code to execute, with its limits
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeRequest {
    /// Source code, at most 1 MiB
    code: String,
    /// Programming language: `python` (the default), `typescript` or `bash`
    #[serde(default)]
    language: Option<String>,
    /// Variables to set before the code runs, at most 4 MiB as JSON
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context_vars: Option<Map<String, Value>>,
    /// Time limit in seconds, greater than 0 and at most 86400. Defaults to the configured limit and is capped by the
    /// guardrails.
    #[serde(default)]
    timeout_seconds: Option<f64>,
    /// Memory limit in megabytes. Defaults to the configured limit and is capped by the guardrails.
    #[serde(default)]
    #[schema(minimum = 32)]
    memory_mb: Option<u64>,
    /// Session to run in, by ID or name. Executions in a session share variables. An unused name starts a session with
    /// that name, `new` starts one without a name, and without this field the code runs outside any session.
    #[serde(default)]
    session: Option<String>,
    /// Description of what the code does, stored in the log of the session
    #[serde(default)]
    description: Option<String>,
}

impl CodeRequest {
    /// Returns the execution for the user of this front end, or what is wrong with the request.
    pub(crate) fn into_request(self, frontend: &Frontend) -> Result<Request, String> {
        let language = match &self.language {
            None => Language::default(),
            Some(name) => name.parse::<Language>().map_err(|error| error.to_string())?,
        };
        let mut request = with_defaults(frontend, language, self.code);
        request.vars = self.context_vars.unwrap_or_default();
        request.session = match self.session.filter(|name| !name.is_empty()) {
            None => None,
            Some(name) => Some(SessionId::new(&name).map_err(|error| error.to_string())?),
        };
        if let Some(seconds) = self.timeout_seconds {
            request.limits.wall_ms = milliseconds("timeout_seconds", seconds)?;
        }
        if let Some(memory) = self.memory_mb {
            request.limits.memory_mb = memory;
        }
        request.limits = frontend.options.settings.within_guardrails(request.limits);
        request.description = self.description;
        Ok(request)
    }
}

/// Returns an execution with the configured limits, before guardrails.
pub(crate) fn with_defaults(frontend: &Frontend, language: Language, code: String) -> Request {
    let mut request = Request::new(frontend.user(), language, code);
    request.workspace = frontend.workspace().map(Path::to_owned);
    request.limits = frontend.options.settings.limits();
    request
}

/// Converts a time limit; `name` is the field's, for the error.
pub(crate) fn milliseconds(name: &str, seconds: f64) -> Result<u64, String> {
    Limits::wall_ms_of(seconds)
        .ok_or_else(|| format!("{name} is {seconds}: it must be greater than 0 and at most {MAX_SECONDS}"))
}
