//! The generated tree: paths and texts. The same definitions produce the same bytes.

use crate::layout::{self, Package, ServerTools};
use crate::model::{Field, Module, Type};
use crate::text::{self, DESCRIPTION_CHARS, SUMMARY_CHARS};
use crate::{python, typescript};
use coracle_types::Tool;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The folder and package that contains all generated files.
pub const ROOT: &str = "servers";

/// The version of the generated texts. Increase it with every change to the generators.
const FORMAT: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// The maximum size of a schema in `tools.json`, as JSON text.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Generated files by path, which uses `/` and begins with [`ROOT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Paths and texts, sorted.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// A digest of all paths and texts.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for (path, text) in &self.files {
            for part in [path, text] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hexadecimal(&hasher.finalize())
    }
}

/// A digest of everything that [`generate`] uses, which does not need the generated texts. Order does not matter.
pub(crate) fn digest<S: Borrow<ServerTools>>(servers: &[S]) -> String {
    let mut hasher = Sha256::new();
    let mut add = |part: &[u8]| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(FORMAT.as_bytes());
    let mut servers: Vec<&ServerTools> = servers.iter().map(Borrow::borrow).collect();
    servers.sort_by_key(|server| server.name.as_str());
    for server in servers {
        add(server.name.as_str().as_bytes());
        add(server.description.as_deref().unwrap_or_default().as_bytes());
        let mut tools: Vec<&Tool> = server.tools.iter().map(AsRef::as_ref).collect();
        tools.sort_by_key(|tool| tool.name.as_str());
        for tool in tools {
            add(&serde_json::to_vec(tool).unwrap_or_default());
            if let Some(shape) = server.shapes.get(&tool.name).filter(|_| tool.output_schema.is_none()) {
                // The number of results is not part of the text.
                add(format!("{:?}", shape.as_type(&mut crate::schema::Records::new("x"), "output")).as_bytes());
            }
        }
        add(b"end");
    }
    hexadecimal(&hasher.finalize())
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Generates the files of the wanted servers, by name. One server at a time, so that they are not all in memory.
pub(crate) fn each_package<S: Borrow<ServerTools>, E>(
    servers: &[S],
    wanted: impl Fn(&str) -> bool,
    mut write: impl FnMut(&str, Tree) -> Result<(), E>,
) -> Result<(), E> {
    for package in layout::packages(servers) {
        if wanted(package.server.name.as_str()) {
            let mut files = BTreeMap::new();
            add_package(&mut files, &package);
            write(&package.folder, Tree { files })?;
        }
    }
    Ok(())
}

/// The file that lists the packages.
pub(crate) fn listing<S: Borrow<ServerTools>>(servers: &[S]) -> (String, String) {
    let mut listing = String::from(LISTING);
    for package in layout::packages(servers) {
        list(&mut listing, &package);
    }
    (format!("{ROOT}/__init__.py"), python::docstring(&listing, ""))
}

const LISTING: &str = "Tools of other people's MCP servers, as functions: `from servers.NAME import TOOL`.\n";

fn list(listing: &mut String, package: &Package<'_>) {
    let words = described(package).unwrap_or_else(|| format!("{} tools", package.tools.len()));
    let _ = write!(listing, "\n{}: {words}", package.folder);
}

/// Generates the modules of all these servers. The result depends only on the definitions, and not on their order.
pub fn generate<S: Borrow<ServerTools>>(servers: &[S]) -> Tree {
    let packages = layout::packages(servers);
    let mut files = BTreeMap::new();
    let mut listing = String::from(LISTING);
    for package in &packages {
        list(&mut listing, package);
        add_package(&mut files, package);
    }
    files.insert(format!("{ROOT}/__init__.py"), python::docstring(&listing, ""));
    Tree { files }
}

fn add_package(files: &mut BTreeMap<String, String>, package: &Package<'_>) {
    let folder = format!("{ROOT}/{}", package.folder);
    let mut modules = Vec::new();
    for (function, tool) in &package.tools {
        let module = layout::module(package.server, function, tool);
        files.insert(format!("{folder}/{function}.py"), python::module(&module));
        files.insert(format!("{folder}/{function}.ts"), typescript::module(&module));
        modules.push((module, layout::summary(tool)));
    }
    let name = python::literal_text(package.server.name.as_str());
    let words = match described(package) {
        Some(description) => format!("The MCP server {name}, in its own words: {description}"),
        None => format!("The MCP server {name}."),
    };
    let listed: Vec<(String, String)> =
        modules.iter().map(|(module, summary)| (module.function.clone(), summary.clone())).collect();
    files.insert(format!("{folder}/__init__.py"), python::package(&words, &listed));
    let listed: Vec<(&Module, String)> = modules.iter().map(|(module, summary)| (module, summary.clone())).collect();
    files.insert(format!("{folder}/index.ts"), typescript::index(&words, &listed));
    files.insert(format!("{folder}/tools.json"), tools_json(package, &modules));
    files.insert(format!("{folder}/README.md"), readme(package, &modules));
}

/// One line about a server, if there is a description.
fn described(package: &Package<'_>) -> Option<String> {
    let words = text::one_line(package.server.description.as_deref()?, SUMMARY_CHARS);
    (!words.is_empty()).then_some(words)
}

/// The data of a server's tools, for the shell command `tool` and other programs.
fn tools_json(package: &Package<'_>, modules: &[(Module, String)]) -> String {
    let tools: Vec<Value> = package
        .tools
        .iter()
        .zip(modules)
        .map(|((function, tool), (_, summary))| {
            json!({
                "module": function,
                "name": tool.name,
                "summary": summary,
                "description": text::clean(layout::words(tool), DESCRIPTION_CHARS),
                "input_schema": input_schema(tool),
            })
        })
        .collect();
    let mut out = format!("{{\"server\":{},\"tools\":[", Value::from(package.server.name.as_str()));
    for (index, tool) in tools.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&tool.to_string());
    }
    out.push_str("\n]}\n");
    out
}

/// The schema of the arguments. A schema that is too large is replaced by one that accepts any object.
fn input_schema(tool: &Tool) -> Value {
    let schema = Value::Object(tool.input_schema.object());
    if schema.to_string().len() <= MAX_SCHEMA_BYTES { printable(schema) } else { json!({ "type": "object" }) }
}

/// Copies a schema with its descriptions cleaned for a terminal.
fn printable(schema: Value) -> Value {
    match schema {
        Value::Array(parts) => parts.into_iter().map(printable).collect(),
        Value::Object(map) => {
            let part = |(key, value): (String, Value)| match (key.as_str(), value) {
                ("description" | "title", Value::String(words)) => (key, text::clean(&words, DESCRIPTION_CHARS).into()),
                // Values must not change.
                ("const" | "default" | "enum" | "examples", value) => (key, value),
                (_, value) => (key, printable(value)),
            };
            Value::Object(map.into_iter().map(part).collect())
        }
        plain => plain,
    }
}

fn readme(package: &Package<'_>, modules: &[(Module, String)]) -> String {
    let folder = &package.folder;
    let mut out = format!("# {folder}\n\n");
    let _ = writeln!(
        out,
        "Tools of the MCP server {}. Lines that begin with `>`, and the line beside each tool, are the server's own \
         words: they describe, and they give no orders.",
        code(package.server.name.as_str())
    );
    let description = text::clean(package.server.description.as_deref().unwrap_or_default(), DESCRIPTION_CHARS);
    if !description.is_empty() {
        out.push('\n');
        for line in description.lines() {
            let _ = writeln!(out, "{}", format!("> {}", markdown(line)).trim_end());
        }
    }
    out.push_str(if modules.is_empty() { "\nIt offers no tools.\n" } else { "\n## Tools\n\n" });
    for (module, summary) in modules {
        let wire = if module.tool == module.function { String::new() } else { format!(" ({})", code(&module.tool)) };
        let line = format!("- `{}`{wire}: {}", module.function, markdown(summary));
        let _ = writeln!(out, "{}", line.trim_end_matches([' ', ':']));
    }
    if let Some((module, _)) = modules.iter().find(|(module, _)| !module.arguments.is_empty()).or(modules.first()) {
        let _ = write!(out, "\n## How to call one\n\n{}", examples(folder, module));
    }
    out
}

fn examples(folder: &str, module: &Module) -> String {
    let function = &module.function;
    let mut names = crate::names::Names::default();
    let parameters = crate::names::assign(
        module.arguments.iter().map(|field| &*field.wire),
        crate::names::Place::Parameter,
        &mut names,
    );
    let needed: Vec<&Field> = module.arguments.iter().filter(|field| field.required).collect();
    let python: Vec<String> = needed
        .iter()
        .filter_map(|field| Some(format!("{}={}", parameters.get(&*field.wire)?, sample(&field.kind, "None"))))
        .collect();
    let typescript: Vec<String> = needed
        .iter()
        .map(|field| format!("{}: {}", typescript::key(&field.wire), sample(&field.kind, "null")))
        .collect();
    let object = if typescript.is_empty() { String::new() } else { format!("{{ {} }}", typescript.join(", ")) };
    let given = python.join(", ");
    format!(
        "Python; `await {function}.aio(…)` does the same without blocking:\n\n```python\nfrom servers.{folder} import \
         {function}\n\n{function}({given})\n```\n\nTypeScript:\n\n```ts\nimport {{ {function} }} from \
         \"servers/{folder}\";\n\nawait {function}({object});\n```\n\nBash:\n\n```bash\ntool {folder} {function} --help\n```\n"
    )
}

/// A sample value of a type.
fn sample(kind: &Type, nothing: &str) -> String {
    match kind {
        Type::Integer | Type::Number => "1".to_owned(),
        Type::Boolean => if nothing == "None" { "True" } else { "true" }.to_owned(),
        Type::Array(_) | Type::Tuple(_) => "[]".to_owned(),
        Type::Map(_) | Type::Record(_) => "{}".to_owned(),
        Type::Null => nothing.to_owned(),
        Type::Text | Type::Any => "\"…\"".to_owned(),
        Type::Literals(values) => match values.first() {
            Some(crate::model::Literal::Text(text)) => python::literal_text(text),
            Some(crate::model::Literal::Integer(number)) => number.to_string(),
            Some(crate::model::Literal::Boolean(_)) => sample(&Type::Boolean, nothing),
            _ => nothing.to_owned(),
        },
        Type::Union(parts) => parts.first().map_or_else(|| nothing.to_owned(), |part| sample(part, nothing)),
    }
}

/// Escapes text for a line of Markdown: nothing in it is markup, so that nothing is hidden when it is rendered.
fn markdown(line: &str) -> String {
    let mut out = String::new();
    for letter in line.chars() {
        if matches!(letter, '\\' | '`' | '<' | '>' | '[' | ']' | '!' | '|') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A name as a code span, whatever it contains.
fn code(name: &str) -> String {
    format!("`{}`", text::one_line(name, SUMMARY_CHARS).replace('`', "'"))
}
