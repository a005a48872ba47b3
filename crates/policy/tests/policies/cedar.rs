use crate::{Made, cedar, file, groups, thursday_night};
use coracle_policy::{
    ApproverLine, ApproverRule, ApproverRules, CEDAR_SCHEMA, CedarPolicies, ExecutionFacts, Interface, Policy,
    PolicyKind, Reason, Rules, Verdict,
};
use coracle_types::Decision::{Allow, Ask, Deny};
use coracle_types::{Language, ServerLabel, ToolHints, UserId};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_forbid_denies_and_says_where_it_is() {
    let policy = cedar(
        "\n@id(\"no-bank\")\n@message(\"Use the ledger.\")\nforbid(principal, action, resource in Server::\"bank\");",
    );
    let verdict = Made::default().verdict(&policy);
    assert_eq!(verdict.decision, Deny);
    assert_eq!(verdict.reason.to_string(), "policy \"no-bank\" (p.cedar:2:1): Use the ledger.");
    assert_eq!(Made { server: "shop", ..Made::default() }.decision(&policy), Allow);
}

#[test]
fn policies_name_users_groups_servers_and_tools() {
    for (scope, ann_pays, kim_pays, ann_lists, shop) in [
        ("principal == User::\"ann\", action, resource", Deny, Allow, Deny, Deny),
        ("principal in Group::\"legal\", action, resource", Allow, Deny, Allow, Allow),
        ("principal in Group::\"finance\", action, resource == Tool::\"bank.pay\"", Deny, Deny, Allow, Allow),
        ("principal, action == Action::\"call\", resource in Server::\"shop\"", Allow, Allow, Allow, Deny),
        ("principal, action == Action::\"call\", resource is Tool in Server::\"bank\"", Deny, Deny, Deny, Allow),
        ("principal, action == Action::\"execute\", resource", Allow, Allow, Allow, Allow),
        ("principal, action, resource == Tool::\"bank.Pay\"", Allow, Allow, Allow, Allow),
    ] {
        let policy = cedar(&format!("forbid({scope});"));
        let made = |user, server, tool| Made { user, server, tool, ..Made::default() }.decision(&policy);
        let decided = (
            made("ann", "bank", "pay"),
            made("kim", "bank", "pay"),
            made("ann", "bank", "list"),
            made("ann", "shop", "pay"),
        );
        assert_eq!(decided, (ann_pays, kim_pays, ann_lists, shop), "{scope}");
    }
}

#[test]
fn policies_read_annotations_labels_time_conversation_calls_and_interface() {
    let condition = |condition: &str| {
        cedar(&format!("forbid(principal, action == Action::\"call\", resource) when {{ {condition} }};"))
    };
    let hints = ToolHints { destructive: Some(true), read_only: Some(true), ..ToolHints::default() };
    for (text, denied, allowed) in [
        ("resource has destructive && resource.destructive", Made { hints, ..Made::default() }, Made::default()),
        (
            "resource.server.labels.contains(\"private\")",
            Made { labels: vec![ServerLabel::Private], ..Made::default() },
            Made::default(),
        ),
        (
            "context.time.hour >= 22 || context.time.hour < 6",
            Made::default(),
            Made { at: thursday_night() + Duration::from_hours(6), ..Made::default() },
        ),
        (
            "context.time.weekday == \"thursday\"",
            Made::default(),
            Made { at: thursday_night() + Duration::from_hours(24), ..Made::default() },
        ),
        (
            "context has conversation && context.conversation == \"run:7\"",
            Made { conversation: Some("run:7"), ..Made::default() },
            Made { conversation: Some("run:8"), ..Made::default() },
        ),
        ("context.calls >= 5", Made { calls: 5, ..Made::default() }, Made { calls: 4, ..Made::default() }),
        (
            "context.interface == \"agent\"",
            Made { interface: Interface::Agent, ..Made::default() },
            Made { interface: Interface::Terminal, ..Made::default() },
        ),
        (
            "resource.folded.name like \"pay*\"",
            Made { tool: "PAY-all", ..Made::default() },
            Made { tool: "refund", ..Made::default() },
        ),
    ] {
        assert_eq!(denied.decision(&condition(text)), Deny, "{text}");
        assert_eq!(allowed.decision(&condition(text)), Allow, "{text}");
    }
}

#[test]
fn policies_read_arguments() {
    let unless = |condition: &str| {
        cedar(&format!("forbid(principal, action == Action::\"call\", resource) unless {{ {condition} }};"))
    };
    let small = unless(
        "context.args.decimal.hasTag(\"amount\") && context.args.decimal.getTag(\"amount\").lessThanOrEqual(decimal(\"1000.0\"))",
    );
    for (arguments, expected) in [
        (json!({"amount": 1000}), Allow),
        (json!({"amount": 999.99}), Allow),
        (json!({"amount": 1000.0}), Allow),
        (json!({"amount": 1000.01}), Deny),
        (json!({"amount": 1001}), Deny),
        (json!({"amount": "5"}), Deny),
        (json!({"amount": null}), Deny),
        (json!({"amount": 0.000_001}), Deny),
        (json!({}), Deny),
    ] {
        assert_eq!(Made::with(arguments.clone()).decision(&small), expected, "{arguments}");
    }
    let ours =
        unless("context.args.text.hasTag(\"to.mail\") && context.args.text.getTag(\"to.mail\") like \"*@example.com\"");
    assert_eq!(Made::with(json!({"to": {"mail": "a@example.com"}})).decision(&ours), Allow);
    assert_eq!(Made::with(json!({"to": {"mail": "a@evil.com"}})).decision(&ours), Deny);
    let tags =
        unless("context.args.set.hasTag(\"tags\") && [\"a\", \"b\"].containsAll(context.args.set.getTag(\"tags\"))");
    assert_eq!(Made::with(json!({"tags": ["a", "a"]})).decision(&tags), Allow);
    assert_eq!(Made::with(json!({"tags": ["a", "c"]})).decision(&tags), Deny);
}

#[test]
fn a_policy_that_cannot_be_evaluated_denies() {
    let policy = cedar(
        "@id(\"sum\") @ask(\"why\") forbid(principal, action == Action::\"call\", resource)
         when { context.args.long.hasTag(\"n\") && context.args.long.getTag(\"n\") * 2 > 10 };",
    );
    assert_eq!(Made::with(json!({"n": 4})).decision(&policy), Allow);
    assert_eq!(Made::with(json!({"n": 6})).decision(&policy), Ask);
    let verdict = Made::with(json!({"n": i64::MAX})).verdict(&policy);
    assert_eq!(verdict.decision, Deny);
    assert!(
        matches!(&verdict.reason, Reason::Named { kind: PolicyKind::Cedar, name, error: Some(_), .. } if name == "sum")
    );
    let many = Made::with(json!({ "l": vec![1; 20_000] })).verdict(&policy);
    assert!(many.decision == Deny && many.reason.to_string().contains("more than 10000 values"), "{}", many.reason);
}

#[test]
fn the_strictest_policy_counts_and_approvers_add_up() {
    let quorum = |verdict: &Verdict| verdict.quorum.as_ref().map(|quorum| (quorum.groups.join(","), quorum.count));
    let of = |groups: &str, count| Some((groups.to_owned(), count));
    let asks = "@id(\"one\") @ask(\"one\") @approvers(\"finance, legal\") @approvals(\"2\")
        forbid(principal, action == Action::\"call\", resource);";
    let verdict = Made::default().verdict(&cedar(asks));
    assert_eq!((verdict.decision, verdict.is_about_this_call), (Ask, false));
    assert_eq!(quorum(&verdict), of("finance,legal", 2));
    let two = format!(
        "{asks}\n@id(\"two\") @ask(\"two\") @approvers(\"finance\")
         forbid(principal, action == Action::\"call\", resource) when {{ context.calls >= 0 }};"
    );
    let verdict = Made::default().verdict(&cedar(&two));
    assert_eq!((verdict.decision, verdict.is_about_this_call), (Ask, true));
    assert_eq!(quorum(&verdict), of("finance", 2));
    let denies = format!("{two}\n@id(\"no\") forbid(principal, action, resource);");
    let verdict = Made::default().verdict(&cedar(&denies));
    assert_eq!(verdict.decision, Deny);
    assert!(verdict.reason.to_string().starts_with("policy \"no\""));
}

#[test]
fn approvers_of_policies_and_of_the_settings_must_both_agree() {
    let rules = |group: &str| {
        let line = ApproverLine {
            pattern: "bank.pay".to_owned(),
            rule: ApproverRule { groups: vec![group.to_owned()], count: 1 },
            origin: "coracle.yaml:3".to_owned(),
        };
        Rules::default().with_approvers(ApproverRules::new(vec![line], groups()).unwrap())
    };
    let text = "@id(\"ask\") @ask(\"why\") @approvers(\"finance\") @approvals(\"2\")
        forbid(principal, action == Action::\"call\", resource);";
    let policies = || CedarPolicies::new(&[file(text)], &groups()).unwrap();
    let of = |group: &str| Policy::new(rules(group)).with_groups(groups()).with_cedar(policies());
    let both = Made::default().verdict(&of("finance"));
    assert_eq!((both.decision, both.quorum.map(|quorum| quorum.count)), (Ask, Some(2)));
    let none = Made::default().verdict(&of("legal"));
    assert_eq!(none.decision, Deny);
    assert!(none.reason.to_string().contains("approvers of different groups"), "{}", none.reason);
}

#[test]
fn executions_are_decided_by_user_language_and_size() {
    let policy = cedar(
        "@id(\"no-bash\") forbid(principal, action == Action::\"execute\", resource) when { resource.language == \"bash\" };
         @id(\"short\") forbid(principal in Group::\"legal\", action == Action::\"execute\", resource is Code) when { resource.bytes > 10 };
         @id(\"calls\") forbid(principal, action == Action::\"call\", resource);",
    );
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
    assert_eq!(denied("ann", Language::Python, 100), None);
    assert_eq!(denied("ann", Language::Bash, 1).unwrap(), "policy \"no-bash\" (p.cedar:1:1)");
    assert_eq!(denied("kim", Language::Python, 10), None);
    assert!(denied("kim", Language::Python, 11).unwrap().starts_with("policy \"short\""));
}

#[test]
fn the_schema_is_the_one_that_is_documented() {
    assert!(CEDAR_SCHEMA.contains("action call appliesTo") && CEDAR_SCHEMA.contains("action execute appliesTo"));
}
