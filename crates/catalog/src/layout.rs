//! Which file and which function each tool becomes, and what its module says.

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

/// Tools of one server that are looked at; the rest is left out.
pub const MAX_TOOLS: usize = 10_000;
/// The longest name of a tool on the wire; one that is longer is left out.
pub const MAX_TOOL_NAME: usize = 1_000;

/// A server with its tools, as they are now.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTools {
    /// What Coracle calls it.
    pub name: ServerName,
    /// What it is for: by the configuration, or in the server's own words.
    pub description: Option<String>,
    /// What it offers.
    pub tools: Vec<Arc<Tool>>,
    /// What earlier results looked like, by the name of the tool on the wire.
    pub shapes: BTreeMap<String, Shape>,
    /// What kind of thing it is for, if somebody has said so.
    pub category: Option<String>,
    /// What else is said of its tools by somebody who knows them, by the name of the tool on the wire.
    pub notes: BTreeMap<String, String>,
    /// It is only known by hearsay: nothing of it can be called before this is done.
    pub connect: Option<String>,
}

impl ServerTools {
    /// A server that offers these, and nothing more is known.
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
    /// By function.
    pub(crate) tools: BTreeMap<String, &'a Tool>,
}

/// Gives every server and every tool its name. Of two with the same name on the wire the first is taken.
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
        tracing::warn!(server = %server.name, left_out, "some tools have a name twice, a name too long, or are too many");
    }
    let names = assign(by_wire.keys().copied(), Place::Tool, &mut Names::default());
    names.into_iter().filter_map(|(wire, function)| Some((function, *by_wire.get(wire)?))).collect()
}

/// A name on the wire and the identifiers that generated code uses for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeName<'a> {
    /// The name on the wire.
    pub wire: &'a str,
    /// The identifier, were there no other names.
    pub plain: String,
    /// The identifier that is used.
    pub identifier: String,
}

/// What the tools of a server are called in generated code, by their names on the wire.
pub fn tool_names<'a>(wires: impl IntoIterator<Item = &'a str>) -> Vec<CodeName<'a>> {
    let wires = wires.into_iter().take(MAX_TOOLS).filter(|wire| wire.len() <= MAX_TOOL_NAME);
    code_names(wires, Place::Tool)
}

/// What servers are called in generated code, if all of them are there.
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

/// What the module of a tool says.
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

/// The member in which FastMCP wraps results that are no objects.
pub const WRAPPED: &str = "result";
/// What such a schema is marked with.
const WRAP_MARK: &str = "x-fastmcp-wrap-result";

/// The schema of what is really returned, where FastMCP has wrapped it in an object only to make it one.
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

/// A description, or else a title.
pub(crate) fn words(tool: &Tool) -> &str {
    match &tool.title {
        Some(title) if tool.description.trim().is_empty() => title,
        _ => &tool.description,
    }
}

/// One line about a tool.
pub(crate) fn summary(tool: &Tool) -> String {
    text::one_line(words(tool), SUMMARY_CHARS)
}
