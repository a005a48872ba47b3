//! Definitions that no honest server would send.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Text that has a meaning to some parser.
const PIECES: &[&str] = &[
    "\"\"\"",
    "'''",
    "\"",
    "'",
    "\\",
    "\\\"",
    "\n",
    "\r",
    "\r\n",
    "\u{2028}",
    "\u{85}",
    "\u{0}",
    "\u{c}",
    "\t",
    "*/",
    "/*",
    "//",
    "#",
    "${x}",
    "`",
    "{",
    "}",
    "(",
    ")",
    "]",
    "[",
    ";",
    ",",
    ":",
    "=",
    "import os",
    "os.system('x')",
    "process.exit()",
    "class",
    "def",
    "None",
    "x",
    "y2",
    " ",
    "\u{202e}",
    "\u{200b}",
    "\u{feff}",
    "é",
    "漢",
    "ﬁ",
    "😀",
    "\u{e0041}",
    "\\N{BULLET}",
    "\\u0022",
    "\\x22",
    "__init__",
    "../..",
    "-->",
    "<!--",
    "\\\n",
    "async",
    "delete",
];

/// Keywords of JSON Schema.
const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalProperties",
    "patternProperties",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$ref",
    "$defs",
    "definitions",
    "description",
    "title",
    "default",
    "format",
    "nullable",
    "minimum",
    "minItems",
    "maxItems",
    "additionalItems",
];

const VALUES: &[&str] = &[
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "null",
    "#",
    "#/$defs/A",
    "#/$defs/B",
    "#/properties/a",
    "#/definitions/A",
    "https://example.com/x.json",
    "#anchor",
    "",
];

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(select(PIECES), 0..8).prop_map(|pieces| pieces.concat()),
        any::<String>(),
        select(VALUES).prop_map(str::to_owned),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![6 => select(KEYWORDS).prop_map(str::to_owned), 2 => text(), 1 => select(&["A", "B", "a"][..]).prop_map(str::to_owned)]
}

/// Any JSON, often similar to a schema.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..5).prop_map(Value::from),
            2 => btree_map(key(), inner.clone(), 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
            2 => btree_map(text(), inner.clone(), 0..5)
                .prop_map(|map| json!({ "type": "object", "properties": map.into_iter().collect::<Map<_, _>>() })),
            1 => vec(inner, 0..4).prop_map(|values| json!({ "enum": values })),
        ]
    })
}

/// A schema: always an object, and usually of an object with properties.
pub(crate) fn schema() -> impl Strategy<Value = Map<String, Value>> {
    let map = || btree_map(key(), value(), 0..6).prop_map(|map| map.into_iter().collect::<Map<_, _>>());
    let properties = btree_map(text(), value(), 0..6);
    prop_oneof![
        1 => map(),
        3 => (map(), properties, vec(text(), 0..3)).prop_map(|(mut schema, properties, required)| {
            let names: Vec<String> = properties.keys().take(2).cloned().chain(required).collect();
            schema.insert("type".to_owned(), json!("object"));
            schema.insert("properties".to_owned(), Value::Object(properties.into_iter().collect()));
            schema.insert("required".to_owned(), json!(names));
            schema
        }),
    ]
}
