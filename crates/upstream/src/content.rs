//! Converts results of calls from the types of the MCP library to ours.

use coracle_types::{Content, ToolResult};
use rmcp::model::{ContentBlock, ResourceContents};
use serde::Deserialize as _;
use serde_json::Value;

/// The media type of bytes if the server does not send one.
const UNKNOWN_KIND: &str = "application/octet-stream";
/// Members that do not make an object a result.
const SAYS_NOTHING: &[&str] = &["_meta", "resultType", "isError"];

/// Converts a result. Parts of unknown kinds are kept as far as possible.
pub(crate) fn result(value: Value) -> Option<ToolResult> {
    let Value::Object(mut members) = value else {
        return None;
    };
    let content = match members.remove("content") {
        Some(Value::Array(parts)) => parts.iter().map(lenient_part).collect(),
        // An empty result.
        None if members.contains_key("structuredContent")
            || members.keys().all(|key| SAYS_NOTHING.contains(&key.as_str())) =>
        {
            Vec::new()
        }
        Some(_) | None => return None,
    };
    let structured = members.remove("structuredContent").filter(|value| !value.is_null());
    let is_error = members.get("isError").and_then(Value::as_bool).unwrap_or(false);
    Some(ToolResult { structured, content, is_error })
}

fn lenient_part(part: &Value) -> Content {
    ContentBlock::deserialize(part).map_or_else(|_| unknown(part), block)
}

/// Converts a part of an unknown kind: to a link if it has a URI, or else its text, or else all of it as text.
fn unknown(part: &Value) -> Content {
    let text = |key: &str| part.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(uri) = text("uri") {
        let name = text("name").unwrap_or_else(|| uri.clone());
        return Content::Link { uri, name, mime: text("mimeType"), description: text("description") };
    }
    Content::Text { text: text("text").unwrap_or_else(|| part.to_string()) }
}

fn block(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Text(text) => Content::Text { text: text.text },
        ContentBlock::Image(image) => Content::Media { mime: image.mime_type, data: image.data, uri: None },
        ContentBlock::Audio(audio) => Content::Media { mime: audio.mime_type, data: audio.data, uri: None },
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                Content::Resource { uri, mime: mime_type, text }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => Content::Media {
                mime: mime_type.unwrap_or_else(|| UNKNOWN_KIND.to_owned()),
                data: blob,
                uri: Some(uri),
            },
            other => unknown(&serde_json::to_value(&other).unwrap_or_default()),
        },
        ContentBlock::ResourceLink(link) => {
            Content::Link { uri: link.uri, name: link.name, mime: link.mime_type, description: link.description }
        }
        // The library may add new kinds.
        other => unknown(&serde_json::to_value(&other).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_part_is_understood() {
        let parts = json!([
            {"type": "text", "text": "t"},
            {"type": "image", "data": "aQ==", "mimeType": "image/png"},
            {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "r"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "Yg=="}},
            {"type": "resource_link", "uri": "x:3", "name": "n"},
            {"type": "hologram", "uri": "x:4"},
            {"type": "hologram", "light": 1},
            17
        ]);
        let result = result(json!({"content": parts, "isError": true})).unwrap();
        insta::assert_json_snapshot!(result);
    }

    #[test]
    fn an_invalid_result_is_none() {
        assert_eq!(result(json!([])), None);
        assert_eq!(result(json!({"messages": []})), None);
        assert_eq!(result(json!({"content": "text"})), None);
        assert_eq!(result(json!({"resultType": "complete"})), Some(ToolResult::default()));
        assert!(result(json!({"structuredContent": {"a": 1}})).is_some());
    }
}
