//! The file and function of each tool, and the contents of its module.

use crate::learned::Shape;
use crate::model::{Module, Source, Type};
use crate::names::{Names, Place, assign, identifier};
use crate::schema::{Reader, Records};
use crate::text::{self, SUMMARY_CHARS};
use coracle_types::{ServerName, Tool};
use serde_json::{Map, Value};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of tools of a server. The rest is left out.
pub const MAX_TOOLS: usize = 10_000;
/// The maximum length of a tool's wire name. Tools with longer names are left out.
pub const MAX_TOOL_NAME: usize = 1_000;

/// A server and its current tools.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTools {
    /// The name of the server in the configuration.
    pub name: ServerName,
    /// A description of the server, from the configuration or from the server.
    pub description: Option<String>,
    /// The tools of the server.
    pub tools: Vec<Arc<Tool>>,
    /// Learned result shapes, by the tool's wire name.
    pub shapes: BTreeMap<String, Shape>,
    /// The category, if the configuration or the registry sets one.
    pub category: Option<String>,
    /// Additional descriptions of tools from the registry, by wire name.
    pub notes: BTreeMap<String, String>,
    /// What to do before its tools can be called, for a server that is not connected.
    pub connect: Option<String>,
}

impl ServerTools {
    /// Creates a server with these tools and no other information.
    pub fn new(name: ServerName, tools: impl IntoIterator<Item = impl Into<Arc<Tool>>>) -> Self {
        let (shapes, notes) = (BTreeMap::new(), BTreeMap::new());
        let tools = tools.into_iter().map(Into::into).collect();
        Self { name, description: None, tools, shapes, category: None, notes, connect: None }
    }
}

/// A server with its place in the tree.
pub(crate) struct Package<'a> {
    pub(crate) server: &'a ServerTools,
    /// The folder, and the package in both languages.
    pub(crate) folder: String,
    /// Tools by function.
    pub(crate) tools: BTreeMap<String, &'a Tool>,
}

/// Names every server and every tool. Of two tools with the same wire name, the first is taken.
pub(crate) fn packages<S: Borrow<ServerTools>>(servers: &[S]) -> Vec<Package<'_>> {
    let mut by_name: BTreeMap<&str, &ServerTools> = BTreeMap::new();
    for server in servers.iter().map(Borrow::borrow) {
        by_name.entry(server.name.as_str()).or_insert(server);
    }
    let folders = assign(by_name.keys().copied(), Place::Server, &mut Names::default());
    let packages = by_name.into_iter().filter_map(|(name, server)| {
        Some(Package { server, folder: folders.get(name)?.clone(), tools: functions(server) })
    });
    packages.collect()
}

fn functions(server: &ServerTools) -> BTreeMap<String, &Tool> {
    let mut by_wire: BTreeMap<&str, &Tool> = BTreeMap::new();
    for tool in server.tools.iter().take(MAX_TOOLS) {
        if tool.name.len() <= MAX_TOOL_NAME {
            by_wire.entry(&tool.name).or_insert(tool);
        }
    }
    let left_out = server.tools.len() - by_wire.len();
    if left_out > 0 {
        tracing::warn!(server = %server.name, left_out, "left out tools: too many, or invalid or duplicate names");
    }
    let names = assign(by_wire.keys().copied(), Place::Tool, &mut Names::default());
    names.into_iter().filter_map(|(wire, function)| Some((function, *by_wire.get(wire)?))).collect()
}

/// A name on the wire and the identifiers that generated code uses for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeName<'a> {
    /// The name on the wire.
    pub wire: &'a str,
    /// The identifier if there were no other names.
    pub plain: String,
    /// The identifier in generated code.
    pub identifier: String,
}

/// The names of a server's tools in generated code.
pub fn tool_names<'a>(wires: impl IntoIterator<Item = &'a str>) -> Vec<CodeName<'a>> {
    let wires = wires.into_iter().take(MAX_TOOLS).filter(|wire| wire.len() <= MAX_TOOL_NAME);
    code_names(wires, Place::Tool)
}

/// The names of servers in generated code, if these are all servers.
pub fn server_names<'a>(wires: impl IntoIterator<Item = &'a str>) -> Vec<CodeName<'a>> {
    code_names(wires, Place::Server)
}

fn code_names<'a>(wires: impl IntoIterator<Item = &'a str>, place: Place) -> Vec<CodeName<'a>> {
    let names = assign(wires, place, &mut Names::default());
    names
        .into_iter()
        .map(|(wire, unique)| CodeName { wire, plain: identifier(wire, place), identifier: unique })
        .collect()
}

/// The contents of a tool's module.
pub(crate) fn module(server: &ServerTools, function: &str, tool: &Tool) -> Module {
    let mut records = Records::new(function);
    let arguments = Reader::new(&tool.input_schema.object(), &mut records).arguments();
    let shape = server.shapes.get(&tool.name).filter(|shape| shape.seen() > 0);
    let (result, source) = match (&tool.output_schema, shape) {
        (Some(schema), _) => {
            let schema = wrapped_result(tool).unwrap_or_else(|| schema.object());
            (Reader::new(&schema, &mut records).value("output"), Source::Schema)
        }
        (None, Some(shape)) => (shape.as_type(&mut records, "output"), Source::Learned),
        (None, None) => (Type::Any, Source::Unknown),
    };
    Module {
        server: server.name.as_str().to_owned(),
        tool: tool.name.clone(),
        function: function.to_owned(),
        description: words(tool).to_owned(),
        arguments: arguments.fields,
        more: arguments.more,
        result,
        source,
        records: records.into_inner(),
    }
}

/// The member in which FastMCP wraps results that are not objects.
pub const WRAPPED: &str = "result";
/// The key that marks such a schema.
const WRAP_MARK: &str = "x-fastmcp-wrap-result";

/// The schema of the actual result, if FastMCP wrapped it in an object.
pub fn wrapped_result(tool: &Tool) -> Option<Map<String, Value>> {
    let schema = tool.output_schema.as_ref().filter(|schema| schema.as_str().contains(WRAP_MARK))?.object();
    let is_marked = schema.get(WRAP_MARK).and_then(Value::as_bool) == Some(true);
    let mut inner = schema.get("properties").filter(|_| is_marked)?.get(WRAPPED)?.as_object()?.clone();
    for definitions in ["$defs", "definitions"] {
        if let Some(known) = schema.get(definitions) {
            inner.entry(definitions).or_insert_with(|| known.clone());
        }
    }
    Some(inner)
}

/// The description of a tool, or else its title.
pub(crate) fn words(tool: &Tool) -> &str {
    match &tool.title {
        Some(title) if tool.description.trim().is_empty() => title,
        _ => &tool.description,
    }
}

/// A one-line summary of a tool.
pub(crate) fn summary(tool: &Tool) -> String {
    text::one_line(words(tool), SUMMARY_CHARS)
}
