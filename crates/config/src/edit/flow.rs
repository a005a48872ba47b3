//! Entries in flow style, between braces.

use crate::yaml::{Content, Name, Node, Style};
use serde_json::{Map, Value};

/// Adds an entry before the closing brace.
pub(super) fn add(text: &str, node: &Node, name: &str, entry: &Value) -> Option<String> {
    let Content::Map(entries) = &node.content else { return None };
    let start = node.place.offset?;
    let close = end(text, start)? - 1;
    let inside = text[start + 1..close].trim_end();
    let at = start + 1 + inside.len();
    let comma = if entries.is_empty() || inside.ends_with(',') { "" } else { "," };
    let space = if text[at..close].is_empty() && text[start + 1..].starts_with(' ') { " " } else { "" };
    Some(format!("{}{comma} {}: {}{space}{}", &text[..at], scalar(name), text_of(entry), &text[at..]))
}

/// Removes the entry that begins with this key.
pub(super) fn remove(text: &str, name: &Name) -> Option<String> {
    let start = name.place.offset?;
    let stop = scan(text, start, 0)?;
    if text[stop..].starts_with(',') {
        let after = text[stop + 1..].trim_start_matches(' ');
        return Some(format!("{}{after}", &text[..start]));
    }
    let before = text[..start].trim_end();
    let before = before.strip_suffix(',').unwrap_or(before);
    let value = text[start..stop].trim_end();
    Some(format!("{before}{}", &text[start + value.len()..]))
}

/// The position after the brace that closes the one at `start`.
pub(super) fn end(text: &str, start: usize) -> Option<usize> {
    let inside = start + 1;
    let close = scan(text, inside, 1)?;
    Some(close + 1)
}

/// The position of the comma or closing brace that ends the entry at `start`. With `depth` 1, commas on this level are
/// skipped.
fn scan(text: &str, start: usize, depth: usize) -> Option<usize> {
    let whole_map = depth == 1;
    let mut level = 0_usize;
    let mut quote = None;
    let mut in_comment = false;
    let mut escaped = false;
    // A quote inside a word is part of the word.
    let mut before = ' ';
    let mut begins = true;
    for (at, c) in text[start..].char_indices() {
        if in_comment {
            in_comment = c != '\n';
        } else if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' && open == '"' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
        } else {
            match c {
                '"' | '\'' if begins => quote = Some(c),
                '#' if before.is_whitespace() => in_comment = true,
                '{' | '[' => level += 1,
                '}' | ']' if level == 0 => return (c == '}').then_some(start + at),
                '}' | ']' => level -= 1,
                ',' if level == 0 && !whole_map => return Some(start + at),
                _ => {}
            }
            begins = matches!(c, '{' | '[' | ',' | ':') || (c.is_whitespace() && begins);
        }
        before = c;
    }
    None
}

/// A value on one line.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(text_of).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields =
                in_order(fields).into_iter().map(|(name, value)| format!("{}: {}", scalar(name), text_of(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A string that is parsed as the same string, in quotes if necessary.
pub(super) fn scalar(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && matches!(
            Node::parse(&format!("[{text}]")).map(|node| node.content),
            Ok(Content::List(items)) if matches!(items.as_slice(), [Node { content: Content::Scalar(read, Style::Text), .. }] if read == text)
        )
        // Words that older parsers read as booleans.
        && !["y", "n", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    // JSON is YAML.
    if plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

/// The fields in their usual order, with the most important first.
pub(super) fn in_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    const ORDER: &[&str] = &["type", "command", "args", "url", "headers", "env", "envFile", "cwd", "sandbox"];
    let rank = |name: &String| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len());
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| rank(name));
    fields
}
