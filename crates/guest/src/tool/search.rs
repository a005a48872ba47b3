//! Finds tools by what they do, by asking the host, which knows more than the names.

use super::help::{MAX_LINE, USAGE, capped};
use super::{ToolError, relay};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The maximum length of a line in the result.
const MAX_FOUND: usize = 3 * MAX_LINE;

pub(super) fn run(words: &[String]) -> Result<String, ToolError> {
    let Some(params) = parse(words)? else { return Ok(USAGE.to_owned()) };
    let answer = relay::call(&json!({ "method": "search", "params": params }))?;
    let found = answer.into_value().map_err(|failure| ToolError::refused("search".to_owned(), failure))?;
    Ok(lines(&found))
}

/// The request to the host, or `None` if the words ask for help.
pub(super) fn parse(words: &[String]) -> Result<Option<Map<String, Value>>, ToolError> {
    let (mut query, mut params) = (Vec::new(), Map::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else {
            query.push(word);
            continue;
        };
        let (name, given) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        if name == "help" {
            return Ok(None);
        }
        if !["server", "category", "limit"].contains(&name) {
            let hint = "it takes --server, --category and --limit".to_owned();
            return Err(ToolError::usage(format!("search: there is no --{name}"), Some(hint)));
        }
        let Some(value) = given.or_else(|| words.next()) else {
            return Err(ToolError::usage(format!("search: --{name} needs a value"), None));
        };
        let value = match name {
            "limit" => value
                .parse::<u64>()
                .map(Value::from)
                .map_err(|_| ToolError::usage(format!("search: --limit takes a number, not {value:?}"), None))?,
            _ => Value::from(value),
        };
        params.insert(name.to_owned(), value);
    }
    params.insert("query".to_owned(), query.join(" ").into());
    Ok(Some(params))
}

/// One line per tool.
pub(super) fn lines(found: &Value) -> String {
    let text = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let line = |tool: &Value| {
        let mut line = format!("{}: {}", text(tool, "name"), text(tool, "summary"));
        let also: Vec<&str> =
            tool.get("also").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if !also.is_empty() {
            let _ = write!(line, " (also {})", also.join(", "));
        }
        if tool.get("connect").is_some() {
            let _ = write!(line, " (not connected: {})", text(tool, "connect"));
        }
        capped(&line.replace('\n', " "), MAX_FOUND) + "\n"
    };
    let lines: String = found.as_array().into_iter().flatten().map(line).collect();
    if lines.is_empty() { "no matching tools\n".to_owned() } else { lines }
}
