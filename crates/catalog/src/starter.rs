//! A starter program for a task: it imports the chosen tools and calls each with placeholder values.

use crate::catalog::{Catalog, Entry};
use crate::model::{Field, Literal, Module, Type};
use crate::names::{Names, Place, assign};
use crate::text;
use crate::{python, typescript};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The maximum depth of nested records.
const MAX_DEPTH: usize = 4;
/// The maximum length of the task in the first comment.
const TASK_CHARS: usize = 300;

/// The language of a starter program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StarterLanguage {
    /// For `execute_code` with the language `python`.
    Python,
    /// For `execute_code` with the language `typescript`.
    Typescript,
}

impl Catalog {
    /// A program that imports exactly these tools. It passes the type checkers; the placeholder values have to be
    /// replaced.
    pub fn starter(&self, task: &str, tools: &[&Entry], language: StarterLanguage) -> String {
        let mut count: HashMap<&str, usize> = HashMap::new();
        for tool in tools {
            *count.entry(&tool.function).or_default() += 1;
        }
        let used = tools.iter().filter_map(|entry| {
            let is_alone = count.get(entry.function.as_str()) == Some(&1);
            let name = if is_alone { entry.function.clone() } else { format!("{}_{}", entry.package, entry.function) };
            Some(Used { entry, name, module: self.module(entry)? })
        });
        let mut used: Vec<Used<'_>> = used.collect();
        // Tools that take content come last, when there is some.
        used.sort_by_key(|used| used.module.arguments.iter().any(|field| field.required && is_content(&field.wire)));
        let task = text::one_line(task, TASK_CHARS);
        match language {
            StarterLanguage::Python => in_python(&task, &used),
            StarterLanguage::Typescript => in_typescript(&task, &used),
        }
    }
}

struct Used<'a> {
    entry: &'a Entry,
    /// The name of the tool in the program.
    name: String,
    module: Module,
}

fn in_python(task: &str, used: &[Used<'_>]) -> String {
    let mut out = format!("# {task}\n");
    for Used { entry: Entry { package, function, .. }, name, .. } in used {
        let renamed = if name == function { String::new() } else { format!(" as {name}") };
        let _ = writeln!(out, "from servers.{package} import {function}{renamed}");
    }
    let mut answers: Vec<String> = Vec::new();
    for (number, Used { entry, name, module }) in (1..).zip(used) {
        let parameters =
            assign(module.arguments.iter().map(|field| &*field.wire), Place::Parameter, &mut Names::default());
        let sent: Vec<String> = module
            .arguments
            .iter()
            .filter(|field| field.required)
            .filter_map(|field| {
                let value = match answers.last() {
                    Some(answer) if field.kind == Type::Text && is_content(&field.wire) => format!("str({answer})"),
                    _ => PYTHON.argument(field, module),
                };
                Some(format!("{}={value}", parameters.get(&*field.wire)?))
            })
            .collect();
        let answer = format!("answer_{number}");
        let _ = write!(out, "\n# {}\n{answer} = {name}({})\n", entry.summary, sent.join(", "));
        answers.push(answer);
    }
    let _ = writeln!(out, "\nresult = [{}]", answers.join(", "));
    out
}

fn in_typescript(task: &str, used: &[Used<'_>]) -> String {
    let mut out = format!("// {task}\n");
    for Used { entry: Entry { package, function, .. }, name, .. } in used {
        let renamed = if name == function { String::new() } else { format!(" as {name}") };
        let _ = writeln!(out, "import {{ {function}{renamed} }} from \"servers/{package}\";");
    }
    let mut answers: Vec<String> = Vec::new();
    for (number, Used { entry, name, module }) in (1..).zip(used) {
        let sent: Vec<String> = module
            .arguments
            .iter()
            .filter(|field| field.required)
            .map(|field| {
                let value = match answers.last() {
                    Some(answer) if field.kind == Type::Text && is_content(&field.wire) => {
                        format!("JSON.stringify({answer})")
                    }
                    _ => TYPESCRIPT.argument(field, module),
                };
                format!("{}: {value}", typescript::key(&field.wire))
            })
            .collect();
        let answer = format!("answer{number}");
        let sent = if sent.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", sent.join(", ")) };
        let _ = write!(out, "\n// {}\nconst {answer} = await {name}({sent});\n", entry.summary);
        answers.push(answer);
    }
    let _ = writeln!(out, "\n[{}]", answers.join(", "));
    out
}

/// The syntax of values in a language.
struct Writing {
    null: &'static str,
    truth: [&'static str; 2],
    text: fn(&str) -> String,
    key: fn(&str) -> String,
    tuple: [&'static str; 2],
}

const PYTHON: Writing = Writing {
    null: "None",
    truth: ["False", "True"],
    text: python::literal_text,
    key: python::literal_text,
    tuple: ["(", ",)"],
};
const TYPESCRIPT: Writing = Writing {
    null: "null",
    truth: ["false", "true"],
    text: typescript::literal_text,
    key: typescript::key,
    tuple: ["[", "]"],
};

/// Names of arguments that take the result of an earlier call.
const CONTENTS: [&str; 6] = ["body", "content", "contents", "data", "message", "text"];

fn is_content(wire: &str) -> bool {
    CONTENTS.contains(&wire.to_lowercase().as_str())
}

impl Writing {
    /// The placeholder for an argument.
    fn argument(&self, field: &Field, module: &Module) -> String {
        self.value(&field.wire, &field.kind, module, 0)
    }

    /// The simplest value of a type. A string is the name of its field in angle brackets.
    fn value(&self, wire: &str, kind: &Type, module: &Module, depth: usize) -> String {
        match kind {
            Type::Any | Type::Null => self.null.to_owned(),
            Type::Boolean => self.truth[0].to_owned(),
            Type::Integer | Type::Number => "0".to_owned(),
            Type::Text => (self.text)(&format!("<{wire}>")),
            Type::Literals(values) => match values.first() {
                Some(Literal::Boolean(value)) => self.truth[usize::from(*value)].to_owned(),
                Some(Literal::Integer(number)) => number.to_string(),
                Some(Literal::Text(text)) => (self.text)(text),
                Some(Literal::Null) | None => self.null.to_owned(),
            },
            Type::Array(inner) if depth >= MAX_DEPTH || matches!(**inner, Type::Any | Type::Null) => "[]".to_owned(),
            Type::Array(inner) => format!("[{}]", self.value(wire, inner, module, depth + 1)),
            Type::Map(_) => "{}".to_owned(),
            Type::Tuple(parts) if parts.is_empty() => "[]".to_owned(),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.value(wire, part, module, depth + 1)).collect();
                format!("{}{}{}", self.tuple[0], parts.join(", "), self.tuple[1])
            }
            Type::Union(parts) => {
                parts.first().map_or(self.null.to_owned(), |part| self.value(wire, part, module, depth))
            }
            Type::Record(index) => {
                let Some(record) = module.records.get(*index).filter(|_| depth < MAX_DEPTH) else {
                    return "{}".to_owned();
                };
                let fields: Vec<String> = record
                    .fields
                    .iter()
                    .filter(|field| field.required)
                    .map(|field| {
                        let value = self.value(&field.wire, &field.kind, module, depth + 1);
                        format!("{}: {value}", (self.key)(&field.wire))
                    })
                    .collect();
                if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StarterLanguage::{Python, Typescript};
    use crate::{Catalog, Entry, ServerTools};
    use coracle_types::{ServerName, Tool, ToolHints};
    use serde_json::json;

    fn catalog() -> Catalog {
        let schema = json!({
            "type": "object",
            "required": ["from", "kind", "options", "pair", "edits"],
            "properties": {
                "from": { "type": "string" },
                "kind": { "enum": ["a\"b\n", "c"] },
                "options": { "type": "object", "required": ["deep-er"], "properties": { "deep-er": { "type": "boolean" } } },
                "pair": { "type": "array", "prefixItems": [{ "type": "integer" }, { "type": "string" }], "minItems": 2, "maxItems": 2 },
                "edits": { "type": "array", "items": { "type": "object", "required": ["old"], "properties": { "old": { "type": "string" } } } },
                "left_out": { "type": "string" },
            },
        });
        let server = |name: &str| {
            let server = ServerName::new(name).unwrap();
            let tool = Tool {
                server: server.clone(),
                name: "look".to_owned(),
                title: None,
                description: "Looks \"\"\" at\n# this".to_owned(),
                input_schema: schema.as_object().unwrap().clone().into(),
                output_schema: None,
                category: None,
                hints: ToolHints::default(),
            };
            ServerTools::new(server, vec![tool])
        };
        Catalog::new(vec![server("one"), server("two")])
    }

    #[test]
    fn a_program_imports_only_the_chosen_tools() {
        let catalog = catalog();
        let all: Vec<&Entry> = catalog.entries().map(|(entry, _)| entry).collect();
        let python = catalog.starter("see\n# what */ there is", &all, Python);
        ruff_python_parser::parse_module(&python).unwrap();
        assert!(python.contains("from servers.one import look as one_look\n"), "{python}");
        assert!(python.contains("kind=\"a\\x22b\\x0a\"") || python.contains("kind=\"a\\\"b\\n\""), "{python}");
        assert!(!python.contains("left_out"), "{python}");
        assert!(python.contains("edits=[{ \"old\": \"<old>\" }]"), "placeholders have the field's name: {python}");
        let one = catalog.starter("see", &all[..1], Python);
        assert!(one.contains("from servers.one import look\n") && !one.contains("two"), "{one}");
        let typescript = catalog.starter("see\n// what", &all, Typescript);
        let allocator = oxc_allocator::Allocator::default();
        let parsed = oxc_parser::Parser::new(&allocator, &typescript, oxc_span::SourceType::ts()).parse();
        assert!(parsed.diagnostics.is_empty(), "{typescript}");
        assert!(typescript.contains("import { look as two_look } from \"servers/two\";"), "{typescript}");
        assert!(typescript.contains("\"deep-er\": false") && typescript.contains("[0, \"<pair>\"]"), "{typescript}");
    }
}
