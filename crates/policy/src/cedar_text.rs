//! The rules for tools as the Cedar policies that they mean.
//!
//! Rules compare every spelling of a name, folded and not; so do these policies, with the attributes that tools and servers
//! have for it. That a more specific rule decides becomes an explicit exception of the others.

use crate::Rules;
use crate::pattern::{Pattern, Piece};
use coracle_types::Decision;
use std::fmt::Write as _;

impl Rules {
    /// The rules and the default as Cedar policies, in the order of the rules.
    pub fn to_cedar(&self) -> String {
        let mut text = String::from("@id(\"default: permit\")\npermit(principal, action, resource);\n");
        let rules: Vec<_> = self.patterns().collect();
        for (pattern, rule) in &rules {
            if rule.decision == Decision::Allow {
                // An exception of the other rules and of the default.
                let _ = write!(text, "\n// {}: allow ({})\n", quoted(&rule.pattern), one_line(&rule.origin));
                continue;
            }
            let _ =
                write!(text, "\n// {}\n@id({})\n", one_line(&rule.origin), quoted(&format!("rule {}", rule.pattern)));
            if rule.decision == Decision::Ask {
                text.push_str("@ask(\"the rule asks\")\n");
            }
            let matches = matching(pattern, rule.decision);
            let _ = write!(text, "forbid(principal, action == Action::\"call\", resource)\nwhen {{\n  {matches}\n}}");
            let stronger = rules.iter().filter_map(|(other, of)| stronger(other, of.decision, pattern));
            let stronger: Vec<String> = stronger.collect();
            if !stronger.is_empty() {
                let _ = write!(text, "\nunless {{\n  {}\n}}", stronger.join(" ||\n  "));
            }
            text.push_str(";\n");
        }
        let matches: Vec<String> = rules.iter().map(|(pattern, rule)| matching(pattern, rule.decision)).collect();
        // A rule for all tools leaves nothing to the default.
        if matches.iter().any(|matches| matches == TRUE) {
            return text;
        }
        text.push_str("\n@id(\"default: ask about destructive tools\")\n@ask(\"the tool is marked as destructive\")\n");
        text.push_str(
            "forbid(principal, action == Action::\"call\", resource)\nwhen {\n  resource has destructive && ",
        );
        text.push_str("resource.destructive && !(resource has readOnly && resource.readOnly)\n}");
        if !matches.is_empty() {
            let _ = write!(text, "\nunless {{\n  {}\n}}", matches.join(" ||\n  "));
        }
        text.push_str(";\n");
        text
    }
}

/// When the other rule decides instead of one with this pattern.
fn stronger(other: &Pattern, decision: Decision, pattern: &Pattern) -> Option<String> {
    if other.is_more_specific_than(pattern) {
        return Some(matching(other, decision));
    }
    // Of two tools whose names look alike, an exact name means one.
    (other != pattern && other.is_same_as(pattern)).then(|| {
        let twins = "(resource.server.hasTwin || resource.hasTwin)";
        format!("({twins} && {} && !{})", exactly(other), exactly(pattern))
    })
}

/// When a rule with this pattern and decision matches.
fn matching(pattern: &Pattern, decision: Decision) -> String {
    let [server, tool] = pattern.parts();
    let part = |of: &str, (written, folded): (&[Piece], &[Piece])| {
        let (exact, loose) = (exact(of, written), loose(of, folded));
        match (decision, exact == TRUE) {
            (_, true) => TRUE.to_owned(),
            // A rule that allows matches an exact name only, if another looks the same.
            (Decision::Allow, false) => format!("({exact} || (!{of}.hasTwin && {loose}))"),
            (Decision::Ask | Decision::Deny, false) => format!("({exact} || {loose})"),
        }
    };
    both(part("resource.server", server), part("resource", tool))
}

/// When a pattern matches the exact names.
fn exactly(pattern: &Pattern) -> String {
    let [server, tool] = pattern.parts();
    both(exact("resource.server", server.0), exact("resource", tool.0))
}

const TRUE: &str = "true";

fn both(server: String, tool: String) -> String {
    match (server.as_str(), tool.as_str()) {
        (TRUE, TRUE) => TRUE.to_owned(),
        (TRUE, _) => tool,
        (_, TRUE) => server,
        _ => format!("({server} && {tool})"),
    }
}

fn exact(of: &str, written: &[Piece]) -> String {
    if written == [Piece::Any] {
        return TRUE.to_owned();
    }
    let like = like(written);
    format!("({of}.name like {like} || {of}.identifier like {like})")
}

fn loose(of: &str, folded: &[Piece]) -> String {
    let like = like(folded);
    let forms = ["name", "plain", "identifier"].map(|form| format!("{of}.folded.{form} like {like}"));
    format!("({})", forms.join(" || "))
}

/// A pattern of `like`.
fn like(pieces: &[Piece]) -> String {
    let mut text = String::from("\"");
    for piece in pieces {
        match piece {
            Piece::Any => text.push('*'),
            Piece::Char('*') => text.push_str("\\*"),
            Piece::Char(c) => push(&mut text, *c),
        }
    }
    text + "\""
}

fn quoted(string: &str) -> String {
    let mut text = String::from("\"");
    string.chars().for_each(|c| push(&mut text, c));
    text + "\""
}

/// Everything but printable ASCII is escaped, so that nothing is hidden.
fn push(text: &mut String, c: char) {
    match c {
        '"' | '\\' => text.extend(['\\', c]),
        ' '..='~' => text.push(c),
        _ => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
        }
    }
}

/// A text for a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
