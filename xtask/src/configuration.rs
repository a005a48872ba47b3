//! The configuration reference, made from the JSON Schema of the settings file.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

/// The line in the page below which everything is generated.
pub(crate) const MARKER: &str = "<!-- generated from schema/coracle.schema.json by `cargo xtask generate` -->";

/// The variables of all settings start with this.
const PREFIX: &str = "CORACLE";
/// The section whose entries have names of the user's choice, its variable, and the definition of an entry.
const SERVERS: (&str, &str, &str) = ("mcpServers", "CORACLE_MCP_SERVERS", "McpServer");
/// The kind of a row that describes the keys below it.
const SECTION: &str = "section";
/// Stands for a name of the user's choice in a key. Such keys have no variable.
const NAME: &str = "NAME";
/// How the schema describes keys that are accepted and ignored.
const IGNORED: &str = "Used by other clients; has no effect here.";
/// Sections in a format of earlier tools, described in `docs/compatibility.md`.
const EARLIER: &[&str] = &["mcp_servers"];

/// The page with its generated part replaced.
pub(crate) fn reference(page: &str, schema: &Value) -> Result<String> {
    let (words, _) = page.split_once(MARKER).with_context(|| format!("the line `{MARKER}` is missing"))?;
    let sections = schema["properties"].as_object().context("the schema has no properties")?;
    let mut text = format!("{words}{MARKER}\n");
    for (name, section) in sections.iter().filter(|(name, _)| !EARLIER.contains(&name.as_str())) {
        let description = description(section);
        if name == SERVERS.0 {
            let entry = &schema["$defs"][SERVERS.2];
            let rows = rows(schema, "", properties(schema, entry).context("a server has no keys")?);
            let _ = write!(text, "\n### `{name}`\n\n{description} Variable: `{}` (YAML or JSON).\n\n", SERVERS.1);
            text.push_str("Keys of a server:\n\n| key | type | default | description |\n|---|---|---|---|\n");
            let (ignored, used): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.description == IGNORED);
            for Row { key, kind, default, description } in used {
                let _ = writeln!(text, "| `{key}` | {kind} | {default} | {description} |");
            }
            let names: Vec<String> = ignored.iter().map(|row| format!("`{}`", row.key)).collect();
            let _ =
                write!(text, "\nKeys of other clients that are accepted and have no effect: {}.\n", names.join(", "));
            continue;
        }
        let keys = properties(schema, section).with_context(|| format!("`{name}` has no keys"))?;
        let _ = write!(text, "\n### `{name}`\n\n{description}\n\n");
        text.push_str("| key and variable | type | default | description |\n|---|---|---|---|\n");
        for row in rows(schema, name, keys) {
            let Row { key, kind, default, description } = row;
            let _ = if kind == SECTION {
                writeln!(text, "| `{key}` | | | {description} |")
            } else if key.split('.').any(|part| part == NAME) {
                writeln!(text, "| `{key}` | {kind} | {default} | {description} |")
            } else {
                let variable = format!("{PREFIX}_{}", key.replace('.', "_").to_uppercase());
                writeln!(text, "| `{key}`<br>`{variable}` | {kind} | {default} | {description} |")
            };
        }
    }
    Ok(text)
}

struct Row {
    key: String,
    kind: String,
    default: String,
    description: String,
}

/// One row for each key, those of nested sections included.
fn rows(schema: &Value, section: &str, keys: &Map<String, Value>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, key) in keys {
        let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        if let Some(below) = properties(schema, key) {
            let (kind, default) = (SECTION.to_owned(), String::new());
            rows.push(Row { key: path.clone(), kind, default, description: description(key) });
            rows.extend(self::rows(schema, &path, below));
        } else {
            let entry = entry(schema, key);
            let kind = if entry.is_some() { "map".to_owned() } else { kind(schema, key) };
            let below = entry.map(|keys| self::rows(schema, &format!("{path}.{NAME}"), keys)).unwrap_or_default();
            rows.push(Row { key: path, kind, default: default(key), description: description(key) });
            rows.extend(below);
        }
    }
    rows
}

/// The definition that a schema refers to, or the schema itself.
fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    let referred = part["$ref"].as_str().and_then(|reference| schema.pointer(reference.trim_start_matches('#')));
    referred.unwrap_or(part)
}

fn properties<'a>(schema: &'a Value, part: &'a Value) -> Option<&'a Map<String, Value>> {
    resolved(schema, part)["properties"].as_object()
}

/// The keys of an entry, in a map whose entries have keys.
fn entry<'a>(schema: &'a Value, part: &'a Value) -> Option<&'a Map<String, Value>> {
    let entry = &resolved(schema, part)["additionalProperties"];
    let choices = entry["anyOf"].as_array();
    choices.map_or_else(|| properties(schema, entry), |choices| choices.iter().find_map(|one| properties(schema, one)))
}

fn kind(schema: &Value, part: &Value) -> String {
    let part = resolved(schema, part);
    if let Some(choices) = part["oneOf"].as_array() {
        let names: Vec<String> =
            choices.iter().filter_map(|one| Some(format!("`{}`", one["const"].as_str()?))).collect();
        return names.join(", ");
    }
    // A text that may also be written as a number or as true or false; or something that may be left out.
    if let Some(choices) = part["anyOf"].as_array() {
        return choices.iter().find(|one| one["type"] != "null").map(|one| kind(schema, one)).unwrap_or_default();
    }
    let named = match &part["type"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        one => one.as_str(),
    };
    match named {
        Some("array") => format!("list of {}s", kind(schema, &part["items"])),
        Some("object") => format!("map to {}", kind(schema, &part["additionalProperties"])),
        Some(name @ ("integer" | "number")) => match (part["minimum"].as_f64(), part["maximum"].as_f64()) {
            (Some(least), Some(most)) => format!("{name} from {least} to {most}"),
            _ => name.to_owned(),
        },
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

fn default(part: &Value) -> String {
    match &part["default"] {
        Value::Null => "–".to_owned(),
        Value::Number(number) => match number.as_f64().filter(|value| value.fract() == 0.0) {
            Some(whole) => format!("`{whole}`"),
            None => format!("`{number}`"),
        },
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// The description in one line of a table.
fn description(part: &Value) -> String {
    part["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_has_a_row_for_each_key() {
        let schema = json!({
            "$defs": {
                "Auth": {"oneOf": [{"const": "auto"}, {"const": "required"}]},
                "Limits": {"properties": {"time": {
                    "type": "number", "minimum": 0.5, "maximum": 86400, "default": 30.0, "description": "Time\nin seconds.",
                }}},
                "McpServer": {"properties": {"args": {
                    "type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}, "default": [],
                    "description": "Arguments.",
                }, "icon": {"description": IGNORED}}},
                "Peer": {"properties": {"port": {"type": "integer", "description": "Port."}}},
                "Server": {"properties": {
                    "auth": {"$ref": "#/$defs/Auth", "default": "auto", "description": "A | B."},
                    "limits": {"$ref": "#/$defs/Limits", "description": "Limits."},
                    "peers": {
                        "type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Peer"}, {"type": "null"}]},
                        "default": {}, "description": "Peers.",
                    },
                    "url": {"type": ["string", "null"], "default": null, "description": "Address."},
                }},
            },
            "properties": {
                "mcpServers": {"type": "object", "description": "Servers."},
                "mcp_servers": {"type": "array", "description": "Old."},
                "server": {"$ref": "#/$defs/Server", "description": "Server."},
            },
        });
        let page = reference(&format!("# Words\n{MARKER}\nold\n"), &schema).unwrap();
        let expected = format!(
            "# Words\n{MARKER}\n\n\
             ### `mcpServers`\n\nServers. Variable: `CORACLE_MCP_SERVERS` (YAML or JSON).\n\n\
             Keys of a server:\n\n| key | type | default | description |\n|---|---|---|---|\n\
             | `args` | list of strings | `[]` | Arguments. |\n\n\
             Keys of other clients that are accepted and have no effect: `icon`.\n\n\
             ### `server`\n\nServer.\n\n\
             | key and variable | type | default | description |\n|---|---|---|---|\n\
             | `server.auth`<br>`CORACLE_SERVER_AUTH` | `auto`, `required` | `auto` | A \\| B. |\n\
             | `server.limits` | | | Limits. |\n\
             | `server.limits.time`<br>`CORACLE_SERVER_LIMITS_TIME` | number from 0.5 to 86400 | `30` | Time in seconds. |\n\
             | `server.peers`<br>`CORACLE_SERVER_PEERS` | map | `{{}}` | Peers. |\n\
             | `server.peers.NAME.port` | integer | – | Port. |\n\
             | `server.url`<br>`CORACLE_SERVER_URL` | string | – | Address. |\n"
        );
        assert_eq!(page, expected);
        assert!(reference("no marker", &schema).is_err());
    }
}
