//! Labelled texts.

use anyhow::{Context, ensure};
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;

/// The built-in set: synthetic texts with each kind, and texts that only look like it. Texts are separated by lines with
/// `%%`, and values are marked as `⟦KIND:value⟧`.
const BUILT_IN: &str = include_str!("../../../privacy/tests/corpus/labelled.txt");

/// One text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) spans: Vec<Span>,
}

/// A kind and a place in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) kind: String,
    pub(super) span: Range<usize>,
}

#[derive(Deserialize)]
struct Line {
    text: String,
    spans: Vec<Labelled>,
}

#[derive(Deserialize)]
struct Labelled {
    #[serde(rename = "type")]
    kind: String,
    start: usize,
    end: usize,
}

pub(super) fn built_in() -> anyhow::Result<Vec<Text>> {
    BUILT_IN.split("\n%%\n").map(|marked| unmarked(marked.trim_end())).collect()
}

fn unmarked(marked: &str) -> anyhow::Result<Text> {
    let (mut text, mut spans) = (String::new(), Vec::new());
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once('⟦') {
        let (mark, after) = after.split_once('⟧').context("a mark has no end")?;
        let (kind, value) = mark.split_once(':').context("a mark has no kind")?;
        text.push_str(before);
        spans.push(Span { kind: kind.to_owned(), span: text.len()..text.len() + value.len() });
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    Ok(Text { text, spans })
}

pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Text>> {
    parse(&std::fs::read_to_string(file).context("cannot read the texts")?)
}

fn parse(lines: &str) -> anyhow::Result<Vec<Text>> {
    let lines = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let texts: Vec<Text> = lines
        .map(|(index, line)| one(line).with_context(|| format!("line {}", index + 1)))
        .collect::<anyhow::Result<_>>()?;
    ensure!(!texts.is_empty(), "there are no texts");
    Ok(texts)
}

fn one(line: &str) -> anyhow::Result<Text> {
    let Line { text, spans } = serde_json::from_str(line)?;
    // Positions in bytes by positions in characters.
    let bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
    let spans = spans
        .into_iter()
        .map(|Labelled { kind, start, end }| {
            let place = |character: usize| bytes.get(character).copied().context("a span ends outside the text");
            Ok(Span { kind: label(&kind).to_owned(), span: place(start)?..place(end)? })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Text { text, spans })
}

/// The label of Coracle for a type of Presidio or of its data sets.
pub(super) fn label(kind: &str) -> &str {
    match kind {
        "EMAIL_ADDRESS" => "EMAIL",
        "PHONE_NUMBER" => "PHONE",
        "IBAN_CODE" => "IBAN",
        "DOMAIN_NAME" => "URL",
        "US_DRIVER_LICENSE" => "DRIVER_LICENSE",
        "STREET_ADDRESS" | "GPE" | "LOCATION" | "ZIP_CODE" => "ADDRESS",
        "US_PASSPORT" => "PASSPORT",
        "US_BANK_NUMBER" => "BANK_ACCOUNT",
        "ABA_ROUTING_NUMBER" => "BANK_ROUTING",
        "CRYPTO" => "CRYPTO_ADDRESS",
        "UK_NHS"
        | "UK_NINO"
        | "ES_NIF"
        | "ES_NIE"
        | "IT_FISCAL_CODE"
        | "PL_PESEL"
        | "SG_NRIC_FIN"
        | "AU_TFN"
        | "IN_PAN"
        | "IN_AADHAAR"
        | "FI_PERSONAL_IDENTITY_CODE"
        | "KR_RRN" => "NATIONAL_ID",
        other => other,
    }
}
