//! What code gets in place of results that do not exist yet, and how arguments that contain it are filled in later.
//!
//! A placeholder is a text or a number that occurs nowhere else. In the arguments of a later call it is recognised as a
//! whole, or as a part of a text. Where code has changed it, the call cannot be followed: what was meant is not known.

use coracle_catalog::Leaf;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeSet;

/// Maximum number of placeholders of one plan.
pub(crate) const MAX_PLACES: usize = 10_000;
/// Distance between two numbers, so that the result of a small calculation is not another placeholder.
const STEP: u64 = 1_000;
/// The numbers of one plan are within this range.
const RANGE: u64 = STEP * MAX_PLACES as u64;
/// Numbers are above this, and below 2^53, which is exact in every language.
const FLOOR: u64 = 4_000_000_000_000_000;
/// Length of a fragment of a placeholder that is recognised.
const FRAGMENT: usize = 6;
/// Number of possible ranges.
const RANGES: u64 = 400_000_000;

/// A part of the result of an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) effect: u64,
    /// JSON pointer within the result.
    pub(crate) path: String,
    is_text: bool,
    is_integer: bool,
}

/// The placeholders of one plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Placeholders {
    /// 16 hexadecimal digits.
    nonce: String,
    base: u64,
    places: Vec<Place>,
    /// Results of effects as code got them.
    #[serde(skip)]
    samples: Vec<(u64, Value)>,
}

/// How a placeholder is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is the whole value.
    Whole,
    /// It is a part of a text.
    Part,
}

impl Placeholders {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let (nonce, range) = (getrandom::u64()?, getrandom::u64()?);
        Ok(Self {
            nonce: format!("{nonce:016x}"),
            base: FLOOR + (range % RANGES) * RANGE,
            places: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Whether another result can have placeholders.
    pub(crate) fn has_room(&self) -> bool {
        self.places.len() < MAX_PLACES / 2
    }

    /// Makes the placeholder of a part of a result.
    pub(crate) fn place(&mut self, effect: u64, path: &str, leaf: Leaf) -> Value {
        let index = self.places.len();
        let is_text = leaf == Leaf::Text || index >= MAX_PLACES;
        self.places.push(Place { effect, path: path.to_owned(), is_text, is_integer: leaf == Leaf::Integer });
        if is_text { self.text(index).into() } else { (self.base + index as u64 * STEP).into() }
    }

    /// Remembers the whole result that code gets.
    pub(crate) fn sampled(&mut self, effect: u64, sample: Value) {
        self.samples.push((effect, sample));
    }

    fn text(&self, index: usize) -> String {
        format!("planned_{}_{index}_", self.nonce)
    }

    /// The effects whose results the arguments have, or why that cannot be told.
    pub(crate) fn uses(&self, arguments: &Map<String, Value>) -> Result<BTreeSet<u64>, String> {
        let mut uses = BTreeSet::new();
        if self.places.is_empty() {
            return Ok(uses);
        }
        for value in arguments.values() {
            self.check_whole(value)?;
        }
        self.fill(arguments, &mut |place, _| {
            uses.insert(place.effect);
            Ok(Value::Null)
        })?;
        Ok(uses)
    }

    /// The arguments as they are shown.
    pub(crate) fn shown(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        let shown = self.fill(arguments, &mut |place, part| {
            Ok(match part {
                Use::Whole => json!({ "$result": place.effect, "path": place.path }),
                Use::Part => format!("⟨result of {}: {}⟩", place.effect, place.path).into(),
            })
        });
        shown.unwrap_or_else(|_| arguments.clone())
    }

    /// The arguments, with a value for each placeholder. Values of parts of a text are texts.
    pub(crate) fn fill(
        &self,
        arguments: &Map<String, Value>,
        with: &mut dyn FnMut(&Place, Use) -> Result<Value, String>,
    ) -> Result<Map<String, Value>, String> {
        self.filled_object(arguments, with)
    }

    fn filled_object(
        &self,
        object: &Map<String, Value>,
        with: &mut dyn FnMut(&Place, Use) -> Result<Value, String>,
    ) -> Result<Map<String, Value>, String> {
        let mut filled = Map::new();
        for (key, value) in object {
            if self.is_suspicious(key) {
                return Err("the name of a field is made from a result that does not exist yet".to_owned());
            }
            filled.insert(key.clone(), self.filled(value, with)?);
        }
        Ok(filled)
    }

    fn filled(
        &self,
        value: &Value,
        with: &mut dyn FnMut(&Place, Use) -> Result<Value, String>,
    ) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => self.filled_text(text, with)?,
            Value::Number(number) => match self.number(number)? {
                Some(place) => with(place, Use::Whole)?,
                None => value.clone(),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.filled(item, with)).collect::<Result<_, _>>()?)
            }
            Value::Object(object) => Value::Object(self.filled_object(object, with)?),
            Value::Null | Value::Bool(_) => value.clone(),
        })
    }

    /// The placeholder that a number is, if any.
    fn number(&self, number: &Number) -> Result<Option<&Place>, String> {
        let whole = number.as_u64().or_else(|| {
            // The opposite of a number is recognised, and is no placeholder.
            let float = number.as_f64()?.abs();
            (float.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
        });
        let Some(distance) = whole.and_then(|whole| whole.checked_sub(self.base)).filter(|distance| *distance < RANGE)
        else {
            return Ok(None);
        };
        let place = usize::try_from(distance / STEP).ok().and_then(|index| self.places.get(index));
        let is_negative = number.as_f64().is_some_and(|float| float < 0.0);
        match place.filter(|place| distance % STEP == 0 && !place.is_text && !is_negative) {
            Some(place) => Ok(Some(place)),
            None => Err("it calculates with a number that does not exist yet".to_owned()),
        }
    }

    fn filled_text(
        &self,
        text: &str,
        with: &mut dyn FnMut(&Place, Use) -> Result<Value, String>,
    ) -> Result<Value, String> {
        let mut filled = String::new();
        let mut at = 0;
        while let Some((start, length, place)) = self.first_in(text, at) {
            if place.is_text && start == 0 && length == text.len() {
                return with(place, Use::Whole);
            }
            let before = text.get(at..start).unwrap_or_default();
            self.check(before)?;
            filled.push_str(before);
            match with(place, Use::Part)? {
                Value::String(part) => filled.push_str(&part),
                Value::Null => {}
                other => filled.push_str(&other.to_string()),
            }
            at = start + length;
        }
        let rest = text.get(at..).unwrap_or_default();
        self.check(rest)?;
        filled.push_str(rest);
        Ok(filled.into())
    }

    /// The first placeholder in a text at or after a place: where it starts, and its length.
    fn first_in(&self, text: &str, from: usize) -> Option<(usize, usize, &Place)> {
        let prefix = format!("planned_{}_", self.nonce);
        let marked = text.get(from..).and_then(|rest| rest.find(&prefix)).and_then(|found| {
            let start = from + found;
            let digits = text.get(start + prefix.len()..)?.split_once('_')?.0;
            let place = self.places.get(digits.parse::<usize>().ok().filter(|index| index.to_string() == digits)?)?;
            place.is_text.then_some((start, prefix.len() + digits.len() + 1, place))
        });
        [marked, self.first_number_in(text, from)].into_iter().flatten().min_by_key(|(start, ..)| *start)
    }

    fn first_number_in(&self, text: &str, mut from: usize) -> Option<(usize, usize, &Place)> {
        let prefix = self.prefix();
        while let Some(found) = text.get(from..)?.find(&prefix) {
            let start = from + found;
            let digits: usize = text.get(start..)?.bytes().take_while(u8::is_ascii_digit).count();
            let (before, after) = (text.get(..start)?, text.get(start + digits..)?);
            // A hyphen after a word is no sign.
            let is_signed =
                before.strip_suffix('-').is_some_and(|word| !word.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            let follows = before.ends_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
            let has_digits = after.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
            let goes_on = has_digits && after.starts_with(['.', ',', 'e', 'E']);
            let is_apart = !is_signed && !follows && !goes_on;
            let number: Option<Number> = text.get(start..start + digits)?.parse::<u64>().ok().map(Number::from);
            let place = number.and_then(|number| self.number(&number).ok().flatten());
            if let Some(place) = place.filter(|place| is_apart && place.is_integer) {
                return Some((start, digits, place));
            }
            from = start + digits;
        }
        None
    }

    /// The digits that all numbers of the plan begin with.
    fn prefix(&self) -> String {
        (self.base / RANGE).to_string()
    }

    fn check(&self, literal: &str) -> Result<(), String> {
        if self.is_suspicious(literal) {
            return Err("it changes a text or a number that does not exist yet".to_owned());
        }
        Ok(())
    }

    /// Whether a text has a fragment of a placeholder.
    fn is_suspicious(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        let reversed: String = self.nonce.chars().rev().collect();
        let (digits, prefix): (String, _) = (text.chars().filter(char::is_ascii_digit).collect(), self.prefix());
        let nonces = [&self.nonce, &reversed].into_iter();
        let mut fragments = nonces.flat_map(|nonce| (0..nonce.len()).filter_map(|at| nonce.get(at..at + FRAGMENT)));
        fragments.any(|fragment| lower.contains(fragment)) || digits.contains(&prefix)
    }

    /// Refuses an object or a list of a result that is passed on as it is: the real one may have more in it.
    fn check_whole(&self, value: &Value) -> Result<(), String> {
        let inner: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(object) => object.values().collect(),
            _ => return Ok(()),
        };
        let is_list = value.is_array();
        if is_list || inner.len() > 1 {
            let place = inner.iter().find_map(|value| match value {
                Value::String(text) => self.first_in(text, 0).map(|(.., place)| place),
                Value::Number(number) => self.number(number).ok().flatten(),
                _ => None,
            });
            let parent = place.and_then(|place| Some((place.effect, place.path.rsplit_once('/')?.0)));
            let original = parent.and_then(|(effect, path)| {
                self.samples.iter().find(|(of, _)| *of == effect).and_then(|(_, sample)| sample.pointer(path))
            });
            if original == Some(value) {
                let what = if is_list { "a list" } else { "an object" };
                return Err(format!("it passes on {what} of a result, of which not all is known yet"));
            }
        }
        inner.into_iter().try_for_each(|value| self.check_whole(value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Placeholders, Use};
    use coracle_catalog::Leaf;
    use serde_json::{Map, Value, json};

    fn planned() -> (Placeholders, String, u64, u64) {
        let mut placeholders = Placeholders::new().unwrap();
        let id = placeholders.place(1, "/id", Leaf::Text);
        let number = placeholders.place(1, "/number", Leaf::Integer);
        let cost = placeholders.place(2, "/cost", Leaf::Number);
        let texts = (id.as_str().unwrap().to_owned(), number.as_u64().unwrap(), cost.as_u64().unwrap());
        placeholders.sampled(1, json!({ "id": id, "number": number }));
        (placeholders, texts.0, texts.1, texts.2)
    }

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// The results of the effects.
    fn real(placeholders: &Placeholders, arguments: &Value) -> Result<Value, String> {
        let results = json!({ "1": { "id": "a1", "number": 7 }, "2": { "cost": 1.5 } });
        let filled = placeholders.fill(arguments.as_object().unwrap(), &mut |place, _: Use| {
            Ok(results[place.effect.to_string()].pointer(&place.path).unwrap().clone())
        });
        filled.map(Value::Object)
    }

    #[test]
    fn placeholders_are_filled_in_wherever_they_are_whole() {
        let (placeholders, id, number, cost) = planned();
        let arguments = json!({
            "id": id, "deep": [{ "n": number }, 1], "cost": cost, "text": format!("#{number} ({id}), {id}-{number}."),
        });
        let uses = placeholders.uses(&object(&arguments)).unwrap();
        assert_eq!(uses.into_iter().collect::<Vec<_>>(), [1, 2]);
        let expected = json!({
            "id": "a1", "deep": [{ "n": 7 }, 1], "cost": 1.5, "text": "#7 (a1), a1-7.",
        });
        assert_eq!(real(&placeholders, &arguments), Ok(expected));
        let shown = placeholders.shown(&object(&json!({ "id": id, "text": format!("see {id}") })));
        let expected = json!({ "id": { "$result": 1, "path": "/id" }, "text": "see ⟨result of 1: /id⟩" });
        assert_eq!(Value::Object(shown), expected);
        let stored: Placeholders = serde_json::from_value(serde_json::to_value(&placeholders).unwrap()).unwrap();
        assert_eq!(real(&stored, &json!({ "a": id })), Ok(json!({ "a": "a1" })));
    }

    #[test]
    fn what_has_no_placeholder_stays_as_it_is() {
        let (placeholders, ..) = planned();
        let arguments = json!({ "a": [1, -2, 2.5, null, true, "planned_1_", "9007199254740993"], "b": { "c": "é" } });
        assert!(placeholders.uses(&object(&arguments)).unwrap().is_empty());
        assert_eq!(real(&placeholders, &arguments), Ok(arguments));
    }

    #[test]
    fn changed_placeholders_are_noticed() {
        let (placeholders, id, number, cost) = planned();
        let grouped = format!("{},{}", &number.to_string()[..4], &number.to_string()[4..]);
        for changed in [
            json!({ "a": id.to_uppercase() }),
            json!({ "a": id.chars().rev().collect::<String>() }),
            json!({ "a": id.trim_end_matches('_') }),
            json!({ "a": &id[..20] }),
            json!({ "a": &id[18..] }),
            json!({ "a": number + 1 }),
            json!({ "a": -number.cast_signed() }),
            json!({ "a": format!("-{number}") }),
            json!({ "a": format!("{number}.00") }),
            json!({ "a": format!("cost {cost}") }),
            json!({ "a": grouped }),
            json!({ "a": { id.clone(): 1 } }),
        ] {
            assert!(placeholders.uses(&object(&changed)).is_err(), "{changed}");
        }
        assert!(placeholders.uses(&object(&json!({ "a": id, "b": number }))).is_ok(), "the control");
    }

    #[test]
    fn a_part_of_a_result_is_not_passed_on_as_if_it_were_complete() {
        let mut placeholders = Placeholders::new().unwrap();
        let id = placeholders.place(1, "/id", Leaf::Text);
        let (name, tag) = (placeholders.place(1, "/by/name", Leaf::Text), placeholders.place(1, "/tags/0", Leaf::Text));
        let by = json!({ "name": name, "bot": true });
        placeholders.sampled(1, json!({ "id": id, "by": by, "tags": [tag] }));
        for whole in [&by, &json!([tag])] {
            assert!(placeholders.uses(&object(&json!({ "a": whole }))).is_err(), "{whole}");
        }
        for part in [json!({ "a": { "name": name } }), json!({ "a": [id] }), json!({ "name": name, "bot": true })] {
            assert!(placeholders.uses(&object(&part)).is_ok(), "{part}");
        }
    }
}
