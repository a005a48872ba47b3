//! How the JSON of arguments becomes entities with tags, one for each type, since Cedar's types are fixed.

use super::types::Types;
use cedar_policy::{Entity, EntityUid, RestrictedExpression};
use serde_json::{Map, Number, Value};
use std::fmt::Write as _;

/// The maximum number of values in arguments that policies can read.
const MAX_VALUES: usize = 10_000;
/// The largest integer that a decimal of Cedar has before its four decimals.
const MAX_DECIMAL: i64 = 922_337_203_685_477;
/// Up to here, every whole number is a float.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Arguments as Cedar has them.
pub(super) struct Arguments {
    /// The record `context.args`.
    pub(super) record: RestrictedExpression,
    pub(super) entities: Vec<Entity>,
}

type Tags = Vec<(String, RestrictedExpression)>;

#[derive(Default)]
struct Flat {
    text: Tags,
    long: Tags,
    decimal: Tags,
    truth: Tags,
    set: Tags,
    paths: Vec<String>,
    inexact: Vec<String>,
}

impl Types {
    /// The arguments of a call, or none if no policy reads them. The error says why policies cannot read them.
    pub(super) fn arguments(&self, arguments: Option<&Value>) -> Result<Arguments, String> {
        let mut flat = Flat::default();
        if let Some(Value::Object(arguments)) = arguments {
            flat.object("", arguments)?;
        }
        let tagged = [
            ("text", &self.texts, flat.text),
            ("long", &self.longs, flat.long),
            ("decimal", &self.decimals, flat.decimal),
            ("bool", &self.bools, flat.truth),
            ("set", &self.sets, flat.set),
        ];
        let (mut record, mut entities) = (Vec::with_capacity(7), Vec::with_capacity(tagged.len()));
        for (name, uid, tags) in tagged {
            record.push((name.to_owned(), RestrictedExpression::new_entity_uid(uid.clone())));
            entities.push(entity(uid, tags)?);
        }
        let set =
            |paths: Vec<String>| RestrictedExpression::new_set(paths.into_iter().map(RestrictedExpression::new_string));
        record.push(("paths".to_owned(), set(flat.paths)));
        record.push(("inexact".to_owned(), set(flat.inexact)));
        let record = RestrictedExpression::new_record(record).map_err(|error| error.to_string())?;
        Ok(Arguments { record, entities })
    }
}

fn entity(uid: &EntityUid, tags: Tags) -> Result<Entity, String> {
    Entity::new_with_tags(uid.clone(), [], [], tags).map_err(|error| error.to_string())
}

impl Flat {
    fn object(&mut self, path: &str, entries: &Map<String, Value>) -> Result<(), String> {
        entries.iter().try_for_each(|(key, value)| {
            let mut path = path.to_owned();
            if !path.is_empty() {
                path.push('.');
            }
            for c in key.chars() {
                if matches!(c, '.' | '\\') {
                    path.push('\\');
                }
                path.push(c);
            }
            self.value(path, value)
        })
    }

    fn value(&mut self, path: String, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        if self.paths.len() >= MAX_VALUES {
            return Err(format!("the arguments have more than {MAX_VALUES} values"));
        }
        self.paths.push(path.clone());
        match value {
            Value::Null => {}
            Value::Bool(truth) => self.truth.push((path, RestrictedExpression::new_bool(*truth))),
            Value::String(text) => self.text.push((path, RestrictedExpression::new_string(text.clone()))),
            Value::Number(number) => self.number(path, number),
            Value::Array(items) => {
                let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                for (number, item) in items.iter().enumerate() {
                    self.value(format!("{path}.{number}"), item)?;
                }
                if let Some(texts) = texts {
                    let texts = texts.into_iter().map(|text| RestrictedExpression::new_string(text.to_owned()));
                    self.set.push((path, RestrictedExpression::new_set(texts)));
                }
            }
            Value::Object(entries) => self.object(&path, entries)?,
        }
        Ok(())
    }

    fn number(&mut self, path: String, number: &Number) {
        let (long, decimal) = (long(number), decimal(number));
        if long.is_none() && decimal.is_none() {
            self.inexact.push(path);
            return;
        }
        if let Some(long) = long {
            self.long.push((path.clone(), RestrictedExpression::new_long(long)));
        }
        if let Some(decimal) = decimal {
            self.decimal.push((path, RestrictedExpression::new_decimal(decimal)));
        }
    }
}

/// A number without a fraction.
fn long(number: &Number) -> Option<i64> {
    let of_float = || {
        let float = number.as_f64().filter(|_| number.is_f64())?;
        (float.fract() == 0.0 && float.abs() <= MAX_EXACT_FLOAT).then_some(float as i64)
    };
    number.as_i64().or_else(of_float)
}

/// A number with at most four decimals, as Cedar writes it.
#[expect(clippy::cast_precision_loss, reason = "only the magnitude counts")]
fn decimal(number: &Number) -> Option<String> {
    if let Some(long) = long(number) {
        return (long.unsigned_abs() < MAX_DECIMAL.unsigned_abs()).then(|| format!("{long}.0"));
    }
    let float = number.as_f64().filter(|float| number.is_f64() && float.abs() < MAX_DECIMAL as f64)?;
    // The shortest text that is this float, without an exponent.
    let mut text = String::new();
    write!(text, "{float}").ok()?;
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (1..=4).contains(&decimals).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{Flat, decimal, long};
    use serde_json::{Value, json};

    #[test]
    fn numbers_are_exact_or_absent() {
        let of = |value: Value| {
            let Value::Number(number) = value else { unreachable!() };
            (long(&number), decimal(&number))
        };
        let exact = |long, decimal: &str| (long, Some(decimal.to_owned()));
        assert_eq!(of(json!(5)), exact(Some(5), "5.0"));
        assert_eq!(of(json!(-5.0)), exact(Some(-5), "-5.0"));
        assert_eq!(of(json!(0.1)), exact(None, "0.1"));
        assert_eq!(of(json!(1000.0001)), exact(None, "1000.0001"));
        assert_eq!(of(json!(1000.00001)), (None, None));
        assert_eq!(of(json!(1e300)), (None, None));
        assert_eq!(of(json!(1e-7)), (None, None));
        assert_eq!(of(json!(i64::MAX)), (Some(i64::MAX), None));
        assert_eq!(of(json!(i64::MIN)), (Some(i64::MIN), None));
        assert_eq!(of(json!(u64::MAX)), (None, None));
        assert_eq!(of(json!(1e15)), (Some(1_000_000_000_000_000), None));
    }

    #[test]
    fn paths_are_unambiguous_and_nulls_are_absent() {
        let mut flat = Flat::default();
        let arguments =
            json!({"a": {"b": 1, "n": null}, "a.b": "x", "l": ["p", "q"], "m": ["p", 1], "s\\": true, "e": []});
        flat.object("", arguments.as_object().unwrap()).unwrap();
        let names = |tags: &super::Tags| {
            let mut names: Vec<_> = tags.iter().map(|(path, _)| path.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&flat.long), ["a.b", "m.1"]);
        assert_eq!(names(&flat.text), [r"a\.b", "l.0", "l.1", "m.0"]);
        assert_eq!(names(&flat.set), ["e", "l"]);
        assert_eq!(names(&flat.truth), [r"s\\"]);
        flat.paths.sort();
        assert_eq!(flat.paths, ["a", "a.b", r"a\.b", "e", "l", "l.0", "l.1", "m", "m.0", "m.1", r"s\\"]);
    }

    #[test]
    fn too_many_values_cannot_be_read() {
        let many = |count: usize| json!({ "l": vec![1; count] });
        let mut flat = Flat::default();
        assert!(flat.object("", many(9_999).as_object().unwrap()).is_ok());
        let mut flat = Flat::default();
        let told = flat.object("", many(10_000).as_object().unwrap()).unwrap_err();
        assert_eq!(told, "the arguments have more than 10000 values");
    }
}
