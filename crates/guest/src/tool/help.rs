//! Lists of servers and tools, and help for a tool, as text.

use super::Absent;
use super::catalogue::{Server, Tool};
use super::kinds::kinds;
use serde_json::Value;
use std::fmt::Write as _;

/// The maximum length of a line in a list.
pub(super) const MAX_LINE: usize = 120;

/// The maximum length of a description.
const MAX_DESCRIPTION: usize = 4 << 10;

pub(super) const USAGE: &str = "\
Calls tools of other people's servers.

  tool                               the servers
  tool SERVER                        its tools
  tool SERVER TOOL --help            its parameters
  tool SERVER TOOL --NAME VALUE ...  calls it
  tool search WORDS ...              finds tools by what they do; with --server X, --category X, --limit N if need be
                                     (tool --search WORDS ... if a server is called search)
  tool checkpoint STEP [CONTEXT]     says in the log of the session where the work has come to; CONTEXT is JSON or text
  tool pii tokenize|detokenize [TEXT]   replaces personal data by tokens, or tokens by what they stand for

A flag is text, a number, true or false, or JSON, as the tool wants it. A list is a flag given several times, or JSON.
--json '{...}' gives arguments as a whole, and so does - from standard input; flags win over them. What the tool answers
goes to standard output: text as it is, everything else as JSON.

Exit status: 0, 1 if the call failed, 75 if it may succeed later, 2 if the command was wrong.
";

pub(super) fn servers(names: &[String], absent: &[Absent]) -> String {
    if names.is_empty() && absent.is_empty() {
        return "no server is configured\n".to_owned();
    }
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "{name}");
    }
    for Absent { server, reason } in absent {
        let _ = writeln!(text, "{}", capped(&format!("{server}  ({reason})"), MAX_LINE));
    }
    text
}

pub(super) fn tools(server: &Server) -> String {
    let width = server.tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0).min(40);
    let mut text = String::new();
    for tool in &server.tools {
        let summary = if tool.summary.is_empty() { &tool.description } else { &tool.summary };
        let line = format!("{:width$}  {}", tool.name, summary.lines().next().unwrap_or_default());
        let _ = writeln!(text, "{}", capped(line.trim_end(), MAX_LINE));
    }
    if text.is_empty() {
        text = format!("{} has no tools\n", server.name);
    }
    text
}

pub(super) fn tool(server: &Server, tool: &Tool) -> String {
    let mut text = format!("tool {} {}\n", server.name, tool.name);
    if !tool.description.trim().is_empty() {
        let _ = writeln!(text, "\n{}", capped(tool.description.trim(), MAX_DESCRIPTION));
    }
    let root = &tool.input_schema;
    let properties = root.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        text.push_str("\nIt takes no arguments.\n");
        return text;
    };
    text.push_str("\nParameters:\n");
    let required: Vec<&str> =
        root.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in properties {
        let mut line = format!("  --{name}  {}", kinds(root, schema).names());
        if required.contains(&name.as_str()) && !has_default(root, name) {
            line.push_str(", required");
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let shown: Vec<String> = values.iter().map(word).collect();
            let _ = write!(line, ", one of: {}", shown.join(", "));
        }
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            let _ = write!(line, " [default: {}]", word(default));
        }
        let _ = writeln!(text, "{}", capped(&line, 4 * MAX_LINE));
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            for line in capped(description, MAX_DESCRIPTION).lines() {
                let _ = writeln!(text, "      {}", line.trim());
            }
        }
    }
    text
}

/// Whether the host fills this parameter in if it is missing.
pub(super) fn has_default(root: &Value, name: &str) -> bool {
    root.get("properties").and_then(|properties| properties.get(name)?.get("default")).is_some()
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn capped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
