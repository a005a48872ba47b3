//! The answer of a tool as code gets it: unwrapped, with everything that is not text beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_catalog::{WRAPPED, wrapped_result};
use coracle_types::{Content, Tool, ToolResult};
use serde_json::{Value, json};

/// Maximum length of a tool's error message.
const MAX_COMPLAINT_CHARS: usize = 4_000;

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The value, in which `{"$media": N}` stands for medium N.
    pub(crate) value: Value,
    /// The media, which become files in the sandbox.
    pub(crate) media: Vec<Value>,
}

impl Answer {
    /// The answer, or the error message of a tool that failed.
    pub(crate) fn of(tool: &Tool, result: ToolResult) -> Result<Self, String> {
        if result.is_error {
            return Err(complaint(&result));
        }
        if let Some(mut value) = result.structured {
            if wrapped_result(tool).is_some()
                && let Some(object) = value.as_object_mut().filter(|object| object.len() == 1)
                && let Some(inner) = object.remove(WRAPPED)
            {
                value = inner;
            }
            return Ok(Self { value, media: Vec::new() });
        }
        let mut media = Vec::new();
        let mut values: Vec<Value> = result.content.into_iter().map(|part| unwrapped(part, &mut media)).collect();
        let value = match values.len() {
            0 => Value::Null,
            1 => values.remove(0),
            _ => Value::Array(values),
        };
        Ok(Self { value, media })
    }

    /// The form that is sent to the guest.
    pub(crate) fn into_wire(self) -> Value {
        json!({ "value": self.value, "media": self.media })
    }
}

fn unwrapped(part: Content, media: &mut Vec<Value>) -> Value {
    let mut file = |mime: String, data: String, uri: Option<String>| {
        let mut medium = json!({ "mime": mime, "data": data });
        if let (Some(uri), Some(fields)) = (uri, medium.as_object_mut()) {
            fields.insert("uri".to_owned(), uri.into());
        }
        media.push(medium);
        json!({ "$media": media.len() - 1 })
    };
    match part {
        Content::Text { text } => parsed(text),
        Content::Media { mime, data, uri } => file(mime, data, uri),
        Content::Resource { uri, mime, text } => {
            let mime = mime.unwrap_or_else(|| "text/plain".to_owned());
            file(mime, STANDARD.encode(text), Some(uri))
        }
        Content::Link { uri, name, mime, description } => {
            json!({ "uri": uri, "name": name, "mime": mime, "description": description })
        }
    }
}

/// Parses text that is a JSON object or array. Other text stays a string: the type of a line that a tool found must not
/// depend on whether the line looks like a number.
fn parsed(text: String) -> Value {
    if !text.trim_start().starts_with(['{', '[']) {
        return Value::String(text);
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn complaint(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        Content::Text { text } | Content::Resource { text, .. } => Some(text.as_str()),
        Content::Media { .. } | Content::Link { .. } => None,
    });
    let all = texts.collect::<Vec<_>>().join("\n");
    let all = if all.trim().is_empty() { "the tool failed and did not say why".to_owned() } else { all };
    match all.char_indices().nth(MAX_COMPLAINT_CHARS) {
        Some((end, _)) => format!("{}…", all.get(..end).unwrap_or_default()),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use coracle_types::{Content, Schema, ServerName, Tool, ToolHints, ToolResult};
    use serde_json::{Value, json};

    fn tool(output_schema: Option<Value>) -> Tool {
        Tool {
            server: ServerName::new("s").unwrap(),
            name: "t".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Schema::default(),
            output_schema: output_schema.and_then(|schema| schema.as_object().cloned()).map(Schema::from),
            category: None,
            hints: ToolHints::default(),
        }
    }

    fn text(text: &str) -> Content {
        Content::Text { text: text.to_owned() }
    }

    fn value(content: Vec<Content>) -> Value {
        Answer::of(&tool(None), ToolResult { content, ..ToolResult::default() }).unwrap().value
    }

    #[test]
    fn results_come_unwrapped() {
        assert_eq!(value(vec![]), Value::Null);
        assert_eq!(value(vec![text("plain")]), json!("plain"));
        assert_eq!(value(vec![text(r#" {"a": [1, 2.5]}"#)]), json!({ "a": [1, 2.5] }));
        assert_eq!(value(vec![text("[1, ")]), json!("[1, "));
        assert_eq!(value(vec![text("42")]), json!("42"));
        assert_eq!(value(vec![text("a"), text("[1]")]), json!(["a", [1]]));
        let structured =
            ToolResult { structured: Some(json!({ "n": 1 })), content: vec![text("shown to people")], is_error: false };
        assert_eq!(Answer::of(&tool(None), structured).unwrap().value, json!({ "n": 1 }));
    }

    #[test]
    fn what_fastmcp_wrapped_comes_unwrapped_and_nothing_else_does() {
        let schema = |marked: bool| {
            let result = json!({ "type": "integer", "title": "Result" });
            let mut schema = json!({ "type": "object", "properties": { "result": result }, "required": ["result"] });
            if marked {
                schema["x-fastmcp-wrap-result"] = json!(true);
            }
            tool(Some(schema))
        };
        let of = |tool: &Tool, value: Value| {
            Answer::of(tool, ToolResult { structured: Some(value), ..ToolResult::default() }).unwrap().value
        };
        assert_eq!(of(&schema(true), json!({ "result": 42 })), json!(42));
        assert_eq!(of(&schema(true), json!({ "result": [{ "result": 1 }] })), json!([{ "result": 1 }]));
        assert_eq!(of(&schema(true), json!({ "result": 42, "more": 1 })), json!({ "result": 42, "more": 1 }));
        assert_eq!(of(&schema(false), json!({ "result": 42 })), json!({ "result": 42 }));
    }

    #[test]
    fn what_is_no_text_stands_beside_the_value() {
        let image = Content::Media { mime: "image/png".to_owned(), data: "iVBO".to_owned(), uri: None };
        let page = Content::Resource { uri: "x://page".to_owned(), mime: None, text: "hi".to_owned() };
        let result = ToolResult { content: vec![text("see"), image, page], ..ToolResult::default() };
        let wire = Answer::of(&tool(None), result).unwrap().into_wire();
        let media = json!([
            { "mime": "image/png", "data": "iVBO" },
            { "mime": "text/plain", "data": "aGk=", "uri": "x://page" },
        ]);
        assert_eq!(wire, json!({ "value": ["see", { "$media": 0 }, { "$media": 1 }], "media": media }));
    }

    #[test]
    fn a_failed_tool_is_a_complaint_of_bounded_length() {
        let failed = |content| ToolResult { structured: Some(json!(1)), content, is_error: true };
        assert_eq!(Answer::of(&tool(None), failed(vec![text("no such branch")])), Err("no such branch".to_owned()));
        assert!(Answer::of(&tool(None), failed(vec![])).unwrap_err().contains("did not say why"));
        assert_eq!(Answer::of(&tool(None), failed(vec![text(&"é".repeat(9_000))])).unwrap_err().chars().count(), 4_001);
    }
}
