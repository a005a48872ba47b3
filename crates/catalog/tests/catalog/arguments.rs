//! Checks of arguments against input schemas: rejections, their messages, and schemas that cannot be used.

use crate::definitions;
use coracle_catalog::{Catalog, Level, Validator};
use coracle_types::ServerName;
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::net::TcpListener;
use std::time::Duration;

fn validator(schema: &Value) -> Validator {
    let name = ServerName::new("s").unwrap();
    Validator::new(&definitions::tool(&name, &json!({ "name": "t", "inputSchema": schema })))
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("no object") };
    map
}

fn told(schema: &Value, arguments: Value) -> String {
    let checked = validator(schema).check(&object(arguments));
    match checked {
        Ok(()) => "good".to_owned(),
        Err(error) => {
            assert_eq!(error.code(), "invalid_arguments");
            error.to_string()
        }
    }
}

#[test]
fn each_mistake_is_reported_with_its_place_and_the_allowed_values() {
    let schema = json!({
        "type": "object",
        "properties": {
            "owner": { "type": "string", "minLength": 1 },
            "state": { "enum": ["open", "closed"] },
            "per_page": { "type": "integer", "minimum": 1, "maximum": 100 },
            "filter": { "type": "object", "properties": { "labels": { "type": "array", "items": { "type": "string" } } } },
            "code": { "type": "string", "pattern": "^[a-z]+$" },
            "either": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
        },
        "required": ["owner"],
        "additionalProperties": false,
    });
    let good = json!({ "owner": "x", "state": "open", "per_page": 3, "filter": { "labels": ["a"] }, "code": "a", "either": null });
    assert_eq!(told(&schema, good.clone()), "good");
    let cases = [
        json!({}),
        json!({ "owner": 1 }),
        json!({ "owner": "" }),
        json!({ "owner": "x", "state": "ajar" }),
        json!({ "owner": "x", "per_page": 0 }),
        json!({ "owner": "x", "per_page": "3" }),
        json!({ "owner": "x", "filter": { "labels": ["a", 2] } }),
        json!({ "owner": "x", "ownr": "y" }),
        json!({ "owner": "x", "code": "A" }),
        json!({ "owner": "x", "either": "y" }),
        json!({ "state": 5, "per_page": 1000, "x": 1 }),
    ];
    let text: Vec<String> =
        cases.into_iter().map(|case| format!("{case}\n    {}", told(&schema, case.clone()))).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn long_values_are_never_repeated() {
    let secret = "s3cret".repeat(100);
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "integer" }, "b": { "enum": ["x"] }, "c": { "const": 1 }, "d": { "pattern": "^x$", "type": "string" },
        "e": { "format": "uuid", "type": "string" }, "f": { "not": {} }, "g": { "oneOf": [{ "type": "integer" }] },
        "h": { "type": "string", "maxLength": 3 }, "i": { "type": "array", "contains": { "type": "integer" } },
        "j": { "propertyNames": { "maxLength": 2 } }, "k": { "uniqueItems": true },
    } });
    for name in ["a", "b", "c", "d", "f", "g", "h"] {
        let words = told(&schema, json!({ name: secret }));
        assert!(words != "good" && !words.contains("s3cret"), "{name}: {words}");
    }
    for (name, value) in [("i", json!([secret])), ("j", json!({ (secret.clone()): 1 })), ("k", json!([secret, secret]))]
    {
        let words = told(&schema, json!({ name: value }));
        assert!(words != "good" && !words.contains("s3crets3cret"), "{name}: {words}");
    }
}

#[test]
fn many_mistakes_are_counted() {
    let schema = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let arguments: Map<String, Value> = (0..5_000).map(|index| (format!("a{index}"), json!(1))).collect();
    let words = told(&schema, Value::Object(arguments));
    assert!(words.len() < 1_000 && words.contains(" more"), "{words}");
}

#[test]
fn arguments_that_cannot_be_checked_pass_with_a_warning() {
    let mut laughs = Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        laughs.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    laughs.insert("d30".to_owned(), json!({ "type": "object" }));
    for schema in [
        json!({ "type": "strnig" }),
        json!({ "type": "object", "properties": 7 }),
        json!({ "properties": { "a": { "$ref": "#/$defs/none" } } }),
        json!({ "properties": { "a": { "$ref": "https://example.com/schema.json" } } }),
        json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
        json!({ "properties": { "a": { "type": "string", "pattern": "(" } } }),
        json!({ "description": "x".repeat(300_000) }),
        json!({ "$ref": "#/$defs/d0", "$defs": laughs }),
    ] {
        let shown: String = schema.to_string().chars().take(80).collect();
        let validator = validator(&schema);
        assert!(validator.warning().is_some(), "{shown}");
        assert_eq!(validator.check(&object(json!({ "a": 1 }))), Ok(()), "{shown}");
    }
    let checked =
        validator(&json!({ "properties": { "a": { "$ref": "#/$defs/s" } }, "$defs": { "s": { "type": "string" } } }));
    assert_eq!(checked.warning(), None);
    assert!(checked.check(&object(json!({ "a": 1 }))).is_err());
}

#[test]
fn a_schema_that_refers_to_itself_is_checked() {
    let schema = json!({ "type": "object", "properties": { "next": { "$ref": "#" }, "value": { "type": "integer" } } });
    assert_eq!(told(&schema, json!({ "next": { "next": { "value": 1 } } })), "good");
    assert_eq!(
        told(&schema, json!({ "next": { "next": { "value": "x" } } })),
        "`next.next.value`: must be an integer, not a string"
    );
}

#[test]
fn nothing_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let reference = format!("http://{address}/schema.json");
    let validator = validator(&json!({ "$schema": reference, "properties": { "a": { "$ref": reference } } }));
    assert!(validator.warning().is_some());
    let is_untouched = |listener: &TcpListener| listener.accept().is_err();
    assert!(is_untouched(&listener));
    // Positive control: the same listener does notice a connection.
    let mut visitor = std::net::TcpStream::connect(address).unwrap();
    visitor.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let _ = visitor.read(&mut [0]);
    assert!(!is_untouched(&listener));
}

#[test]
fn patterns_with_exponential_backtracking_are_fast() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } });
    assert_eq!(told(&schema, json!({ "a": "a".repeat(5_000) })), "good");
    assert!(told(&schema, json!({ "a": format!("{}!", "a".repeat(5_000)) })).contains("must match the pattern"));
}

#[test]
fn arguments_with_a_default_may_be_left_out() {
    let schema = json!({
        "type": "object",
        "required": ["path", "limit"],
        "properties": { "path": { "type": "string" }, "limit": { "type": "integer", "default": 10 } },
    });
    let validator = validator(&schema);
    let filled = validator.complete(object(json!({ "path": "a" })));
    assert_eq!(filled, object(json!({ "path": "a", "limit": 10 })), "a server that requires it gets it");
    validator.check(&filled).unwrap();
    assert_eq!(validator.complete(filled.clone()), filled);
    validator.check(&object(json!({ "path": "a" }))).unwrap();
    let wrong = validator.check(&validator.complete(object(json!({ "limit": "x" })))).unwrap_err().to_string();
    assert!(wrong.contains("\"path\" is missing") && wrong.contains("must be an integer"), "{wrong}");
    let tools = [json!({ "name": "read", "inputSchema": schema })];
    let catalog = Catalog::new(vec![definitions::server("files", None, &tools)]);
    let shown = |level| catalog.show("files", "read", level).unwrap();
    assert!(shown(Level::Python).contains("(*, path: str, limit: int = ...)"), "{}", shown(Level::Python));
    assert!(shown(Level::Typescript).contains("{ path: string; limit?: number }"), "{}", shown(Level::Typescript));
}

#[test]
fn a_catalogue_checks_by_names_on_the_wire() {
    let schema = json!({ "type": "object", "required": ["a"] });
    let tools = [json!({ "name": "get-thing", "inputSchema": schema })];
    let catalog = Catalog::new(vec![definitions::server("my-server", None, &tools)]);
    let validator = catalog.validator("my-server", "get-thing").unwrap();
    assert_eq!(validator.check(&object(json!({}))).unwrap_err().to_string(), "\"a\" is missing");
    assert!(std::ptr::eq(validator, catalog.validator("my_server", "get_thing").unwrap()));
    assert!(catalog.validator("my-server", "other").is_none());
}
