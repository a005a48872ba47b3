//! Reads one server of another client.

use super::credentials::Credentials;
use super::places::Place;
use super::{Found, ImportOptions, server_name};
use crate::gather::{Source, entry};
use crate::problem::Reason;
use crate::settings::McpServer;
use crate::value::Base;
use crate::yaml::Node;
use crate::{Origin, expand};
use coracle_types::{Secret, ServerName};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The context of an entry.
pub(super) struct Context<'a> {
    pub(super) place: &'a Place,
    pub(super) options: &'a ImportOptions,
    pub(super) project: Option<&'a Path>,
    pub(super) inputs: Inputs,
}

/// The inputs that VS Code prompts for, by ID.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<String, Input>);

struct Input {
    description: Option<String>,
    /// The default. Passwords have none.
    default: Option<String>,
}

/// The maximum length of a description in a note.
const MAX_DESCRIPTION: usize = 120;

impl Inputs {
    pub(super) fn read(value: Option<&Value>) -> Self {
        let Some(Value::Array(items)) = value else { return Self::default() };
        let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        let input = |item: &Value| {
            let is_password = item.get("password") == Some(&Value::Bool(true));
            let default = text(item, "default").filter(|default| !is_password && !default.contains(['}', '$']));
            let description = text(item, "description")
                .map(|text| text.chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_DESCRIPTION).collect());
            Some((text(item, "id")?, Input { description, default }))
        };
        Self(items.iter().filter_map(input).collect())
    }
}

/// Reads one entry, whatever it contains.
pub(super) fn read(original_name: &str, value: &Value, context: &Context<'_>) -> Option<Found> {
    let valid = server_name(original_name);
    let name = ServerName::new(&valid).ok()?;
    let mut notes = Vec::new();
    if valid != original_name {
        notes.push(format!("renamed from {original_name:?} to {valid}"));
    }
    let origin = |_| Origin::Default;
    let base = Base::default();
    let read = entry(original_name, &Node::from_json(value), &Source { origin: &origin, base: &base });
    notes.extend(read.warnings.iter().map(ToString::to_string));
    // Unknown keys of other clients do not make an entry unusable.
    let (unknown, problems): (Vec<_>, Vec<_>) =
        read.problems.iter().partition(|problem| matches!(problem.reason, Reason::UnknownKey { .. }));
    notes.extend(unknown.iter().map(|problem| format!("`{}` is unknown and ignored", problem.key)));
    let mut problem = problems.first().map(|problem| format!("`{}` {}", problem.key, problem.reason));
    let mut server = read.server.unwrap_or_default();
    if problem.is_none() && server.command.is_none() == server.url.is_none() {
        problem = Some("it needs either a command or a url".to_owned());
    }
    let mut rewriting = Rewriting { context, notes: Vec::new(), unknown: None };
    rewriting.server(&mut server);
    notes.append(&mut rewriting.notes);
    if let Some(unknown) = rewriting.unknown {
        problem = problem.or(Some(format!("it refers to {unknown}, which only its client knows")));
    }
    if server.disabled {
        notes.push("it is disabled".to_owned());
    }
    let mut credentials = Credentials::new(&valid);
    credentials.take(&mut server);
    for name in credentials.values.keys() {
        notes.push(format!("a credential was moved to the variable {name}"));
    }
    Some(Found {
        client: context.place.client,
        path: context.place.path.clone(),
        project: context.project.map(Path::to_owned),
        original_name: original_name.to_owned(),
        name,
        entry: server,
        credentials: credentials.values,
        notes,
        problem,
        duplicate: false,
    })
}

/// Rewrites references of other clients to ours.
struct Rewriting<'a> {
    context: &'a Context<'a>,
    notes: Vec<String>,
    unknown: Option<String>,
}

impl Rewriting<'_> {
    fn server(&mut self, server: &mut McpServer) {
        for text in [&mut server.command, &mut server.cwd, &mut server.env_file].into_iter().flatten() {
            *text = self.text(text);
        }
        let secrets = server.args.iter_mut().chain(server.url.as_mut());
        for secret in secrets.chain(server.env.values_mut()).chain(server.headers.values_mut()) {
            *secret = Secret::new(self.text(secret.expose()));
        }
        self.notes.dedup();
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            out.push_str(&rest[..at]);
            let inside = &rest[at + 2..];
            let Some(end) = inside.find('}') else {
                // The reference has no meaning for its client either.
                out.push_str("$${");
                rest = inside;
                continue;
            };
            out.push_str(&self.reference(&inside[..end]));
            rest = &inside[end + 1..];
        }
        out.push_str(rest);
        out
    }

    fn reference(&mut self, inside: &str) -> String {
        let home = || self.context.options.home.display().to_string();
        let folder = self.context.project.map(|folder| folder.display().to_string());
        let last = |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let known = match inside {
            "userHome" => Some(home()),
            "workspaceFolder" | "workspaceRoot" => folder,
            "workspaceFolderBasename" => folder.and_then(|folder| last(&folder)),
            "pathSeparator" | "/" => Some("/".to_owned()),
            _ => None,
        };
        if let Some(text) = known {
            return text;
        }
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id);
        }
        let name = inside.strip_prefix("env:").unwrap_or(inside);
        let name = name.split_once(":-").map_or(name, |(name, _)| name);
        if !expand::is_name(name) || matches!(name, "workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename") {
            self.unknown.get_or_insert_with(|| format!("${{{inside}}}"));
        }
        format!("${{{inside}}}")
    }

    /// Turns a prompt into a variable that the user sets.
    fn input(&mut self, id: &str) -> String {
        let name = variable_name(id);
        let input = self.context.inputs.0.get(id);
        let what = input.and_then(|input| input.description.as_deref()).map(|text| format!(" ({text})"));
        let what = what.unwrap_or_default();
        if let Some(default) = input.and_then(|input| input.default.as_deref()) {
            self.notes.push(format!("the variable {name}{what} may be set; without it, the default is used"));
            format!("${{{name}:-{default}}}")
        } else {
            self.notes.push(format!("set the variable {name}{what}"));
            format!("${{{name}}}")
        }
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
