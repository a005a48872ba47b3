//! The TypeScript module of one tool, and the index of a server.

use crate::model::{Field, Literal, Module, Record, Source, Type};
use crate::stub;
use crate::text::{self, DESCRIPTION_CHARS, PARAMETER_CHARS};
use std::fmt::Write as _;

/// The maximum line width of comments, without indentation.
const DOC_WIDTH: usize = 100;

/// The source text of the module.
pub(crate) fn module(module: &Module) -> String {
    let types = Types { records: &module.records };
    let mut out = String::from("import { call } from \"coracle\";\n");
    for (record, _) in module.used_records() {
        let _ = write!(out, "\n{}export interface {} ", comment(&words(&record.description), ""), record.name);
        out.push_str(&types.body(&record.fields, record.open.then_some(&Type::Any)));
        out.push('\n');
    }
    out.push_str("\nexport interface Arguments ");
    out.push_str(&types.body(&module.arguments, module.more.as_ref()));
    let _ = write!(out, "\n\nexport type Result = {};\n", types.text(&module.result));
    let mut described = text::clean(&module.description, DESCRIPTION_CHARS);
    if module.source == Source::Learned {
        described.push_str("\n\nThe result's type is learned from earlier results; the server does not promise it.");
    }
    let default = if module.arguments.iter().any(|field| field.required) { "" } else { " = {}" };
    let _ = write!(
        out,
        "\n{}export async function {}(args: Arguments{default}): Promise<Result> {{\n  return call({}, {}, args);\n}}\n",
        comment(&described, ""),
        module.function,
        literal_text(&module.server),
        literal_text(&module.tool),
    );
    out
}

/// The part of the module that a model needs for a call: import line, description and signature.
pub(crate) fn stub(package: &str, module: &Module) -> String {
    stub::shortest(module, "// shortened: detail_level full has all of it", |module, terse| {
        let types = Types { records: &module.records };
        let function = &module.function;
        let mut out = format!("import {{ {function} }} from \"servers/{package}\";\n");
        for (record, _) in module.used_records() {
            let _ = write!(out, "{}interface {} ", comment(&words(&record.description), ""), record.name);
            out.push_str(&types.body(&record.fields, record.open.then_some(&Type::Any)));
            out.push('\n');
        }
        let described = terse.words(module, |field| field.wire.clone());
        if !described.is_empty() {
            let _ = writeln!(out, "/** {} */", described.replace("*/", "*\\/"));
        }
        let mut given: Vec<String> = Vec::new();
        for field in &module.arguments {
            let mark = if field.required { "" } else { "?" };
            given.push(format!("{}{mark}: {}", key(&field.wire), types.text(&field.kind)));
        }
        given.extend(module.more.is_some().then(|| "[name: string]: any".to_owned()));
        let mark = if module.arguments.iter().any(|field| field.required) { "" } else { "?" };
        let result = types.text(&module.result);
        let _ = writeln!(out, "function {function}(args{mark}: {{ {} }}): Promise<{result}>", given.join("; "));
        out
    })
}

/// The index of one server. It makes the calls itself instead of importing the modules: types vanish when it is loaded,
/// so using one tool loads one file.
pub(crate) fn index(words: &str, tools: &[(&Module, String)]) -> String {
    let mut out = comment(words, "");
    out.push_str(if tools.is_empty() { "export {};\n" } else { "import { call } from \"coracle\";\n" });
    for (module, summary) in tools {
        let function = &module.function;
        let default = if module.arguments.iter().any(|field| field.required) { "args" } else { "args = {}" };
        let _ = write!(
            out,
            "\n{}export const {function}: typeof import(\"./{function}.ts\").{function} = async ({default}) =>\n  call({}, {}, args);\n",
            comment(summary, ""),
            literal_text(&module.server),
            literal_text(&module.tool),
        );
    }
    out
}

/// A comment with this text and a final line feed, or nothing if the text is empty. The text cannot terminate the
/// comment.
fn comment(words: &str, indent: &str) -> String {
    let words = words.trim().replace("*/", "*\\/");
    if words.is_empty() {
        return String::new();
    }
    let lines = text::wrap(&words, DOC_WIDTH);
    if let [line] = lines.as_slice() {
        return format!("{indent}/** {line} */\n");
    }
    let mut out = format!("{indent}/**\n");
    for line in lines {
        let _ = writeln!(out, "{}", format!("{indent} * {line}").trim_end());
    }
    let _ = writeln!(out, "{indent} */");
    out
}

fn words(description: &str) -> String {
    text::clean(description, PARAMETER_CHARS)
}

/// A string literal. Everything except plain letters, digits and punctuation is escaped.
pub(crate) fn literal_text(value: &str) -> String {
    text::quoted(value, |number| format!("\\u{{{number:x}}}"))
}

struct Types<'a> {
    records: &'a [Record],
}

impl Types<'_> {
    fn text(&self, kind: &Type) -> String {
        match kind {
            Type::Any => "any".to_owned(),
            Type::Null => "null".to_owned(),
            Type::Boolean => "boolean".to_owned(),
            Type::Integer | Type::Number => "number".to_owned(),
            Type::Text => "string".to_owned(),
            Type::Literals(values) => {
                let values: Vec<String> = values.iter().map(literal).collect();
                values.join(" | ")
            }
            Type::Array(inner) => format!("Array<{}>", self.text(inner)),
            Type::Map(inner) => format!("Record<string, {}>", self.text(inner)),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
                format!("[{}]", parts.join(", "))
            }
            Type::Union(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
                parts.join(" | ")
            }
            Type::Record(index) => {
                self.records.get(*index).map_or_else(|| "any".to_owned(), |record| record.name.clone())
            }
        }
    }

    fn body(&self, fields: &[Field], more: Option<&Type>) -> String {
        let mut out = String::from("{\n");
        for field in fields {
            out.push_str(&comment(&words(&field.description), "  "));
            let mark = if field.required { "" } else { "?" };
            let _ = writeln!(out, "  {}{mark}: {};", key(&field.wire), self.text(&field.kind));
        }
        if more.is_some() {
            // Always `any`, because the type of an index signature must also fit the named properties.
            out.push_str("  [name: string]: any;\n");
        }
        out.push('}');
        out
    }
}

/// The name of a property, without quotes if that is valid everywhere.
pub(crate) fn key(wire: &str) -> String {
    let is_plain = wire.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && wire.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_plain { wire.to_owned() } else { literal_text(wire) }
}

fn literal(value: &Literal) -> String {
    match value {
        Literal::Null => "null".to_owned(),
        Literal::Boolean(value) => value.to_string(),
        Literal::Integer(number) => number.to_string(),
        Literal::Text(text) => literal_text(text),
    }
}
