use crate::{Made, groups, thursday_night};
use coracle_policy::{CheckSpec, Checks, ExecutionFacts, Interface, Placed, Policy, Rules};
use coracle_types::Decision::{Allow, Ask, Deny};
use coracle_types::{Language, ServerLabel, ToolHints, UserId};
use serde_json::json;
use std::time::Duration;

fn placed(text: &str, line: u32) -> Placed {
    Placed { text: text.to_owned(), origin: format!("coracle.yaml:{line}") }
}

fn small_payments() -> CheckSpec {
    CheckSpec {
        name: "small-payments".to_owned(),
        is_about_executions: false,
        tools: Some(placed("bank.pay*", 3)),
        when: Some(placed("args.currency == 'EUR'", 4)),
        require: placed("args.amount <= 1000", 5),
        asks: false,
        message: Some("Pay larger amounts by hand.".to_owned()),
        origin: "coracle.yaml:2".to_owned(),
    }
}

fn policy(specs: Vec<CheckSpec>) -> Policy {
    Policy::new(Rules::default()).with_groups(groups()).with_checks(Checks::new(specs).unwrap())
}

#[test]
fn a_call_that_does_not_meet_a_condition_is_denied() {
    let policy = policy(vec![small_payments()]);
    for (arguments, expected) in [
        (json!({"currency": "EUR", "amount": 1000}), Allow),
        (json!({"currency": "EUR", "amount": 1000.5}), Deny),
        // The condition does not apply.
        (json!({"currency": "USD", "amount": 5000}), Allow),
        // What cannot be evaluated applies, and is not met.
        (json!({"amount": 5000}), Deny),
        (json!({"currency": "EUR"}), Deny),
        (json!({"currency": "EUR", "amount": "1"}), Deny),
    ] {
        assert_eq!(Made::with(arguments.clone()).decision(&policy), expected, "{arguments}");
    }
    let told = Made::with(json!({"currency": "EUR", "amount": 2000})).verdict(&policy).reason.to_string();
    assert_eq!(told, "condition \"small-payments\" (coracle.yaml:2): Pay larger amounts by hand.");
    let other = Made { tool: "list", ..Made::with(json!({})) };
    assert_eq!(other.decision(&policy), Allow);
    // A name that only looks the same is no way around a condition.
    let twin = Made { tool: "PAY", ..Made::with(json!({"currency": "EUR", "amount": 2000})) };
    assert_eq!(twin.decision(&policy), Deny);
}

#[test]
fn conditions_on_arguments_that_are_not_known_yet_wait_for_them() {
    let of_user = CheckSpec {
        name: "not-kim".to_owned(),
        tools: None,
        when: None,
        require: placed("user.name != 'kim'", 7),
        ..small_payments()
    };
    let policy = policy(vec![small_payments(), of_user]);
    let made = |are_arguments_open, user| Made { user, are_arguments_open, ..Made::with(json!({"amount": "?"})) };
    assert_eq!(made(true, "ann").decision(&policy), Allow);
    assert_eq!(made(false, "ann").decision(&policy), Deny);
    assert_eq!(made(true, "kim").decision(&policy), Deny);
}

#[test]
fn a_condition_can_ask_and_the_strictest_counts() {
    let asks = CheckSpec { name: "asks".to_owned(), asks: true, when: None, ..small_payments() };
    let verdict = Made::with(json!({"currency": "USD", "amount": 2000})).verdict(&policy(vec![asks.clone()]));
    assert_eq!((verdict.decision, verdict.is_about_this_call), (Ask, true));
    let both = policy(vec![asks, small_payments()]);
    assert_eq!(Made::with(json!({"currency": "EUR", "amount": 2000})).decision(&both), Deny);
    assert_eq!(Made::with(json!({"currency": "EUR", "amount": 20})).decision(&both), Allow);
}

#[test]
fn errors_have_the_line_of_the_expression() {
    let told = |spec: CheckSpec| {
        Checks::new(vec![spec]).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let wrong = CheckSpec { require: placed("args.amount <=", 5), ..small_payments() };
    assert!(told(wrong).starts_with("coracle.yaml:5: the expression cannot be parsed: line 1, column"));
    let wrong =
        CheckSpec { when: Some(placed("arg.amount > 1", 4)), tools: Some(placed("bank", 3)), ..small_payments() };
    let told_both = told(wrong);
    assert!(told_both.contains("coracle.yaml:3: \"bank\" does not name a tool"), "{told_both}");
    assert!(told_both.contains("coracle.yaml:4: there is no variable arg"), "{told_both}");
    assert_eq!(told(CheckSpec { name: String::new(), ..small_payments() }), "coracle.yaml:2: the rule has no `name`");
    assert_eq!(
        told(CheckSpec { require: Placed::default(), ..small_payments() }),
        "coracle.yaml:2: the rule has no `require`"
    );
    let twice = Checks::new(vec![small_payments(), small_payments()]).unwrap_err();
    assert_eq!(twice[0].to_string(), "coracle.yaml:2: there is another rule \"small-payments\"");
}

#[test]
fn conditions_read_users_groups_labels_hints_time_conversation_calls_and_interface() {
    let requires =
        |text: &str| policy(vec![CheckSpec { tools: None, when: None, require: placed(text, 5), ..small_payments() }]);
    let destructive = ToolHints { destructive: Some(true), read_only: Some(true), ..ToolHints::default() };
    for (text, allowed, denied) in [
        ("user.name == 'ann'", Made::default(), Made { user: "kim", ..Made::default() }),
        ("'legal' in user.groups", Made { user: "kim", ..Made::default() }, Made::default()),
        (
            "!('private' in tool.labels)",
            Made::default(),
            Made { labels: vec![ServerLabel::Private], ..Made::default() },
        ),
        ("tool.destructive != true", Made::default(), Made { hints: destructive, ..Made::default() }),
        ("tool.server == 'bank'", Made::default(), Made { server: "shop", ..Made::default() }),
        (
            "time.hour >= 6 && time.weekday == 'thursday'",
            Made { at: thursday_night() + Duration::from_hours(6), ..Made::default() },
            Made::default(),
        ),
        (
            "conversation != 'run:7'",
            Made { conversation: Some("run:8"), ..Made::default() },
            Made { conversation: Some("run:7"), ..Made::default() },
        ),
        ("calls < 5", Made { calls: 4, ..Made::default() }, Made { calls: 5, ..Made::default() }),
        (
            "interface != 'agent'",
            Made { interface: Interface::Terminal, ..Made::default() },
            Made { interface: Interface::Agent, ..Made::default() },
        ),
    ] {
        assert_eq!(allowed.decision(&requires(text)), Allow, "{text}");
        assert_eq!(denied.decision(&requires(text)), Deny, "{text}");
    }
}

#[test]
fn executions_have_conditions_of_their_own() {
    let no_bash = CheckSpec {
        name: "no-bash".to_owned(),
        is_about_executions: true,
        tools: None,
        when: Some(placed("!('legal' in user.groups)", 4)),
        require: placed("code.language != 'bash' && code.bytes <= 10", 5),
        ..small_payments()
    };
    let policy = policy(vec![no_bash.clone(), small_payments()]);
    let denied = |user: &str, language, bytes| {
        let facts = ExecutionFacts {
            user: &UserId::new(user).unwrap(),
            session: None,
            language,
            bytes,
            conversation: None,
            interface: Interface::Mcp,
            at: thursday_night(),
        };
        policy.denies_execution(&facts).map(|reason| reason.to_string())
    };
    assert_eq!(denied("ann", Language::Python, 10), None);
    assert!(denied("ann", Language::Python, 11).unwrap().starts_with("condition \"no-bash\" (coracle.yaml:2)"));
    assert!(denied("ann", Language::Bash, 1).is_some());
    assert_eq!(denied("kim", Language::Bash, 1), None);
    // It does not apply to calls.
    assert_eq!(Made::with(json!({"currency": "EUR", "amount": 1})).decision(&policy), Allow);
    let told = |spec: CheckSpec| Checks::new(vec![spec]).unwrap_err()[0].to_string();
    assert!(told(CheckSpec { asks: true, ..no_bash.clone() }).contains("a rule about executions has no `tools`"));
    let wrong = CheckSpec { require: placed("args.amount < 1", 5), ..no_bash };
    assert!(told(wrong).contains("coracle.yaml:5: there is no variable args; there are: code, user,"));
}
