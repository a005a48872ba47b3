//! Entries in block style, on separate lines.

use crate::edit::flow;
use crate::yaml::{Content, Name, Node};
use serde_json::Value;

/// The indentation of an entry relative to its parent.
const STEP: usize = 2;

/// Appends an entry to the text.
pub(super) fn append(text: &str, name: &str, entry: &Value) -> String {
    let newline = newline(text);
    let mut edited = text.to_owned();
    if !edited.is_empty() && !edited.ends_with('\n') {
        edited.push_str(newline);
    }
    if !edited.trim().is_empty() {
        edited.push_str(newline);
    }
    edited + &lines_of(name, entry, 0, newline)
}

/// Replaces `{}` with an entry.
pub(super) fn fill_empty_flow(text: &str, key: &Name, node: &Node, name: &str, entry: &Value) -> Option<String> {
    let start = node.place.offset?;
    let end = flow::end(text, start)?;
    let line_end = text[end..].find('\n').map(|at| end + at + 1);
    let before = text[..start].trim_end_matches(' ');
    let rest = &text[end..line_end.unwrap_or(text.len())];
    let newline = newline(text);
    let rest = if rest.ends_with('\n') { rest.to_owned() } else { format!("{rest}{newline}") };
    let indent = indent_of(key) + STEP;
    let after = line_end.map_or("", |line_end| &text[line_end..]);
    Some(format!("{before}{rest}{}{after}", lines_of(name, entry, indent, newline)))
}

/// Adds an entry after the last one.
pub(super) fn add(text: &str, key: &Name, node: &Node, name: &str, entry: &Value) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (indent, last) = match &node.content {
        Content::Map(entries) => {
            let first = &entries.first()?.0;
            let last = &entries.last()?.0;
            // An alias refers to text elsewhere.
            if first.place.offset? < key.place.offset? {
                return None;
            }
            (indent_of(first), end_of_block(&lines, line_of(last)?, indent_of(last)))
        }
        Content::Null => (indent_of(key) + STEP, line_of(key)?),
        _ => return None,
    };
    let newline = newline(text);
    let mut edited: String = lines.get(..=last)?.concat();
    if !edited.ends_with('\n') {
        edited.push_str(newline);
    }
    edited.push_str(&lines_of(name, entry, indent, newline));
    edited.push_str(&lines[last + 1..].concat());
    Some(edited)
}

/// Removes the lines of an entry.
pub(super) fn remove(text: &str, key: &Name, entries: &[(Name, Node)], position: usize) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let name = &entries[position].0;
    let first = line_of(name)?;
    // An alias refers to text elsewhere.
    if name.place.offset? < key.place.offset? || first >= lines.len() {
        return None;
    }
    let last = end_of_block(&lines, first, indent_of(name));
    // Anything else on the same line is removed too, which the check after the edit notices.
    let mut edited = format!("{}{}", lines.get(..first)?.concat(), lines[last + 1..].concat());
    if entries.len() == 1 {
        let colon = key.place.offset? + text.get(key.place.offset?..)?.find(':')?;
        edited = format!("{} {{}}{}", edited.get(..=colon)?, edited.get(colon + 1..)?);
    }
    Some(edited)
}

/// The last line of the block that belongs to the key on `start`: all lines with more indentation.
fn end_of_block(lines: &[&str], start: usize, indent: usize) -> usize {
    let mut last = start;
    for (number, line) in lines.iter().enumerate().skip(start + 1) {
        let content = line.trim_start_matches(' ');
        if content.trim().is_empty() {
            continue;
        }
        if line.len() - content.len() > indent {
            last = number;
        } else if !content.starts_with('#') {
            break;
        }
    }
    last
}

fn line_of(name: &Name) -> Option<usize> {
    usize::try_from(name.place.line).ok()?.checked_sub(1)
}

fn indent_of(name: &Name) -> usize {
    usize::try_from(name.place.column).unwrap_or(1).saturating_sub(1)
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// An entry as lines: lists on one line, maps on several.
fn lines_of(name: &str, entry: &Value, indent: usize, newline: &str) -> String {
    let pad = " ".repeat(indent);
    let key = flow::scalar(name);
    match entry {
        Value::Object(fields) if !fields.is_empty() => {
            let mut lines = format!("{pad}{key}:{newline}");
            for (field, value) in flow::in_order(fields) {
                lines.push_str(&lines_of(field, value, indent + STEP, newline));
            }
            lines
        }
        value => format!("{pad}{key}: {}{newline}", flow::text_of(value)),
    }
}
