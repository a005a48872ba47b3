//! Tokens: `[EMAIL_3f9a1c0d5e7b2a64]` stands for a value in the vault of one user.
//!
//! The digits are a keyed hash of kind and value. Without the key of the user they tell nothing about the value, and the
//! same value has other digits for another user.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::ops::Range;

/// The number of hexadecimal digits: 64 bits.
pub(crate) const DIGITS: usize = 16;
/// The maximum length of a label.
const MAX_LABEL: usize = 32;
/// The label of a kind whose own has no letter that can be part of a token.
const OTHER: &str = "CUSTOM";

/// Computes the tokens of one user.
#[derive(Clone)]
pub(crate) struct Minter(Hmac<Sha256>);

impl Minter {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        // The key is hashed if it is longer than a block, and padded if it is shorter: every length is accepted.
        Self(Hmac::new(&(*key).into_block()))
    }

    /// The token for a value. A number in JSON has another token than a string with the same digits.
    pub(crate) fn token(&self, label: &str, value: &str, is_number: bool) -> String {
        let label = label_of(label);
        let mut mac = self.0.clone();
        mac.update(&[u8::from(is_number), label.len() as u8]);
        mac.update(label.as_bytes());
        mac.update(value.as_bytes());
        let hash = mac.finalize().into_bytes();
        format!("[{label}_{}]", hex::encode(&hash[..DIGITS / 2]))
    }
}

/// A key as one block of the hash function.
trait IntoBlock {
    fn into_block(self) -> hmac::digest::Key<Hmac<Sha256>>;
}

impl IntoBlock for [u8; 32] {
    fn into_block(self) -> hmac::digest::Key<Hmac<Sha256>> {
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..32].copy_from_slice(&self);
        block
    }
}

/// A label in the form that tokens have: upper-case letters, digits and `_`, beginning with a letter.
pub fn label_of(label: &str) -> String {
    let mapped = label.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    let mut found: String = mapped.skip_while(|c| !c.is_ascii_uppercase()).take(MAX_LABEL).collect();
    found.truncate(found.trim_end_matches('_').len());
    if found.is_empty() { OTHER.to_owned() } else { found }
}

/// The label of a token.
pub fn label(token: &str) -> &str {
    token.get(1..token.len().saturating_sub(DIGITS + 2)).unwrap_or_default()
}

/// A text that has the form of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spotted {
    pub(crate) span: Range<usize>,
    /// The token as it is in the vault.
    pub(crate) token: String,
    /// Whether its brackets are percent-encoded, as in a URL.
    pub(crate) is_encoded: bool,
}

/// Finds everything that has the form of a token. Looks at each byte a bounded number of times.
pub(crate) fn spot(text: &str) -> Vec<Spotted> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let opening = match byte {
            b'[' => 1,
            b'%' if bytes[at..].len() >= 3 && bytes[at..at + 3].eq_ignore_ascii_case(b"%5b") => 3,
            _ => {
                at += 1;
                continue;
            }
        };
        if let Some(name) = name_at(&text[at + opening..]) {
            let end = at + opening + name.len();
            let closing = if opening == 1 { &b"]"[..] } else { b"%5d" };
            if bytes[end..].len() >= closing.len() && bytes[end..end + closing.len()].eq_ignore_ascii_case(closing) {
                let span = at..end + closing.len();
                at = span.end;
                found.push(Spotted { span, token: format!("[{name}]"), is_encoded: opening == 3 });
                continue;
            }
        }
        at += opening;
    }
    found
}

/// Label, `_` and digits at the beginning of a text.
fn name_at(text: &str) -> Option<&str> {
    let most = MAX_LABEL + 1 + DIGITS;
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'a'..=b'f');
    let length = text.bytes().take(most + 1).take_while(is_part).count();
    let name = text.get(..length).filter(|name| name.len() > DIGITS + 1 && name.len() <= most)?;
    let (label, digits) = name.split_at(name.len() - DIGITS);
    let label = label.strip_suffix('_')?;
    let is_label =
        label.starts_with(|c: char| c.is_ascii_uppercase()) && !label.bytes().any(|b| b.is_ascii_lowercase());
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    (is_label && are_digits).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        spot(text).into_iter().map(|spotted| spotted.token).collect()
    }

    #[test]
    fn a_token_depends_on_key_kind_value_and_form() {
        let (ann, bob) = (Minter::new(&[1; 32]), Minter::new(&[2; 32]));
        let token = ann.token("EMAIL", "ann@example.org", false);
        assert_eq!(token.len(), "[EMAIL_]".len() + DIGITS);
        assert_eq!(token, ann.token("EMAIL", "ann@example.org", false));
        for other in [
            bob.token("EMAIL", "ann@example.org", false),
            ann.token("EMAIL", "Ann@example.org", false),
            ann.token("PHONE", "ann@example.org", false),
            ann.token("EMAIL", "ann@example.org", true),
        ] {
            assert_ne!(token[token.len() - DIGITS..], other[other.len() - DIGITS..]);
        }
    }

    #[test]
    fn labels_are_made_fit_for_tokens() {
        for (given, expected) in
            [("EMAIL", "EMAIL"), ("us-ssn", "US_SSN"), ("", "CUSTOM"), ("é9", "CUSTOM"), ("9 lives]", "LIVES")]
        {
            let token = Minter::new(&[0; 32]).token(given, "x", false);
            assert_eq!(label(&token), expected);
            assert_eq!(tokens(&token), [token.as_str()], "it is recognized");
        }
        let long = Minter::new(&[0; 32]).token(&"L".repeat(99), "x", false);
        assert_eq!(tokens(&long), [long.as_str()]);
    }

    #[test]
    fn tokens_are_found_in_text_json_and_urls() {
        let text =
            r#"{"a": "[EMAIL_0123456789abcdef]", "b": "x[[US_SSN_ffffffffffffffff]]"} ?q=%5BEMAIL_0123456789abcdef%5d"#;
        assert_eq!(tokens(text), ["[EMAIL_0123456789abcdef]", "[US_SSN_ffffffffffffffff]", "[EMAIL_0123456789abcdef]"]);
        let spotted = spot(text);
        assert_eq!(spotted.iter().map(|one| one.is_encoded).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(&text[spotted[2].span.clone()], "%5BEMAIL_0123456789abcdef%5d");
    }

    #[test]
    fn other_brackets_are_no_tokens() {
        for text in [
            "[EMAIL_0123]",
            "[EMAIL_0123456789ABCDEF]",
            "[EMAIL0123456789abcdef]",
            "[_0123456789abcdef]",
            "[email_0123456789abcdef]",
            "[EMAIL_0123456789abcdef",
            "%5BEMAIL_0123456789abcdef]",
            "[EMAIL_0123456789abcdef%5D",
            "[EMaIL_0123456789abcdef]",
            "[é",
            "[",
            "%5",
            "%5B",
        ] {
            assert_eq!(tokens(text), [""; 0], "{text}");
        }
        assert_eq!(tokens(&format!("[{}_0123456789abcdef]", "L".repeat(33))), [""; 0]);
        assert_eq!(tokens("[[[[EMAIL_0123456789abcdef]").first().unwrap(), "[EMAIL_0123456789abcdef]", "the control");
    }
}
