//! Which transformations of a value that was found once are recognized. The table is in `docs/privacy.md`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use coracle_privacy::{Detector, DetectorSettings, UserVault, Vaults};
use coracle_store::MemoryStore;
use coracle_types::UserId;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

type Transform = fn(&str) -> String;

const TRANSFORMATIONS: [(&str, Transform); 27] = [
    ("as it is", |value| value.to_owned()),
    ("in a longer word", |value| format!("x{value}x")),
    ("other case", |value| value.to_uppercase()),
    ("escaped as in JSON, up to three times", |value| {
        (0..3).fold(value.to_owned(), |text, _| Value::from(text).to_string())
    }),
    ("escaped as in Python, HTML or CSV", |value| value.replace('\'', "&#39;").replace('"', "\"\"")),
    ("encoded for a URL", |value| {
        format!("%{}", value.bytes().map(|byte| hex::encode_upper([byte])).collect::<Vec<_>>().join("%"))
    }),
    ("encoded for a form (`+` for spaces)", |value| value.replace('@', "%40").replace(' ', "+")),
    ("base64, also for URLs", |value| STANDARD.encode(value)),
    ("base64 of a longer text", |value| URL_SAFE_NO_PAD.encode(format!("from {value} to you"))),
    ("hexadecimal, in any case", |value| hex::encode_upper(value)),
    ("numbers without their separators", |value| separated(value, "")),
    ("numbers with other separators", |value| separated(value, "/")),
    ("base64 in lines", |value| lines(&STANDARD.encode(value), 8)),
    ("base64 of base64", |value| STANDARD.encode(STANDARD.encode(value))),
    ("hexadecimal with separators", |value| {
        hex::encode(value).as_bytes().chunks(2).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
    }),
    ("bytes as a list of numbers", |value| value.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ")),
    ("reversed", |value| value.chars().rev().collect()),
    ("rot13", |value| value.chars().map(rot13).collect()),
    ("split in two lines", |value| lines(value, value.len() / 2)),
    ("one character per line", |value| lines(value, 1)),
    ("with a space after each character", |value| value.chars().flat_map(|c| [c, ' ']).collect()),
    ("homoglyphs (`о` in Cyrillic)", |value| value.replace('o', "о").replace('i', "і").replace('1', "l")),
    ("full-width characters", |value| value.chars().map(wide).collect()),
    ("with invisible characters", |value| value.chars().flat_map(|c| [c, '\u{200b}']).collect()),
    ("without its first character", |value| value.chars().skip(1).collect()),
    ("its first half only", |value| value.chars().take(value.len() / 2).collect()),
    ("digits as words", |value| value.chars().map(|c| c.to_digit(10).map_or(c.to_string(), spelled)).collect()),
];

/// A number with other separators. Other values stay as they are.
fn separated(value: &str, separator: &str) -> String {
    if value.contains(char::is_alphabetic) { value.to_owned() } else { value.replace([' ', '-'], separator) }
}

fn lines(text: &str, length: usize) -> String {
    text.as_bytes().chunks(length.max(1)).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n")
}

fn rot13(c: char) -> char {
    let turned = |first: u8| char::from((c as u8 - first + 13) % 26 + first);
    match c {
        'a'..='z' => turned(b'a'),
        'A'..='Z' => turned(b'A'),
        _ => c,
    }
}

fn wide(c: char) -> char {
    if c.is_ascii_graphic() { char::from_u32(u32::from(c) + 0xfee0).unwrap() } else { c }
}

fn spelled(digit: u32) -> String {
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][digit as usize].to_owned() + " "
}

/// A value of each kind, and the key that told what it is.
const VALUES: [(&str, &str, &str); 4] = [
    ("e-mail", "mail", "kim.quinn@example.org"),
    ("card", "card", "4111-1111-1111-1111"),
    ("name", "full_name", "Morgan Quillington"),
    ("address", "street", "12 Old Harbor Lane"),
];

/// Whether nothing is left of what a text says.
async fn is_caught(vault: &UserVault, text: &str) -> bool {
    let mut safe = text.to_owned();
    vault.tokenize_text(&mut safe).await.unwrap();
    // The rest of a word, quotation marks and what surrounds encoded text may stay.
    let left = safe.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect::<String>();
    safe.contains(']') && left.chars().filter(|c| c.is_alphanumeric()).count() * 2 < text.chars().count()
}

#[tokio::test]
async fn the_documentation_lists_what_is_recognized() {
    let mut table = "| a value that was found once |".to_owned();
    table.extend(VALUES.map(|(kind, ..)| format!(" {kind} |")));
    writeln!(table, "\n|---|{}", "---|".repeat(VALUES.len())).unwrap();
    for (name, transform) in TRANSFORMATIONS {
        write!(table, "| {name} |").unwrap();
        for (_, key, value) in VALUES {
            // A fresh vault, so that nothing is known but the value.
            let vaults =
                Vaults::new(Arc::new(MemoryStore::new()), Detector::new(DetectorSettings::default()).unwrap(), None);
            let vault = vaults.of(&UserId::local()).await.unwrap();
            vault.learn(&json!({ key: value })).unwrap();
            let is_same = transform(value) == value && name != TRANSFORMATIONS[0].0;
            let cell = match (is_same, is_caught(&vault, &transform(value)).await) {
                (true, _) => "–",
                (false, true) => "yes",
                (false, false) => "no",
            };
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    let documentation = include_str!("../../../docs/privacy.md");
    assert!(documentation.contains(&table), "docs/privacy.md does not have this table:\n\n{table}");
}
