//! What the checks found.

use crate::rules::{Rule, Severity};
use crate::uses::ToolUse;
use std::fmt;

/// Maximum number of findings of one report.
pub const MAX_FINDINGS: usize = 20;

/// Something that a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// What strict mode does about it.
    pub severity: Severity,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What was found. May contain names from the code, in a form that is safe to print.
    pub message: String,
    /// What to do instead.
    pub hint: String,
    /// The name that `guardrails.allow` may list, such as `subprocess.run`.
    pub name: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {} ({})", self.line, self.column, self.message, self.rule)
    }
}

/// Everything that the checks found in one piece of code, in the order of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// At most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Number of findings that were left out.
    pub left_out: usize,
}

impl Report {
    /// The findings because of which strict mode does not run the code.
    pub fn dangers(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Danger)
    }

    /// Whether strict mode runs the code.
    pub fn is_harmless(&self) -> bool {
        self.dangers().next().is_none()
    }
}

/// A finding before its place is known as line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// Byte offset in the code.
    pub(crate) at: usize,
    pub(crate) rule: Rule,
    pub(crate) message: String,
    pub(crate) name: Option<String>,
}

/// What was found in one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) spots: Vec<Spot>,
    pub(crate) uses: Vec<ToolUse>,
    /// Modules that it imports.
    pub(crate) imports: Vec<(usize, String)>,
}

/// A name from the code, in a form that is short and safe to print.
pub(crate) fn shown(name: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut text: String = name.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(MAX_CHARS).is_some() {
        text.push('…');
    }
    text
}
