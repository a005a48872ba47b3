//! Renders untrusted texts for a person who decides: one line, no terminal sequences, nothing hidden.

use coracle_types::is_hidden;
use serde_json::{Map, Value};

/// The maximum length of a tool name or a pattern.
const MAX_NAME_CHARS: usize = 128;

/// The maximum length of a string in arguments, so that a long one cannot push the others out of sight.
const MAX_TEXT_CHARS: usize = 200;
/// The maximum number of items of a list or an object in arguments.
const MAX_ITEMS: usize = 20;
/// The maximum depth of arguments.
const MAX_DEPTH: usize = 8;

fn is_gap(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Renders prose as one line, without hidden characters, cut after `max` characters.
pub(crate) fn prose(text: &str, max: usize) -> String {
    let mut rendered = String::new();
    let mut length = 0;
    let mut gap = false;
    for c in text.chars() {
        if is_gap(c) {
            gap = length > 0;
            continue;
        }
        if is_hidden(c) {
            continue;
        }
        if length + usize::from(gap) >= max {
            rendered.push('…');
            break;
        }
        if std::mem::take(&mut gap) {
            rendered.push(' ');
            length += 1;
        }
        rendered.push(c);
        length += 1;
    }
    rendered
}

/// Renders a name with hidden characters escaped: two names that differ look different.
pub(crate) fn name(text: &str) -> String {
    let mut rendered = String::new();
    for (number, c) in text.chars().enumerate() {
        if number == MAX_NAME_CHARS {
            rendered.push('…');
            break;
        }
        if is_hidden(c) || (is_gap(c) && c != ' ') {
            rendered.extend(c.escape_unicode());
        } else {
            rendered.push(c);
        }
    }
    rendered
}

/// Renders arguments as JSON on one line, with long strings and lists shortened and hidden characters escaped, cut
/// after `max` characters.
pub(crate) fn arguments(value: &Value, max: usize) -> String {
    visible(&shortened(value, 0), max)
}

/// The same, for arguments by name.
pub(crate) fn named_arguments(arguments: &Map<String, Value>, max: usize) -> String {
    visible(&Value::Object(shortened_entries(arguments, 0)), max)
}

fn visible(value: &Value, max: usize) -> String {
    let mut rendered = String::new();
    for (number, c) in value.to_string().chars().enumerate() {
        if number == max {
            rendered.push('…');
            break;
        }
        if is_hidden(c) || (is_gap(c) && c != ' ') {
            rendered.push_str(&escaped(c));
        } else {
            rendered.push(c);
        }
    }
    rendered
}

fn escaped(c: char) -> String {
    match c.encode_utf16(&mut [0; 2]) {
        [first, second] => format!("\\u{first:04x}\\u{second:04x}"),
        _ => format!("\\u{:04x}", u32::from(c)),
    }
}

fn shortened(value: &Value, depth: usize) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => Value::from("…"),
        Value::String(text) => Value::from(shortened_text(text)),
        Value::Array(items) => {
            let mut rendered: Vec<Value> =
                items.iter().take(MAX_ITEMS).map(|item| shortened(item, depth + 1)).collect();
            if items.len() > MAX_ITEMS {
                rendered.push(Value::from(format!("… {} more", items.len() - MAX_ITEMS)));
            }
            Value::Array(rendered)
        }
        Value::Object(entries) => Value::Object(shortened_entries(entries, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn shortened_entries(entries: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let rendered = entries.iter().take(MAX_ITEMS);
    let mut rendered: Map<String, Value> =
        rendered.map(|(key, inner)| (shortened_text(key), shortened(inner, depth + 1))).collect();
    if entries.len() > MAX_ITEMS {
        rendered.insert("…".to_owned(), Value::from(format!("{} more", entries.len() - MAX_ITEMS)));
    }
    rendered
}

fn shortened_text(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_CHARS, arguments, name, named_arguments, prose};
    use serde_json::json;

    #[test]
    fn prose_is_one_line_of_visible_characters() {
        assert_eq!(prose("Deletes\n\r\n  a file.\t\u{1b}[2K\u{202e}now\u{0}", 100), "Deletes a file. [2Know");
        assert_eq!(prose("  Löscht 删除 🗑  ", 100), "Löscht 删除 🗑");
    }

    #[test]
    fn prose_is_cut_at_the_limit() {
        assert_eq!(prose("abcd", 4), "abcd");
        assert_eq!(prose("abcde", 4), "abcd…");
        assert_eq!(prose(&"x".repeat(1 << 20), 10).chars().count(), 11);
    }

    #[test]
    fn names_that_differ_look_different() {
        assert_eq!(name("delete file"), "delete file");
        assert_eq!(name("delete\u{200b}"), "delete\\u{200b}");
        assert_ne!(name("delete\u{200b}"), name("delete"));
        assert_eq!(name(&"x".repeat(1000)).chars().count(), MAX_NAME_CHARS + 1);
    }

    #[test]
    fn a_long_argument_does_not_hide_the_next() {
        let rendered = arguments(&json!({"a": "x".repeat(1 << 20), "path": "/etc/passwd"}), 2_000);
        assert!(rendered.contains(r#""path":"/etc/passwd""#), "{rendered}");
        assert!(rendered.contains("(1048576 bytes in all)"), "{rendered}");
    }

    #[test]
    fn arguments_hide_nothing() {
        assert_eq!(arguments(&json!({"p": "a\u{202e}b\u{9b}c\n"}), 100), r#"{"p":"a\u202eb\u009bc\n"}"#);
        assert_eq!(arguments(&json!({"p": "\u{e0041}"}), 100), r#"{"p":"\udb40\udc41"}"#);
    }

    #[test]
    fn arguments_are_bounded_in_every_direction() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert_eq!(arguments(&deep, 100), r#"[[[[[[[["…"]]]]]]]]"#);
        let wide = arguments(&json!((0..1000).collect::<Vec<_>>()), 2_000);
        assert!(wide.ends_with(r#"19,"… 980 more"]"#), "{wide}");
        assert_eq!(arguments(&json!("xxxx"), 3), r#""xx…"#);
        let long = json!({"a": vec!["y".repeat(1 << 16); 1000]});
        let named = named_arguments(long.as_object().unwrap(), 2_000);
        assert_eq!((&named, named.chars().count()), (&arguments(&long, 2_000), 2_001));
    }
}
