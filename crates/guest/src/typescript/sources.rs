//! The loaded code, by its name in stack traces, to find the position of an error in the user's text.

use super::positions::{Place, Positions};
use std::collections::HashMap;

/// The prefix of our own scripts, which users do not see.
pub(super) const OWN: &str = "coracle:";

/// Generated modules, which only forward calls.
const GENERATED: &str = "/coracle/servers/";

/// The maximum number of frames in a stack trace.
const MAX_FRAMES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Sources {
    known: HashMap<String, (Positions, String)>,
}

/// One line of a stack trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The function. Empty at the top level.
    pub(super) function: String,
    pub(super) file: String,
    pub(super) place: Place,
}

impl Sources {
    pub(super) fn add(&mut self, name: &str, positions: Positions, text: &str) {
        self.known.insert(name.to_owned(), (positions, text.to_owned()));
    }

    /// The user's frames of a QuickJS stack trace, with positions in the user's source.
    pub(super) fn frames(&self, stack: &str) -> Vec<Frame> {
        stack.lines().filter_map(|line| self.frame(line)).take(MAX_FRAMES).collect()
    }

    fn frame(&self, line: &str) -> Option<Frame> {
        let line = line.trim().strip_prefix("at ")?;
        let (function, location) = match line.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
            Some((function, location)) => (function, location),
            None => ("", line),
        };
        let (rest, column) = location.rsplit_once(':')?;
        let (file, row) = rest.rsplit_once(':')?;
        if file.starts_with(OWN) || file.starts_with(GENERATED) {
            return None;
        }
        let generated = Place { line: row.parse().ok()?, column: column.parse().ok()? };
        let place = self.known.get(file).map_or(generated, |(positions, _)| positions.source(generated));
        let function = if function == "<eval>" || function == "<anonymous>" { "" } else { function };
        Some(Frame { function: function.to_owned(), file: without_version(file).to_owned(), place })
    }

    /// A line of the source with a mark below the column, if possible.
    pub(super) fn excerpt(&self, file: &str, place: Place) -> Option<String> {
        let (_, text) = self.known.get(file)?;
        excerpt(text, place)
    }
}

/// The name without its version number.
pub(super) fn without_version(file: &str) -> &str {
    file.rsplit_once('#').map_or(file, |(path, _)| path)
}

/// The maximum length of a line in an excerpt. Minified code is not useful.
const MAX_LINE: usize = 200;

pub(super) fn excerpt(text: &str, place: Place) -> Option<String> {
    let line = text.lines().nth(place.line.checked_sub(1)? as usize)?;
    if line.chars().count() > MAX_LINE || line.trim().is_empty() {
        return None;
    }
    let before = line.chars().take(place.column.saturating_sub(1) as usize);
    // Tabs are kept, so that the mark is below its column.
    let pad: String = before.map(|letter| if letter == '\t' { '\t' } else { ' ' }).collect();
    Some(format!("    {line}\n    {pad}^"))
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { function, file, place: Place { line, column } } = self;
        if function.is_empty() {
            write!(f, "    at {file}:{line}:{column}")
        } else {
            write!(f, "    at {function} ({file}:{line}:{column})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sources, excerpt};
    use crate::typescript::positions::{Place, Positions};

    #[test]
    fn stack_traces_have_the_users_frames_with_source_positions() {
        let mut sources = Sources::default();
        sources.add("<code>", Positions::new(vec![((0, 0), (4, 2)), ((1, 0), (7, 0))]), "");
        let stack = "    at f (<code>:1:3)\n    at call (coracle:tools:9:1)\n    at t (/coracle/servers/x/t.ts:1:1)\n    at <eval> (<code>:2:1)\n    at g (native)\n    at h (/workspace/a.ts#2:3:4)\n";
        let shown: Vec<String> = sources.frames(stack).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["    at f (<code>:5:3)", "    at <code>:8:1", "    at h (/workspace/a.ts:3:4)"]);
    }

    #[test]
    fn an_excerpt_marks_the_column() {
        let place = Place { line: 2, column: 3 };
        assert_eq!(excerpt("a\n\tbcd\n", place).as_deref(), Some("    \tbcd\n    \t ^"));
        assert_eq!(excerpt("a\n", Place { line: 9, column: 1 }), None);
    }
}
