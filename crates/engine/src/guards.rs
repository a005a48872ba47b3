//! Checks of code before it runs. What they find, and the tools that they look up, is `coracle-guardrails`'.

use crate::request::Request;
use crate::tools::Tools;
use coracle_guardrails::{Catalogue, Finding, Guardrails, Inspection, Known, Report, Rule};
use coracle_types::{ErrorCode, Failure};
use std::sync::OnceLock;

/// Length of code from which it is parsed on a thread of its own, in bytes.
const LARGE: usize = 16 << 10;

/// Maximum number of findings that are told.
const MAX_TOLD: usize = 5;

/// The checks of an engine. Without settings, nothing is checked.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    settings: OnceLock<Guardrails>,
}

/// An engine without tools knows nothing about them.
struct NoTools;

impl Catalogue for NoTools {
    fn look_up(&self, _server: &str, _tool: Option<&str>) -> Known {
        Known::Nothing
    }
}

impl Guards {
    /// Sets what is checked. Only the first call has an effect.
    pub(crate) fn set(&self, settings: Guardrails) {
        let _ = self.settings.set(settings);
    }

    /// Checks the code of a request. Returns warnings, or why it is not run.
    pub(crate) async fn check(&self, request: &Request, tools: &Tools) -> Result<Vec<String>, Failure> {
        let Some(settings) = self.settings.get().filter(|settings| settings.is_enabled) else {
            return Ok(Vec::new());
        };
        let inspection = inspect(settings, request).await?;
        let report = match tools.toolbox().filter(|_| inspection.names_tools()) {
            Some(toolbox) => {
                let glimpse = toolbox.glimpse(&request.user, inspection.servers()).await;
                settings.judge(&inspection, &glimpse, request.access)
            }
            None => settings.judge(&inspection, &NoTools, request.access),
        };
        if settings.is_strict && !report.is_harmless() {
            return Err(refusal(&report));
        }
        // The interpreter tells more about a syntax error.
        Ok(told(report.findings.iter().filter(|finding| finding.rule != Rule::Syntax), report.left_out))
    }
}

async fn inspect(settings: &Guardrails, request: &Request) -> Result<Inspection, Failure> {
    let is_session = request.session.is_some();
    if request.code.len() < LARGE {
        return Ok(settings.inspect(request.language, &request.code, is_session));
    }
    let (settings, language, code) = (settings.clone(), request.language, request.code.clone());
    let inspected = tokio::task::spawn_blocking(move || settings.inspect(language, &code, is_session)).await;
    inspected.map_err(|error| Failure {
        error: format!("the code cannot be checked: {error}"),
        error_code: ErrorCode::Internal,
        traceback: None,
        hint: None,
    })
}

fn told<'a>(findings: impl Iterator<Item = &'a Finding>, left_out: usize) -> Vec<String> {
    let mut told: Vec<String> = findings.map(|finding| format!("{finding}: {}", finding.hint)).collect();
    let more = told.len().saturating_sub(MAX_TOLD) + left_out;
    told.truncate(MAX_TOLD);
    if more > 0 {
        told.push(format!("{more} more findings of the guardrails"));
    }
    told
}

/// The failure of code that strict mode does not run.
fn refusal(report: &Report) -> Failure {
    let dangers: Vec<&Finding> = report.dangers().collect();
    let is_syntax = dangers.iter().all(|finding| finding.rule == Rule::Syntax);
    let lines: Vec<String> = dangers.iter().take(MAX_TOLD).map(ToString::to_string).collect();
    let hint = dangers.first().map(|finding| finding.hint.clone());
    Failure {
        error: format!("the guardrails do not allow this code: {}", lines.join("; ")),
        error_code: if is_syntax { ErrorCode::Syntax } else { ErrorCode::Denied },
        traceback: None,
        hint,
    }
}
