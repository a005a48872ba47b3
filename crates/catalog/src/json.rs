//! Canonical JSON: equal values give equal text, whatever the order of their keys.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Compact text with sorted keys. Written by hand, because the order of a map in `serde_json` depends on features that
/// other crates of the same build enable.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Array(list) => {
            out.push('[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, element);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (index, (key, element)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                scalar(out, &Value::String(key.clone()));
                out.push(':');
                write(out, element);
            }
            out.push('}');
        }
        plain => scalar(out, plain),
    }
}

fn scalar(out: &mut String, value: &Value) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}
