//! Random nested data with personal data in it, as a tool could return it.

use super::values::{self, Planted};
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// One case: data, and what of it must not be seen.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) data: Value,
    pub(crate) planted: Vec<Planted>,
}

pub(crate) fn record(rng: &mut Rng, number: usize) -> Record {
    let mut planted = Vec::new();
    let mut data = nested(rng, 0, &mut planted);
    // At least one value that is recognized by itself, and one that is recognized by its key.
    for value in [values::plain(rng), values::any(rng)] {
        insert(&mut data, rng, &value);
        planted.push(value);
    }
    data.insert("case".to_owned(), number.into());
    Record { data: data.into(), planted }
}

/// Adds a value under its key, or below a key of its own if that is taken.
fn insert(data: &mut Map<String, Value>, rng: &mut Rng, value: &Planted) {
    if data.contains_key(value.key) {
        let rest = data.entry("more").or_insert_with(|| json!([]));
        if let Some(rest) = rest.as_array_mut() {
            rest.push(json!({ value.key: value.text }));
        }
    } else if !value.is_plain {
        data.insert(value.key.to_owned(), value.text.clone().into());
    } else {
        match rng.u8(..8) {
            // In a sentence, as a key, and in JSON within text.
            0 => drop(data.insert(value.key.to_owned(), format!("see: {} (or ask)", value.text).into())),
            1 if !value.text.contains('\n') => drop(data.insert(value.text.clone(), json!({ "kept": true }))),
            2 => drop(data.insert(value.key.to_owned(), json!({ "inner": [value.text, 7] }).to_string().into())),
            _ => drop(data.insert(value.key.to_owned(), value.text.clone().into())),
        }
    }
}

fn nested(rng: &mut Rng, depth: usize, planted: &mut Vec<Planted>) -> Map<String, Value> {
    let mut data = Map::new();
    for place in 0..rng.usize(1..4) {
        let key = format!("{}_{place}", ["item", "part", "größe", "note", "x-y"][rng.usize(..5)]);
        let value = match rng.u8(..10) {
            0 => json!(rng.f64() * 1e6),
            1 => json!(rng.i64(..)),
            2 => json!(rng.u64(u64::MAX / 2..)),
            3 => json!([null, rng.bool(), "ü \"q\" \\ \u{1F600}"]),
            4 => json!("nothing of interest here"),
            5 | 6 if depth < 3 => Value::Object(nested(rng, depth + 1, planted)),
            7 if depth < 3 => (0..2).map(|_| Value::Object(nested(rng, depth + 1, planted))).collect(),
            _ => {
                let value = values::any(rng);
                insert(&mut data, rng, &value);
                planted.push(value);
                continue;
            }
        };
        data.insert(key, value);
    }
    data
}
