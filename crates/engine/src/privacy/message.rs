//! JSON with content in base64, as MCP and answers of tools have it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_privacy::{Item, PrivacyError, UserVault};
use serde_json::{Map, Value};

/// The fields that hold base64, if there is a media type beside them.
const BINARY: [&str; 2] = ["data", "blob"];
/// The fields with a media type.
const MIME: [&str; 2] = ["mimeType", "mime"];

/// Replaces personal data in JSON by tokens. Content in base64 is searched if it is text, whatever its media type says;
/// images and other binary content stay as they are.
pub async fn tokenize_message(vault: &UserVault, message: &mut Value) -> Result<(), PrivacyError> {
    let mut blobs = Blobs::default();
    blobs.take(message);
    let mut items = vec![Item::Json(message)];
    items.extend(blobs.taken.iter_mut().filter_map(|blob| match blob {
        Blob::Text { text, .. } => Some(Item::Text(text)),
        Blob::Binary(_) => None,
    }));
    let tokenized = vault.tokenize(&mut items).await;
    drop(items);
    tokenized?;
    blobs.put_back(message);
    Ok(())
}

/// Remembers the personal data in an answer that code is going to see.
pub(crate) fn learn_message(vault: &UserVault, message: &Value) -> Result<(), PrivacyError> {
    // Few answers have content in base64, so they are rarely copied.
    if !has_blobs(message) {
        return vault.learn(message);
    }
    let (mut blobs, mut message) = (Blobs::default(), message.clone());
    blobs.take(&mut message);
    vault.learn(&message)?;
    blobs.taken.into_iter().try_for_each(|blob| match blob {
        Blob::Text { text, .. } => vault.learn(&Value::from(text)),
        Blob::Binary(_) => Ok(()),
    })
}

enum Blob {
    /// The base64.
    Binary(String),
    /// The base64, and the text that it encodes.
    Text { encoded: String, original: String, text: String },
}

/// Content in base64 that was taken out of JSON. A mark with a number stands for it.
#[derive(Default)]
struct Blobs {
    taken: Vec<Blob>,
}

fn mark(number: usize) -> String {
    format!("\u{0}blob {number}\u{0}")
}

fn number(text: &str) -> Option<usize> {
    text.strip_prefix("\u{0}blob ")?.strip_suffix('\u{0}')?.parse().ok()
}

fn may_have_blob(entries: &Map<String, Value>) -> bool {
    MIME.iter().any(|field| entries.get(*field).is_some_and(Value::is_string))
}

fn has_blobs(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_blobs),
        Value::Object(entries) => may_have_blob(entries) || entries.values().any(has_blobs),
        _ => false,
    }
}

impl Blobs {
    fn take(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.take(item)),
            Value::Object(entries) => {
                if may_have_blob(entries) {
                    for field in BINARY {
                        if let Some(Value::String(data)) = entries.get_mut(field) {
                            self.take_data(data);
                        }
                    }
                }
                entries.values_mut().for_each(|value| self.take(value));
            }
            _ => {}
        }
    }

    /// Text that is no base64 stays, and is searched like any other text.
    fn take_data(&mut self, data: &mut String) {
        let Some(bytes) = STANDARD.decode(data.as_bytes()).ok().filter(|bytes| !bytes.is_empty()) else { return };
        let encoded = std::mem::replace(data, mark(self.taken.len()));
        self.taken.push(match String::from_utf8(bytes) {
            Ok(text) => Blob::Text { encoded, original: text.clone(), text },
            Err(_) => Blob::Binary(encoded),
        });
    }

    fn put_back(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(blob) = number(text).and_then(|number| self.taken.get(number)) {
                    *text = match blob {
                        Blob::Binary(encoded) => encoded.clone(),
                        Blob::Text { encoded, original, text } if original == text => encoded.clone(),
                        Blob::Text { text, .. } => STANDARD.encode(text),
                    };
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_back(item)),
            Value::Object(entries) => entries.values_mut().for_each(|value| self.put_back(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STANDARD, tokenize_message};
    use base64::Engine as _;
    use coracle_privacy::{Detector, Vaults};
    use coracle_store::MemoryStore;
    use coracle_types::UserId;
    use serde_json::json;
    use std::sync::Arc;

    #[tokio::test]
    async fn text_in_base64_is_searched_and_binary_content_is_not() {
        let vaults = Vaults::new(Arc::new(MemoryStore::new()), Detector::default(), None);
        let vault = vaults.of(&UserId::local()).await.unwrap();
        let binary = STANDARD.encode(b"\x89PNG kim@example.org \xff");
        let original = json!({"content": [
            {"type": "image", "mimeType": "image/png", "data": binary},
            {"type": "resource", "resource": {"mimeType": "image/png", "blob": STANDARD.encode("to kim@example.org")}},
            {"type": "resource", "resource": {"mimeType": "text/csv", "blob": STANDARD.encode("nothing")}},
            {"mimeType": "image/png", "data": "kim@example.org"},
        ]});
        let mut message = original.clone();
        tokenize_message(&vault, &mut message).await.unwrap();
        assert_eq!(message["content"][0], original["content"][0]);
        assert_eq!(message["content"][2], original["content"][2]);
        let blob = STANDARD.decode(message["content"][1]["resource"]["blob"].as_str().unwrap()).unwrap();
        let token = String::from_utf8(blob).unwrap();
        assert!(token.starts_with("to [EMAIL_"), "{token}");
        assert_eq!(message["content"][3]["data"], token["to ".len()..]);
    }
}
