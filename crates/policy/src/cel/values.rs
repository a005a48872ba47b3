//! The variables of expressions, and JSON as values of CEL.

use crate::Groups;
use crate::facts::{About, Facts, Moment};
use cel::Value;
use cel::objects::{Key, Map};
use coracle_types::ServerLabel;
use std::collections::HashMap;
use std::sync::Arc;

/// The kind of what an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Call,
    Execution,
}

/// A variable that expressions can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variable {
    Args,
    Tool,
    Calls,
    Code,
    User,
    Time,
    Session,
    Conversation,
    Interface,
}

impl Variable {
    /// The variables of expressions about calls, and of those about executions.
    pub(super) fn all(subject: Subject) -> &'static [Self] {
        match subject {
            Subject::Call => &[
                Self::Args,
                Self::Tool,
                Self::Calls,
                Self::User,
                Self::Time,
                Self::Session,
                Self::Conversation,
                Self::Interface,
            ],
            Subject::Execution => {
                &[Self::Code, Self::User, Self::Time, Self::Session, Self::Conversation, Self::Interface]
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Tool => "tool",
            Self::Calls => "calls",
            Self::Code => "code",
            Self::User => "user",
            Self::Time => "time",
            Self::Session => "session",
            Self::Conversation => "conversation",
            Self::Interface => "interface",
        }
    }

    pub(super) fn from_name(name: &str, subject: Subject) -> Option<Self> {
        Self::all(subject).iter().copied().find(|variable| variable.name() == name)
    }

    pub(super) fn value(self, groups: &Groups, about: About<'_>) -> Value {
        match (self, about) {
            (Self::Args, About::Call(facts)) => json(facts.arguments),
            (Self::Tool, About::Call(facts)) => tool(facts),
            (Self::Calls, About::Call(facts)) => {
                Value::Int(i64::try_from(facts.circumstances.calls).unwrap_or(i64::MAX))
            }
            (Self::Code, About::Execution(facts)) => map([
                ("language", text(facts.language.as_str())),
                ("bytes", Value::Int(i64::try_from(facts.bytes).unwrap_or(i64::MAX))),
            ]),
            // An expression that uses a variable of the other kind is not compiled.
            (Self::Args | Self::Tool | Self::Calls | Self::Code, _) => Value::Null,
            (Self::User, _) => {
                let groups = groups.of(about.user()).iter().map(|group| text(group)).collect();
                map([("name", text(about.user().as_str())), ("groups", Value::List(Arc::new(groups)))])
            }
            (Self::Time, _) => {
                let Moment { epoch, hour, minute, weekday } = Moment::of(about.at());
                let numbers = [("epoch", epoch), ("hour", hour), ("minute", minute)];
                let numbers = numbers.map(|(name, number)| (name, Value::Int(number)));
                map(numbers.into_iter().chain([("weekday", text(weekday))]))
            }
            (Self::Session, _) => about.session().map_or(Value::Null, |session| text(session.as_str())),
            (Self::Conversation, _) => about.conversation().map_or(Value::Null, text),
            (Self::Interface, _) => text(about.interface().as_str()),
        }
    }
}

/// The tool with the labels of its server, and what the server claims about its effects.
fn tool(facts: &Facts<'_>) -> Value {
    let labels = facts.labels.iter().map(|label| label_value(*label)).collect();
    let hints = facts.tool.hints;
    let hint = |name, hint: Option<bool>| (name, hint.map_or(Value::Null, Value::Bool));
    map([
        ("server", text(facts.tool.server.as_str())),
        ("name", text(&facts.tool.name)),
        ("labels", Value::List(Arc::new(labels))),
        hint("read_only", hints.read_only),
        hint("destructive", hints.destructive),
        hint("idempotent", hints.idempotent),
        hint("open_world", hints.open_world),
    ])
}

fn label_value(label: ServerLabel) -> Value {
    text(label.as_str())
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let key = |key: &str| Key::String(Arc::new(key.to_owned()));
    let entries: HashMap<Key, Value> = entries.into_iter().map(|(name, value)| (key(name), value)).collect();
    Value::Map(Map { map: Arc::new(entries) })
}

/// Whole numbers are `int`, or `uint` if they are too large; other numbers are `double`.
fn json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.iter().map(json).collect())),
        serde_json::Value::Object(entries) => map(entries.iter().map(|(key, value)| (key.as_str(), json(value)))),
    }
}
