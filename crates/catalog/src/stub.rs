//! How much of a tool's definition to show before a call. Most are shown completely, but a few are far too long.

use crate::model::{Field, Literal, Module, Source, Type};
use crate::text;
use std::fmt::Write as _;

/// The maximum length of a stub in bytes, about 270 tokens. Longer ones are shortened.
const ENOUGH: usize = 1_100;

/// The maximum number of values of an enumeration in a shortened stub.
const CHOICES: usize = 12;
/// The maximum number of optional arguments in a shortened stub.
const OPTIONAL: usize = 30;

/// How much to shorten descriptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terse {
    description: usize,
    argument: usize,
}

/// The steps, from complete to shortest.
const STEPS: [Terse; 3] = [
    Terse { description: 1_000, argument: 200 },
    Terse { description: 500, argument: 80 },
    Terse { description: 300, argument: 40 },
];

impl Terse {
    /// The description of a tool and of its arguments.
    pub(crate) fn words(self, module: &Module, name_of: impl Fn(&Field) -> String) -> String {
        let mut words = text::short(&module.description, self.description);
        for field in module.arguments.iter().filter(|field| !field.description.is_empty()) {
            let _ = write!(words, "\n{}: {}", name_of(field), text::one_line(&field.description, self.argument));
        }
        if module.source == Source::Learned {
            words.push_str("\nThe result's type is learned from earlier results.");
        }
        words.trim().to_owned()
    }
}

/// Renders the tool with `write`, shortened as much as necessary. `note` says that something was left out.
pub(crate) fn shortest(module: &Module, note: &str, write: impl Fn(&Module, Terse) -> String) -> String {
    let [whole, shorter, least] = STEPS;
    let text = write(module, whole);
    if text.len() <= ENOUGH {
        return text;
    }
    let text = write(&without_words(module), shorter);
    if text.len() <= ENOUGH {
        return format!("{text}{note}\n");
    }
    format!("{}{note}\n", write(&without_objects(module), least))
}

/// Removes the descriptions of fields.
fn without_words(module: &Module) -> Module {
    let mut module = module.clone();
    for record in &mut module.records {
        record.description.clear();
        record.fields.iter_mut().for_each(|field| field.description.clear());
    }
    module
}

/// Removes the fields of objects, and limits the values of enumerations and the number of optional arguments.
fn without_objects(module: &Module) -> Module {
    let mut module = module.clone();
    let mut optional = 0;
    module.arguments.retain(|field| {
        optional += usize::from(!field.required);
        field.required || optional <= OPTIONAL
    });
    for field in &mut module.arguments {
        field.kind = flat(&field.kind);
    }
    module.result = flat(&module.result);
    module.more = module.more.as_ref().map(flat);
    module.records.clear();
    module
}

fn flat(kind: &Type) -> Type {
    match kind {
        Type::Record(_) => Type::Map(Box::new(Type::Any)),
        Type::Array(inner) => Type::Array(Box::new(flat(inner))),
        Type::Map(inner) => Type::Map(Box::new(flat(inner))),
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(flat).collect()),
        Type::Union(parts) => Type::union(parts.iter().map(flat)),
        Type::Literals(values)
            if values.len() > CHOICES && values.iter().all(|value| matches!(value, Literal::Text(_))) =>
        {
            Type::Text
        }
        other => other.clone(),
    }
}
