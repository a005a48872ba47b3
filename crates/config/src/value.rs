//! Parses values according to the type of their key.

use crate::keys::Kind;
use crate::problem::Reason;
use crate::suggest::nearest;
use crate::yaml::{Content, Name, Node, Style};
use coracle_types::MAX_SECONDS;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The maximum length of a wrong value in an error.
const MAX_SHOWN: usize = 40;
/// The maximum length of a pattern of tools.
const MAX_PATTERN: usize = 256;
/// The minimum time: a millisecond, in seconds.
const MIN_SECONDS: f64 = 0.001;

/// The folder that paths are relative to, and the home folder for `~`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) user_home: Option<PathBuf>,
}

impl Base {
    /// Resolves a path.
    pub(crate) fn resolve(&self, text: &str) -> PathBuf {
        let path = match (text.strip_prefix("~/"), &self.user_home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        match &self.folder {
            Some(folder) if path.is_relative() => folder.join(path),
            _ => path,
        }
    }
}

/// Parses a value of the file. `None` if it is null, which leaves the key unset.
pub(crate) fn from_node(kind: Kind, node: &Node, base: &Base) -> Result<Option<Value>, Reason> {
    let wrong = || wrong_type(kind, node.what());
    match (&node.content, kind) {
        (Content::Null, _) => Ok(None),
        (Content::Scalar(text, _), Kind::Choices(choices)) => {
            from_scalar(Kind::Choice(choices), text, Style::Text, base).map(|choice| Some(Value::Array(vec![choice])))
        }
        (Content::List(items), Kind::Choices(choices)) => {
            let choice = |item: &Node| match &item.content {
                Content::Scalar(text, _) => from_scalar(Kind::Choice(choices), text, Style::Text, base),
                _ => Err(wrong_type(kind, &format!("a list with {} in it", item.what()))),
            };
            Ok(Some(Value::Array(items.iter().map(choice).collect::<Result<_, _>>()?)))
        }
        (Content::Scalar(text, style), _) => from_scalar(kind, text, *style, base).map(Some),
        (Content::List(items), Kind::Texts | Kind::TextOrTexts) => {
            let text = |item: &Node| match &item.content {
                Content::Scalar(text, _) => Ok(Value::String(text.clone())),
                _ => Err(wrong_type(kind, &format!("a list with {} in it", item.what()))),
            };
            Ok(Some(Value::Array(items.iter().map(text).collect::<Result<_, _>>()?)))
        }
        (Content::List(items), Kind::Paths) => {
            let path = |item: &Node| match &item.content {
                Content::Scalar(text, _) => Ok(path_value(&base.resolve(text))),
                _ => Err(wrong_type(kind, &format!("a list with {} in it", item.what()))),
            };
            Ok(Some(Value::Array(items.iter().map(path).collect::<Result<_, _>>()?)))
        }
        (Content::Map(entries), Kind::TextLists) => {
            let list = |(name, node): &(Name, Node)| match from_node(Kind::TextOrTexts, node, base)? {
                Some(list) => Ok((name.text.clone(), list)),
                None => Ok((name.text.clone(), Value::Array(Vec::new()))),
            };
            Ok(Some(Value::Object(entries.iter().map(list).collect::<Result<_, _>>()?)))
        }
        (Content::Map(entries), Kind::TextMap) => {
            let mut map = Map::new();
            for (name, node) in entries {
                match &node.content {
                    Content::Scalar(text, _) => map.insert(name.text.clone(), Value::String(text.clone())),
                    // A variable with an empty value.
                    Content::Null => map.insert(name.text.clone(), Value::String(String::new())),
                    _ => return Err(wrong_type(kind, &format!("a map with {} in it", node.what()))),
                };
            }
            Ok(Some(Value::Object(map)))
        }
        _ => Err(wrong()),
    }
}

/// Parses a text from the environment or the command line.
pub(crate) fn from_text(kind: Kind, text: &str, base: &Base) -> Result<Value, Reason> {
    let text = text.trim();
    // Lists are separated by commas.
    if matches!(kind, Kind::Texts | Kind::TextOrTexts) {
        return Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect());
    }
    if kind == Kind::Paths {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        return Ok(items.map(|item| path_value(&base.resolve(item))).collect());
    }
    if let Kind::Choices(choices) = kind {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        return items.map(|item| from_scalar(Kind::Choice(choices), item, Style::Text, base)).collect();
    }
    if matches!(kind, Kind::TextMap | Kind::TextLists) {
        let node = Node::parse(text).map_err(|error| Reason::Unparsable { message: error.message })?;
        return Ok(from_node(kind, &node, base)?.unwrap_or_else(|| Value::Object(Map::new())));
    }
    // All values are plain text here, so the type of the key determines how to read them.
    let style = match kind {
        Kind::Truth => Style::Truth,
        Kind::Whole(..) | Kind::Limit | Kind::Seconds => Style::Number,
        _ => Style::Text,
    };
    from_scalar(kind, text, style, base).map_err(|reason| match reason {
        Reason::WrongType { expected, found } if matches!(found.as_str(), "a boolean" | "a number") => {
            Reason::WrongType { expected, found: "a string".to_owned() }
        }
        other => other,
    })
}

fn from_scalar(kind: Kind, text: &str, style: Style, base: &Base) -> Result<Value, Reason> {
    let found = match style {
        Style::Truth => "a boolean",
        Style::Number => "a number",
        Style::Text => "a string",
    };
    match kind {
        Kind::Truth => truth(text).map(Value::Bool).ok_or_else(|| wrong_type(kind, found)),
        Kind::Whole(least, most) => {
            let number = whole(text, style).ok_or_else(|| wrong_type(kind, &render_number(text, style)))?;
            if (least..=most).contains(&number) {
                Ok(Value::from(number))
            } else {
                Err(out_of_range(text, &least.to_string(), &most.to_string()))
            }
        }
        // The range is checked when all limits are known.
        Kind::Limit => whole(text, style).map(Value::from).ok_or_else(|| wrong_type(kind, &render_number(text, style))),
        Kind::Seconds => {
            let seconds = text.parse::<f64>().ok().filter(|_| style == Style::Number);
            let seconds = seconds.ok_or_else(|| wrong_type(kind, found))?;
            if (MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
                Ok(Value::from(seconds))
            } else {
                Err(out_of_range(text, &MIN_SECONDS.to_string(), &MAX_SECONDS.to_string()))
            }
        }
        Kind::Level => Ok(Value::String(level(text))),
        Kind::Path => Ok(path_value(&base.resolve(text))),
        Kind::Program if text.contains(['/', '\\']) => Ok(path_value(&base.resolve(text))),
        Kind::Text | Kind::Secret | Kind::Program => Ok(Value::String(text.to_owned())),
        Kind::TextOrTexts => Ok(Value::Array(vec![Value::String(text.to_owned())])),
        Kind::Choice(choices) => {
            let chosen = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            chosen.map(|(_, meaning)| Value::String((*meaning).to_owned())).ok_or_else(|| not_one_of(text, choices))
        }
        Kind::Choices(_)
        | Kind::Texts
        | Kind::Paths
        | Kind::TextMap
        | Kind::TextLists
        | Kind::Entries(_)
        | Kind::Decisions
        | Kind::Approvers
        | Kind::Rules
        | Kind::Providers => Err(wrong_type(kind, found)),
    }
}

fn path_value(path: &Path) -> Value {
    Value::String(path.to_string_lossy().into_owned())
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn whole(text: &str, style: Style) -> Option<u64> {
    let digits = text.replace('_', "");
    digits.parse().ok().filter(|_| style == Style::Number)
}

/// Describes a value that is not an integer. Numbers are quoted, and strings are not.
fn render_number(text: &str, style: Style) -> String {
    match style {
        Style::Number if text.parse::<f64>().is_ok() => cut(text),
        Style::Number => "a number".to_owned(),
        Style::Truth => "a boolean".to_owned(),
        Style::Text => "a string".to_owned(),
    }
}

/// Translates level names of Python.
fn level(text: &str) -> String {
    match text.to_ascii_lowercase().as_str() {
        "warning" => "warn".to_owned(),
        "critical" | "fatal" => "error".to_owned(),
        plain @ ("error" | "warn" | "info" | "debug" | "trace" | "off") => plain.to_owned(),
        _ => text.to_owned(),
    }
}

/// A decision about tools.
pub(crate) fn decision(node: &Node) -> Result<Value, Reason> {
    const CHOICES: &[(&str, &str)] = &[("allow", "allow"), ("ask", "ask"), ("deny", "deny")];
    match &node.content {
        Content::Scalar(text, _) => from_scalar(Kind::Choice(CHOICES), text, Style::Text, &Base::default()),
        _ => Err(wrong_type(Kind::Choice(CHOICES), node.what())),
    }
}

/// The people who approve calls: a group, several, or a map with `group` and `count`.
pub(crate) fn approvers(node: &Node) -> Result<Value, Reason> {
    let expected = || wrong_type(Kind::TextOrTexts, node.what());
    let (mut groups, mut count) = (None, Value::from(1));
    match &node.content {
        Content::Map(entries) => {
            for (name, node) in entries {
                match name.text.as_str() {
                    "group" => groups = from_node(Kind::TextOrTexts, node, &Base::default())?,
                    "count" => count = from_node(Kind::Whole(1, 5), node, &Base::default())?.unwrap_or(count),
                    other => {
                        let known = ["group", "count"];
                        let suggestion = nearest(other, known).map(str::to_owned);
                        return Err(Reason::UnknownKey { suggestion, known: known.map(str::to_owned).into() });
                    }
                }
            }
        }
        Content::Null => {}
        _ => groups = from_node(Kind::TextOrTexts, node, &Base::default())?,
    }
    let Some(Value::Array(mut names)) = groups.filter(|groups| groups.as_array().is_some_and(|all| !all.is_empty()))
    else {
        return Err(expected());
    };
    // No group: the rules decide.
    if names == ["none"] && count == 1 {
        names.clear();
    }
    Ok(json!({ "group": names, "count": count }))
}

/// Whether a text can be a pattern of tools: `*`, or a server, a dot, and a tool.
pub(crate) fn pattern(text: &str) -> Result<(), Reason> {
    let plain = !text.chars().any(|c| c.is_control() || c.is_whitespace()) && text.len() <= MAX_PATTERN;
    let parts =
        text == "*" || text.split_once('.').is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
    if plain && parts { Ok(()) } else { Err(Reason::Pattern) }
}

pub(crate) fn wrong_type(kind: Kind, found: &str) -> Reason {
    let expected = match kind {
        Kind::Truth => "true or false".to_owned(),
        Kind::Whole(..) | Kind::Limit => "a whole number".to_owned(),
        Kind::Seconds => "a number of seconds".to_owned(),
        Kind::Text | Kind::Secret | Kind::Level => "a string".to_owned(),
        Kind::Path | Kind::Program => "a path".to_owned(),
        Kind::Choice(choices) => format!("one of {}", names(choices).join(", ")),
        Kind::Choices(choices) => format!("a list of {}", names(choices).join(", ")),
        Kind::Texts => "a list of strings".to_owned(),
        Kind::Paths => "a list of paths".to_owned(),
        Kind::TextOrTexts => "a string or a list of strings".to_owned(),
        Kind::TextMap => "a map of strings".to_owned(),
        Kind::Rules => "a list of rules".to_owned(),
        Kind::TextLists => "a map of lists of strings".to_owned(),
        Kind::Approvers => "a map of patterns to groups".to_owned(),
        Kind::Entries(_) => "a list of maps".to_owned(),
        Kind::Decisions => "a map of patterns to allow, ask or deny".to_owned(),
        Kind::Providers => "a map of model providers".to_owned(),
    };
    Reason::WrongType { expected, found: found.to_owned() }
}

/// The choices without the names that earlier tools used.
fn names(choices: &[(&'static str, &'static str)]) -> Vec<String> {
    choices.iter().filter(|(name, meaning)| name == meaning).map(|(name, _)| (*name).to_owned()).collect()
}

fn not_one_of(text: &str, choices: &[(&'static str, &'static str)]) -> Reason {
    let suggestion = nearest(text, choices.iter().map(|(name, _)| *name)).map(str::to_owned);
    Reason::NotOneOf { value: cut(text), choices: names(choices), suggestion }
}

fn out_of_range(text: &str, least: &str, most: &str) -> Reason {
    Reason::OutOfRange { value: cut(text), least: least.to_owned(), most: most.to_owned() }
}

fn cut(text: &str) -> String {
    if text.chars().count() > MAX_SHOWN {
        text.chars().take(MAX_SHOWN).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_environment_become_values() {
        let base = Base { folder: Some("/f".into()), user_home: Some("/u".into()) };
        let value = |kind, text| from_text(kind, text, &base).ok();
        assert_eq!(value(Kind::Truth, " Yes "), Some(true.into()));
        assert_eq!(value(Kind::Truth, "0"), Some(false.into()));
        assert_eq!(value(Kind::Truth, "maybe"), None);
        assert_eq!(value(Kind::Whole(1, 10), "10"), Some(10.into()));
        assert_eq!(value(Kind::Whole(1, 10), "11"), None);
        assert_eq!(value(Kind::Seconds, "2.5"), Some(2.5.into()));
        for bad in ["0", "-1", "NaN", "inf", "1e9", "soon"] {
            assert_eq!(value(Kind::Seconds, bad), None, "{bad}");
        }
        assert_eq!(value(Kind::Path, "a/b"), Some("/f/a/b".into()));
        assert_eq!(value(Kind::Path, "~/b"), Some("/u/b".into()));
        assert_eq!(value(Kind::Path, "/b"), Some("/b".into()));
        assert_eq!(value(Kind::Program, "python3"), Some("python3".into()));
        assert_eq!(value(Kind::Program, "./python3"), Some("/f/./python3".into()));
        assert_eq!(value(Kind::Level, "WARNING"), Some("warn".into()));
    }

    #[test]
    fn patterns_have_a_server_and_a_tool() {
        for good in ["*", "github.*", "github.list_issues", "a-b.delete_*", "*.delete_*", "a.b.c"] {
            assert_eq!(pattern(good), Ok(()), "{good}");
        }
        for bad in ["", "github", "github.", ".x", "a b.c", "a.\n", &format!("a.{}", "x".repeat(300))] {
            assert_eq!(pattern(bad), Err(Reason::Pattern), "{bad:?}");
        }
    }
}
