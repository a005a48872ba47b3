//! The Python module of one tool.
//!
//! Types are in a branch for type checkers only, because at run time they would cost an import of `typing`.

use crate::model::{Field, Literal, Module, Record, Source, Type};
use crate::names::{Names, Place, assign};
use crate::stub;
use crate::text::{self, DESCRIPTION_CHARS, PARAMETER_CHARS};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The maximum line width of docstrings, without indentation.
const DOC_WIDTH: usize = 100;

/// Names in annotations of the same class: a field with such a name would hide them.
const ANNOTATION_NAMES: &[&str] =
    &["Any", "Literal", "NotRequired", "TypedDict", "bool", "dict", "float", "int", "list", "str", "tuple"];

/// The direction of a value, which determines the types that are accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Passed by code: a tuple becomes an array.
    In,
    /// Parsed from JSON: there are no tuples.
    Out,
}

/// The source text of the module.
pub(crate) fn module(module: &Module) -> String {
    let mut types = Types { records: &module.records, imports: BTreeSet::new() };
    let result = types.text(&module.result, Way::Out);
    let mut names = Names::default();
    let parameters = assign(module.arguments.iter().map(|field| &*field.wire), Place::Parameter, &mut names);
    let name_of = |field: &Field| parameters.get(&*field.wire).cloned().unwrap_or_default();

    let mut signature = String::new();
    if !module.arguments.is_empty() {
        signature.push_str("\n    *,");
    }
    let mut sent = String::new();
    for (index, field) in module.arguments.iter().enumerate() {
        let name = name_of(field);
        let default = if field.required { "" } else { " = UNSET" };
        let _ = write!(signature, "\n    {name}: {}{default},", types.text(&field.kind, Way::In));
        let _ = write!(sent, "{}{}: {name}", if index > 0 { ", " } else { "" }, literal_text(&field.wire));
    }
    let mut rest = "";
    if let Some(kind) = &module.more {
        let _ = write!(signature, "\n    **more: {},", types.text(kind, Way::In));
        rest = ", more";
    }
    if !signature.is_empty() {
        signature.push('\n');
    }
    let records: Vec<String> = module
        .used_records()
        .into_iter()
        .map(|(record, returned)| types.record(record, if returned { Way::Out } else { Way::In }))
        .collect();

    let has_optional = module.arguments.iter().any(|field| !field.required);
    let unset = if has_optional { "UNSET, " } else { "" };
    let mut out = String::from("from __future__ import annotations\n\n");
    let _ = writeln!(out, "from coracle import {unset}arguments, tool");
    if !types.imports.is_empty() || !records.is_empty() {
        out.push_str("\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n");
        if !types.imports.is_empty() {
            let names: Vec<&str> = types.imports.iter().copied().collect();
            let _ = writeln!(out, "    from typing import {}", names.join(", "));
        }
        for record in records {
            let _ = write!(out, "\n{record}");
        }
    }
    let (server, tool, function) = (literal_text(&module.server), literal_text(&module.tool), &module.function);
    let _ = write!(out, "\n\n@tool({server}, {tool})\ndef {function}({signature}) -> {result}:\n");
    let described: Vec<_> = module.arguments.iter().map(|field| (name_of(field), &*field.description)).collect();
    out.push_str(&docstring(&documentation(module, &described), "    "));
    let _ = writeln!(out, "    return arguments({{{sent}}}{rest})");
    out
}

/// The part of the module that a model needs for a call: import line, signature and description.
pub(crate) fn stub(package: &str, module: &Module) -> String {
    stub::shortest(module, "# shortened: detail_level full has all of it", |module, terse| {
        let mut types = Types { records: &module.records, imports: BTreeSet::new() };
        let mut names = Names::default();
        let parameters = assign(module.arguments.iter().map(|field| &*field.wire), Place::Parameter, &mut names);
        let name_of = |field: &Field| parameters.get(&*field.wire).cloned().unwrap_or_default();
        let mut given: Vec<String> = if module.arguments.is_empty() { Vec::new() } else { vec!["*".to_owned()] };
        for field in &module.arguments {
            let default = if field.required { "" } else { " = ..." };
            given.push(format!("{}: {}{default}", name_of(field), types.text(&field.kind, Way::In)));
        }
        given.extend(module.more.as_ref().map(|kind| format!("**more: {}", types.text(kind, Way::In))));
        let (function, result) = (&module.function, types.text(&module.result, Way::Out));
        let mut out = format!("from servers.{package} import {function}\n");
        for (record, returned) in module.used_records() {
            let text = types.record(record, if returned { Way::Out } else { Way::In });
            for line in text.lines() {
                let _ = writeln!(out, "{}", line.strip_prefix("    ").unwrap_or(line));
            }
        }
        let _ = writeln!(out, "def {function}({}) -> {result}:", given.join(", "));
        out.push_str(&docstring(&terse.words(module, name_of), " "));
        out
    })
}

/// The package of one server: its tools by name, imported on first use.
pub(crate) fn package(words: &str, tools: &[(String, String)]) -> String {
    let mut out = docstring(words, "");
    out.push_str("\nfrom coracle import offer\n");
    if tools.is_empty() {
        out.push_str("\noffer(__name__, {})\n");
        return out;
    }
    out.push_str("\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n");
    for (function, _) in tools {
        let _ = writeln!(out, "    from .{function} import {function} as {function}");
    }
    out.push_str("\noffer(\n    __name__,\n    {\n");
    for (function, summary) in tools {
        let _ = writeln!(out, "        {}: {},", literal_text(function), literal_text(summary));
    }
    out.push_str("    },\n)\n");
    out
}

/// A docstring with this text and a final line feed. The text cannot terminate the docstring.
pub(crate) fn docstring(words: &str, indent: &str) -> String {
    let words = words.trim();
    let mut escaped = String::new();
    let mut letters = words.chars().peekable();
    let mut previous = ' ';
    while let Some(letter) = letters.next() {
        let beside_quote = previous == '"' || letters.peek().is_none_or(|next| *next == '"');
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '"' if beside_quote => escaped.push_str("\\\""),
            other => escaped.push(other),
        }
        previous = letter;
    }
    if !escaped.contains('\n') {
        return format!("{indent}\"\"\"{escaped}\"\"\"\n");
    }
    let mut out = String::new();
    for (index, line) in escaped.lines().enumerate() {
        let quotes = if index == 0 { "\"\"\"" } else { "" };
        let _ = writeln!(out, "{}", format!("{indent}{quotes}{line}").trim_end());
    }
    let _ = writeln!(out, "{indent}\"\"\"");
    out
}

fn documentation(module: &Module, described: &[(String, &str)]) -> String {
    let description = text::clean(&module.description, DESCRIPTION_CHARS);
    let mut lines = if description.is_empty() {
        vec![format!("The tool {} of {}.", literal_text(&module.tool), literal_text(&module.server))]
    } else {
        text::wrap(&description, DOC_WIDTH)
    };
    let described: Vec<_> = described.iter().filter(|(_, words)| !words.is_empty()).collect();
    if !described.is_empty() {
        lines.extend([String::new(), "Args:".to_owned()]);
    }
    for (name, words) in described {
        let wrapped = text::wrap(&format!("{name}: {words}"), DOC_WIDTH - 8);
        for (index, line) in wrapped.iter().enumerate() {
            lines.push(format!("{}{line}", if index == 0 { "    " } else { "        " }));
        }
    }
    if module.source == Source::Learned {
        let words = "    The type is learned from earlier results; the server does not promise it.";
        lines.extend([String::new(), "Returns:".to_owned(), words.to_owned()]);
    }
    lines.join("\n")
}

/// A string literal on one line. Everything except plain letters, digits and punctuation is escaped.
pub(crate) fn literal_text(value: &str) -> String {
    text::quoted(value, |number| match number {
        0..=0xff => format!("\\x{number:02x}"),
        0x100..=0xffff => format!("\\u{number:04x}"),
        _ => format!("\\U{number:08x}"),
    })
}

struct Types<'a> {
    records: &'a [Record],
    imports: BTreeSet<&'static str>,
}

impl Types<'_> {
    fn text(&mut self, kind: &Type, way: Way) -> String {
        match kind {
            Type::Any => self.import("Any").to_owned(),
            Type::Null => "None".to_owned(),
            Type::Boolean => "bool".to_owned(),
            Type::Integer => "int".to_owned(),
            Type::Number => "float".to_owned(),
            Type::Text => "str".to_owned(),
            Type::Literals(values) => {
                let values: Vec<String> = values.iter().map(literal).collect();
                format!("{}[{}]", self.import("Literal"), values.join(", "))
            }
            Type::Array(inner) => format!("list[{}]", self.text(inner, way)),
            Type::Map(inner) => format!("dict[str, {}]", self.text(inner, way)),
            Type::Tuple(parts) if way == Way::Out => {
                let parts = Type::union(parts.iter().cloned());
                format!("list[{}]", self.text(&parts, way))
            }
            Type::Tuple(parts) if parts.is_empty() => "tuple[()]".to_owned(),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(part, way)).collect();
                format!("tuple[{}]", parts.join(", "))
            }
            Type::Union(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(part, way)).collect();
                parts.join(" | ")
            }
            Type::Record(index) => match self.records.get(*index) {
                Some(record) => record.name.clone(),
                None => self.import("Any").to_owned(),
            },
        }
    }

    fn import(&mut self, name: &'static str) -> &'static str {
        self.imports.insert(name);
        name
    }

    /// Writes a class if the names of the fields allow it, or else a call.
    fn record(&mut self, record: &Record, way: Way) -> String {
        self.import("TypedDict");
        let is_plain = |field: &Field| {
            let mut names = Names::default();
            assign([&*field.wire], Place::Parameter, &mut names).get(&*field.wire) == Some(&field.wire)
                && field.wire.is_ascii()
                && !field.wire.starts_with('_')
                && !ANNOTATION_NAMES.contains(&&*field.wire)
                && self.records.iter().all(|record| record.name != field.wire)
        };
        let as_class = record.fields.iter().all(is_plain);
        let fields: Vec<(String, String)> = record
            .fields
            .iter()
            .map(|field| {
                let kind = self.text(&field.kind, way);
                let kind = if field.required { kind } else { format!("{}[{kind}]", self.import("NotRequired")) };
                (field.wire.clone(), kind)
            })
            .collect();
        let name = &record.name;
        let mut out = String::new();
        if !as_class {
            let _ = writeln!(out, "    {name} = TypedDict(\n        {},\n        {{", literal_text(name));
            for ((wire, kind), field) in fields.iter().zip(&record.fields) {
                // A call is evaluated immediately, so a class that is defined later can only be named in a string.
                let kind = if field.kind.mentions_record() { literal_text(kind) } else { kind.clone() };
                let _ = writeln!(out, "            {}: {kind},", literal_text(wire));
            }
            out.push_str("        },\n    )\n");
            return out;
        }
        let _ = writeln!(out, "    class {name}(TypedDict):");
        let words = record_words(record);
        if !words.is_empty() {
            out.push_str(&docstring(&words, "        "));
            out.push('\n');
        }
        for (wire, kind) in fields {
            let _ = writeln!(out, "        {wire}: {kind}");
        }
        out
    }
}

/// The description of a record and its fields, for the docstring of its class.
fn record_words(record: &Record) -> String {
    let mut lines = text::wrap(&text::clean(&record.description, PARAMETER_CHARS), DOC_WIDTH);
    let described: Vec<_> = record.fields.iter().filter(|field| !field.description.is_empty()).collect();
    if !described.is_empty() && !lines.is_empty() {
        lines.push(String::new());
    }
    for field in described {
        lines.extend(text::wrap(&format!("{}: {}", field.wire, field.description), DOC_WIDTH));
    }
    lines.join("\n")
}

fn literal(value: &Literal) -> String {
    match value {
        Literal::Null => "None".to_owned(),
        Literal::Boolean(true) => "True".to_owned(),
        Literal::Boolean(false) => "False".to_owned(),
        Literal::Integer(number) => number.to_string(),
        Literal::Text(text) => literal_text(text),
    }
}
