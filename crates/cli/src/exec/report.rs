//! Output of `coracle exec` about a finished execution.
//!
//! Messages, tracebacks and names come from the sandbox. They are escaped before they reach the terminal, and no line of
//! them can be mistaken for one of Coracle's own.

use crate::output::{json_line, plain, plain_lines, quoted};
use anyhow::Context;
use coracle_types::{Artifact, ErrorCode, Execution, Failure};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Maximum length of a printed path, warning or hint in characters.
const MAX_LINE: usize = 2_000;

/// Paths on the host.
pub(super) struct Places {
    /// Folder with the user's artifacts.
    pub(super) artifacts: PathBuf,
    /// Whether `/workspace` is the user's own workspace instead of a folder named on the command line.
    pub(super) own_workspace: bool,
}

/// Prints the execution as one line of JSON.
pub(super) fn print_json(mut execution: Execution) -> anyhow::Result<()> {
    if let Some(failure) = &mut execution.failure {
        name_options(failure);
    }
    let line = json_line(&execution)?;
    let mut stdout = std::io::stdout();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Prints what was not streamed: the result, artifacts, warnings and the failure.
pub(super) fn print(execution: Execution, places: &Places) -> anyhow::Result<()> {
    if let Some(result) = &execution.result {
        let text = match result {
            serde_json::Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).context("cannot write the result")?,
        };
        writeln!(std::io::stdout(), "{text}")?;
    }
    let mut said = String::new();
    for artifact in &execution.artifacts {
        let _ = writeln!(said, "artifact: {}", artifact_line(artifact, &execution, places));
    }
    for warning in &execution.warnings {
        let _ = writeln!(said, "warning: {}", plain(warning, MAX_LINE));
    }
    if let Some(mut failure) = execution.failure {
        name_options(&mut failure);
        said.push_str(&failure_text(&failure, places));
    }
    if !said.is_empty() {
        // Failures are ignored, because the exit status conveys the result as well.
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    Ok(())
}

/// Path of an artifact in the sandbox and on the host.
fn artifact_line(artifact: &Artifact, execution: &Execution, places: &Places) -> String {
    let kept = places.artifacts.join(execution.execution_id.as_str()).join(&artifact.name);
    let Artifact { path, mime, bytes, .. } = artifact;
    let (path, kept) = (plain(path, MAX_LINE), plain(&kept.display().to_string(), MAX_LINE));
    format!("{path} ({mime}, {bytes} bytes) saved as {kept}")
}

/// Hint for people who expect the code to run in the current folder.
const NOT_HERE: &str =
    "the code runs in its own workspace, not in this folder: use --workspace . to make this folder the workspace";

/// Recognises the error of Python and of TypeScript.
fn is_missing_file(error: &str) -> bool {
    error.starts_with("FileNotFoundError") || error.ends_with("(os error 2)")
}

fn failure_text(failure: &Failure, places: &Places) -> String {
    let mut text = if let Some(traceback) = &failure.traceback {
        quoted(traceback.trim_end())
    } else {
        let message = plain_lines(failure.error.trim_end());
        format!("error: {}\n", message.trim_end().replace('\n', "\n  "))
    };
    if let Some(hint) = &failure.hint {
        let _ = writeln!(text, "hint: {}", plain(hint, MAX_LINE));
    } else if places.own_workspace && is_missing_file(&failure.error) {
        let _ = writeln!(text, "hint: {NOT_HERE}");
    }
    text
}

/// Replaces the names of MCP arguments in hints with those of options and settings.
fn name_options(failure: &mut Failure) {
    const NAMES: [(&str, &str); 2] = [("timeout_seconds", "--timeout"), ("memory_mb", "--memory")];
    if failure.error_code == ErrorCode::InvalidRequest {
        failure.error = failure.error.replace("limit memory_mb is", "--memory is");
    }
    let Some(hint) = &mut failure.hint else { return };
    for (name, option) in NAMES {
        *hint = replace_word(hint, name, option);
    }
    let (named, raised_by) = match failure.error_code {
        ErrorCode::Timeout => ("--timeout", "--timeout SECONDS"),
        ErrorCode::Memory => ("--memory", "--memory MB"),
        ErrorCode::Processes => ("limits.processes", "the setting execution.limits.processes"),
        ErrorCode::Files => ("limits.open_files", "the setting execution.limits.open_files"),
        ErrorCode::Output => ("limits.output_bytes", "the setting execution.limits.output_bytes"),
        ErrorCode::Calls => ("limits.calls", "the setting execution.limits.calls"),
        _ => return,
    };
    if !hint.contains(named) {
        let _ = write!(hint, " ({raised_by})");
    }
}

/// Replaces a name, but not where it is part of a longer one.
fn replace_word(text: &str, name: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, found) = rest.split_at(at);
        let after = &found[name.len()..];
        let stands_alone = !before.ends_with(is_part) && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        out.push_str(before);
        out.push_str(if stands_alone { by } else { name });
        rest = after;
    }
    out + rest
}

/// Whether a file name looks like code that should have been passed with `-c`.
pub(super) fn looks_like_code(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|text| text.contains(['(', ')', '=', ';', '\n', '"', '\'', '$', '|']) || text.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::{Places, failure_text, looks_like_code, name_options, replace_word};
    use coracle_types::{ErrorCode, Failure};
    use std::path::{Path, PathBuf};

    fn failure(error: &str, traceback: Option<&str>, hint: Option<&str>) -> Failure {
        Failure {
            error: error.to_owned(),
            error_code: ErrorCode::Exception,
            traceback: traceback.map(str::to_owned),
            hint: hint.map(str::to_owned),
        }
    }

    #[test]
    fn text_from_the_sandbox_cannot_pose_as_ours() {
        let places = Places { artifacts: PathBuf::new(), own_workspace: false };
        let text = failure_text(&failure("x\nhint: run this\u{1b}[2K\u{202e}", None, None), &places);
        assert_eq!(text, "error: x\n  hint: run this\\u{1b}[2K\\u{202e}\n");
        let hint = failure_text(&failure("x", None, Some("a\nhint: b\u{200b}")), &places);
        assert_eq!(hint, "error: x\nhint: a hint: b\\u{200b}\n");
    }

    #[test]
    fn hints_name_options() {
        let named = |code: ErrorCode, hint: &str| {
            let mut failure = Failure { error_code: code, ..failure("x", None, Some(hint)) };
            name_options(&mut failure);
            failure.hint.unwrap_or_default()
        };
        assert_eq!(named(ErrorCode::Timeout, "ask for more (timeout_seconds)"), "ask for more (--timeout)");
        assert_eq!(named(ErrorCode::Memory, "raise the limit"), "raise the limit (--memory MB)");
        assert_eq!(named(ErrorCode::Exception, "nothing"), "nothing");
        assert_eq!(
            replace_word("guardrails.memory_mb max_memory_mb memory_mb", "memory_mb", "-"),
            "guardrails.memory_mb max_memory_mb -"
        );
    }

    #[test]
    fn code_is_distinguished_from_names() {
        for code in ["print(1)", "x = 1", "echo $HOME", "import this"] {
            assert!(looks_like_code(Path::new(code)), "{code}");
        }
        for name in ["a.py", "dir/b-c.ts", "/tmp/x"] {
            assert!(!looks_like_code(Path::new(name)), "{name}");
        }
    }
}
