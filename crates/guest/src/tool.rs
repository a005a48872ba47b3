//! The command `tool` of bash: calls tools of MCP servers, with arguments as flags and answers as JSON.
//!
//! `catalogue.rs` lists tools, `search.rs` finds some, `arguments.rs` converts flags to JSON, `help.rs` prints help,
//! and `relay.rs` calls the agent. Standard output is the answer; everything else goes to standard error.

mod arguments;
mod catalogue;
mod help;
mod kinds;
mod relay;
mod search;

use arguments::Asked;
use catalogue::{Catalogue, Server};
use coracle_protocol::CallFailure;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

/// The exit status if the call failed.
const FAILED: u8 = 1;
/// The exit status if the command was wrong; nothing was called.
const USAGE: u8 = 2;
/// The exit status if the call failed, and may succeed later (EX_TEMPFAIL).
const TRY_AGAIN: u8 = 75;

/// The maximum length of a text that is read from standard input.
const MAX_TEXT: u64 = 4 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The command is wrong.
    #[error("{message}")]
    Usage {
        /// The error.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// The host could not be called.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The host or the tool returned an error.
    #[error("{what}: {message} ({code})")]
    Refused {
        /// The tool, or the other request.
        what: String,
        /// The error code, for programs.
        code: String,
        /// The message, for people and models.
        message: String,
        /// Whether the same call may succeed later.
        retryable: bool,
    },
}

impl ToolError {
    fn usage(message: impl Into<String>, hint: Option<String>) -> Self {
        Self::Usage { message: message.into(), hint }
    }

    fn refused(what: String, failure: CallFailure) -> Self {
        let CallFailure { code, message, retryable } = failure;
        Self::Refused { what, code, message, retryable }
    }

    fn status(&self) -> u8 {
        match self {
            Self::Usage { .. } => USAGE,
            Self::Refused { retryable: true, .. } => TRY_AGAIN,
            Self::Io(_) | Self::Refused { .. } => FAILED,
        }
    }
}

/// Runs the command with these arguments.
pub(crate) fn tool_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let outcome = match words {
        Ok(words) => run(&words, &Catalogue::installed()),
        Err(word) => Err(ToolError::usage(format!("{} is not UTF-8", word.display()), None)),
    };
    match outcome.and_then(|text| print(&text).map_err(ToolError::from)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has closed it.
        Err(ToolError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tool: {error}");
            if let ToolError::Usage { hint: Some(hint), .. } = &error {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(error.status())
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

fn run(words: &[String], catalogue: &Catalogue) -> Result<String, ToolError> {
    let (server, tool, rest) = match words {
        [] => return Ok(help::servers(&catalogue.servers(), &absent(""))),
        [word, ..] if word == "--help" || word == "-h" => return Ok(help::USAGE.to_owned()),
        // Unless a server has this name.
        [word, ..] if word == "help" && catalogue.server(word).is_err() => return Ok(help::USAGE.to_owned()),
        [word, rest @ ..] if word == "--search" || word == "search" && catalogue.server(word).is_err() => {
            return search::run(rest);
        }
        [word, rest @ ..] if word == "--checkpoint" || word == "checkpoint" && catalogue.server(word).is_err() => {
            return checkpoint(rest);
        }
        [word, rest @ ..] if word == "--pii" || word == "pii" && catalogue.server(word).is_err() => {
            return personal(rest);
        }
        [server] => return there(catalogue, server).map(|server| help::tools(&server)),
        [server, word] if word == "--help" || word == "-h" => {
            return there(catalogue, server).map(|server| help::tools(&server));
        }
        [server, tool, rest @ ..] => (there(catalogue, server)?, tool, rest),
    };
    let tool = server.tool(tool)?;
    match arguments::parse(&server, tool, rest)? {
        Asked::Help => Ok(help::tool(&server, tool)),
        Asked::Call(arguments) => {
            let answer = relay::call(&json!({
                "method": "tool",
                "params": { "server": server.name, "tool": tool.name, "arguments": arguments },
            }))?;
            rendered(&server.name, &tool.name, answer)
        }
    }
}

/// A server without modules, and the reason.
#[derive(Debug, serde::Deserialize)]
struct Absent {
    server: String,
    reason: String,
}

/// Configured servers that cannot be used: the one with this name, or all.
fn absent(server: &str) -> Vec<Absent> {
    let asked = relay::call(&json!({ "method": "absent", "params": { "server": server } }));
    let answer = asked.ok().and_then(|answer| answer.into_value().ok());
    answer.and_then(|answer| serde_json::from_value(answer).ok()).unwrap_or_default()
}

/// The server, or why it cannot be used.
fn there(catalogue: &Catalogue, name: &str) -> Result<Server, ToolError> {
    catalogue.server(name).map_err(|error| match absent(name).pop() {
        Some(Absent { server, reason }) => {
            ToolError::Refused { what: server, code: "unavailable".to_owned(), message: reason, retryable: false }
        }
        None => error,
    })
}

/// Records progress in the log of the session.
fn checkpoint(words: &[String]) -> Result<String, ToolError> {
    let (step, context) = match words {
        [step] if !step.starts_with('-') => (step, Value::Null),
        [step, context] if !step.starts_with('-') => {
            // A text need not be quoted as JSON.
            (step, serde_json::from_str(context).unwrap_or_else(|_| Value::from(context.as_str())))
        }
        _ => {
            let hint = "tool checkpoint STEP [CONTEXT], where CONTEXT is JSON or a text".to_owned();
            return Err(ToolError::usage("checkpoint takes a step and optionally a context", Some(hint)));
        }
    };
    let params = json!({ "step": step, "context": context });
    let answer = relay::call(&json!({ "method": "checkpoint", "params": params }))?;
    answer.into_value().map_err(|failure| ToolError::refused("checkpoint".to_owned(), failure))?;
    Ok(format!("checkpoint kept: {step}"))
}

/// Replaces personal data in a text by tokens, or tokens by what they stand for. Without a text, reads standard input.
fn personal(words: &[String]) -> Result<String, ToolError> {
    let usage = || {
        let hint = "tool pii tokenize [TEXT], or tool pii detokenize [TEXT]; without TEXT, standard input is read";
        ToolError::usage("pii takes an action and optionally a text", Some(hint.to_owned()))
    };
    let (act, text) = match words {
        [act] => (act, io::read_to_string(io::stdin().lock().take(MAX_TEXT))?),
        [act, text] => (act, text.clone()),
        _ => return Err(usage()),
    };
    if act != "tokenize" && act != "detokenize" {
        return Err(usage());
    }
    let answer = relay::call(&json!({ "method": format!("pii.{act}"), "params": { "text": text } }))?;
    match answer.into_value().map_err(|failure| ToolError::refused(format!("{act}_pii"), failure))? {
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

/// Renders an answer: text as it is, everything else as JSON.
fn rendered(server: &str, tool: &str, answer: relay::Answer) -> Result<String, ToolError> {
    let value = answer.into_value().map_err(|failure| ToolError::refused(format!("{server}.{tool}"), failure))?;
    Ok(match unpacked(value)? {
        Value::String(text) => text,
        value if io::stdout().is_terminal() => format!("{value:#}"),
        value => value.to_string(),
    })
}

/// Stores the media of a reply in files, and replaces their placeholders with handles.
fn unpacked(mut reply: Value) -> io::Result<Value> {
    let value = reply.get_mut("value").map(Value::take).unwrap_or_default();
    let mut files = Vec::new();
    for part in reply.get("media").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| part.get(key).and_then(Value::as_str);
        let mime = text("mime").unwrap_or_default();
        let (path, size) = crate::media::save(mime, text("data").unwrap_or_default())?;
        let mut handle = json!({ "type": "media", "path": path, "mime": mime, "size": size });
        if let Some(uri) = text("uri") {
            handle["uri"] = uri.into();
        }
        files.push(handle);
    }
    let fill = |value: Value| {
        let place = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("$media"));
        match place.and_then(Value::as_u64).and_then(|index| files.get(index as usize)) {
            Some(handle) => handle.clone(),
            None => value,
        }
    };
    Ok(match value {
        Value::Array(elements) => elements.into_iter().map(fill).collect(),
        value => fill(value),
    })
}

#[cfg(test)]
mod tests;
