//! A stored shape contains none of the data that it was learned from.

use coracle_catalog::Shape;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Names of fields as servers use them.
const FIELDS: &[&str] = &["id", "name", "created_at", "htmlUrl", "items", "total_count", "owner", "labels", "value"];

/// Keys that are data: names, addresses, dates, numbers, digests.
fn data_key() -> impl Strategy<Value = String> {
    prop_oneof![
        select(&["alice", "Bob", "mallory", "Zürich", "Ada Lovelace", "berlin", "zoë"][..]).prop_map(str::to_owned),
        "[a-z]{5,9}@[a-z]{4,8}\\.example",
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]",
        "[0-9]{3,12}",
        "[0-9a-f]{12,40}",
        "q[a-z]{2}x[a-z]{3}z",
        "user_[0-9]{4,8}",
    ]
}

fn secret_text() -> impl Strategy<Value = String> {
    "[a-z]{2}q[a-z]{2}x[a-z0-9 @.-]{4,30}"
}

fn result() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), secret_text().prop_map(Value::from)];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(select(FIELDS).prop_map(str::to_owned), inner.clone(), 0..5).prop_map(object),
            btree_map(data_key(), inner.clone(), 0..6).prop_map(object),
            (
                btree_map(select(FIELDS).prop_map(str::to_owned), inner.clone(), 0..4),
                btree_map(data_key(), inner, 0..4)
            )
                .prop_map(|(mut fields, data)| {
                    fields.extend(data);
                    object(fields)
                }),
        ]
    })
}

fn object(map: std::collections::BTreeMap<String, Value>) -> Value {
    Value::Object(map.into_iter().collect())
}

/// Every string, and every key that is not a field name.
fn secrets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|part| secrets(part, found)),
        Value::Object(map) => {
            for (key, part) in map {
                if !FIELDS.contains(&key.as_str()) {
                    found.push(key.clone());
                }
                secrets(part, found);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_string_and_no_key_of_a_table_is_kept(results in vec(result(), 1..5)) {
        let mut shape = Shape::default();
        let mut hidden = Vec::new();
        for result in &results {
            shape.merge(&Shape::observe(result));
            secrets(result, &mut hidden);
        }
        let written = serde_json::to_string(&shape).unwrap();
        for secret in hidden {
            prop_assert!(!written.contains(&secret), "{secret:?} is in {written}");
        }
        prop_assert_eq!(serde_json::from_str::<Shape>(&written).unwrap(), shape);
    }

    #[test]
    fn the_order_of_two_results_does_not_matter(first in result(), second in result()) {
        let joined = |one: &Value, other: &Value| {
            let mut shape = Shape::observe(one);
            shape.merge(&Shape::observe(other));
            shape
        };
        prop_assert_eq!(joined(&first, &second), joined(&second, &first));
    }
}

#[test]
fn the_names_of_fields_are_kept() {
    let fields: Map<String, Value> = FIELDS.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
    let written = serde_json::to_string(&Shape::observe(&Value::Object(fields))).unwrap();
    for name in FIELDS {
        assert!(written.contains(&format!("\"{name}\"")), "{name} is not in {written}");
    }
}
