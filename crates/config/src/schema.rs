use crate::Settings;
use crate::keys::{OLD_SERVERS, SERVER_DENIED_TOOLS, SERVER_IGNORED, SERVER_KEYS, SERVER_SYNONYMS};
use coracle_types::sorted_json_pretty;
use serde_json::{Map, Value, json};

/// Names of model providers.
const PROVIDER_NAME: &str = "^[A-Za-z0-9._-]{1,64}$";

/// The JSON Schema of the settings file, as text with a final line feed.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Settings).to_value();
    schema["title"] = json!("coracle.yaml");
    add_old_servers(&mut schema);
    add_server_spellings(&mut schema["$defs"]["McpServer"]);
    let providers = &mut schema["$defs"]["Agent"]["properties"]["providers"];
    providers["propertyNames"] = json!({"pattern": PROVIDER_NAME});
    // An entry without keys is enough for some providers.
    let entry = providers["additionalProperties"].take();
    providers["additionalProperties"] = json!({"anyOf": [entry, {"type": "null"}]});
    // Alternative spellings, which editors should not mark as errors.
    add_choice(&mut schema["$defs"]["SandboxType"], "microsandbox", "Same as `microvm`.");
    add_choice(&mut schema["$defs"]["ConnectionType"], "streamable-http", "Same as `http`.");
    // Serialising a JSON value cannot fail.
    sorted_json_pretty(&schema).unwrap_or_default() + "\n"
}

/// Adds the list of servers in the format of earlier tools.
fn add_old_servers(schema: &mut Value) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        let description = "Servers in the list format of earlier tools: `name`, `url` and `connection_type`. Prefer \
                           `mcpServers`.";
        let item = json!({
            "allOf": [{"$ref": "#/$defs/McpServer"}],
            "required": ["name"],
            "properties": {"name": {"type": "string", "description": "Server name."}},
        });
        properties.insert(OLD_SERVERS.to_owned(), json!({"description": description, "type": "array", "items": item}));
    }
}

/// Adds keys that other clients use in an entry.
fn add_server_spellings(server: &mut Value) {
    let Some(properties) = server["properties"].as_object_mut() else { return };
    let ours: Map<String, Value> = properties.clone();
    for (theirs, name) in SERVER_SYNONYMS {
        let mut schema = ours.get(*name).cloned().unwrap_or_default();
        schema["description"] = json!(format!("Same as `{name}`."));
        properties.insert((*theirs).to_owned(), schema);
    }
    for theirs in SERVER_IGNORED {
        properties.insert((*theirs).to_owned(), json!({"description": "Used by other clients; has no effect here."}));
    }
    let texts = json!({"type": "array", "items": {"type": "string"}});
    for theirs in SERVER_DENIED_TOOLS {
        let mut schema = texts.clone();
        schema["description"] = json!("Tools of this server to deny, as with `deny` rules in `policy.tools`.");
        properties.insert((*theirs).to_owned(), schema);
    }
    properties.insert("enabled".to_owned(), json!({"description": "Opposite of `disabled`.", "type": "boolean"}));
    debug_assert!(
        SERVER_KEYS.iter().all(|(name, _)| ours.contains_key(*name)),
        "a key of a server is not in its schema"
    );
}

fn add_choice(schema: &mut Value, name: &str, description: &str) {
    if let Some(choices) = schema["oneOf"].as_array_mut() {
        choices.push(json!({"const": name, "description": description, "type": "string"}));
    }
}
