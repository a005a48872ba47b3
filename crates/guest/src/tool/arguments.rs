//! Converts flags to the arguments of a tool, according to its input schema.

use super::catalogue::{Server, Tool};
use super::{ToolError, help};
use crate::closest::closest;
use serde_json::{Map, Value};
use std::io::Read;

/// The maximum size of arguments on standard input.
const MAX_INPUT_BYTES: u64 = 8 << 20;

/// The maximum number of references within a schema that are followed.
const MAX_REFERENCES: usize = 8;

/// The request of a command line.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    Help,
    Call(Map<String, Value>),
}

/// The JSON types that a parameter accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) text: bool,
    pub(super) integer: bool,
    pub(super) number: bool,
    pub(super) boolean: bool,
    pub(super) array: bool,
    pub(super) object: bool,
    pub(super) null: bool,
}

impl Kinds {
    /// Whether the schema does not restrict the type.
    fn is_any(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.text = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "array" => self.array = true,
            "object" => self.object = true,
            "null" => self.null = true,
            _ => {}
        }
    }

    fn takes(self, value: &Value) -> bool {
        self.is_any()
            || match value {
                Value::Null => self.null,
                Value::Bool(_) => self.boolean,
                Value::Number(number) => self.number || self.integer && (number.is_i64() || number.is_u64()),
                Value::String(_) => self.text,
                Value::Array(_) => self.array,
                Value::Object(_) => self.object,
            }
    }

    /// The names of the types.
    pub(super) fn names(self) -> String {
        let all = [
            (self.text, "string"),
            (self.integer, "integer"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.array, "array"),
            (self.object, "object"),
            (self.null, "null"),
        ];
        let names: Vec<&str> = all.iter().filter(|(takes, _)| *takes).map(|(_, name)| *name).collect();
        if names.is_empty() { "any".to_owned() } else { names.join(" or ") }
    }
}

/// The types that a part of the schema `root` accepts.
pub(super) fn kinds(root: &Value, schema: &Value) -> Kinds {
    let mut found = Kinds::default();
    collect(root, schema, MAX_REFERENCES, &mut found);
    found
}

fn collect(root: &Value, schema: &Value, references: usize, found: &mut Kinds) {
    match schema.get("type") {
        Some(Value::String(name)) => found.add(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).for_each(|name| found.add(name)),
        _ => {}
    }
    if references == 0 {
        return;
    }
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| root.pointer(path.strip_prefix('#')?));
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    for part in parts.chain(target) {
        collect(root, part, references - 1, found);
    }
    if schema.get("type").is_none() {
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
        for value in listed {
            found.add(match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            });
        }
    }
}

/// Parses the words after the name of the tool.
pub(super) fn parse(server: &Server, tool: &Tool, words: &[String]) -> Result<Asked, ToolError> {
    let mut reader = Reader { server, tool, arguments: Map::new(), whole: Map::new() };
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        match word {
            "--help" | "-h" => return Ok(Asked::Help),
            "-" => reader.merge(&input()?)?,
            _ => {
                let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                    return Err(reader.wrong(
                        &format!("unexpected argument {word:?}"),
                        "arguments have names: --NAME VALUE".to_owned(),
                    ));
                };
                let (name, value) = match flag.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (flag, None),
                };
                reader.flag(name, value, &mut words)?;
            }
        }
    }
    reader.finish().map(Asked::Call)
}

fn input() -> Result<String, ToolError> {
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

struct Reader<'a> {
    server: &'a Server,
    tool: &'a Tool,
    arguments: Map<String, Value>,
    /// The arguments that were given as a whole. Flags take precedence.
    whole: Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn properties(&self) -> Option<&'a Map<String, Value>> {
        self.tool.input_schema.get("properties").and_then(Value::as_object)
    }

    fn wrong(&self, message: &str, hint: String) -> ToolError {
        ToolError::usage(format!("{}.{}: {message}", self.server.name, self.tool.name), Some(hint))
    }

    fn help(&self) -> String {
        format!("`tool {} {} --help` shows the parameters", self.server.name, self.tool.name)
    }

    fn flag<'w>(
        &mut self,
        name: &str,
        value: Option<&'w str>,
        words: &mut std::iter::Peekable<impl Iterator<Item = &'w str>>,
    ) -> Result<(), ToolError> {
        if name == "json" {
            let text = value.or_else(|| words.next());
            return match text {
                Some("-") => self.merge(&input()?),
                Some(text) => self.merge(text),
                None => Err(self.wrong("--json needs an object", self.help())),
            };
        }
        let (key, schema, negated) = self.parameter(name)?;
        let root = &self.tool.input_schema;
        let kinds = kinds(root, schema);
        if negated {
            self.arguments.insert(key.to_owned(), Value::Bool(false));
            return Ok(());
        }
        let text = match value {
            Some(text) => text,
            // `--flag` alone means true, and so does `--flag --other`.
            None if kinds.boolean && !words.peek().is_some_and(|next| matches!(*next, "true" | "false")) => "true",
            None => words.next().ok_or_else(|| {
                self.wrong(&format!("--{name} needs a value"), format!("it takes: {}", kinds.names()))
            })?,
        };
        let value = self.value(name, text, root, schema, kinds)?;
        match (self.arguments.get_mut(key), value) {
            (Some(Value::Array(list)), Value::Array(more)) if kinds.array => list.extend(more),
            (_, value) => {
                self.arguments.insert(key.to_owned(), value);
            }
        }
        Ok(())
    }

    /// The parameter of a flag, and whether it was prefixed with `--no-`.
    fn parameter(&self, name: &str) -> Result<(&'a str, &'a Value, bool), ToolError> {
        let Some(properties) = self.properties() else {
            return Err(self.wrong(&format!("there is no parameter --{name}"), "it takes no arguments".to_owned()));
        };
        let find = |name: &str| {
            let exact = properties.get_key_value(name);
            exact.or_else(|| properties.iter().find(|(key, _)| plain(key) == plain(name)))
        };
        if let Some((key, schema)) = find(name) {
            return Ok((key, schema, false));
        }
        if let Some((key, schema)) = name.strip_prefix("no-").and_then(find)
            && kinds(&self.tool.input_schema, schema).boolean
        {
            return Ok((key, schema, true));
        }
        let hint = match closest(name, properties.keys().map(String::as_str)) {
            Some(close) => format!("did you mean --{close}?"),
            None => self.help(),
        };
        Err(self.wrong(&format!("there is no parameter --{name}"), hint))
    }

    fn value(&self, name: &str, text: &str, root: &Value, schema: &Value, taken: Kinds) -> Result<Value, ToolError> {
        let parsed = serde_json::from_str::<Value>(text).ok();
        if taken.array && !matches!(parsed, Some(Value::Array(_))) {
            let item = schema.get("items").unwrap_or(&Value::Null);
            let only_lists = Kinds { array: false, null: false, ..taken }.is_any();
            if only_lists {
                return Ok(Value::Array(vec![self.value(name, text, root, item, kinds(root, item))?]));
            }
        }
        match parsed {
            // Text stays text, even if it looks like a number, unless a number is expected.
            Some(value) if !value.is_string() && taken.takes(&value) => Ok(value),
            _ if taken.text || taken.is_any() => Ok(Value::String(text.to_owned())),
            _ => {
                let shown: String = text.chars().take(100).collect();
                Err(self.wrong(&format!("--{name} takes {}, not {shown:?}", taken.names()), self.help()))
            }
        }
    }

    fn merge(&mut self, text: &str) -> Result<(), ToolError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => {
                self.whole.extend(object);
                Ok(())
            }
            Ok(_) => Err(self.wrong("the arguments must be a JSON object", self.help())),
            Err(error) => Err(self.wrong(&format!("the arguments are not JSON: {error}"), self.help())),
        }
    }

    fn finish(self) -> Result<Map<String, Value>, ToolError> {
        let mut arguments = self.whole.clone();
        arguments.extend(self.arguments.clone());
        let required = self.tool.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing: Vec<String> = required
            .filter_map(Value::as_str)
            .filter(|name| !arguments.contains_key(*name) && !help::has_default(&self.tool.input_schema, name))
            .map(|name| format!("--{name}"))
            .collect();
        if missing.is_empty() {
            return Ok(arguments);
        }
        Err(self.wrong(&format!("missing: {}", missing.join(", ")), self.help()))
    }
}

/// Normalises a name: `dry-run`, `dry_run` and `dryRun` are the same.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '-' | '_')).flat_map(char::to_lowercase).collect()
}
