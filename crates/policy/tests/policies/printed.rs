//! The rules for tools decide like the Cedar policies that are printed for them.

use crate::{file, groups, names, thursday_night, tool};
use coracle_policy::{CedarPolicies, Circumstances, Facts, Policy, Rule, Rules};
use coracle_types::Decision::{self, Allow, Ask, Deny};
use coracle_types::{ToolHints, UserId};
use proptest::prelude::*;
use serde_json::json;

fn rules(list: &[(String, Decision)]) -> Rules {
    let mut seen = std::collections::HashSet::new();
    let unique = list.iter().filter(|(pattern, _)| seen.insert(pattern.clone()));
    let rule = |(pattern, decision): &(String, Decision)| Rule {
        pattern: pattern.clone(),
        decision: *decision,
        origin: "coracle.yaml:3".to_owned(),
    };
    Rules::new(unique.map(rule).collect()).unwrap()
}

/// Names that differ, look alike, or have unusual characters.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[aAbB_-]{1,4}",
        1 => Just("\u{e4}".to_owned()),
        1 => Just("a\u{308}".to_owned()),
        1 => Just("\u{c4}".to_owned()),
        1 => Just("a\u{200b}".to_owned()),
        1 => Just("a*\\\"'\n".to_owned()),
        1 => Just("\u{1f5d1}".to_owned()),
        1 => Just("\u{ff41}".to_owned()),
    ]
}

fn part() -> impl Strategy<Value = String> {
    let piece = prop_oneof![3 => "[aAbB_-]", 3 => Just("*".to_owned()), 1 => Just("\u{e4}".to_owned()), 1 => Just("\\*".to_owned()), 1 => Just("\u{ff41}".to_owned())];
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("*".to_owned()),
        6 => ("[aAs*]{1,2}", part()).prop_map(|(server, tool)| format!("{server}.{tool}")),
        2 => ("[aAs]", name()).prop_map(|(server, tool)| format!("{server}.{}", tool.replace('\\', "\\\\").replace('*', "\\*"))),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Allow), Just(Ask), Just(Deny)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_printed_policies_decide_like_the_rules(
        list in prop::collection::vec((pattern(), decision()), 0..6),
        server in "[aAs]",
        tools in prop::collection::hash_set(name(), 1..5),
        destructive in any::<Option<bool>>(),
        read_only in any::<Option<bool>>(),
    ) {
        let by_map = Policy::new(rules(&list));
        let text = by_map.rules().to_cedar();
        let printed = CedarPolicies::new(&[file(&text)], &groups()).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        // The rules of the second policy allow everything, so that Cedar alone decides.
        let by_cedar = Policy::new(rules(&[("*".to_owned(), Allow)])).with_cedar(printed);
        let (all, user) = (tools.iter().map(String::as_str).collect::<Vec<_>>(), UserId::local());
        let hints = ToolHints { destructive, read_only, ..ToolHints::default() };
        for name in &all {
            let (tool, names) = (tool(&server, name, hints), names(&server, &all, name));
            let facts = Facts {
                user: &user,
                session: None,
                tool: &tool,
                names: &names,
                arguments: &json!({}),
                labels: std::collections::BTreeSet::new(),
                circumstances: Circumstances::default(),
                at: thursday_night(),
            };
            let decided = (by_map.decide(&tool, &names).decision, by_cedar.decide_call(&facts).decision);
            prop_assert_eq!(decided.0, decided.1, "{:?} {:?} {:?}\n{}", list, tools, name, text);
        }
    }
}

#[test]
fn printed_policies_can_be_read() {
    let list = [("git.*", Ask), ("git.git_reset", Deny), ("*.read_*", Allow)];
    let list: Vec<(String, Decision)> =
        list.iter().map(|(pattern, decision)| ((*pattern).to_owned(), *decision)).collect();
    let text = rules(&list).to_cedar();
    assert!(text.starts_with("@id(\"default: permit\")\npermit(principal, action, resource);\n"), "{text}");
    assert!(text.contains("// coracle.yaml:3\n@id(\"rule git.*\")\n@ask(\"the rule asks\")\nforbid("), "{text}");
    assert!(text.contains("@id(\"rule git.git_reset\")\nforbid("), "{text}");
    assert!(text.contains("// \"*.read_*\": allow (coracle.yaml:3)\n"), "{text}");
    // The denied tool is an exception of the rule for its server, and all of them are exceptions of the default.
    let of_server = text.split("@id(").nth(2).unwrap().split_once("unless").unwrap().1;
    assert!(of_server.contains("resource.name like \"git_reset\""), "{text}");
    assert!(text.contains("@id(\"default: ask about destructive tools\")"), "{text}");
    assert_eq!(text.matches("\nforbid(").count(), 3, "{text}");
}
