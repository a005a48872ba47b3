//! Entries of model providers, merged key by key.

use super::{Gathered, Source};
use crate::Origin;
use crate::keys::{Kind, PROVIDER_KEYS, PROVIDER_SYNONYMS, PROVIDERS};
use crate::problem::{Reason, Warning};
use crate::provider_names::is_name;
use crate::providers::{Field, GatheredProvider, PROVIDER_VARIABLES};
use crate::suggest::nearest;
use crate::value;
use crate::yaml::{Content, Node};
use serde_json::Value;
use std::collections::BTreeMap;

impl Gathered {
    /// Adds model providers by name.
    pub(super) fn provider_map(&mut self, node: &Node, source: &Source<'_>) {
        let entries = match &node.content {
            Content::Map(entries) => entries,
            Content::Null => return,
            _ => {
                let reason = value::wrong_type(Kind::Providers, node.what());
                return self.problem((source.origin)(node.place), PROVIDERS, reason);
            }
        };
        for (name, node) in entries {
            let key = format!("{PROVIDERS}.{}", name.text);
            let origin = (source.origin)(name.place);
            if is_name(&name.text) {
                self.provider(&name.text, &key, node, origin, source);
            } else {
                self.problem(origin, &key, Reason::ProviderName);
            }
        }
    }

    fn provider(&mut self, name: &str, key: &str, node: &Node, origin: Origin, source: &Source<'_>) {
        let entries = match &node.content {
            Content::Map(entries) => entries.as_slice(),
            // `ollama:` is enough for a provider that needs no key.
            Content::Null => &[],
            _ => {
                let reason = Reason::WrongType { expected: "a map".to_owned(), found: node.what().to_owned() };
                return self.problem((source.origin)(node.place), key, reason);
            }
        };
        let mut fields = BTreeMap::new();
        for (name, node) in entries {
            let key = format!("{key}.{}", name.text);
            let Some(&(field, kind)) = PROVIDER_KEYS.iter().find(|(known, _)| *known == name.text) else {
                self.problem((source.origin)(name.place), &key, unknown_key(&name.text));
                continue;
            };
            match value::from_node(kind, node, source.base) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    let origin = (source.origin)(name.place);
                    fields.insert(field, Field { value, origin, is_literal: false });
                }
                Err(reason) => self.problem((source.origin)(node.place), &key, reason),
            }
        }
        let provider = self.providers.entry(name.to_owned()).or_default();
        provider.origin = origin;
        provider.fields.extend(fields);
    }

    /// Adds keys and addresses of providers from variables that other programs use, too.
    pub(super) fn usual_provider_variables<'a>(
        &mut self,
        lookup: &impl Fn(&str) -> Option<&'a str>,
        origin: &impl Fn(&str) -> Origin,
    ) {
        for variable in PROVIDER_VARIABLES {
            let mut names = variable.names.iter().copied();
            let found =
                names.find_map(|name| Some((name, lookup(name).map(str::trim).filter(|text| !text.is_empty())?)));
            let Some((name, text)) = found else { continue };
            let origin = origin(name);
            if let Some(text) = variable.form.read(text) {
                let field = Field { value: Value::String(text), origin, is_literal: true };
                self.provider_variables.insert((variable.provider, variable.field), field);
            } else {
                let message = "it is ignored: it is not an address".to_owned();
                self.warnings.push(Warning { origin, message });
            }
        }
    }

    /// Uses the variables of other programs for keys that no entry sets.
    pub(crate) fn complete_providers(&mut self) {
        for ((provider, name), field) in std::mem::take(&mut self.provider_variables) {
            let origin = field.origin.clone();
            let new = || GatheredProvider { origin, fields: BTreeMap::new() };
            let provider = self.providers.entry(provider.to_owned()).or_insert_with(new);
            provider.fields.entry(name).or_insert(field);
        }
    }
}

fn unknown_key(written: &str) -> Reason {
    let known = PROVIDER_KEYS.iter().map(|(known, _)| *known);
    let synonym = PROVIDER_SYNONYMS.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(written));
    let suggestion = synonym.map(|(_, ours)| *ours).or_else(|| nearest(written, known.clone())).map(str::to_owned);
    Reason::UnknownKey { suggestion, known: known.map(str::to_owned).collect() }
}
