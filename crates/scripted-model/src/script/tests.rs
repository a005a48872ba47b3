use serde_json::json;

use super::*;

#[test]
fn a_file_has_all_kinds_of_steps() {
    let library = Library::parse(include_str!("../../examples/script.yaml")).unwrap();
    let mut kinds: Vec<String> = Vec::new();
    for step in library.scripts.values().flat_map(|script| &script.turns).flat_map(|turn| &turn.steps) {
        let debug = format!("{step:?}");
        kinds.push(debug.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned());
    }
    kinds.sort();
    kinds.dedup();
    let all = "Call Calls Close Disconnect Error Finish FinishWithContent NoEnd Raw Reasoning Status Text Usage Wait";
    assert_eq!(kinds.join(" "), all);
}

#[test]
fn yaml_and_json_are_the_same() {
    let yaml = "
default: a
scripts:
  a:
    says: Hello
    turns:
      - - reasoning: hm
        - text: {pieces: [x, y], delay_ms: 5}
        - call: {name: f, arguments: {a: [1, '2']}, id: c1}
      - - call: {name: g, arguments: '{broken'}
        - wait: {gate: open}
        - no_end
";
    let json = r#"{"default": "a", "scripts": {"a": {"says": "Hello", "turns": [
        [{"reasoning": "hm"}, {"text": {"pieces": ["x", "y"], "delay_ms": 5}},
         {"call": {"name": "f", "arguments": {"a": [1, "2"]}, "id": "c1"}}],
        [{"call": {"name": "g", "arguments": "{broken"}}, {"wait": {"gate": "open"}}, "no_end"]]}}}"#;
    let call = Call { id: Some("c1".to_owned()), ..Call::new("f", json!({"a": [1, "2"]})) };
    let pieces = Text { pieces: vec!["x".to_owned(), "y".to_owned()], delay_ms: 5, ..Text::default() };
    let turns: [Turn; 2] = [
        [Step::reasoning("hm"), Step::Text(pieces), Step::Call(call)].into(),
        [Step::call("g", json!("{broken")), Step::gate("open"), Step::NoEnd].into(),
    ];
    let built =
        Library { default: Some("a".to_owned()), ..Library::default() }.with("a", Script::new(turns).says("Hello"));
    assert_eq!(Library::parse(yaml).unwrap(), built);
    assert_eq!(Library::parse(json).unwrap(), built);
}

#[track_caller]
fn refused(text: &str, because: &str) {
    let error = Library::parse(text).unwrap_err().to_string();
    assert!(error.contains(because), "{error}");
}

#[test]
fn mistakes_are_found_before_a_turn_is_played() {
    refused("scripts: {a: {turns: [[{text: x}, {status: {code: 500}}]]}}", "turn 0 of `a` has a status after");
    refused("scripts: {a: {turns: []}}", "`a` has no turns");
    refused("scripts: {rules: {turns: [[]]}}", "`rules` cannot be the name");
    refused("default: b", "`b` does not exist");
    refused("scripts: {a: {says: x, turns: [[]]}, b: {says: x, turns: [[]]}}", "`a` and `b` are selected by");
    refused("scripts: {a: {turns: [[{tekst: x}]]}}", "tekst");
    Library::parse("scripts: {a: {turns: [[{wait: {ms: 1}}, {status: {code: 500}}, {text: x}]]}}").unwrap();
    Library::parse("default: rules").unwrap();
    refused("scripts: {a: {turns: [[{text: 4}]]}}", "a string (quoted");
}
