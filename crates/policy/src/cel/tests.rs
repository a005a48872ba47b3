use super::{About, Expression, Subject};
use crate::facts::{Circumstances, Facts, Interface};
use crate::{Groups, ToolNames};
use coracle_types::{Schema, ServerName, Tool, ToolHints, UserId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

fn holds(text: &str, arguments: &Value) -> Result<bool, String> {
    let tool = Tool {
        server: ServerName::new("bank").unwrap(),
        name: "pay".to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    };
    let groups = BTreeMap::from([("finance".to_owned(), vec!["ann".to_owned()])]);
    let (names, user) = (ToolNames::of_wire(&tool), UserId::new("ann").unwrap());
    let circumstances = Circumstances { calls: 3, interface: Interface::Mcp, ..Circumstances::default() };
    let at = UNIX_EPOCH + Duration::from_secs(1_795_050_450);
    let facts = Facts {
        user: &user,
        session: None,
        tool: &tool,
        names: &names,
        arguments,
        labels: BTreeSet::new(),
        circumstances,
        at,
    };
    Expression::new(text, Subject::Call)?.holds(&Groups::new(&groups).unwrap(), About::Call(&facts))
}

#[test]
fn expressions_compare_arguments() {
    for (text, arguments, expected) in [
        ("args.amount <= 1000", json!({"amount": 1000}), true),
        ("args.amount <= 1000", json!({"amount": 1001}), false),
        ("args.amount <= 1000", json!({"amount": 1000.5}), false),
        ("args.amount <= 1000", json!({"amount": u64::MAX}), false),
        ("args.amount <= 1000.0", json!({"amount": 999}), true),
        ("args.to.endsWith('@example.com')", json!({"to": "ann@example.com"}), true),
        ("args.to.endsWith('@example.com')", json!({"to": "ann@example.com.evil"}), false),
        ("args.items.all(i, i.price < 10)", json!({"items": [{"price": 1}, {"price": 9.5}]}), true),
        ("args.items.all(i, i.price < 10)", json!({"items": [{"price": 1}, {"price": 10}]}), false),
        ("args.to.matches('^[a-z]+$')", json!({"to": "ann"}), true),
        ("!has(args.force) || args.force == false", json!({}), true),
        ("!has(args.force) || args.force == false", json!({"force": true}), false),
        ("'finance' in user.groups && user.name == 'ann'", json!({}), true),
        ("tool.server == 'bank' && tool.name == 'pay'", json!({}), true),
        ("time.hour == 1 && time.weekday == 'thursday'", json!({}), true),
        ("calls < 3", json!({}), false),
        ("interface == 'mcp' && session == null && conversation == null", json!({}), true),
    ] {
        assert_eq!(holds(text, &arguments), Ok(expected), "{text} {arguments}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_an_error() {
    for (text, arguments) in [
        ("args.amount <= 1000", json!({})),
        ("args.amount <= 1000", json!({"amount": "1"})),
        ("args.amount <= 1000", json!({"amount": null})),
        ("args.amount", json!({"amount": 1})),
        ("1 / 0 == 1", json!({})),
    ] {
        assert!(holds(text, &arguments).is_err(), "{text} {arguments}");
    }
}

#[test]
fn expressions_that_cannot_work_are_rejected() {
    let told = |text: &str| Expression::new(text, Subject::Call).unwrap_err();
    assert!(told("args.amount <=").starts_with("the expression cannot be parsed: line 1, column"));
    assert_eq!(
        told("arguments.amount < 1"),
        "there is no variable arguments; there are: args, tool, calls, user, time, session, conversation, interface"
    );
    assert!(told("args.a.lower() == 'x'").starts_with("there is no function lower; there are: size,"));
    assert_eq!(told("args.a.matches(args.b)"), "the pattern of matches must be a literal text");
    assert!(told(&format!("args.a == '{}'", "x".repeat(5_000))).contains("the maximum is 4096"));
}

#[test]
fn loops_are_bounded() {
    let twice = "args.l.all(a, args.l.all(b, a == b))";
    assert_eq!(holds(twice, &json!({"l": vec![1; 100]})), Ok(true));
    let large = "the arguments are too large for the loops of the expression".to_owned();
    assert_eq!(holds(twice, &json!({"l": vec![1; 1_000]})), Err(large.clone()));
    assert_eq!(holds("args.l.all(a, a == 1)", &json!({"l": vec![1; 1_000]})), Ok(true));
    let longer = "(args.l + args.l + args.l + args.l + args.l).all(a, a == 1)";
    assert_eq!(holds(longer, &json!({"l": vec![1; 1_000]})), Err(large));
}
