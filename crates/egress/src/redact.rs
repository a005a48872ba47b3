//! Removing a secret from responses.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use zeroize::Zeroizing;

/// What stands in a response instead of the secret.
const INSTEAD: &[u8] = b"[redacted]";

/// Shorter parts of a secret are in ordinary text, too.
const MIN_NEEDLE: usize = 8;

/// The bytes that most libraries leave alone.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Finds a secret and its usual encodings: percent-encoded, base64 at any position, hexadecimal, escaped in JSON and HTML;
/// in upper and lower case.
#[derive(Clone)]
pub(crate) struct Redactor(Arc<Found>);

struct Found {
    needles: Vec<Zeroizing<Vec<u8>>>,
    search: AhoCorasick,
    longest: usize,
}

/// One redactor on its way through a body. What may be the start of the secret is kept back until more is known.
pub(crate) struct Redaction {
    redactor: Redactor,
    kept: Vec<u8>,
}

impl Redactor {
    /// A redactor for the value of a header: the whole of it, what follows a scheme such as `Bearer`, and what is encoded
    /// in that for `Basic`. `None` if it cannot be built.
    pub(crate) fn new(value: &str) -> Option<Self> {
        let mut secrets = vec![Zeroizing::new(value.as_bytes().to_vec())];
        if let Some((scheme, rest)) = value.split_once(' ') {
            secrets.push(Zeroizing::new(rest.as_bytes().to_vec()));
            if scheme.eq_ignore_ascii_case("basic")
                && let Ok(pair) = STANDARD.decode(rest).map(Zeroizing::new)
            {
                if let Some(colon) = pair.iter().position(|byte| *byte == b':') {
                    secrets.push(Zeroizing::new(pair[colon + 1..].to_vec()));
                }
                secrets.push(pair);
            }
        }
        let mut needles: Vec<_> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        needles.retain(|needle| needle.len() >= MIN_NEEDLE);
        needles.sort_by(|one, other| one.as_slice().cmp(other.as_slice()));
        needles.dedup_by(|one, other| one.as_slice() == other.as_slice());
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(needles.iter().map(|needle| needle.as_slice()))
            .ok()?;
        let longest = needles.iter().map(|needle| needle.len()).max()?;
        Some(Self(Arc::new(Found { needles, search, longest })))
    }

    /// Starts with a body.
    pub(crate) fn start(&self) -> Redaction {
        Redaction { redactor: self.clone(), kept: Vec::new() }
    }

    /// A whole text without the secret.
    pub(crate) fn redacted(&self, text: &[u8]) -> Vec<u8> {
        let mut redaction = self.start();
        let mut whole = redaction.push(text);
        whole.extend(redaction.finish());
        whole
    }

    /// Position from which the bytes may be the start of the secret.
    fn hold(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(self.0.longest - 1);
        let may_start = |at: &usize| {
            let rest = &bytes[*at..];
            self.0.needles.iter().any(|needle| {
                // Of a whole needle, nothing has to be awaited.
                needle.len() > rest.len() && needle[..rest.len()].eq_ignore_ascii_case(rest)
            })
        };
        (from..bytes.len()).find(may_start).unwrap_or(bytes.len())
    }
}

impl Redaction {
    /// Takes the next bytes, and returns those that are safe.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.kept.extend_from_slice(bytes);
        let hold = self.redactor.hold(&self.kept);
        self.release(hold)
    }

    /// Returns the rest.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.release(self.kept.len())
    }

    fn release(&mut self, hold: usize) -> Vec<u8> {
        let mut safe = Vec::with_capacity(hold);
        let mut done = 0;
        let search = &self.redactor.0.search;
        while let Some(found) = search.find(Input::new(&self.kept).range(done..)).filter(|found| found.start() < hold) {
            safe.extend_from_slice(&self.kept[done..found.start()]);
            safe.extend_from_slice(INSTEAD);
            done = found.end();
        }
        if done < hold {
            safe.extend_from_slice(&self.kept[done..hold]);
            done = hold;
        }
        self.kept.drain(..done);
        safe
    }
}

/// A secret in all the forms in which servers send back what they got.
fn forms(secret: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut forms = vec![
        secret.to_vec(),
        percent_encode(secret, NON_ALPHANUMERIC).to_string().into_bytes(),
        percent_encode(secret, RESERVED).to_string().into_bytes(),
        percent_encode(secret, RESERVED).to_string().replace("%20", "+").into_bytes(),
        secret.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
        escaped(secret, &[(b'\\', "\\\\"), (b'"', "\\\"")]),
        escaped(secret, &[(b'\\', "\\\\"), (b'"', "\\\""), (b'/', "\\/")]),
        escaped(secret, &[(b'&', "\\u0026"), (b'<', "\\u003c"), (b'>', "\\u003e"), (b'\\', "\\\\"), (b'"', "\\\"")]),
        escaped(secret, &[(b'&', "&amp;"), (b'<', "&lt;"), (b'>', "&gt;"), (b'"', "&quot;"), (b'\'', "&#39;")]),
        escaped(secret, &[(b'&', "&amp;"), (b'<', "&lt;"), (b'>', "&gt;"), (b'"', "&#34;"), (b'\'', "&#x27;")]),
    ];
    for before in 0..3 {
        let mut shifted = vec![0; before];
        shifted.extend_from_slice(secret);
        // Only characters whose six bits are all from the secret are the same wherever it stands.
        let (first, end) = ((before * 8).div_ceil(6), shifted.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push(text.as_bytes()[first..end].to_vec());
        }
    }
    forms.into_iter().map(Zeroizing::new).collect()
}

fn escaped(secret: &[u8], escapes: &[(u8, &str)]) -> Vec<u8> {
    let one = |byte: &u8| match escapes.iter().find(|(special, _)| special == byte) {
        Some((_, escape)) => escape.as_bytes().to_vec(),
        None => vec![*byte],
    };
    secret.iter().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::Redactor;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    const VALUE: &str = "Bearer s3cret/Tok&en+12\"34";
    const SECRET: &str = "s3cret/Tok&en+12\"34";

    /// The text, redacted in pieces of each size, must always be the same.
    fn redacted(value: &str, text: &str) -> String {
        let redactor = Redactor::new(value).unwrap();
        let whole = redactor.redacted(text.as_bytes());
        for size in 1..=text.len() {
            let mut redaction = redactor.start();
            let mut pieces: Vec<u8> = text.as_bytes().chunks(size).flat_map(|piece| redaction.push(piece)).collect();
            pieces.extend(redaction.finish());
            assert_eq!(String::from_utf8_lossy(&pieces), String::from_utf8_lossy(&whole), "in pieces of {size}");
        }
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn the_value_is_removed_across_pieces() {
        assert_eq!(redacted(VALUE, &format!("a {VALUE} b")), "a [redacted] b");
        assert_eq!(redacted(VALUE, &format!("{SECRET}{SECRET}!")), "[redacted][redacted]!");
        assert_eq!(redacted(VALUE, &format!("s3cret/s3cret/Tok{SECRET}s3c")), "s3cret/s3cret/Tok[redacted]s3c");
        assert_eq!(redacted(VALUE, &SECRET.to_uppercase()), "[redacted]");
    }

    #[test]
    fn other_text_is_left_alone_and_not_kept_back() {
        let text = "data: hello\n\n";
        let mut redaction = Redactor::new(VALUE).unwrap().start();
        assert_eq!(redaction.push(text.as_bytes()), text.as_bytes());
        assert_eq!(redaction.push(b"x s3cr"), b"x ");
        assert_eq!(redaction.push(b"ete"), b"s3crete");
    }

    #[test]
    fn encodings_are_removed() {
        let encoded = [
            "s3cret%2FTok%26en%2B12%2234",
            "s3cret%2fTok%26en%2b12%2234",
            "s3cret\\/Tok&en+12\\\"34",
            "s3cret/Tok\\u0026en+12\\\"34",
            "s3cret/Tok&amp;en+12&quot;34",
            "7333637265742f546f6b26656e2b3132223334",
        ];
        for text in encoded {
            assert_eq!(redacted(VALUE, &format!("<{text}>")), "<[redacted]>", "{text}");
        }
    }

    #[test]
    fn base64_is_removed_at_any_position() {
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy"] {
                for engine in [&STANDARD, &URL_SAFE] {
                    let text = engine.encode(format!("{before}{SECRET}{after}"));
                    let left = redacted(VALUE, &text);
                    assert!(left.contains("[redacted]"), "{before} {after}: {text}");
                    assert!(left.len() < before.len() * 2 + after.len() * 2 + 22, "{left}");
                }
            }
        }
    }

    #[test]
    fn basic_credentials_are_removed_in_clear_too() {
        let value = format!("Basic {}", STANDARD.encode("user:long-password"));
        assert_eq!(redacted(&value, "it is long-password."), "it is [redacted].");
        assert_eq!(redacted(&value, "user:long-password"), "[redacted]");
    }
}
