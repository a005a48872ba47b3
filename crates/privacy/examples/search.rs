//! Measures the search for personal data, and prints what it finds, to compare two states of the code.
//!
//! `search speed` prints megabytes a second for several kinds of text. `search findings [FILE]` prints a digest of the
//! findings in random texts, or the findings in each line of a file of JSON objects with a member `text`.

#![expect(clippy::print_stdout, reason = "this is what the program is for")]

use coracle_privacy::{Detector, DetectorSettings, Item, Kind, Vaults};
use coracle_store::MemoryStore;
use coracle_types::UserId;
use fastrand::Rng;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of each text.
const SIZE: usize = 100_000;
/// How long each text is searched at least.
const LEAST: Duration = Duration::from_millis(400);
/// Number of random texts.
const TEXTS: usize = 60_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["speed"] => speed(),
        ["findings"] => digest(),
        ["findings", file] => findings(file),
        _ => println!("usage: search speed | search findings [FILE]"),
    }
}

/// Without names in running text, and with findings of every confidence.
fn structured() -> Detector {
    let mut settings = DetectorSettings::default();
    (settings.names, settings.min_confidence) = (false, 0);
    settings.enable = vec![Kind::Url];
    Detector::new(settings).unwrap_or_default()
}

fn speed() {
    let (all, structured) = (Detector::default(), structured());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let Ok(runtime) = runtime else { return };
    println!("{:<22}{:>12}{:>12}{:>12}", "MB/s", "structured", "all", "vault");
    for (name, text) in texts() {
        let rate = |search: &mut dyn FnMut()| {
            let (began, mut rounds) = (Instant::now(), 0_u32);
            while began.elapsed() < LEAST {
                search();
                rounds += 1;
            }
            f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX)) * f64::from(rounds)
                / began.elapsed().as_secs_f64()
                / 1e6
        };
        let own = rate(&mut || drop(black_box(structured.find(black_box(&text)))));
        let both = rate(&mut || drop(black_box(all.find(black_box(&text)))));
        let vaults = Vaults::new(Arc::new(MemoryStore::new()), Detector::default(), None);
        let Ok(vault) = runtime.block_on(vaults.of(&UserId::local())) else { return };
        let tokenized = rate(&mut || {
            let mut copy = text.clone();
            drop(black_box(runtime.block_on(vault.tokenize(&mut [Item::Text(&mut copy)]))));
        });
        println!("{name:<22}{own:>12.1}{both:>12.1}{tokenized:>12.1}");
    }
}

fn texts() -> Vec<(&'static str, String)> {
    let mut rng = Rng::with_seed(7);
    let mut logs = String::new();
    while logs.len() < SIZE {
        let _ = writeln!(
            logs,
            "2026-03-{:02}T10:{:02}:{:02}.{:03}Z info request id={:08x} path=/v1/items/{} status={} took={}ms bytes={}",
            rng.u32(1..29),
            rng.u32(..60),
            rng.u32(..60),
            rng.u32(..1000),
            rng.u32(..),
            rng.u32(..100_000),
            rng.u32(200..505),
            rng.u32(1..900),
            rng.u32(..1_000_000),
        );
    }
    let words = "the server has answered each of the questions that were sent with one of its lists and then nothing \
                 more was read from any of them because all of the workers were waiting for some other part";
    let words: Vec<&str> = words.split(' ').collect();
    let mut prose = String::new();
    while prose.len() < SIZE {
        prose.push_str(words[rng.usize(..words.len())]);
        prose.push(if rng.u8(..12) == 0 { '\n' } else { ' ' });
    }
    let mut data = String::new();
    while data.len() < SIZE {
        let row = json!({
            "id": rng.u32(..), "sku": format!("A-{:05}", rng.u32(..100_000)), "price": f64::from(rng.u32(..100_000)) / 100.0,
            "tags": ["new", "sale"], "stock": rng.u32(..500), "updated": "2026-03-12T10:00:00Z", "active": rng.bool(),
        });
        data.push_str(&row.to_string());
        data.push('\n');
    }
    let mut people = String::new();
    while people.len() < SIZE {
        let (first, last) = (rng.usize(..6), rng.usize(..6));
        let (first, last) = (
            ["Anna", "Kim", "Lou", "Maria", "Peter", "Tom"][first],
            ["Quinn", "Smith", "Garcia", "Lee", "Brown", "Young"][last],
        );
        let _ = writeln!(
            people,
            "{first} {last} <{}.{}{}@example.org> called from 415-555-{:04} about card 4111 1111 1111 1111.",
            first.to_lowercase(),
            last.to_lowercase(),
            rng.u32(..500),
            rng.u32(..10_000),
        );
    }
    vec![("log lines", logs), ("prose in lower case", prose), ("JSON lines", data), ("people", people)]
}

/// Pieces of which random texts are made: what findings consist of, words around them, and what looks alike.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    " ", " ", " ", " ", "\n", ", ", ". ", ": ", "=", "-", "/", ".", "(", ")", "+", "\"", "'", "_", "\\n", "\\", "@", "://", "::", ":",
    "phone", "tel", "card", "ssn", "routing", "account number", "passport", "driver license", "born on", "DOB", "national id",
    "order", "id", "Phone", "homePhone", "tax_id", "call me at ", "ext. 12", "x99", "version", "total $", "€", "March ", "may ", "12th of June, ",
    "december 3, 1999", "1980-03-12", "12/3/80", "3.4.1999", "2026-03-12T10:00:00Z", "Sept 3 1999",
    "415-555-0123", "(415) 555-0123", "+44 20 7946 0958", "+1 415 555 0123", "020 7946 0958", "4155550123", "555 0123",
    "4111 1111 1111 1111", "4111111111111111", "378282246310005", "123-45-6789", "536-90-4399", "536904399", "912-78-1234", "021000021",
    "DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "gb29nwbk60161331926819",
    "10.0.0.1", "192.168.13.37", "8.8.8.8", "2001:db8::1", "fe80::1", "::1", "00:1b:44:11:3a:b7", "00-1B-44-11-3A-B7", "1.2.3.4.5",
    "ann@example.org", "a.b+c@mail.example.co.uk", "icon@2x.png", "x@y", "ü@bücher.example", "https://ann:s3cret!x@example.org/a?b=c", "http://example.org/x",
    "password=hunter2!x", "api_key: 'aB3xY9kL0mN7qR2sT5'", "Authorization: Bearer abcDEF123456ghiJKL789", "token = abc", "secret", "pwd",
    "AKIAIOSFODNN7EXAMPLE", "ghp_aB3xY9kL0mN7qR2sT5vW8zC1dF4gH6jK9pQ2", "sk-ant-api03-aB3xY9kL0mN7qR2sT5", "xoxb-1234567890-abcdef", "AC",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk", "eyJ", "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----", "-----", "123.456.789-09", "12.345.678-5", "85.07.30-033.28", "AB123456C",
    "RSSMRA85T10A562S", "S1234567D", "756.9217.0769.85", "19121212-1212", "131052-308T", "12345678Z", "X-1234567-L", "HETU",
    "A", "b", "0", "7", "12", "1999", "abcdef", "deadbeef", "Zürich", "naïve", "日本", "\u{a0}", "–", "the", "of", "and", "meeting", "microphone",
];

fn random(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(1..24) {
        match rng.u8(..12) {
            0 => text.extend((0..rng.usize(1..14)).map(|_| rng.digit(10))),
            1 => text.extend((0..rng.usize(1..9)).map(|_| rng.alphanumeric())),
            2 => text.push(char::from(rng.u8(0x20..0x7f))),
            _ => text.push_str(PIECES[rng.usize(..PIECES.len())]),
        }
        if rng.bool() {
            text.push(' ');
        }
    }
    text
}

fn add(detector: &Detector, key: Option<&str>, text: &str, found: &mut String) {
    let findings = match key {
        Some(key) => detector.find_in_value(key, text),
        None => detector.find(text),
    };
    for finding in findings {
        let _ = write!(found, "{} {:?} {};", finding.kind.label(), finding.span, finding.confidence.0);
    }
    found.push('\n');
}

fn digest() {
    let (structured, mut rng) = (structured(), Rng::with_seed(11));
    let (mut hash, mut count) = (Sha256::new(), 0);
    for number in 0..TEXTS {
        let text = random(&mut rng);
        let key = [None, None, Some("phone"), Some("dob"), Some("ssn"), Some("password"), Some("card")][number % 7];
        let mut found = String::new();
        add(&structured, key, &text, &mut found);
        count += found.matches(';').count();
        hash.update(found.as_bytes());
        let mut scanner = structured.scanner();
        let half = text.floor_char_boundary(text.len() / 2);
        let mut pieces = scanner.push(&text[..half]);
        pieces.extend(scanner.push(&text[half..]));
        pieces.extend(scanner.finish());
        hash.update(format!("{pieces:?}"));
    }
    for (name, text) in texts() {
        let mut found = String::new();
        add(&structured, None, &text, &mut found);
        add(&Detector::default(), None, &text, &mut found);
        println!("{name}: {} findings", found.matches(';').count());
        hash.update(found.as_bytes());
    }
    println!("{TEXTS} random texts: {count} findings, digest {}", hex::encode(hash.finalize()));
}

fn findings(file: &str) {
    let Ok(lines) = std::fs::read_to_string(file) else { return println!("cannot read {file}") };
    let (all, structured) = (Detector::default(), structured());
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        let Some(text) = row["text"].as_str() else { continue };
        let mut found = String::new();
        add(&all, None, text, &mut found);
        add(&structured, None, text, &mut found);
        add(&structured, None, &text.to_lowercase(), &mut found);
        print!("{found}");
    }
}
