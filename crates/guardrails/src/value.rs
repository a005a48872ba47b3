//! What is known about a value before the code runs.

use std::rc::Rc;

/// Maximum length of a text that is put together here, in bytes. A longer one is not followed.
const MAX_TEXT: usize = 2 << 10;

/// Maximum number of elements of a list that are followed.
const MAX_ELEMENTS: usize = 256;

/// Maximum number of values that one name may have. With more, the others are unknown.
pub(crate) const MAX_VALUES: usize = 8;

/// Stands for an unknown part of a text.
pub(crate) const GAP: char = '\u{fffc}';

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Unknown,
    /// A text that is known.
    Text(Rc<str>),
    /// A text with parts that are not known, each replaced by [`GAP`].
    Partial(Rc<str>),
    /// A text that was decoded or decompressed.
    Decoded,
    /// Source code from a skill, or code that was compiled from a text that may run.
    Trusted,
    Number(i64),
    /// Something with a name that is known: a module, a function, a class.
    Path(String),
    List(Rc<[Values]>),
    /// A function of this program.
    Function,
}

/// Lists are equal if they are the same one, because a comparison of nested lists would take too long.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) | (Self::Partial(one), Self::Partial(other)) => {
                Rc::ptr_eq(one, other) || one == other
            }
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Path(one), Self::Path(other)) => one == other,
            (Self::List(one), Self::List(other)) => Rc::ptr_eq(one, other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Value {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Rc::from(text.as_ref()))
    }

    pub(crate) fn partial(text: impl AsRef<str>) -> Self {
        Self::Partial(Rc::from(text.as_ref()))
    }

    /// A text of which nothing is known.
    pub(crate) fn some_text() -> Self {
        Self::partial(GAP.to_string())
    }

    pub(crate) fn list(elements: impl Iterator<Item = Values>) -> Self {
        Self::List(elements.take(MAX_ELEMENTS).collect())
    }
}

/// All values that something may have.
pub(crate) type Values = Vec<Value>;

/// Adds values that are not there yet. Returns whether there were any.
pub(crate) fn add(values: &mut Values, more: Values) -> bool {
    let before = values.len();
    for value in more {
        if values.contains(&value) {
            continue;
        }
        if values.len() >= MAX_VALUES {
            if !values.contains(&Value::Unknown) {
                values.push(Value::Unknown);
            }
            break;
        }
        values.push(value);
    }
    values.len() > before
}

/// The values of texts that are put together from these parts.
pub(crate) fn join(parts: &[Values], separator: &str) -> Values {
    let mut sums = vec![Value::text("")];
    for (index, part) in parts.iter().enumerate() {
        let mut longer = Vec::new();
        for sum in &sums {
            let sum = if index == 0 { sum.clone() } else { sum_of(sum, &Value::text(separator)) };
            for value in part {
                add(&mut longer, vec![sum_of(&sum, value)]);
            }
        }
        sums = longer;
    }
    if sums.is_empty() { vec![Value::Unknown] } else { sums }
}

fn sum_of(left: &Value, right: &Value) -> Value {
    let written = |value: &Value| match value {
        Value::Text(text) | Value::Partial(text) => Some(text.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Decoded => None,
        _ => Some(GAP.to_string()),
    };
    let is_whole = |value: &Value| matches!(value, Value::Text(_) | Value::Number(_));
    if let (Value::Number(one), Value::Number(other)) = (left, right) {
        return Value::Number(one.saturating_add(*other));
    }
    // An addition of things that are no texts.
    let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::Partial(_) | Value::Decoded);
    if !is_text(left) && !is_text(right) {
        return Value::Unknown;
    }
    match (written(left), written(right)) {
        (Some(one), Some(other)) if one.len() + other.len() <= MAX_TEXT => {
            if is_whole(left) && is_whole(right) {
                Value::text(one + &other)
            } else {
                Value::partial(one + &other)
            }
        }
        (Some(_), Some(_)) => Value::some_text(),
        _ => Value::Decoded,
    }
}

/// A text in reverse order.
pub(crate) fn reversed(value: &Value) -> Value {
    match value {
        Value::Text(text) if text.len() <= MAX_TEXT => Value::text(text.chars().rev().collect::<String>()),
        Value::List(list) => Value::list(list.iter().rev().cloned()),
        Value::Decoded => Value::Decoded,
        Value::Text(_) | Value::Partial(_) => Value::some_text(),
        _ => Value::Unknown,
    }
}

/// What a method of a text, or of a list of texts, returns.
pub(crate) fn method(object: &Value, name: &str, arguments: &[Values]) -> Option<Values> {
    let first = arguments.first();
    let text_of = |index: usize| match arguments.get(index).map(Vec::as_slice) {
        Some([Value::Text(text)]) => Some(text.as_ref()),
        _ => None,
    };
    match (object, name) {
        (
            Value::Decoded,
            "decode" | "strip" | "replace" | "lower" | "upper" | "toString" | "encode" | "trim" | "read" | "format"
            | "__mod__" | "slice" | "join" | "split",
        ) => Some(vec![Value::Decoded]),
        (Value::Text(text), "decode" | "encode" | "strip" | "trim" | "toString" | "valueOf") => {
            if text.len() > MAX_TEXT {
                return Some(vec![object.clone()]);
            }
            // Decoding with an encoding that hides text.
            if name == "decode" && text_of(0).is_some_and(|encoding| !is_plain(encoding)) {
                return Some(vec![Value::Decoded]);
            }
            Some(vec![Value::text(text.trim())])
        }
        (Value::Text(text), "lower" | "casefold" | "toLowerCase") => Some(vec![Value::text(text.to_lowercase())]),
        (Value::Text(text), "upper" | "toUpperCase") => Some(vec![Value::text(text.to_uppercase())]),
        (Value::Text(text), "replace" | "replaceAll") if text.len() <= MAX_TEXT => {
            let (from, to) = (text_of(0)?, text_of(1)?);
            let changed = if from.is_empty() { text.to_string() } else { text.replace(from, to) };
            (changed.len() <= MAX_TEXT).then(|| vec![Value::text(changed)])
        }
        (Value::Text(text), "split") => {
            let separator = text_of(0).unwrap_or(" ");
            if separator.is_empty() {
                let letters = text.chars().map(|one| vec![Value::text(one.to_string())]);
                return Some(vec![Value::list(letters)]);
            }
            let parts = text.split(separator).map(|part| vec![Value::text(part)]);
            Some(vec![Value::list(parts)])
        }
        (Value::Text(text), "concat") => {
            let parts: Vec<Values> =
                [vec![Value::Text(text.clone())]].into_iter().chain(arguments.iter().cloned()).collect();
            Some(join(&parts, ""))
        }
        (Value::Text(separator), "join") => match first?.as_slice() {
            [Value::List(list)] => Some(join(list, separator)),
            [Value::Decoded] => Some(vec![Value::Decoded]),
            [one @ Value::Text(_)] if separator.is_empty() => Some(vec![one.clone()]),
            _ => Some(vec![Value::some_text()]),
        },
        (Value::List(list), "join") => Some(join(list, text_of(0).unwrap_or(","))),
        (Value::List(list), "reverse" | "toReversed") => Some(vec![Value::list(list.iter().rev().cloned())]),
        (Value::Text(text) | Value::Partial(text), "format" | "__mod__") => {
            let (open, close) = if name == "format" { ('{', Some('}')) } else { ('%', None) };
            Some(vec![filled(text, open, close, arguments)])
        }
        (Value::Partial(text), "strip" | "trim" | "decode" | "encode" | "lower" | "upper" | "toString") => {
            Some(vec![Value::Partial(text.clone())])
        }
        _ => None,
    }
}

/// Whether an encoding of text keeps letters readable.
fn is_plain(encoding: &str) -> bool {
    let name = encoding.to_lowercase().replace(['-', '_', ' '], "");
    ["utf8", "utf16", "utf32", "ascii", "latin1", "iso8859", "cp125", "utf8sig"].iter().any(|one| name.starts_with(one))
}

/// A text with the values in the places of a format.
fn filled(format: &str, open: char, close: Option<char>, arguments: &[Values]) -> Value {
    if format.len() > MAX_TEXT {
        return Value::some_text();
    }
    let (mut text, mut is_whole, mut next) = (String::new(), true, 0);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != open {
            text.push(letter);
            continue;
        }
        let mut place = String::new();
        for inner in letters.by_ref() {
            if Some(inner) == close {
                break;
            }
            place.push(inner);
            if close.is_none() && inner.is_ascii_alphabetic() {
                break;
            }
        }
        let index = place.parse().unwrap_or(next);
        next += 1;
        match arguments.get(index).map(Vec::as_slice) {
            Some([Value::Text(value)]) => text.push_str(value),
            Some([Value::Number(value)]) => text.push_str(&value.to_string()),
            Some([Value::Decoded]) => return Value::Decoded,
            _ => {
                is_whole = false;
                text.push(GAP);
            }
        }
        if text.len() > MAX_TEXT {
            return Value::some_text();
        }
    }
    if is_whole { Value::text(text) } else { Value::partial(text) }
}

/// The text of a character's number.
pub(crate) fn character(values: &[Values]) -> Values {
    let parts: Vec<Values> = values
        .iter()
        .map(|values| match values.as_slice() {
            [Value::Number(number)] => u32::try_from(*number)
                .ok()
                .and_then(char::from_u32)
                .map_or(vec![Value::Unknown], |one| vec![Value::text(one.to_string())]),
            _ => vec![Value::some_text()],
        })
        .collect();
    join(&parts, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::text(text)
    }

    #[test]
    fn texts_are_put_together() {
        let parts = [vec![text("sys")], vec![text("tem")]];
        assert_eq!(join(&parts, ""), [text("system")]);
        let gap = [vec![text("/proc/")], vec![Value::Unknown], vec![text("/mem")]];
        assert_eq!(join(&gap, ""), [Value::partial(format!("/proc/{GAP}/mem"))]);
        assert_eq!(join(&[vec![Value::Decoded], vec![text("x")]], ""), [Value::Decoded]);
        let sum = [vec![Value::Unknown], vec![Value::Unknown]];
        assert!(!matches!(join(&sum[1..], "").as_slice(), [Value::Text(_)]));
    }

    #[test]
    fn methods_of_texts_are_known() {
        assert_eq!(method(&text("SYS"), "lower", &[]), Some(vec![text("sys")]));
        assert_eq!(method(&text("{}{}"), "format", &[vec![text("ev")], vec![text("al")]]), Some(vec![text("eval")]));
        assert_eq!(method(&text("%stem"), "__mod__", &[vec![text("sys")]]), Some(vec![text("system")]));
        assert_eq!(method(&text("riny"), "decode", &[vec![text("rot13")]]), Some(vec![Value::Decoded]));
        assert_eq!(reversed(&text("lave")), text("eval"));
        let list = Value::list([vec![text("a")], vec![text("b")]].into_iter());
        assert_eq!(method(&text("-"), "join", &[vec![list]]), Some(vec![text("a-b")]));
        assert_eq!(character(&[vec![Value::Number(104)], vec![Value::Number(105)]]), [text("hi")]);
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let mut values = Vec::new();
        add(&mut values, (0..100).map(Value::Number).collect());
        assert_eq!(values.len(), MAX_VALUES + 1);
        assert!(values.contains(&Value::Unknown));
    }
}
