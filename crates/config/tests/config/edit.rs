//! Changes to the file as text: only the entry changes.

use coracle_config::McpServer;
use coracle_config::edit::{
    EditError, Existing, add_server, add_variables, read, remove_policy, remove_server, set_policy, write,
};
use coracle_types::{Decision, Secret, ServerName};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

fn git() -> McpServer {
    McpServer {
        command: Some("uvx".to_owned()),
        args: ["mcp-server-git", "--repository", "~/a b", "@scope/x", "8080", "no"].map(Secret::new).to_vec(),
        env: BTreeMap::from([("TOKEN".to_owned(), Secret::new("${TOKEN}"))]),
        start_timeout: Some(5.0),
        ..McpServer::default()
    }
}

fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

const FILES: &[(&str, &str)] = &[
    ("empty", ""),
    ("comment only", "# mine\n"),
    ("no servers", "# mine\nlog: { level: info } # loud\n"),
    ("no last line break", "log:\n  level: info"),
    ("null", "mcpServers: # none yet\nlog: { level: info }\n"),
    ("empty flow", "mcpServers: {} # none yet\nlog: { level: info }\n"),
    ("flow", "mcpServers: { time: { command: uvx, args: [\"a}b\", 'it''s'] } } # one\n"),
    ("tight flow", "mcpServers: {time: {command: uvx}}\n"),
    (
        "flow on lines",
        "mcpServers: {\n  time: { command: uvx }, # a comment with }\n  # another\n  more: { command: don't },\n}\n",
    ),
    (
        "block",
        "mcpServers:\n    # the first\n    time:\n        command: uvx\n        args:\n        - a\n        # inside\n\n    # the second\n    more: { command: x } # why\n\n# about the log\nlog: { level: info }\n",
    ),
    ("windows", "mcpServers:\r\n  time:\r\n    command: uvx\r\nlog:\r\n  level: info\r\n"),
    ("json", "{\"mcpServers\": {\"time\": {\"command\": \"uvx\"}}}\n"),
    ("quoted key", "\"mcpServers\":\n  time: { command: uvx }\n"),
];

#[test]
fn a_server_is_added_in_the_style_of_the_file() {
    let edited: Vec<String> = FILES
        .iter()
        .map(|(label, text)| format!("== {label}\n{}", add_server(text, &name("git"), &git(), Existing::Keep).unwrap()))
        .collect();
    insta::assert_snapshot!(edited.join("\n"));
}

#[test]
fn adding_and_removing_gives_the_text_back() {
    for (label, text) in FILES {
        let added = add_server(text, &name("git"), &git(), Existing::Keep).unwrap();
        let removed = remove_server(&added, "git").unwrap();
        // A section that was added stays, and a superfluous comma is removed.
        let changed =
            ["flow on lines", "empty", "comment only", "no servers", "no last line break", "null", "empty flow"];
        if !changed.contains(label) {
            assert_eq!(removed, *text, "{label}");
        }
        assert!(matches!(remove_server(&removed, "git"), Err(EditError::NotFound { .. })), "{label}");
    }
}

/// Texts with rules for tools.
const RULES: &[(&str, &str)] = &[
    ("empty", ""),
    ("other section", "# mine\nlog: { level: info }\n"),
    ("policy without tools", "policy:\n  approval_seconds: 9 # soon\nlog: { level: info }\n"),
    ("null", "policy:\n  tools:\nlog: { level: info }\n"),
    ("flow", "policy: { tools: { \"git.*\": ask } } # careful\n"),
    ("empty flow", "policy: { tools: {} }\n"),
    ("block", "policy:\n  tools:\n    # git\n    git.*: ask\n    'git.push': deny # never\nlog: { level: info }\n"),
    ("json", "{\"policy\": {\"tools\": {\"git.push\": \"deny\"}}}\n"),
];

#[test]
fn a_rule_is_set_and_removed_in_the_style_of_the_file() {
    let mut edited = Vec::new();
    for (label, text) in RULES {
        let set = set_policy(text, "git.push", Decision::Allow).unwrap();
        edited.push(format!("== {label}\n{set}"));
        assert_eq!(set_policy(&set, "git.push", Decision::Allow).unwrap(), set, "{label}");
        let removed = remove_policy(&set, "git.push").unwrap().unwrap();
        assert_eq!(remove_policy(&removed, "git.push").unwrap(), None, "{label}");
        edited.push(format!("-- removed\n{removed}"));
    }
    insta::assert_snapshot!(edited.join("\n"));
    let shared = "all: &all { tools: { a.b: ask } }\npolicy: *all\n";
    assert_eq!(set_policy(shared, "git.push", Decision::Deny).unwrap_err().code(), "edit_by_hand");
    assert_eq!(set_policy("policy: [", "git.push", Decision::Deny).unwrap_err().code(), "config_syntax");
    let odd = "policy:\n  tools:\n    a.b: ask\n";
    let pattern = "s\u{e9}rver.\"two: words\\*\" #";
    let set = set_policy(odd, pattern, Decision::Ask).unwrap();
    assert_eq!(remove_policy(&set, pattern).unwrap().as_deref(), Some(odd));
}

#[test]
fn removing_leaves_the_others() {
    let edited: Vec<String> = FILES
        .iter()
        .filter(|(_, text)| text.contains("time"))
        .map(|(label, text)| format!("== {label}\n{}", remove_server(text, "time").unwrap()))
        .collect();
    insta::assert_snapshot!(edited.join("\n"));
}

#[test]
fn an_existing_server_is_replaced_only_if_asked() {
    let text = "mcpServers:\n  git: { command: x }\n";
    assert!(matches!(add_server(text, &name("git"), &git(), Existing::Keep), Err(EditError::Exists { .. })));
    let edited = add_server(text, &name("git"), &git(), Existing::Replace).unwrap();
    assert!(edited.contains("command: uvx") && !edited.contains("command: x\n"), "{edited}");
}

#[test]
fn unsafe_changes_are_refused() {
    for text in [
        "mcpServers:\n  a: &a { command: x }\n  b: *a\n",
        "base: &b\n  a: { command: x }\nmcpServers: *b\n",
        "mcp_servers: [{ name: a, url: 'http://x' }]\n",
        "mcpServers: ~\nmcp_servers: [{ name: a, url: 'http://x' }]\n",
    ] {
        let error = remove_server(text, "a").unwrap_err();
        assert_eq!(error.code(), "edit_by_hand", "{text}: {error}");
    }
    for text in ["log: { level: info }\n...\n", "mcpServers: null\n", "{ log: { level: info } }\n", "[1]\n"] {
        let error = add_server(text, &name("git"), &git(), Existing::Keep).unwrap_err();
        assert_eq!(error.code(), "edit_by_hand", "{text}: {error}");
    }
    assert_eq!(remove_server("a: [", "x").unwrap_err().code(), "config_syntax");
}

#[test]
fn a_new_file_is_private_and_an_old_one_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/coracle.yaml");
    assert_eq!(read(&path).unwrap(), "");
    write(&path, "a: 1\n").unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((read(&path).unwrap().as_str(), mode(&path)), ("a: 1\n", 0o600));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    write(&link, "a: 2\n").unwrap();
    assert_eq!((read(&path).unwrap().as_str(), mode(&path)), ("a: 2\n", 0o640));
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn variables_are_added_once() {
    let variables = BTreeMap::from([
        ("A".to_owned(), Secret::new("x\"y\\z $HOME # ${B}\nnext 'q'")),
        ("B".to_owned(), Secret::new("plain")),
    ]);
    let edited = add_variables("# mine\nC=1", &variables).unwrap();
    insta::assert_snapshot!(edited);
    assert_eq!(add_variables(&edited, &variables).unwrap(), edited);
    let other = BTreeMap::from([("B".to_owned(), Secret::new("other"))]);
    assert_eq!(add_variables(&edited, &other).unwrap_err().code(), "edit_by_hand");
}

/// Files of several shapes: servers with comments between them, and sections before and after.
fn file() -> impl Strategy<Value = String> {
    let server = prop_oneof![
        Just("{ command: x, args: [a, 'b, c'] }".to_owned()),
        Just("\n  # about\n      command: x\n      args:\n        - \"#no comment\"\n        - |\n          a\n\n          b".to_owned()),
        Just("\n      url: https://example.com/mcp # where\n      headers:\n        A: ${B}".to_owned()),
    ];
    let comment = prop_oneof![Just(""), Just("    # about the next\n"), Just("\n"), Just("# at the margin\n")];
    let servers = proptest::collection::vec((comment, server), 0..5);
    let around =
        prop_oneof![Just(""), Just("# text\n"), Just("log:\n  level: info # x\n"), Just("calls: {concurrency: 3}\n\n")];
    (around.clone(), servers, prop_oneof![Just(""), Just("\nguardrails:\n  enabled: true\n")]).prop_map(
        |(before, servers, after)| {
            let mut text = before.to_owned();
            if !servers.is_empty() {
                text.push_str("mcpServers: # mine\n");
                for (index, (comment, server)) in servers.iter().enumerate() {
                    text = format!("{text}{comment}    s{index}: {}\n", server.trim_start_matches(' '));
                }
            }
            text + after
        },
    )
}

proptest! {
    #[test]
    fn other_lines_never_change(text in file(), args in proptest::collection::vec(".{0,12}", 0..4), value in "\\PC{0,20}") {
        let entry = McpServer {
            command: Some("x".to_owned()),
            args: args.into_iter().map(Secret::new).collect(),
            env: BTreeMap::from([("A".to_owned(), Secret::new(value))]),
            ..McpServer::default()
        };
        match add_server(&text, &name("added"), &entry, Existing::Keep) {
            Err(error) => prop_assert_eq!(error.code(), "edit_by_hand"),
            Ok(edited) => {
                // All old lines are still there, in order.
                let mut new = edited.lines();
                for line in text.lines() {
                    prop_assert!(new.any(|candidate| candidate == line), "{line:?} is gone from\n{edited}");
                }
                let removed = remove_server(&edited, "added").unwrap();
                if text.contains("mcpServers") {
                    prop_assert_eq!(removed, text);
                }
            }
        }
    }

    #[test]
    fn no_text_causes_a_panic(text in "[\\[\\]{}:,#'\"\\-&*|>!a \n]{0,60}") {
        let text = text.replace('a', "mcpServers");
        let _ = add_server(&text, &name("git"), &McpServer::default(), Existing::Keep);
        let _ = remove_server(&text, "mcpServers");
    }
}
