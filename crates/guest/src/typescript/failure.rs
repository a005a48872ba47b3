//! Describes a failure of user code: a stable code, a message, the user's own frames, and a hint if there is one.

use super::absent;
use super::compile::Rejected;
use super::fetch;
use super::sources::{Sources, excerpt};
use coracle_protocol::RunFailure;
use serde::Deserialize;

/// The maximum lengths of a message and of a stack.
const MAX_MESSAGE: usize = 8 << 10;
const MAX_STACK: usize = 16 << 10;

/// Not for runs that have a network.
pub(super) const NETWORK_HINT: &str =
    "network is off in this sandbox; call tools instead: import { a_tool } from \"servers/NAME\"";

const MEMORY_HINT: &str = "a limit of this sandbox: memory; work on smaller pieces, or raise the memory limit";

/// Names that exist elsewhere but not here, with hints.
const ABSENT: [(&[&str], &str); 3] = [
    (&["XMLHttpRequest", "WebSocket", "EventSource"], NETWORK_HINT),
    (
        &["require", "module", "exports", "__dirname", "__filename"],
        "modules are imported here: \"servers/NAME\", \"skills/NAME\", or a path in the workspace that begins with ./",
    ),
    (
        &["process", "Buffer", "Deno", "Bun", "window", "document"],
        "this is QuickJS and neither Node nor a browser: use readFile, writeFile, listFiles, Uint8Array and TextEncoder",
    ),
];

/// An error, as the scripts describe it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Thrown {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) stack: String,
    pub(super) cause: String,
}

impl Thrown {
    /// The error when there was no memory left to describe it.
    pub(super) fn out_of_memory() -> Self {
        let message = "InternalError: out of memory".to_owned();
        Self { name: "InternalError".to_owned(), message, ..Self::default() }
    }

    pub(super) fn told(self, sources: &Sources) -> RunFailure {
        let memory = self.name == "InternalError" && self.message.ends_with("out of memory");
        let disk = ["(os error 28)", "(os error 27)", "(os error 122)"].iter().any(|mark| self.message.contains(mark));
        let code = match () {
            () if memory => "memory",
            () if disk => "disk",
            () if self.message.contains("(os error 24)") => "files",
            () => "exception",
        };
        let hint = if memory { Some(MEMORY_HINT.to_owned()) } else { hint(&self.message) };
        let traceback = self.traceback(sources);
        RunFailure { code: code.to_owned(), message: capped(self.message, MAX_MESSAGE), traceback, hint }
    }

    fn traceback(&self, sources: &Sources) -> String {
        let frames = sources.frames(&self.stack);
        if frames.is_empty() {
            return String::new();
        }
        let mut lines = Vec::new();
        if let Some((first, shown)) =
            frames.first().and_then(|first| Some((first, sources.excerpt(&first.file, first.place)?)))
        {
            lines.push(format!("{}:{}:{}", first.file, first.place.line, first.place.column));
            lines.push(shown);
        }
        lines.push(capped(self.message.clone(), MAX_MESSAGE));
        lines.extend(frames.iter().map(ToString::to_string));
        if !self.cause.is_empty() {
            lines.push(format!("  caused by {}", capped(self.cause.clone(), MAX_MESSAGE / 4)));
        }
        capped(lines.join("\n"), MAX_STACK)
    }
}

/// The failure of code that does not compile.
pub(super) fn rejected(rejected: &Rejected, file: &str, source: &str) -> RunFailure {
    let Rejected { message, place } = rejected;
    let (at, shown) = match place {
        Some(place) => (
            format!(" (line {}, column {})", place.line, place.column),
            excerpt(source, *place).map(|shown| format!("{file}:{}:{}\n{shown}\n", place.line, place.column)),
        ),
        None => (String::new(), None),
    };
    let message = capped(format!("SyntaxError: {message}"), MAX_MESSAGE);
    let traceback = shown.map(|shown| format!("{shown}{message}")).unwrap_or_default();
    RunFailure { code: "syntax".to_owned(), message: format!("{message}{at}"), traceback, hint: None }
}

/// A failure of the code without an exception.
pub(super) fn plain(message: impl Into<String>, hint: Option<&str>) -> RunFailure {
    RunFailure {
        code: "exception".to_owned(),
        message: capped(message.into(), MAX_MESSAGE),
        traceback: String::new(),
        hint: hint.map(str::to_owned),
    }
}

fn hint(message: &str) -> Option<String> {
    if message.strip_prefix("TypeError: ") == Some(fetch::OFF) {
        return Some(NETWORK_HINT.to_owned());
    }
    absent::hint(message).or_else(|| undefined(message))
}

fn undefined(message: &str) -> Option<String> {
    let name = message.strip_prefix("ReferenceError: ")?.strip_suffix(" is not defined")?.trim_matches('\'');
    let (_, hint) = ABSENT.iter().find(|(names, _)| names.contains(&name))?;
    Some((*hint).to_owned())
}

fn capped(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Thrown, hint, rejected};
    use crate::typescript::compile::Rejected;
    use crate::typescript::positions::Place;
    use crate::typescript::sources::Sources;

    #[test]
    fn absent_names_have_a_hint_and_unknown_ones_have_none() {
        let off = hint("TypeError: fetch failed: network is off in this sandbox");
        assert!(off.is_some_and(|hint| hint.contains("call tools instead")));
        assert!(hint("ReferenceError: 'Buffer' is not defined").is_some());
        assert_eq!(hint("ReferenceError: foo is not defined"), None);
        assert_eq!(hint("TypeError: fetch is not defined"), None);
    }

    #[test]
    fn codes_follow_the_cause() {
        let code = |name: &str, message: &str| {
            let thrown = Thrown { name: name.to_owned(), message: message.to_owned(), ..Thrown::default() };
            thrown.told(&Sources::default()).code
        };
        assert_eq!(code("InternalError", "InternalError: out of memory"), "memory");
        assert_eq!(code("Error", "Error: No space left on device (os error 28)"), "disk");
        assert_eq!(code("Error", "Error: out of memory"), "exception");
    }

    #[test]
    fn a_syntax_error_says_where() {
        let wrong = Rejected { message: "Expected `)`".to_owned(), place: Some(Place { line: 1, column: 3 }) };
        let told = rejected(&wrong, "<code>", "f(;");
        assert_eq!(told.message, "SyntaxError: Expected `)` (line 1, column 3)");
        assert_eq!(told.traceback, "<code>:1:3\n    f(;\n      ^\nSyntaxError: Expected `)`");
    }
}
