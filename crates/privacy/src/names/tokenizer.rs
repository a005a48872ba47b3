//! Splits text into tokens as spaCy's English tokenizer does, on whose tokens the network was trained.
//!
//! Rare rules are left out. On the other hand, JSON and CSV without spaces are
//! split at their quotes and commas.

use super::characters::{LETTER_UNITS, UNITS, is_currency, is_lower, is_mark, is_quote, is_symbol, is_upper};
use super::weights::Weights;

/// The maximum length in bytes of what is looked at as one word. Longer ones are cut, so that time is linear.
const MAX_WORD: usize = 256;

/// A word, a sign, or whitespace that is more than one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The id of the norm, if this token has another one than its text alone.
    pub(super) norm: Option<u64>,
    pub(super) is_space: bool,
}

impl Token {
    pub(super) fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Yields the tokens of a text.
pub(super) struct Tokenizer<'a> {
    weights: &'static Weights,
    text: &'a str,
    at: usize,
    /// Tokens of the last word that have not been returned yet, in reverse.
    ready: Vec<Token>,
}

impl<'a> Tokenizer<'a> {
    pub(super) fn new(weights: &'static Weights, text: &'a str) -> Self {
        Self { weights, text, at: 0, ready: Vec::new() }
    }

    /// Reads whitespace: one space between words is no token, everything else is.
    fn read_space(&mut self, length: usize) -> Option<Token> {
        let begin = self.at;
        self.at += length;
        let after_word = begin > 0 && self.text.as_bytes().get(begin) == Some(&b' ');
        let start = begin + usize::from(after_word);
        (start < self.at).then_some(Token { start, end: self.at, norm: None, is_space: true })
    }

    fn read_word(&mut self, word: &str) {
        let begin = self.at;
        self.at += word.len();
        let mut tokens = Vec::new();
        self.split(word, begin, &mut tokens);
        tokens.reverse();
        self.ready = tokens;
    }

    fn split(&self, word: &str, begin: usize, tokens: &mut Vec<Token>) {
        if self.is_plain(word) {
            tokens.push(token(begin, word.len()));
            return;
        }
        let (mut start, mut end) = (0, word.len());
        let mut suffixes = Vec::new();
        while start < end && !self.is_exception(&word[start..end]) {
            let rest = &word[start..end];
            let prefix = prefix(rest);
            if prefix > 0 {
                tokens.push(token(begin + start, prefix));
                start += prefix;
                if self.is_exception(&word[start..end]) {
                    break;
                }
            }
            let suffix = suffix(&word[start..end]);
            if suffix > 0 {
                end -= suffix;
                suffixes.push(token(begin + end, suffix));
            }
            if prefix + suffix == 0 {
                break;
            }
        }
        self.split_middle(&word[start..end], begin + start, tokens);
        tokens.extend(suffixes.into_iter().rev());
    }

    fn split_middle(&self, middle: &str, begin: usize, tokens: &mut Vec<Token>) {
        if middle.is_empty() {
            return;
        }
        if let Some(pieces) = self.weights.exceptions.get(middle) {
            let mut at = begin;
            for (length, norm) in pieces {
                tokens.push(Token { norm: *norm, ..token(at, *length) });
                at += length;
            }
            return;
        }
        if is_address_of_network(middle) {
            tokens.push(token(begin, middle.len()));
            return;
        }
        let mut from = 0;
        let mut at = 0;
        while at < middle.len() {
            let infix = infix(middle, at);
            if infix == 0 || at == 0 {
                at += middle[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            if from < at {
                tokens.push(token(begin + from, at - from));
            }
            tokens.push(token(begin + at, infix));
            at += infix;
            from = at;
        }
        if from < middle.len() {
            tokens.push(token(begin + from, middle.len() - from));
        }
    }

    /// Whether a word only consists of letters and is no exception, as most do.
    fn is_plain(&self, word: &str) -> bool {
        word.bytes().all(|byte| byte.is_ascii_alphabetic()) && !self.is_exception(word)
    }

    fn is_exception(&self, word: &str) -> bool {
        self.weights.exceptions.contains_key(word)
    }
}

impl Iterator for Tokenizer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            if let Some(token) = self.ready.pop() {
                return Some(token);
            }
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let space: usize = rest.chars().take_while(|letter| letter.is_whitespace()).map(char::len_utf8).sum();
            if space > 0 {
                if let Some(token) = self.read_space(space) {
                    return Some(token);
                }
            } else {
                self.read_word(word_of(rest));
            }
        }
    }
}

fn token(start: usize, length: usize) -> Token {
    Token { start, end: start + length, norm: None, is_space: false }
}

/// The text up to the next whitespace. If that is far away, up to the last sign before the maximum length.
fn word_of(rest: &str) -> &str {
    let mut sign = 0;
    for (at, letter) in rest.char_indices() {
        if letter.is_whitespace() {
            return &rest[..at];
        }
        if at >= MAX_WORD {
            return &rest[..if sign > 0 { sign } else { at }];
        }
        if !letter.is_alphanumeric() {
            sign = at + letter.len_utf8();
        }
    }
    rest
}

/// The length of the sign that a word starts with.
fn prefix(word: &str) -> usize {
    let mut letters = word.chars();
    let Some(first) = letters.next() else { return 0 };
    let second = letters.next();
    match first {
        '§' | '%' | '=' | '—' | '–' => first.len_utf8(),
        '+' if !second.is_some_and(|letter| letter.is_ascii_digit()) => 1,
        '.' if second == Some('.') => run_of_dots(word.chars()),
        'U' if word.starts_with("US$") => 3,
        'C' | 'A' if second == Some('$') => 2,
        _ if is_mark(first) || is_currency(first) || is_symbol(first) => first.len_utf8(),
        _ => 0,
    }
}

fn run_of_dots(letters: impl Iterator<Item = char>) -> usize {
    letters.take_while(|letter| *letter == '.').count()
}

/// The length of what is split off the end of a word.
fn suffix(word: &str) -> usize {
    let mut letters = word.chars().rev();
    let Some(last) = letters.next() else { return 0 };
    let before = letters.next();
    for ending in ["'s", "'S", "’s", "’S"] {
        if word.ends_with(ending) {
            return ending.len();
        }
    }
    let after_digit = before.is_some_and(|letter| letter.is_ascii_digit());
    match last {
        '.' if before == Some('.') => run_of_dots(word.chars().rev()),
        '.' => usize::from(ends_sentence(before, letters.next())),
        '—' | '–' => last.len_utf8(),
        '+' if after_digit => 1,
        _ if is_mark(last) || is_symbol(last) => last.len_utf8(),
        _ if is_currency(last) && after_digit => last.len_utf8(),
        _ => unit(word),
    }
}

/// Whether a full stop after these letters is a token of its own, and no part of an initial or an abbreviation.
fn ends_sentence(before: Option<char>, second: Option<char>) -> bool {
    before.is_some_and(|letter| {
        letter.is_ascii_digit()
            || is_lower(letter)
            || is_mark(letter)
            || matches!(letter, '%' | '²' | '-' | '+' | '|')
            || is_upper(letter) && second.is_some_and(is_upper)
    })
}

/// The length of the longest unit after a number at the end of a word.
fn unit(word: &str) -> usize {
    let units = UNITS.iter().chain(&LETTER_UNITS).filter(|unit| {
        word.strip_suffix(*unit).is_some_and(|number| number.ends_with(|letter: char| letter.is_ascii_digit()))
    });
    units.map(|unit| unit.len()).max().unwrap_or_default()
}

/// The length of the sign at a place inside a word that splits it.
fn infix(word: &str, at: usize) -> usize {
    let Some(sign) = word[at..].chars().next() else { return 0 };
    if sign.is_ascii_alphanumeric() {
        return 0;
    }
    let before = word[..at].chars().next_back();
    let after = |length: usize| word.get(at + length..).and_then(|rest| rest.chars().next());
    let between = |length: usize, left: fn(char) -> bool, right: fn(char) -> bool| {
        if before.is_some_and(left) && after(length).is_some_and(right) { length } else { 0 }
    };
    match sign {
        '…' => sign.len_utf8(),
        '.' if after(1) == Some('.') => run_of_dots(word[at..].chars()),
        '.' => between(1, |left| is_lower(left) || is_quote(left), |right| is_upper(right) || is_quote(right)),
        '"' => 1,
        ',' | ':' if after(1) == Some('"') || before == Some('"') => 1,
        ',' if before.is_some_and(char::is_alphabetic) => between(1, char::is_alphabetic, is_letter_or_digit),
        ',' | ':' | '<' | '>' | '=' | '/' => between(1, is_letter_or_digit, char::is_alphabetic),
        '+' | '*' | '^' => between(1, |left| left.is_ascii_digit(), |right| right.is_ascii_digit() || right == '-'),
        '-' => {
            let hyphens = word[at..].chars().take_while(|letter| *letter == '-').count();
            let between_numbers =
                between(1, |left| left.is_ascii_digit(), |right| right.is_ascii_digit() || right == '-');
            let between_letters = between(hyphens, is_letter_or_digit, char::is_alphabetic);
            if between_numbers > 0 {
                between_numbers
            } else if hyphens <= 3 {
                between_letters
            } else {
                0
            }
        }
        '–' | '—' | '~' => between(sign.len_utf8(), is_letter_or_digit, char::is_alphabetic),
        _ if is_symbol(sign) => sign.len_utf8(),
        _ => 0,
    }
}

fn is_letter_or_digit(letter: char) -> bool {
    letter.is_alphabetic() || letter.is_ascii_digit()
}

/// Whether a word is a URL, a host or an e-mail address, which are not split.
fn is_address_of_network(word: &str) -> bool {
    if !word.contains('.') || word.contains('"') {
        return false;
    }
    let rest = match word.split_once("://") {
        Some((scheme, rest)) if scheme.len() >= 2 && !scheme.contains(['/', '?']) => rest,
        _ => word,
    };
    let host = rest.split_once('@').map_or(rest, |(_, host)| host);
    let end = host.find(['/', '?', '#']).unwrap_or(host.len());
    let host = &host[..end];
    let host = match host.split_once(':') {
        Some((host, port)) if (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) => return false,
        None => host,
    };
    let Some((labels, last)) = host.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        let edge = |letter: char| letter.is_ascii_alphanumeric() || letter >= '\u{a1}';
        label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|l| edge(l) || matches!(l, '-' | '_'))
    };
    let letters = last.chars().count();
    (2..=63).contains(&letters) && last.chars().all(is_lower) && labels.split('.').all(is_label)
}
