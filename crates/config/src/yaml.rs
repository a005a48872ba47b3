//! YAML as a tree of nodes with their positions.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// The maximum depth. No setting needs more than five levels.
const MAX_DEPTH: usize = 32;
/// The maximum number of values in a file, including those that aliases repeat.
const MAX_NODES: usize = 50_000;

/// A position: line and column from 1, or 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The offset in bytes.
    pub(crate) offset: Option<usize>,
}

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) place: Place,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Null,
    /// The text as written, without quotes.
    Scalar(String, Style),
    List(Vec<Node>),
    Map(Vec<(Name, Node)>),
}

/// The type of a scalar if no type is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Truth,
    Number,
    Text,
}

/// A key of a map and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// Why a text is not YAML that we accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) place: Place,
}

impl Node {
    /// Parses one document. An empty text is null.
    pub(crate) fn parse(text: &str) -> Result<Self, SyntaxError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_depth: MAX_DEPTH,
                flow_nesting_limit: MAX_DEPTH,
                max_nodes: MAX_NODES,
                max_events: 4 * MAX_NODES,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_NODES },
            strict_booleans: true,
            with_snippet: false,
        };
        match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
            Ok(raw) => Ok(raw.value.locate(&raw.defined, text)),
            Err(serde_saphyr::Error::Eof { .. }) => Ok(Self { content: Content::Null, place: Place::default() }),
            Err(error) => Err(syntax_error(&error)),
        }
    }

    /// Converts JSON to a tree without positions.
    pub(crate) fn from_json(value: &Value) -> Self {
        let content = match value {
            Value::Null => Content::Null,
            Value::Bool(truth) => Content::Scalar(truth.to_string(), Style::Truth),
            Value::Number(number) => Content::Scalar(number.to_string(), Style::Number),
            Value::String(text) => Content::Scalar(text.clone(), Style::Text),
            Value::Array(items) => Content::List(items.iter().map(Self::from_json).collect()),
            Value::Object(entries) => {
                let name = |text: &String| Name { text: text.clone(), place: Place::default() };
                Content::Map(entries.iter().map(|(key, value)| (name(key), Self::from_json(value))).collect())
            }
        };
        Self { content, place: Place::default() }
    }

    /// The value as JSON, to compare.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Scalar(text, Style::Truth) => Value::Bool(text.eq_ignore_ascii_case("true")),
            Content::Scalar(text, Style::Number) => {
                text.parse().map_or_else(|_| Value::String(text.clone()), Value::Number)
            }
            Content::Scalar(text, Style::Text) => Value::String(text.clone()),
            Content::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|(name, node)| (name.text.clone(), node.to_json())).collect())
            }
        }
    }

    /// The type of the node, for people.
    pub(crate) fn what(&self) -> &'static str {
        match &self.content {
            Content::Null => "nothing",
            Content::Scalar(_, Style::Truth) => "a boolean",
            Content::Scalar(_, Style::Number) => "a number",
            Content::Scalar(_, Style::Text) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }
}

fn syntax_error(error: &serde_saphyr::Error) -> SyntaxError {
    let error = error.without_snippet();
    let place = error.location().as_ref().map(place).unwrap_or_default();
    let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    // The position is reported separately from the message.
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = message.split('\n').next().unwrap_or_default().trim_end_matches(['.', ':']).to_owned();
    SyntaxError { message, place }
}

fn place(location: &Location) -> Place {
    let offset = location.span().byte_offset().and_then(|offset| usize::try_from(offset).ok());
    Place { line: location.line(), column: location.column(), offset }
}

/// A value from the parser.
#[derive(Debug)]
enum Raw {
    Null,
    Truth(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl Raw {
    /// Adds positions, and restores the spelling of numbers: `1.10` may be a version.
    fn locate(self, location: &Location, source: &str) -> Node {
        let written = |fallback: String| {
            let span = location.span();
            let range = span.byte_offset().zip(span.byte_len()).and_then(|(offset, length)| {
                let start = usize::try_from(offset).ok()?;
                source.get(start..start.checked_add(usize::try_from(length).ok()?)?)
            });
            let text = range.map(str::trim).filter(|text| !text.is_empty() && !text.contains(['\n', '"', '\'', '!']));
            text.map_or(fallback, str::to_owned)
        };
        let content = match self {
            Self::Null => Content::Null,
            Self::Truth(truth) => Content::Scalar(written(truth.to_string()), Style::Truth),
            Self::Number(number) => Content::Scalar(written(number), Style::Number),
            Self::Text(text) => Content::Scalar(text, Style::Text),
            Self::List(items) => {
                Content::List(items.into_iter().map(|item| item.value.locate(&item.defined, source)).collect())
            }
            Self::Map(entries) => {
                let entry = |(key, value): (Spanned<String>, Spanned<Self>)| {
                    let name = Name { text: key.value, place: place(&key.defined) };
                    (name, value.value.locate(&value.defined, source))
                };
                Content::Map(entries.into_iter().map(entry).collect())
            }
        };
        Node { content, place: place(location) }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Raw, E> {
        Ok(Raw::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

#[cfg(test)]
mod tests;
