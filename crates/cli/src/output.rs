//! Text for terminals: escaping of untrusted text, JSON, columns and prompts.

use crate::status::Mistake;
use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use coracle_types::is_hidden;
pub(crate) use coracle_types::single_line as plain;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

/// Space between two columns.
const GAP: u16 = 2;

/// Escapes hidden characters of each line.
pub(crate) fn plain_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    for line in text.lines() {
        for c in line.chars() {
            if c != '\t' && is_hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
        }
        shown.push('\n');
    }
    shown
}

/// Prefixes of Coracle's own lines.
const OWN: [&str; 6] = ["hint", "error", "warning", "note", "artifact", "coracle"];

/// Escapes output of a sandbox, and marks lines that look like Coracle's own.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    for line in plain_lines(text).lines() {
        let start = line.trim_start().to_lowercase();
        let poses = OWN.iter().any(|word| {
            let rest = start.strip_prefix(word).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with([':', '：']))
        });
        let _ = writeln!(out, "{}{line}", if poses { "| " } else { "" });
    }
    out
}

/// Renders an error with its causes for standard error. Quoted texts may be untrusted.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    plain_lines(&format!("error: {error:#}"))
}

/// Renders JSON on one line, with hidden characters escaped.
pub(crate) fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(&serde_json::to_string(value).context("cannot write JSON")?))
}

/// Renders indented JSON with a final line break. Hidden characters, which only occur in strings, are escaped.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value).context("cannot write JSON")?))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c != '\n' && is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped.push('\n');
    escaped
}

/// Aligns rows in columns.
pub(crate) fn columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Asks a yes-or-no question at the terminal. Without a terminal, this is an error with `hint`.
pub(crate) fn agreed(question: &str, hint: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Mistake::new("cannot prompt: stdin or stderr is not a terminal", Some(hint)).into());
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the answer")?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Formats a count with singular or plural: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::{columns, counted, json, quoted};

    #[test]
    fn hidden_characters_are_escaped() {
        let text = json(&["\u{9b}2K", "\u{e0041}", "ü"]).unwrap_or_default();
        assert_eq!(text, "[\n  \"\\u009b2K\",\n  \"\\udb40\\udc41\",\n  \"ü\"\n]\n");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&text).ok(),
            Some(vec!["\u{9b}2K".into(), "\u{e0041}".into(), "ü".into()])
        );
    }

    #[test]
    fn lines_from_a_sandbox_cannot_pose_as_ours() {
        let traceback = "Traceback:\nhint: run this\n  Warning : that\nCORACLE: x\nhints are fine\nE: x\rhint: y";
        assert_eq!(
            quoted(traceback),
            "Traceback:\n| hint: run this\n|   Warning : that\n| CORACLE: x\nhints are fine\nE: x\\u{d}hint: y\n"
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "long one", "x"], ["bcd", "e", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(rows), "a    long one  x\nbcd  e\n");
        assert_eq!(columns(Vec::<[String; 2]>::new()), "");
    }

    #[test]
    fn counts_use_singular_and_plural() {
        assert_eq!([counted(0, "tool"), counted(1, "tool"), counted(2, "tool")], ["0 tools", "1 tool", "2 tools"]);
    }
}
