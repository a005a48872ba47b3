//! The suggested configuration line allows its tool and no other.

use super::{rule, tool};
use coracle_policy::{Policy, Rules, ToolNames};
use coracle_types::Decision::{self, Allow, Deny};
use coracle_types::Tool;
use proptest::prelude::*;
use serde_json::Value;

fn line(tool: &Tool) -> String {
    Policy::default().decide(tool, &ToolNames::of_wire(tool)).allow_line
}

fn decided(policy: &Policy, tool: &Tool) -> Decision {
    policy.decide(tool, &ToolNames::of_wire(tool)).decision
}

/// The rules that a YAML parser reads from the line.
fn read(line: &str) -> Vec<(String, Decision)> {
    let value: Value = serde_saphyr::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let policy = value.as_object().filter(|policy| policy.len() == 1).unwrap();
    let tools = policy["policy"].as_object().filter(|tools| tools.len() == 1).unwrap();
    let entries = tools["tools"].as_object().unwrap();
    entries.iter().map(|(key, value)| (key.clone(), serde_json::from_value(value.clone()).unwrap())).collect()
}

/// Checks a configuration that denies everything, with and without the line.
fn check(allowed: &Tool, others: &[Tool]) {
    let line = line(allowed);
    assert!(line.is_ascii() && !line.contains(|c: char| c.is_ascii_control()), "{line:?}");
    let read = read(&line);
    assert_eq!(read.len(), 1, "{line}");
    let all = [("*".to_owned(), Deny), (format!("{}.*", allowed.server), Deny)];
    let rules = |list: &[(String, Decision)]| {
        Policy::new(Rules::new(list.iter().map(|(text, decision)| rule(text, *decision)).collect()).unwrap())
    };
    assert_eq!(decided(&rules(&all), allowed), Deny);
    let with_line = rules(&[&all[..], &read].concat());
    assert_eq!(decided(&with_line, allowed), Allow, "{line}");
    for other in others {
        assert_eq!(decided(&with_line, other), if other == allowed { Allow } else { Deny }, "{line} {other:?}");
    }
}

const HOSTILE: &[&str] = &[
    "git_reset",
    "*",
    "**",
    r"\",
    r"\*",
    r#"": allow } }, x: { "y"#,
    "a\": deny\n  \"*",
    "# no comment",
    "{}[],&*!|>'%@`",
    "\u{1b}[2J\u{7}",
    "\u{85}\u{2028}\u{2029}\u{feff}",
    "\u{202e}gnirts",
    "löschen 删除 🗑",
    " leading and trailing ",
    "a.b.c",
    "null",
    "\0",
];

#[test]
fn a_line_allows_one_tool_whatever_it_is_called() {
    let tools: Vec<Tool> = HOSTILE.iter().map(|name| tool("git", name)).collect();
    for allowed in &tools {
        check(allowed, &tools);
    }
}

#[test]
fn lines_of_hostile_names() {
    let lines: Vec<String> = HOSTILE.iter().map(|name| line(&tool("git", name))).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_line_for_a_very_long_name_is_still_read() {
    for length in [900, 990, 1_000, 1_020, 1_030, 2_000] {
        let allowed = tool("git", &"x".repeat(length));
        check(&allowed, &[tool("git", "x"), tool("git", &"x".repeat(length + 1))]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_line_allows_its_tool(server in "[A-Za-z0-9_][A-Za-z0-9_-]{0,10}", name in "(?s).{1,40}", other in "(?s).{1,3}") {
        check(&tool(&server, &name), &[tool(&server, &other), tool(&format!("{server}x"), &name)]);
    }
}
