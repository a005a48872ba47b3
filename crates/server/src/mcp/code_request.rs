//! What a client sends to run code: the body of `POST /api/executions` and the arguments of `execute_code`.

use super::frontend::Frontend;
use coracle_engine::{CallLogging, Program, Request};
use coracle_policy::Interface;
use coracle_types::{ExecutionId, Language, Limits, MAX_SECONDS, Mode, SessionId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use utoipa::ToSchema;

/// Code to execute, with its limits
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeRequest {
    /// Source code, at most 1 MiB. Required unless `resume` is given.
    #[serde(default)]
    code: Option<String>,
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
    /// ID of an earlier execution to resume. Its code, or the given code, runs from the beginning, but tool calls that
    /// the earlier execution made are answered from its log instead of being repeated. Language, variables and session
    /// default to those of the earlier execution.
    #[serde(default)]
    resume: Option<String>,
    /// Mode: `run` (the default), or `plan`. In the mode `plan`, tools that only read are called, and everything else that
    /// the code would do is listed in `plan`: calls with their arguments, and changes of files. Nothing of it is done until
    /// a person approves the plan.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(run|plan)$")]
    mode: Option<Mode>,
}

impl CodeRequest {
    /// Returns the execution for the user of this front end, or what is wrong with the request. The execution can be
    /// resumed.
    pub(crate) async fn into_request(self, frontend: &Frontend) -> Result<Request, String> {
        let (mut request, resumption) = match self.resume.clone().filter(|id| !id.is_empty()) {
            None => (Self { resume: None, ..self }.without_resume(frontend)?, None),
            Some(id) => {
                let id = ExecutionId::new(&id).map_err(|error| error.to_string())?;
                let resumed = frontend.engine.resume(&frontend.user(), &id).await;
                let resumption = resumed.map_err(|error| format!("{error}; {}", error.hint()))?;
                (self.after(resumption.program())?.without_resume(frontend)?, Some(resumption))
            }
        };
        request.call_log =
            resumption.map_or(CallLogging::Resumable, |resumption| CallLogging::Resuming(Arc::new(resumption)));
        Ok(request)
    }

    /// Fills in what an earlier attempt had.
    fn after(self, program: &Program) -> Result<Self, String> {
        if self.context_vars.is_none() && program.vars.is_none() {
            return Err("the variables of the execution were too large to be kept; pass context_vars again".to_owned());
        }
        Ok(Self {
            code: Some(self.code.unwrap_or_else(|| program.code.clone())),
            language: Some(self.language.unwrap_or_else(|| program.language.to_string())),
            context_vars: self.context_vars.or_else(|| program.vars.clone()),
            session: self.session.or_else(|| program.session.as_ref().map(ToString::to_string)),
            resume: None,
            ..self
        })
    }

    /// Returns the execution for the user of this front end, for callers that keep a log of calls of their own.
    pub(crate) fn without_resume(self, frontend: &Frontend) -> Result<Request, String> {
        if self.resume.is_some() {
            return Err("resume cannot be used here".to_owned());
        }
        let language = match &self.language {
            None => Language::default(),
            Some(name) => name.parse::<Language>().map_err(|error| error.to_string())?,
        };
        let code = self.code.ok_or("missing field `code`")?;
        let mut request = with_defaults(frontend, language, code);
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
        request.mode = self.mode.unwrap_or_default();
        request.description = self.description;
        Ok(request)
    }
}

/// Returns an execution with the configured limits, before guardrails.
pub(crate) fn with_defaults(frontend: &Frontend, language: Language, code: String) -> Request {
    let mut request = Request::new(frontend.user(), language, code);
    request.interface = Interface::Mcp;
    request.workspace = frontend.workspace().map(Path::to_owned);
    request.conversation = Some(frontend.client_place.clone());
    request.limits = frontend.options.settings.limits();
    request
}

/// Converts a time limit; `name` is the field's, for the error.
pub(crate) fn milliseconds(name: &str, seconds: f64) -> Result<u64, String> {
    Limits::wall_ms_of(seconds)
        .ok_or_else(|| format!("{name} is {seconds}: it must be greater than 0 and at most {MAX_SECONDS}"))
}
