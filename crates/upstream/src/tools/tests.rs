use super::*;
use serde_json::json;

fn taken(definitions: impl IntoIterator<Item = Value>) -> ToolList {
    let server = ServerName::new("some").unwrap();
    let mut intake = Intake::new(&server);
    for definition in definitions {
        intake.take(definition);
    }
    intake.finish()
}

#[test]
fn a_definition_keeps_all_its_members() {
    let list = taken([json!({
        "name": "../../x", "title": "T", "description": "D", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "destructiveHint": false}
    })]);
    assert_eq!(list.warnings, []);
    let tool = list.get("../../x").unwrap();
    assert_eq!((tool.title.as_deref(), tool.description.as_str()), (Some("T"), "D"));
    assert!(tool.output_schema.is_some());
    assert_eq!(tool.hints, ToolHints { read_only: Some(true), destructive: Some(false), ..ToolHints::default() });
}

#[test]
fn unusable_definitions_are_left_out_with_a_reason() {
    let good = json!({"name": "good", "inputSchema": {"type": "object"}});
    let list = taken([
        json!(7),
        json!({"name": 7}),
        json!({"name": "n".repeat(MAX_NAME + 1), "inputSchema": {}}),
        json!({"name": "text", "inputSchema": "text"}),
        json!({"name": "array", "inputSchema": {"type": "array"}}),
        json!({"name": "endless", "inputSchema": {"$ref": "#"}}),
        json!({"name": "large", "inputSchema": {"x": "x".repeat(MAX_SCHEMA)}}),
        good.clone(),
        good,
    ]);
    assert_eq!(list.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(list.warnings.len(), 8);
    assert!(list.warnings.iter().all(|warning| !warning.kept));
}

#[test]
fn fixable_definitions_are_kept_with_a_warning() {
    let list = taken([
        json!({"name": "bare"}),
        json!({"name": "output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}}),
        json!({"name": "long", "inputSchema": {"type": "object"}, "description": "é".repeat(MAX_DESCRIPTION)}),
    ]);
    assert_eq!(list.tools.len(), 3);
    assert_eq!(list.warnings.len(), 3);
    assert!(list.warnings.iter().all(|warning| warning.kept));
    assert_eq!(list.get("output").unwrap().output_schema, None);
    assert_eq!(list.get("long").unwrap().description.len(), MAX_DESCRIPTION);
}

#[test]
fn the_numbers_of_tools_and_warnings_are_limited() {
    let list = taken((0..MAX_TOOLS + 500).map(|n| json!({"name": n.to_string(), "inputSchema": {"type": "object"}})));
    assert_eq!((list.tools.len(), list.warnings.len()), (MAX_TOOLS, MAX_WARNINGS));
}
