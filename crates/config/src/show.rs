//! Renders settings as a list, for people.

use crate::expand::is_reference;
use crate::keys::{APPROVERS, FLOWS, KEYS, Kind, PROVIDER_KEYS, PROVIDERS, SERVERS, TOOLS};
use crate::mask::{MASK, masked, masked_address, masked_arguments};
use crate::{Loaded, McpServer, Origin, Provider, WITHOUT_EFFECT};
use coracle_types::Secret;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// The key.
    pub key: String,
    /// The value as YAML on one line, with credentials hidden.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
    /// Whether the setting is used in this version.
    pub has_effect: bool,
}

impl Loaded {
    /// All settings: their values, with credentials hidden, and their origins.
    pub fn show(&self) -> Vec<SettingRow> {
        let mut rows = Vec::new();
        let settings = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut row = |key: String, value: &Value, origin: Option<&Origin>| {
            let has_effect = !WITHOUT_EFFECT.contains(&key.as_str());
            let origin = origin.cloned().unwrap_or_default();
            rows.push(SettingRow { key, value: value.to_string(), origin, has_effect });
        };
        let has_flows = !self.settings.policy.flows.is_empty();
        let is_listed = |path: &str| [TOOLS, APPROVERS, PROVIDERS].contains(&path) || (has_flows && path == FLOWS);
        for key in KEYS.iter().filter(|key| !is_listed(key.path)) {
            let value = settings.pointer(&format!("/{}", key.path.replace('.', "/"))).unwrap_or(&Value::Null);
            let value = match (key.kind, value) {
                (Kind::Secret, Value::String(_)) => json!(MASK),
                (Kind::Text, Value::String(text)) if text.contains("://") => json!(masked_address(text)),
                (Kind::Entries(fields), value) => without_secrets(fields, value.clone()),
                (_, value) => value.clone(),
            };
            row(key.path.to_owned(), &value, self.origins.get(key.path));
        }
        for (pattern, decision) in &self.settings.policy.tools {
            let key = format!("{TOOLS}.{pattern}");
            let origin = self.origins.get(&key);
            row(key, &json!(decision), origin);
        }
        for (number, rule) in self.settings.policy.flows.iter().enumerate() {
            let key = format!("{FLOWS}[{number}]");
            let origin = self.origins.get(&key);
            row(key, &json!(rule), origin);
        }
        for (pattern, approvers) in &self.settings.policy.approvers {
            let key = format!("{APPROVERS}.{pattern}");
            let origin = self.origins.get(&key);
            row(key, &json!(approvers), origin);
        }
        for (name, provider) in &self.settings.agent.providers {
            let key = format!("{PROVIDERS}.{name}");
            let fields = render_provider(provider);
            for (field, _) in PROVIDER_KEYS {
                let key = format!("{key}.{field}");
                let Some((value, origin)) = fields.get(*field).zip(self.origins.get(&key)) else { continue };
                row(key, value, Some(origin));
            }
            if let Some(origin) = self.origins.get(&key) {
                row(key, &json!({}), Some(origin));
            }
        }
        for (name, server) in &self.settings.mcp_servers {
            let key = format!("{SERVERS}.{name}");
            let origin = self.origins.get(&key);
            row(key, &render_server(server), origin);
        }
        rows
    }
}

impl McpServer {
    /// The entry as JSON on one line, with credentials hidden.
    pub fn masked_json(&self) -> String {
        render_server(self).to_string()
    }
}

fn render_server(server: &McpServer) -> Value {
    let mut value = serde_json::to_value(server).unwrap_or_default();
    let Value::Object(fields) = &mut value else { return value };
    if fields.contains_key("args") {
        fields.insert("args".to_owned(), json!(masked_arguments(&server.args)));
    }
    if let Some(command) = &server.command {
        fields.insert("command".to_owned(), json!(masked(None, command)));
    }
    if let Some(url) = &server.url {
        fields.insert("url".to_owned(), json!(masked_address(url.expose())));
    }
    if let Some(secret) = &server.client_secret {
        fields.insert("client_secret".to_owned(), json!(masked(Some("client_secret"), secret.expose())));
    }
    for (name, map) in [("env", &server.env), ("headers", &server.headers)] {
        if !map.is_empty() {
            fields.insert(name.to_owned(), hidden(map));
        }
    }
    value
}

fn render_provider(provider: &Provider) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(provider) else { return Map::new() };
    if let Some(url) = &provider.url {
        fields.insert("url".to_owned(), json!(masked_address(url.expose())));
    }
    if let Some(key) = &provider.api_key {
        let shown = if is_reference(key.expose()) { key.expose() } else { MASK };
        fields.insert("api_key".to_owned(), json!(shown));
    }
    fields
}

/// Hides the credentials in a list of maps, except references to variables.
fn without_secrets(fields: &[(&str, Kind)], mut list: Value) -> Value {
    for entry in list.as_array_mut().into_iter().flatten() {
        for (field, _) in fields.iter().filter(|(_, kind)| *kind == Kind::Secret) {
            if let Some(Value::String(text)) = entry.get_mut(*field) {
                *text = masked(Some("secret"), text);
            }
        }
    }
    list
}

/// Hides all values of a map except references to variables.
fn hidden(map: &BTreeMap<String, Secret>) -> Value {
    let render = |text: &str| if is_reference(text) { text.to_owned() } else { masked(Some("secret"), text) };
    Value::Object(map.iter().map(|(name, value)| (name.clone(), json!(render(value.expose())))).collect::<Map<_, _>>())
}
