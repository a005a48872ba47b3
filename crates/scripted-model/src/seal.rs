//! Opaque texts that a client must send back unchanged: signatures and encrypted reasoning.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const PREFIX: &str = "sealed-";

/// The text in a form that [`open`] recognizes, after a restart as well. It hides nothing.
pub(crate) fn seal(text: &str) -> String {
    let mut sealed = format!("{PREFIX}{:016x}-", digest(text));
    for byte in text.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(sealed, "{byte:02x}");
    }
    sealed
}

/// The text that was sealed, unless the sealed form has been changed.
pub(crate) fn open(sealed: &str) -> Option<String> {
    let (digits, hex) = sealed.strip_prefix(PREFIX)?.split_once('-')?;
    let bytes = hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let text = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    (digits == format!("{:016x}", digest(&text))).then_some(text)
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_text_is_opened() {
        let sealed = seal("thöught");
        assert_eq!(open(&sealed).as_deref(), Some("thöught"));
        assert_eq!(open(&sealed.replace("sealed-", "sealed-0")), None);
        assert_eq!(open(&sealed[..sealed.len() - 2]), None);
        assert_eq!(open(""), None);
        assert_eq!(open("sealed-é"), None);
    }
}
