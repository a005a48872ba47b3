//! Patterns and words of the operator.

use crate::finding::Finding;
use crate::kinds::Kind;
use crate::scan::Words;
use crate::settings::{CustomPattern, DetectorError, Matcher};
use crate::windows::{Window, WindowFinder};
use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;
use regex_automata::{Input, util::syntax};
use std::sync::Arc;

/// The most patterns.
pub(crate) const PATTERNS_MOST: usize = 200;
/// The most words of one pattern, and the longest.
const WORDS_MOST: usize = 10_000;
const WORD_MOST: usize = 200;
/// The longest label.
const LABEL_MOST: usize = 32;
/// The size of a compiled expression, in bytes.
const COMPILED_MOST: usize = 2 * 1024 * 1024;
/// How deeply expressions may be nested.
const NESTING_MOST: u32 = 50;
/// How far before a match its context may be, in bytes.
const CONTEXT_BEFORE: usize = 64;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Custom {
    kind: Kind,
    confidence: u8,
    search: Search,
    context: Option<Words>,
}

#[derive(Debug)]
enum Search {
    Regex(Regex),
    Words(AhoCorasick),
}

impl Custom {
    pub(crate) fn new(pattern: CustomPattern) -> Result<Self, DetectorError> {
        check_label(&pattern.label)?;
        let search = match &pattern.matcher {
            Matcher::Regex(expression) => Search::Regex(compile(&pattern.label, expression)?),
            Matcher::Words(words) => Search::Words(list(&pattern.label, words)?),
        };
        let context = (!pattern.context.is_empty()).then(|| Words::new(&pattern.context));
        let kind = Kind::Custom(Arc::from(pattern.label));
        Ok(Self { kind, confidence: pattern.confidence.min(100), search, context })
    }
}

impl WindowFinder for Custom {
    fn find(&self, window: &Window<'_>, found: &mut Vec<Finding>) {
        let text = window.text;
        let mut add = |start: usize, end: usize| {
            let before = text.as_bytes().get(start.saturating_sub(CONTEXT_BEFORE)..start).unwrap_or_default();
            if self.context.as_ref().is_none_or(|words| words.are_in(before)) {
                found.push(Finding::new(self.kind.clone(), start..end, self.confidence));
            }
        };
        match &self.search {
            Search::Regex(regex) => {
                let input = Input::new(text).range(window.from..);
                for found in regex.find_iter(input).take_while(|found| found.start() < window.to) {
                    add(found.start(), found.end());
                }
            }
            Search::Words(words) => {
                let input = aho_corasick::Input::new(text).range(window.from..);
                for found in words.find_iter(input).take_while(|found| found.start() < window.to) {
                    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                    let before = text.get(..found.start()).and_then(|text| text.chars().next_back());
                    let after = text.get(found.end()..).and_then(|text| text.chars().next());
                    if !is_letter(before) && !is_letter(after) {
                        add(found.start(), found.end());
                    }
                }
            }
        }
    }
}

fn check_label(label: &str) -> Result<(), DetectorError> {
    let refuse = |reason| Err(DetectorError::Label { label: label.to_owned(), reason });
    let is_of_label = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if label.is_empty() || label.len() > LABEL_MOST {
        return refuse("it must have 1 to 32 characters");
    }
    if !label.bytes().all(is_of_label) || !label.starts_with(|c: char| c.is_ascii_uppercase()) || label.ends_with('_') {
        return refuse("it must consist of capital letters, digits and underscores, and start with a letter");
    }
    if Kind::from_label(label).is_some() {
        return refuse("it is the label of a built-in kind");
    }
    Ok(())
}

fn compile(label: &str, expression: &str) -> Result<Regex, DetectorError> {
    let refuse = |reason: String| DetectorError::Regex { label: label.to_owned(), reason };
    let config = Regex::config()
        .nfa_size_limit(Some(COMPILED_MOST))
        .onepass_size_limit(Some(COMPILED_MOST))
        .hybrid_cache_capacity(COMPILED_MOST)
        .utf8_empty(true);
    let regex = Regex::builder()
        .configure(config)
        .syntax(syntax::Config::new().nest_limit(NESTING_MOST))
        .build(expression)
        .map_err(|error| match (error.syntax_error(), error.size_limit()) {
            (Some(error), _) => refuse(last_line(&error.to_string())),
            (None, Some(limit)) => refuse(format!("it is larger than {limit} bytes when compiled")),
            (None, None) => refuse(error.to_string()),
        })?;
    if regex.is_match("") {
        return Err(refuse("it matches the empty text".to_owned()));
    }
    Ok(regex)
}

/// The line of an error that says what is wrong, without the drawing of the place.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn list(label: &str, words: &[String]) -> Result<AhoCorasick, DetectorError> {
    let refuse = |reason| DetectorError::Words { label: label.to_owned(), reason };
    if words.is_empty() || words.len() > WORDS_MOST {
        return Err(refuse("there must be 1 to 10,000"));
    }
    if words.iter().any(|word| word.trim().is_empty() || word.len() > WORD_MOST) {
        return Err(refuse("each must have 1 to 200 bytes"));
    }
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(aho_corasick::MatchKind::LeftmostLongest)
        .build(words)
        .map_err(|_| refuse("there are too many"))
}
