use super::*;
use serde_json::json;

fn read(schema: Value) -> (Arguments, Vec<Record>) {
    let Value::Object(schema) = schema else { panic!("no schema") };
    let mut records = Records::new("f");
    let arguments = Reader::new(&schema, &mut records).arguments();
    (arguments, records.into_inner())
}

#[test]
fn required_arguments_come_first_in_the_order_of_the_schema() {
    let (arguments, _) = read(json!({
        "type": "object",
        "properties": { "a": {}, "b": {}, "c": {}, "d": {} },
        "required": ["d", "b", "gone", "d"],
    }));
    let names: Vec<(&str, bool)> = arguments.fields.iter().map(|field| (&*field.wire, field.required)).collect();
    assert_eq!(names, [("d", true), ("b", true), ("a", false), ("c", false)]);
    assert_eq!(arguments.more, None);
}

#[test]
fn arguments_beyond_the_limit_can_still_be_given() {
    let properties: Map<String, Value> = (0..=MAX_FIELDS).map(|index| (format!("p{index}"), json!({}))).collect();
    let (arguments, _) = read(json!({ "type": "object", "properties": properties }));
    assert_eq!(arguments.fields.len(), MAX_FIELDS);
    assert_eq!(arguments.more, Some(Type::Any));
}

#[test]
fn a_record_that_refers_to_itself_is_one_record() {
    let (arguments, records) = read(json!({
        "type": "object",
        "properties": { "node": { "$ref": "#/$defs/Node" } },
        "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } },
    }));
    assert_eq!(arguments.fields[0].kind, Type::Record(0));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].fields[0].kind, Type::Record(0));
}

#[test]
fn depth_and_size_are_capped() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..100 {
        deep = json!({ "type": "array", "items": deep });
    }
    let (arguments, _) = read(json!({ "type": "object", "properties": { "a": deep } }));
    let mut kind = &arguments.fields[0].kind;
    let mut depth = 0;
    while let Type::Array(inner) = kind {
        kind = inner;
        depth += 1;
    }
    assert_eq!((kind, depth), (&Type::Any, MAX_DEPTH));

    let object = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
    let properties: Map<String, Value> = (0..MAX_FIELDS).map(|index| (format!("p{index}"), object.clone())).collect();
    let twice = json!({ "type": "object", "properties": properties });
    let (_, records) = read(json!({ "type": "object", "properties": { "a": twice, "b": twice } }));
    assert_eq!(records.len(), MAX_RECORDS);
}

#[test]
fn remote_references_are_any() {
    for target in
        ["https://example.com/a.json", "file:///etc/passwd", "other.json#/a", "#/$defs/none", "#name", "#/a/x/9"]
    {
        let (arguments, _) = read(json!({ "type": "object", "properties": { "a": { "$ref": target } } }));
        assert_eq!(arguments.fields[0].kind, Type::Any, "{target}");
    }
    let (arguments, _) = read(
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/s" } }, "$defs": { "s": { "type": "string" } } }),
    );
    assert_eq!(arguments.fields[0].kind, Type::Text);
}
