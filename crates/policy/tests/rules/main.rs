//! Decisions of rules, and the configuration line that would allow a tool.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod lines;
mod properties;
mod spellings;

use Decision::{Allow, Ask, Deny};
use coracle_policy::{Policy, Reason, Rule, Rules, ToolNames, Verdict};
use coracle_types::{Decision, ServerName, Tool, ToolHints};

fn tool(server: &str, name: &str) -> Tool {
    Tool {
        server: ServerName::new(server).unwrap(),
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: coracle_types::Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    }
}

fn names(server: &str, name: &str) -> ToolNames {
    ToolNames::of_wire(&tool(server, name))
}

fn rule(pattern: &str, decision: Decision) -> Rule {
    Rule { pattern: pattern.to_owned(), decision, origin: "coracle.yaml:7".to_owned() }
}

fn rules(rules: &[(&str, Decision)]) -> Rules {
    Rules::new(rules.iter().map(|(pattern, decision)| rule(pattern, *decision)).collect()).unwrap()
}

/// The decision of the rules in either order.
#[track_caller]
fn decision(of: &[(&str, Decision)], server: &str, name: &str) -> Option<Decision> {
    let names = names(server, name);
    let decided = |list: &[(&str, Decision)]| rules(list).decisive(&names).map(|rule| rule.decision);
    let mut reversed = of.to_vec();
    reversed.reverse();
    let there = decided(of);
    assert_eq!(there, decided(&reversed), "the order of rules does not matter");
    there
}

#[test]
fn a_pattern_matches_the_tools_that_it_names() {
    for (pattern, server, name, about) in [
        ("git.reset", "git", "reset", true),
        ("git.reset", "git", "reset_hard", false),
        ("git.reset", "git2", "reset", false),
        ("git.reset", "git", "Reset", true),
        ("git.*", "git", "reset", true),
        ("git.*", "github", "reset", false),
        ("*", "git", "reset", true),
        ("*.*", "git", "reset", true),
        ("*.reset", "git", "reset", true),
        ("*.reset", "git", "hard.reset", false),
        ("git*.re*t", "github", "reset", true),
        ("git.*_file_*", "git", "read_file_now", true),
        ("git.*_file_*", "git", "read_files_now", false),
        ("git.a*b*a", "git", "abba", true),
        ("git.a*b*a", "git", "ab", false),
        ("git.**", "git", "x", true),
        // The first dot ends the server, the others belong to the tool.
        ("git.a.b", "git", "a.b", true),
        ("git.a.*", "git", "a.b.c", true),
        ("git.*.c", "git", "a.b.c", true),
        // Literal stars and backslashes in a name.
        (r"git.\*", "git", "*", true),
        (r"git.\*", "git", "reset", false),
        (r"git.a\\b", "git", r"a\b", true),
        (r"git.\\*", "git", r"\x", true),
        (r"git.\\*", "git", "*", false),
        ("git.löschen", "git", "löschen", true),
    ] {
        assert_eq!(decision(&[(pattern, Deny)], server, name), about.then_some(Deny), "{pattern} on {server} {name}");
    }
}

#[test]
fn the_most_specific_rule_decides() {
    for (less, more) in [
        ("*", "git.*"),
        ("*", "*.reset"),
        ("*", "git.reset"),
        ("git.*", "git.reset"),
        ("*.reset", "git.reset"),
        ("git*.*", "git.*"),
        ("git.*", "git.re*"),
        ("git.re*", "git.res*"),
        ("git.*e*", "git.re*"),
        ("git.re*", "git.re*t"),
    ] {
        for (of_less, of_more) in [(Deny, Allow), (Allow, Deny), (Ask, Allow), (Allow, Ask), (Deny, Ask)] {
            let decided = decision(&[(less, of_less), (more, of_more)], "git", "reset");
            assert_eq!(decided, Some(of_more), "{more} is more specific than {less}");
        }
    }
}

#[test]
fn where_no_rule_is_more_specific_the_strictest_decides() {
    for (one, other) in [("git.*", "*.reset"), ("git.r*", "git.*t"), ("*", "*.*"), ("git.**", "git.*")] {
        for (of_one, of_other, strictest) in [(Allow, Deny, Deny), (Ask, Deny, Deny), (Allow, Ask, Ask)] {
            assert_eq!(decision(&[(one, of_one), (other, of_other)], "git", "reset"), Some(strictest));
            assert_eq!(decision(&[(one, of_other), (other, of_one)], "git", "reset"), Some(strictest));
        }
        assert_eq!(decision(&[(one, Allow), (other, Allow)], "git", "reset"), Some(Allow));
    }
    // A rule that is more specific than both ends the tie.
    assert_eq!(decision(&[("git.*", Allow), ("*.reset", Deny), ("git.reset", Allow)], "git", "reset"), Some(Allow));
}

#[test]
fn an_invalid_pattern_is_rejected() {
    let told = |pattern: &str| {
        let error = Rules::new(vec![rule("git.*", Allow), rule(pattern, Deny)]).unwrap_err();
        format!("{} [{}] {}", error, error.code(), error.hint().unwrap_or_default())
    };
    insta::assert_snapshot!(
        [told("git"), told("git."), told(".reset"), told(r"git.a\b"), told("git.\\"), told(&"x".repeat(5000))]
            .join("\n")
    );
    Rules::new(vec![rule("git.*", Deny)]).unwrap();
}

#[test]
fn too_many_rules_are_refused() {
    let many = |count: usize| Rules::new((0..count).map(|number| rule(&format!("git.t{number}"), Deny)).collect());
    assert_eq!(many(coracle_policy::MAX_RULES + 1).unwrap_err().code(), "rules_too_many");
    let most = many(coracle_policy::MAX_RULES).unwrap();
    assert_eq!(most.decisive(&names("git", "t9999")).map(|rule| rule.decision), Some(Deny));
}

#[test]
fn without_a_rule_only_destructive_tools_are_asked_about() {
    let policy = Policy::default();
    for (read_only, destructive, decision) in [
        (None, None, Allow),
        (None, Some(false), Allow),
        (None, Some(true), Ask),
        (Some(false), Some(true), Ask),
        (Some(true), Some(true), Allow),
        (Some(true), None, Allow),
        (Some(false), None, Allow),
    ] {
        let mut tool = tool("git", "reset");
        tool.hints = ToolHints { read_only, destructive, ..ToolHints::default() };
        let expected = Verdict {
            decision,
            reason: Reason::Default { destructive: decision == Ask },
            allow_line: r#"policy: { tools: { "git.reset": allow } }"#.to_owned(),
            quorum: None,
            is_about_this_call: false,
        };
        assert_eq!(policy.decide(&tool, &ToolNames::of_wire(&tool)), expected);
    }
}

#[test]
fn a_rule_overrides_what_a_tool_claims() {
    let mut harmless = tool("git", "reset");
    harmless.hints.read_only = Some(true);
    let mut harmful = tool("git", "reset");
    harmful.hints.destructive = Some(true);
    for decision in [Allow, Ask, Deny] {
        let policy = Policy::new(rules(&[("git.*", decision)]));
        for tool in [&harmless, &harmful] {
            let verdict = policy.decide(tool, &ToolNames::of_wire(tool));
            assert_eq!(verdict.decision, decision);
            let reason = Reason::Rule { pattern: "git.*".to_owned(), origin: "coracle.yaml:7".to_owned() };
            assert_eq!(verdict.reason, reason);
        }
    }
}
