//! The JSON text of a value, without building the text: its length and its digest.

use coracle_types::{Sorted, SortedMap};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io;

/// The length of a value as JSON, in bytes; `u64::MAX` if it cannot be written.
pub(crate) fn length(value: &impl Serialize) -> u64 {
    let mut count = Count { written: 0, most: u64::MAX };
    serde_json::to_writer(&mut count, value).map_or(u64::MAX, |()| count.written)
}

/// Whether a value is longer than `most` bytes as JSON. Stops at the limit.
pub(crate) fn is_longer(value: &impl Serialize, most: u64) -> bool {
    serde_json::to_writer(Count { written: 0, most }, value).is_err()
}

/// Adds an object to a digest as JSON with sorted keys: equal objects have equal digests.
pub(crate) fn hash(digest: &mut Sha256, object: &Map<String, Value>) {
    // Values can always be written, and bytes can be hashed.
    if let Err(error) = serde_json::to_writer(Hash(digest), &SortedMap(object)) {
        tracing::error!(%error, "cannot write an object as JSON");
    }
}

/// The JSON text of a value with sorted keys, which is the same for equal values.
pub(crate) fn sorted_text(value: &Value) -> String {
    serde_json::to_string(&Sorted(value)).unwrap_or_default()
}

struct Count {
    written: u64,
    most: u64,
}

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written = self.written.saturating_add(bytes.len() as u64);
        if self.written > self.most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Hash<'a>(&'a mut Sha256);

impl io::Write for Hash<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{hash, is_longer, length, sorted_text};
    use serde_json::{Value, json};
    use sha2::{Digest, Sha256};

    #[test]
    fn length_and_digest_are_those_of_the_text() {
        let value = json!({ "b": [1, 2.5, null, "é\n"], "a": { "d": true, "c": "x".repeat(1_000) } });
        let text = value.to_string();
        assert_eq!(length(&value), text.len() as u64);
        assert!(!is_longer(&value, text.len() as u64) && is_longer(&value, text.len() as u64 - 1));
        let mut digest = Sha256::new();
        hash(&mut digest, value.as_object().unwrap());
        assert_eq!(digest.finalize(), Sha256::digest(sorted_text(&value)));
    }

    #[test]
    fn equal_objects_have_equal_digests_whatever_the_order_of_their_keys() {
        let of = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            let mut digest = Sha256::new();
            hash(&mut digest, value.as_object().unwrap());
            digest.finalize()
        };
        let sorted = r#"{"a":{"c":1,"d":[{"e":2,"f":3}]},"b":null}"#;
        assert_eq!(of(r#"{"b":null,"a":{"d":[{"f":3,"e":2}],"c":1}}"#), Sha256::digest(sorted));
        assert_eq!(of(sorted), Sha256::digest(sorted));
        assert_ne!(of(r#"{"a":{"c":1,"d":[{"e":3,"f":2}]},"b":null}"#), Sha256::digest(sorted));
    }
}
