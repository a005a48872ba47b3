//! Words for people: what servers and files of others say, made fit for a terminal, and rows in columns.

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use std::fmt::Write as _;

/// Between two columns.
const GAP: u16 = 2;

/// Characters that are not seen, or that change how others are seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// One line of at most so many characters, with what is hidden in it made visible.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The same for a text of many lines, which keep their beginnings.
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

/// JSON for people and programs, with a line break at its end. What is hidden is escaped: outside of texts JSON has none.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value).context("write JSON")?;
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
    Ok(escaped)
}

/// Rows in columns, each row ending its line.
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

/// One thing, or several: `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::{columns, counted, json, plain};

    #[test]
    fn nothing_hidden_reaches_a_terminal() {
        assert_eq!(plain(" a\nb\u{1b}[2K\u{202e}c ", 100), "a b\\u{1b}[2K\\u{202e}c");
        assert_eq!(plain("abcd", 3), "abc…");
        assert_eq!(plain("Löscht 删除 🗑", 100), "Löscht 删除 🗑");
        let text = json(&["\u{9b}2K", "\u{e0041}", "ü"]).unwrap_or_default();
        assert_eq!(text, "[\n  \"\\u009b2K\",\n  \"\\udb40\\udc41\",\n  \"ü\"\n]\n");
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&text).ok(),
            Some(vec!["\u{9b}2K".into(), "\u{e0041}".into(), "ü".into()])
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "long one", "x"], ["bcd", "e", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(rows), "a    long one  x\nbcd  e\n");
        assert_eq!(columns(Vec::<[String; 2]>::new()), "");
    }

    #[test]
    fn one_is_not_several() {
        assert_eq!([counted(0, "tool"), counted(1, "tool"), counted(2, "tool")], ["0 tools", "1 tool", "2 tools"]);
    }
}
