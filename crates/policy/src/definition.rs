use crate::{Doubt, FlowVerdict};
use coracle_types::Tool;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Digest of everything that a server says about a tool. A decision applies to one definition: a tool whose definition
/// has changed is a different tool.
pub fn definition_digest(tool: &Tool) -> String {
    let mut digest = Sha256::new();
    let hints = &tool.hints;
    text(&mut digest, tool.server.as_str());
    text(&mut digest, &tool.name);
    text(&mut digest, tool.title.as_deref().unwrap_or_default());
    text(&mut digest, &tool.description);
    object(&mut digest, &tool.input_schema.object());
    match &tool.output_schema {
        Some(schema) => object(&mut digest, &schema.object()),
        None => digest.update(b"-"),
    }
    for hint in [hints.read_only, hints.destructive, hints.idempotent, hints.open_world] {
        digest.update(match hint {
            None => b"?",
            Some(true) => b"1",
            Some(false) => b"0",
        });
    }
    hex::encode(digest.finalize())
}

/// Digest of all arguments of a call to a tool with this definition.
pub(crate) fn arguments_digest(definition: &str, arguments: &Value) -> [u8; 32] {
    let mut digest = Sha256::new();
    text(&mut digest, definition);
    value(&mut digest, arguments);
    digest.finalize().into()
}

/// Digest of a question: the definition of the tool, all arguments, and the doubt about the call.
pub(crate) fn question_digest(tool: &Tool, arguments: &Value, doubt: Option<Doubt>) -> String {
    let mut digest = Sha256::new();
    text(&mut digest, &definition_digest(tool));
    value(&mut digest, arguments);
    text(&mut digest, doubt.map_or("", Doubt::as_str));
    hex::encode(digest.finalize())
}

/// Digest of a question about the flow of data: the definition of the tool, all arguments, and the rules with the sources
/// that they are about.
pub(crate) fn flow_digest(tool: &Tool, arguments: &Value, flow: &[FlowVerdict]) -> String {
    let mut digest = Sha256::new();
    text(&mut digest, "flow");
    text(&mut digest, &definition_digest(tool));
    value(&mut digest, arguments);
    for verdict in flow {
        text(&mut digest, &grant_digest(&definition_digest(tool), verdict));
    }
    hex::encode(digest.finalize())
}

/// Digest of what a person approves with a rule: the rule, the sources and the kinds, and the definition of the tool.
pub(crate) fn grant_digest(definition: &str, verdict: &FlowVerdict) -> String {
    let mut digest = Sha256::new();
    text(&mut digest, definition);
    text(&mut digest, &verdict.rule);
    digest.update((verdict.sources.len() as u64).to_be_bytes());
    for source in &verdict.sources {
        text(&mut digest, source.as_str());
    }
    for kind in &verdict.kinds {
        text(&mut digest, kind);
    }
    hex::encode(digest.finalize())
}

/// The length comes first, so that two texts cannot be confused with one.
fn text(digest: &mut Sha256, text: &str) {
    digest.update(b"s");
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text.as_bytes());
}

/// Hashes the keys in sorted order: the order of keys in a schema means nothing.
fn object(digest: &mut Sha256, object: &Map<String, Value>) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    digest.update(b"o");
    digest.update((entries.len() as u64).to_be_bytes());
    for (key, inner) in entries {
        text(digest, key);
        value(digest, inner);
    }
}

fn value(digest: &mut Sha256, of: &Value) {
    match of {
        Value::Null => digest.update(b"n"),
        Value::Bool(true) => digest.update(b"t"),
        Value::Bool(false) => digest.update(b"f"),
        Value::Number(number) => {
            digest.update(b"#");
            text(digest, &number.to_string());
        }
        Value::String(string) => text(digest, string),
        Value::Array(items) => {
            digest.update(b"a");
            digest.update((items.len() as u64).to_be_bytes());
            for item in items {
                value(digest, item);
            }
        }
        Value::Object(inner) => object(digest, inner),
    }
}
