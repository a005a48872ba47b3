//! Values that a turn takes from the conversation: `{{result}}`, `{{result:/pointer}}` and `{{user}}`.

use serde_json::Value;

/// What the strings of a turn may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) result: String,
    pub(crate) user: String,
}

impl Values {
    /// The text with all references replaced. Unknown references stay as they are.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let reference = after.split_once("}}");
            rest = if let Some((value, after)) =
                reference.and_then(|(name, after)| Some((self.value(name.trim())?, after)))
            {
                filled.push_str(&value);
                after
            } else {
                filled.push_str("{{");
                after
            };
        }
        filled.push_str(rest);
        filled
    }

    /// The value with all references in its strings replaced.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(values) => values.iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), self.fill_value(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        match name {
            "result" => Some(self.result.clone()),
            "user" => Some(self.user.clone()),
            _ => {
                let result: Value = serde_json::from_str(&self.result).ok()?;
                let value = result.pointer(name.strip_prefix("result:")?)?;
                Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_replaced_and_other_braces_stay() {
        let values = Values { result: r#"{"a": [1, "two"]}"#.to_owned(), user: "{{result}}".to_owned() };
        assert_eq!(values.fill("x {{result}} y"), r#"x {"a": [1, "two"]} y"#);
        assert_eq!(values.fill("{{ result:/a/0 }}-{{result:/a/1}}"), "1-two");
        assert_eq!(values.fill("{{user}}"), "{{result}}");
        assert_eq!(values.fill("{{other}} {{result:/b}} {{"), "{{other}} {{result:/b}} {{");
        assert_eq!(values.fill_value(&json!({"k": ["{{result:/a/1}}", 3]})), json!({"k": ["two", 3]}));
    }
}
