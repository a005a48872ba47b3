use serde_json::json;

use super::*;
use crate::conversation::Wire;
use crate::tokens::Prompt;

fn conversation(text: &str, tools: &[(&str, Value)]) -> Conversation {
    Conversation {
        wire: Wire::Chat,
        model: "m".to_owned(),
        items: vec![Item::User(text.to_owned())],
        tools: tools
            .iter()
            .map(|(name, schema)| Tool { name: (*name).to_owned(), parameters: schema.clone() })
            .collect(),
        choice: Choice::Auto,
        format: Format::Text,
        stream: false,
        include_usage: false,
        include_encrypted: false,
        cache_key: None,
        prompt: Prompt::default(),
        request: Value::Null,
    }
}

fn weather() -> (&'static str, Value) {
    ("get_weather", json!({"properties": {"city": {"type": "string"}}, "required": ["city"]}))
}

fn code_tool() -> (&'static str, Value) {
    ("execute_code", json!({"properties": {"code": {"type": "string"}, "language": {"type": "string"}}}))
}

#[test]
fn what_nothing_applies_to_has_a_turn_of_its_own() {
    let otherwise: Turn = [Step::text("Ask something else.")].into();
    let rules = Rules { otherwise: Some(otherwise.clone()), eager: false, ..Rules::default() };
    assert_eq!(answer(&rules, &conversation("Hello!", &[code_tool()])), otherwise);
    let code = conversation("```py\nprint(1)\n```", &[code_tool()]);
    let expected: Turn = [Step::call("execute_code", json!({"code": "print(1)\n", "language": "python"}))].into();
    assert_eq!(answer(&rules, &code), expected);
    assert_eq!(answer(&Rules::default(), &conversation("Hello!", &[])), [Step::text("You said: Hello!")].into());
}

#[test]
fn a_tool_is_called_once_and_its_result_is_quoted() {
    let mut asked = conversation("Weather in Rome?", &[("other", json!({})), weather()]);
    let expected: Turn = [Step::call("get_weather", json!({"city": "Rome"}))].into();
    assert_eq!(answer(&Rules::default(), &asked), expected);
    asked.items.push(Item::Called { id: "1".to_owned(), name: "get_weather".to_owned(), is_signed: false });
    asked.items.push(Item::Result("21 degrees".to_owned()));
    assert_eq!(answer(&Rules::default(), &asked), [Step::text("The tool returned: 21 degrees")].into());
    asked.items.push(Item::User("Weather in Oslo?".to_owned()));
    assert_eq!(answer(&Rules::default(), &asked), [Step::call("get_weather", json!({"city": "Oslo"}))].into());
}

#[test]
fn the_client_decides_about_calls() {
    let mut asked = conversation("Weather in Rome?", &[weather(), ("other", json!({}))]);
    asked.choice = Choice::None;
    assert_eq!(answer(&Rules::default(), &asked), [Step::text("You said: Weather in Rome?")].into());
    asked.choice = Choice::Named("other".to_owned());
    assert_eq!(answer(&Rules::default(), &asked), [Step::call("other", json!({}))].into());
    asked.items = vec![Item::User("Hi".to_owned())];
    asked.choice = Choice::Auto;
    let reserved = Rules { eager: false, ..Rules::default() };
    assert_eq!(answer(&reserved, &asked), [Step::text("You said: Hi")].into());
    asked.choice = Choice::Required;
    assert_eq!(answer(&reserved, &asked).calls(), 1);
}

#[test]
fn fenced_code_is_executed_if_there_is_a_tool_for_it() {
    let text = "Run this:\n```py\nprint(1)\n```\nplease";
    let expected: Turn = [Step::call("execute_code", json!({"code": "print(1)\n", "language": "python"}))].into();
    assert_eq!(answer(&Rules::default(), &conversation(text, &[code_tool()])), expected);
    assert_eq!(answer(&Rules::default(), &conversation(text, &[])).calls(), 0);
    assert_eq!(answer(&Rules::default(), &conversation("Hi", &[code_tool()])).calls(), 0);
}

#[test]
fn words_select_a_turn() {
    let turn: Turn = [Step::call("execute_code", json!({"code": "plot()"}))].into();
    let rule = Rule { words: vec!["Chart".to_owned(), "sales".to_owned()], turn: turn.clone(), after_result: None };
    let rules = Rules { phrases: vec![rule], ..Rules::default() };
    assert_eq!(answer(&rules, &conversation("a chart of SALES", &[code_tool()])), turn);
    assert_eq!(answer(&rules, &conversation("a chart of SALES", &[])).calls(), 0);
    assert_eq!(answer(&rules, &conversation("a chart", &[code_tool()])).calls(), 0);
}

#[test]
fn text_follows_the_format() {
    let mut asked = conversation("What is 2+2?", &[]);
    assert_eq!(answer(&Rules::default(), &asked), [Step::text("2 + 2 = 4")].into());
    asked.format = Format::Object;
    assert_eq!(answer(&Rules::default(), &asked), [Step::text(r#"{"answer":"2 + 2 = 4"}"#)].into());
    asked.format = Format::Schema(json!({"type": "object", "properties": {"sum": {"type": "integer"}}}));
    assert_eq!(answer(&Rules::default(), &asked), [Step::text(r#"{"sum":2}"#)].into());
}
