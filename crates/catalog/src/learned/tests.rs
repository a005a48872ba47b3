use super::*;
use crate::model::Record as Declared;
use serde_json::json;

/// The shape learned from these values, as compact JSON.
fn learned(values: &[Value]) -> String {
    let mut shape = Shape::default();
    for value in values {
        shape.merge(&Shape::observe(value));
    }
    serde_json::to_string(&shape.value).unwrap()
}

#[test]
fn a_record_keeps_its_fields_and_a_table_does_not() {
    assert_eq!(
        learned(&[json!({ "id": 1, "name": "x" })]),
        r#"{"object":{"record":{"fields":{"id":{"value":{"integer":true}},"name":{"value":{"text":true}}}}}}"#
    );
    assert_eq!(learned(&[json!({ "alice": 31, "bob": 27.5 })]), r#"{"object":{"map":{"integer":true,"number":true}}}"#);
}

#[test]
fn an_unknown_key_among_fields_is_left_out() {
    assert_eq!(
        learned(&[json!({ "total": 1, "count": 1, "alice": 1 })]),
        r#"{"object":{"record":{"fields":{"count":{"value":{"integer":true}},"total":{"value":{"integer":true}}},"open":true}}}"#
    );
}

#[test]
fn a_field_that_is_missing_once_is_optional() {
    let once = learned(&[json!({ "id": 1, "name": "x" }), json!({ "id": null })]);
    assert_eq!(
        once,
        r#"{"object":{"record":{"fields":{"id":{"value":{"null":true,"integer":true}},"name":{"value":{"text":true},"optional":true}}}}}"#
    );
    assert_eq!(once, learned(&[json!({ "id": null }), json!({ "id": 1, "name": "x" })]));
}

#[test]
fn records_with_nothing_in_common_are_a_table() {
    assert_eq!(learned(&[json!({ "open": 1 }), json!({ "closed": 2 })]), r#"{"object":{"map":{"integer":true}}}"#);
    assert_eq!(
        learned(&[json!({ "id": 1 }), json!({ "bob@x.example": "y" })]),
        r#"{"object":{"map":{"integer":true,"text":true}}}"#
    );
}

#[test]
fn many_fields_are_a_table() {
    let wide: Map<String, Value> =
        super::words::all().take(MAX_FIELDS + 1).map(|word| (word.to_owned(), json!(1))).collect();
    assert_eq!(learned(&[Value::Object(wide)]), r#"{"object":{"map":{"integer":true}}}"#);
}

#[test]
fn deeply_nested_values_are_any() {
    let mut deep = json!("secret");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let text = learned(&[deep]);
    assert!(text.contains("anything") && text.len() < 500, "{text}");
}

#[test]
fn a_shape_that_grows_too_large_keeps_its_top() {
    let words: Vec<&str> = super::words::all().take(MAX_FIELDS).collect();
    let level = |inner: &Value| Value::Object(words.iter().map(|word| ((*word).to_owned(), inner.clone())).collect());
    let mut shape = Shape::observe(&level(&level(&json!(1))));
    shape.merge(&Shape::observe(&level(&level(&json!("x")))));
    assert!(shape.value.size() <= MAX_SIZE, "{}", shape.value.size());
    assert!(shape.value.size() >= MAX_FIELDS);
}

#[test]
fn merging_reports_whether_something_is_new() {
    let mut shape = Shape::default();
    assert!(shape.merge(&Shape::observe(&json!({ "id": 1 }))));
    assert!(!shape.merge(&Shape::observe(&json!({ "id": 2 }))));
    assert!(shape.merge(&Shape::observe(&json!({ "id": "x" }))));
    assert_eq!(shape.seen(), 3);
    let text = serde_json::to_string(&shape).unwrap();
    assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), shape);
}

#[test]
fn a_field_that_is_always_null_has_no_type() {
    let mut records = Records::new("f");
    assert_eq!(Shape::observe(&json!(null)).as_type(&mut records, "output"), Type::Any);
    assert_eq!(records.into_inner(), Vec::<Declared>::new());
}
