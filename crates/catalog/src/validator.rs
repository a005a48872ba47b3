//! Checks arguments against a tool's input schema before a call.

use crate::defaults;
use crate::text;
use coracle_types::Tool;
use jsonschema::PatternOptions;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;

/// The maximum size of a schema, as JSON text. Larger schemas are not checked.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// The maximum number of parts of a schema after following references.
const MAX_PARTS: usize = 20_000;
/// The maximum size of a compiled regular expression in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// The maximum number of mistakes in an error.
const MAX_MISTAKES: usize = 5;
/// The maximum length of the sentence about one mistake.
const MAX_SENTENCE: usize = 300;
/// The maximum number of allowed values in an error.
const MAX_ALLOWED: usize = 12;
/// The maximum length of a value in an error.
const MAX_SHOWN: usize = 40;

/// Checks the arguments of one tool. Compiled once.
#[derive(Debug)]
pub struct Validator {
    compiled: Option<jsonschema::Validator>,
    /// The schema, if it has properties that are required and have a default.
    defaults: Option<Value>,
    warning: Option<String>,
}

/// Arguments that do not match the schema. The message is for the model that wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ArgumentsError {
    mistakes: Vec<String>,
    left_out: usize,
}

impl ArgumentsError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        "invalid_arguments"
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<&'static str> {
        Some("the parameters are in the docstring: help(TOOL), or `coracle tools show SERVER.TOOL`")
    }

    /// The mistakes, one sentence each.
    pub fn mistakes(&self) -> &[String] {
        &self.mistakes
    }
}

impl fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistakes.join("; "))?;
        if self.left_out > 0 { write!(f, "; and {} more", self.left_out) } else { Ok(()) }
    }
}

impl Validator {
    /// Creates a validator for the input schema of a tool. A schema that is invalid, too large or has remote references
    /// is not used: then any object is accepted, and [`Validator::warning`] says why. Nothing is ever fetched.
    pub fn new(tool: &Tool) -> Self {
        let schema = Value::Object(tool.input_schema.object());
        let has_defaults = defaults::any(&schema);
        let relaxed = has_defaults.then(|| defaults::relaxed(&schema));
        match compile(relaxed.as_ref().unwrap_or(&schema)) {
            Ok(compiled) => Self { compiled: Some(compiled), defaults: has_defaults.then_some(schema), warning: None },
            Err(reason) => {
                let warning = format!("arguments are not checked: {reason}");
                tracing::warn!(server = %tool.server, tool = tool.name, "{warning}");
                Self { compiled: None, defaults: None, warning: Some(warning) }
            }
        }
    }

    /// Why arguments are not checked, if they are not.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Whether [`Validator::complete`] may change anything.
    pub fn completes(&self) -> bool {
        self.defaults.is_some()
    }

    /// Adds arguments that are missing, required, and have a default.
    pub fn complete(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        let Some(schema) = &self.defaults else { return arguments };
        let mut value = Value::Object(arguments);
        defaults::fill(schema, &mut value, 0);
        match value {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        }
    }

    /// Checks arguments.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentsError> {
        let Some(compiled) = &self.compiled else { return Ok(()) };
        // The validator takes a `Value`, which costs a copy of the arguments.
        let instance = Value::Object(arguments.clone());
        if compiled.is_valid(&instance) {
            return Ok(());
        }
        let mut mistakes = Vec::new();
        let mut left_out = 0;
        for error in compiled.iter_errors(&instance) {
            let sentence = sentence(&error);
            if mistakes.contains(&sentence) {
                continue;
            }
            if mistakes.len() < MAX_MISTAKES {
                mistakes.push(sentence);
            } else {
                left_out += 1;
            }
            if left_out >= 1_000 {
                break;
            }
        }
        if mistakes.is_empty() {
            mistakes.push("the arguments do not match the schema".to_owned());
        }
        Err(ArgumentsError { mistakes, left_out })
    }
}

fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!("the schema is larger than {MAX_SCHEMA_BYTES} bytes"));
    }
    let mut parts = 0;
    if !is_small(schema, schema, &mut Vec::new(), &mut parts) {
        return Err(format!("the schema has more than {MAX_PARTS} parts"));
    }
    // The engine without backtracking: patterns are untrusted, and must not take exponential time.
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| text::one_line(&format!("the schema is invalid: {error}"), MAX_SENTENCE))
}

/// Counts the parts of a schema each time a reference leads to them: a short schema can stand for a huge one.
fn is_small<'a>(root: &'a Value, schema: &'a Value, open: &mut Vec<&'a str>, parts: &mut usize) -> bool {
    *parts += 1;
    if *parts > MAX_PARTS {
        return false;
    }
    match schema {
        Value::Array(list) => list.iter().all(|part| is_small(root, part, open, parts)),
        Value::Object(map) => {
            if let Some(target) = map.get("$ref").and_then(Value::as_str)
                && !open.contains(&target)
                && let Some(found) = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
            {
                open.push(target);
                let small = is_small(root, found, open, parts);
                open.pop();
                if !small {
                    return false;
                }
            }
            // Definitions count where they are used.
            let counted = map.iter().filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions"));
            counted.into_iter().all(|(_, part)| is_small(root, part, open, parts))
        }
        _ => true,
    }
}

/// What is wrong, where, and what would be right. Long values are never repeated, because they may contain anything.
fn sentence(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind as Kind;

    let path = error.instance_path().to_string();
    let place =
        if path.is_empty() { String::new() } else { format!("`{}`: ", path.trim_start_matches('/').replace('/', ".")) };
    let found = kind_of(error.instance());
    let words = match error.kind() {
        Kind::Required { property } => format!("{} is missing", render(property)),
        Kind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().take(MAX_ALLOWED).map(|name| quoted(name)).collect();
            format!("there is no parameter {}", names.join(", "))
        }
        Kind::Enum { options } => format!("must be one of {}, not {}", listed(options), render(error.instance())),
        Kind::Constant { expected_value } => {
            format!("must be {}, not {}", render(expected_value), render(error.instance()))
        }
        Kind::Type { kind } => format!("must be {}, not {found}", type_words(kind)),
        Kind::Minimum { limit } => format!("must be at least {limit}, not {}", render(error.instance())),
        Kind::Maximum { limit } => format!("must be at most {limit}, not {}", render(error.instance())),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}, not {}", render(error.instance())),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}, not {}", render(error.instance())),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} elements"),
        Kind::MaxItems { limit } => format!("must have at most {limit} elements"),
        Kind::UniqueItems => "must have no element twice".to_owned(),
        Kind::Pattern { pattern } => format!("must match the pattern {}", quoted(pattern)),
        Kind::Format { format } => format!("must be in the format {}", quoted(format)),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => format!("fits none of the alternatives; it is {found}"),
        Kind::OneOfMultipleValid { .. } => {
            "fits more than one of the alternatives, of which only one may hold".to_owned()
        }
        // The library masks the value in this one.
        _ => error.masked_with("the value").to_string(),
    };
    text::one_line(&format!("{place}{words}"), MAX_SENTENCE)
}

fn type_words(kind: &jsonschema::error::TypeKind) -> String {
    use jsonschema::error::TypeKind;

    match kind {
        TypeKind::Single(one) => article(&one.to_string()),
        TypeKind::Multiple(several) => {
            let names: Vec<String> = several.iter().map(|one| article(&one.to_string())).collect();
            names.join(" or ")
        }
    }
}

fn article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "integer" | "object" | "array" => format!("an {name}"),
        other => format!("a {other}"),
    }
}

fn kind_of(value: &Value) -> String {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    article(name)
}

/// A short value as JSON, or else its type.
fn render(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_SHOWN { text::one_line(&text, MAX_SHOWN) } else { kind_of(value) }
}

fn quoted(name: &str) -> String {
    format!("`{}`", text::one_line(name, MAX_SHOWN))
}

fn listed(options: &Value) -> String {
    let Value::Array(options) = options else { return render(options) };
    let distinct: HashSet<String> = options.iter().map(Value::to_string).collect();
    let names: Vec<String> = options.iter().take(MAX_ALLOWED).map(render).collect();
    let rest = if distinct.len() > MAX_ALLOWED {
        format!(" and {} more", distinct.len() - MAX_ALLOWED)
    } else {
        String::new()
    };
    format!("{}{rest}", names.join(", "))
}
