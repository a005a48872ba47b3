//! Positions in a log.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

pub(crate) const MAC_BYTES: usize = 32;

/// The code (HMAC-SHA-256) of a record.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Mac(pub(crate) [u8; MAC_BYTES]);

impl Mac {
    /// Parses the only accepted form: 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let mut bytes = [0; MAC_BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl TryFrom<String> for Mac {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(text.as_bytes()).ok_or("a code has 64 lower-case hexadecimal digits")
    }
}

/// The position after a record: its number and its code. Written `SEQ:MAC`.
///
/// Whoever keeps a mark outside of the data folder can check later that the log still contains the record, and thereby
/// all records before it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub(crate) seq: u64,
    pub(crate) mac: Mac,
}

impl Mark {
    /// The position before the first record.
    pub(crate) const START: Self = Self { seq: 0, mac: Mac([0; MAC_BYTES]) };

    /// The number of the record.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.mac)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected SEQ:MAC, as `coracle audit head` prints it")]
pub struct MarkError;

impl FromStr for Mark {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let (seq, mac) = text.trim().split_once(':').ok_or(MarkError)?;
        let seq = seq.parse().map_err(|_| MarkError)?;
        Ok(Self { seq, mac: Mac::parse(mac.as_bytes()).ok_or(MarkError)? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, MarkError};

    #[test]
    fn marks_survive_printing_and_other_texts_are_rejected() {
        let text = format!("17:{}", "0a".repeat(32));
        let mark: Mark = text.parse().unwrap();
        assert_eq!((mark.seq(), mark.to_string()), (17, text.clone()));
        for wrong in ["", "17", &text.to_uppercase(), &text[..60], &format!("x{text}")] {
            assert_eq!(wrong.parse::<Mark>(), Err(MarkError), "{wrong:?}");
        }
    }
}
