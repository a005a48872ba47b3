//! Replaces credentials in the files of other clients with references.

use super::Found;
use crate::mask::{names_next, secret_part};
use crate::settings::McpServer;
use coracle_types::Secret;
use std::collections::BTreeMap;

/// What names of variables begin with that are kept apart from all others.
const APART: &str = "MCP_SERVER_";

/// The credentials of one entry.
pub(super) struct Credentials<'a> {
    /// What the names of the variables begin with.
    prefix: String,
    /// Whether a variable with this name has a meaning of its own.
    is_taken: &'a dyn Fn(&str) -> bool,
    pub(super) values: BTreeMap<String, Secret>,
}

impl<'a> Credentials<'a> {
    /// Variables are named after the server.
    pub(super) fn new(server: &str) -> Self {
        Self { prefix: variable_name(server), is_taken: &|_| false, values: BTreeMap::new() }
    }

    /// Variables have names that no setting and no other program has, and that are not taken.
    pub(super) fn apart(server: &str, is_taken: &'a dyn Fn(&str) -> bool) -> Self {
        Self { prefix: format!("{APART}{}", variable_name(server)), is_taken, values: BTreeMap::new() }
    }

    /// Replaces all credentials in an entry.
    pub(super) fn take(&mut self, server: &mut McpServer) {
        let mut names_this: Option<String> = None;
        for argument in &mut server.args {
            let next = names_next(argument.expose()).map(|flag| flag.trim_start_matches('-').to_owned());
            self.replace(argument, names_this.as_deref(), "ARGUMENT");
            names_this = next;
        }
        for (name, value) in server.env.iter_mut().chain(&mut server.headers) {
            let name = name.clone();
            self.replace(value, Some(&name), &name);
        }
        if let Some(url) = &mut server.url {
            self.replace(url, None, "URL");
        }
    }

    fn replace(&mut self, secret: &mut Secret, name: Option<&str>, fallback: &str) {
        let text = secret.expose();
        let Some(range) = secret_part(name, text) else { return };
        // A text with a credential and a variable is not split, because it would be expanded twice.
        if text[range.clone()].contains("${") {
            return;
        }
        // `--api-key=x` and `TOKEN=x` contain the name.
        let own_name = text[..range.start].strip_suffix('=').map(|name| name.trim_start_matches('-'));
        let wanted = variable_name(own_name.or(name).unwrap_or(fallback));
        let wanted = if wanted.starts_with(&self.prefix) { wanted } else { format!("{}_{wanted}", self.prefix) };
        let value = Secret::new(&text[range.clone()]);
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let free = std::iter::once(wanted.clone()).chain(numbered).find(|candidate| match self.values.get(candidate) {
            Some(taken) => *taken == value,
            None => !(self.is_taken)(candidate),
        });
        let Some(variable) = free else { return };
        let replaced = format!("{}${{{variable}}}{}", &text[..range.start], &text[range.end..]);
        self.values.insert(variable, value);
        *secret = Secret::new(replaced);
    }
}

/// Makes sure that no variable stands for two values: the second one gets a number.
pub(super) fn make_variables_unique(found: &mut [Found]) {
    let mut taken: BTreeMap<String, Secret> = BTreeMap::new();
    for this in found {
        let mut renamed = BTreeMap::new();
        for (name, value) in std::mem::take(&mut this.credentials) {
            let numbered = (2..).map(|number| format!("{name}_{number}"));
            let free = std::iter::once(name.clone())
                .chain(numbered)
                .find(|candidate| taken.get(candidate).is_none_or(|known| *known == value));
            let free = free.unwrap_or_else(|| name.clone());
            if free != name {
                rename(&mut this.entry, &name, &free);
                for note in &mut this.notes {
                    if note.ends_with(&format!("the variable {name}")) {
                        *note = note.replace(&name, &free);
                    }
                }
            }
            taken.insert(free.clone(), value.clone());
            renamed.insert(free, value);
        }
        this.credentials = renamed;
    }
}

fn rename(server: &mut McpServer, old: &str, new: &str) {
    let (old, new) = (format!("${{{old}}}"), format!("${{{new}}}"));
    let all = server.args.iter_mut().chain(server.url.as_mut());
    for secret in all.chain(server.env.values_mut()).chain(server.headers.values_mut()) {
        *secret = Secret::new(secret.expose().replace(&old, &new));
    }
}

/// Converts a text to the name of a variable.
pub(super) fn variable_name(text: &str) -> String {
    let mut name: String =
        text.chars().take(100).map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "V_");
    }
    name
}
