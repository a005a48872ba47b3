//! Whatever a server sends, generated code has only the syntax that the generator intends.
//!
//! The parsers are independent of the generator. Each kind of node has to be on a list, each file has exactly the
//! expected statements, and only our own functions are called or imported.

mod hostile;
mod python;
mod typescript;

use coracle_catalog::{Catalog, Level, ServerTools, Shape, generate};
use coracle_types::{ServerName, Tool, ToolHints};
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

fn server(
    description: &str,
    names: (&str, &str),
    words: &str,
    input: &Map<String, Value>,
    output: Option<Map<String, Value>>,
    result: &Value,
) -> ServerTools {
    let name = ServerName::new("x-server").unwrap();
    let tool = |tool: &str, output_schema: Option<Map<String, Value>>| Tool {
        server: name.clone(),
        name: tool.to_owned(),
        title: Some(words.to_owned()),
        description: words.to_owned(),
        input_schema: input.into(),
        output_schema: output_schema.map(Into::into),
        category: None,
        hints: ToolHints::default(),
    };
    ServerTools {
        shapes: BTreeMap::from([(names.1.to_owned(), Shape::observe(result))]),
        description: Some(description.to_owned()),
        ..ServerTools::new(name.clone(), vec![tool(names.0, output), tool(names.1, None)])
    }
}

fn check(servers: &[ServerTools]) {
    let catalog = Catalog::new(servers.to_vec());
    for (entry, _) in catalog.entries() {
        let shown = |level| catalog.show(&entry.server, &entry.name, level).unwrap();
        python::check_stub(&shown(Level::Python));
        typescript::check_stub(&shown(Level::Typescript));
    }
    let tree = generate(servers);
    for (path, text) in tree.files() {
        match path.rsplit_once('.').unwrap().1 {
            "py" => python::check(path, text),
            "ts" => typescript::check(path, text),
            "json" => {
                let tools: Value = serde_json::from_str(text).unwrap();
                let names: Vec<&str> =
                    tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
                for name in names {
                    assert!(servers[0].tools.iter().any(|tool| tool.name == name), "{name:?} is nobody's name");
                }
            }
            "md" => assert!(!text.contains(['\u{202e}', '\u{200b}', '\0', '\r', '\u{e0041}']), "{text:?}"),
            other => panic!("{other} is not a kind of generated file"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_definitions_give_plain_code(
        description in hostile::text(),
        first in hostile::text(),
        second in hostile::text(),
        words in hostile::text(),
        input in hostile::schema(),
        output in proptest::option::of(hostile::schema()),
        result in hostile::value(),
    ) {
        check(&[server(&description, (&first, &second), &words, &input, output, &result)]);
    }
}

#[test]
fn additional_statements_are_noticed() {
    let good = "from __future__ import annotations\n\nfrom coracle import arguments, tool\n\n\n\
                @tool(\"a\", \"b\")\ndef f() -> None:\n    \"\"\"Words.\"\"\"\n    return arguments({})\n";
    python::check("servers/a/f.py", good);
    for more in
        ["import os\n", "print()\n", "x = 1\n", "@tool(\"a\", \"b\")\ndef g() -> None:\n    return arguments({})\n"]
    {
        let text = format!("{good}{more}");
        assert!(std::panic::catch_unwind(|| python::check("servers/a/f.py", &text)).is_err(), "{more} went unnoticed");
    }
    let evil = good.replace("arguments({})", "arguments({\"x\": open(\"y\")})");
    assert!(std::panic::catch_unwind(|| python::check("servers/a/f.py", &evil)).is_err());

    let good = "import { call } from \"coracle\";\nexport interface Arguments {\n}\nexport type Result = any;\n\
                export async function f(args: Arguments = {}): Promise<Result> {\n  return call(\"a\", \"b\", args);\n}\n";
    typescript::check("servers/a/f.ts", good);
    for more in ["process.exit();\n", "import \"x\";\n", "export const x = 1;\n"] {
        let text = format!("{good}{more}");
        assert!(
            std::panic::catch_unwind(|| typescript::check("servers/a/f.ts", &text)).is_err(),
            "{more} went unnoticed"
        );
    }
}

#[test]
fn limits_apply_to_deep_and_wide_schemas() {
    let mut deep = serde_json::json!({ "type": "string" });
    // As deep as a JSON parser accepts.
    for _ in 0..60 {
        deep = serde_json::json!({ "type": "object", "properties": { "a": deep }, "required": ["a"] });
    }
    let wide: Map<String, Value> = (0..1_000)
        .map(|index| (format!("p{index}"), serde_json::json!({ "enum": vec!["x".repeat(50); 150] })))
        .collect();
    let laughs = |depth: usize| {
        let mut definitions = Map::new();
        for level in 0..depth {
            let next = serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            definitions.insert(
                format!("d{level}"),
                serde_json::json!({ "type": "object", "allOf": [next, next], "properties": { "a": next, "b": next } }),
            );
        }
        definitions.insert(format!("d{depth}"), serde_json::json!({ "type": "string" }));
        serde_json::json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": definitions })
    };
    for schema in [deep, serde_json::json!({ "type": "object", "properties": wide }), laughs(40)] {
        let Value::Object(schema) = schema else { unreachable!() };
        let servers = [server("", ("a", "b"), "", &schema.clone(), Some(schema), &Value::Null)];
        let tree = generate(&servers);
        for (path, text) in tree.files().filter(|(path, _)| !path.ends_with("tools.json")) {
            assert!(text.len() < 3_000_000, "{path} has {} bytes", text.len());
        }
        check(&servers);
    }
}
