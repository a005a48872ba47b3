//! Rules by Coracle's identifiers, and tools whose names look alike.

use super::{names, rules};
use coracle_policy::{KnownServer, Naming, Spellings, ToolNames};
use coracle_types::Decision::{self, Allow, Ask, Deny};
use std::sync::Arc;

/// Wire names with the identifiers that the catalogue derives from them.
const NAMED: &[Named] = &[
    ("delete-all", "delete_all", "delete_all"),
    ("admin.reset/now", "admin_reset_now", "admin_reset_now"),
    ("class", "class_", "class_"),
    ("Read", "Read", "Read"),
    ("list_files", "list_files", "list_files"),
];

/// Two tools with the same plain identifier, and two whose names differ only in an invisible character.
const TWINS: &[Named] = &[
    ("delete-all", "delete_all", "delete_all_2"),
    ("delete_all", "delete_all", "delete_all"),
    ("drop", "drop", "drop"),
    ("dr\u{200b}op", "dr_op", "dr_op"),
    ("Wipe", "Wipe", "Wipe"),
    ("wipe", "wipe", "wipe_2"),
];

type Named = (&'static str, &'static str, &'static str);

fn of_server(server: &str, identifier: &str, tools: &[Named], tool: &str) -> ToolNames {
    let naming = |(wire, plain, identifier): &Named| Naming { wire, plain, identifier };
    let servers = Spellings::of_all([Naming { wire: server, plain: identifier, identifier }]);
    let tools = Spellings::of_all(tools.iter().map(naming));
    ToolNames { server: Arc::clone(&servers[server]), tool: Arc::clone(&tools[tool]) }
}

fn decided(list: &[(&str, Decision)], names: &ToolNames) -> Option<Decision> {
    rules(list).decisive(names).map(|rule| rule.decision)
}

#[test]
fn a_rule_matches_the_name_on_the_wire_and_the_identifier() {
    for (pattern, tool, about) in [
        ("my-hy.delete-all", "delete-all", true),
        ("my_hy.delete_all", "delete-all", true),
        ("my-hy.delete_all", "delete-all", true),
        ("my_hy.delete_*", "delete-all", true),
        ("my-hy.delete-*", "delete-all", true),
        ("MY-HY.Delete_ALL", "delete-all", true),
        ("my-hy.delete\u{200b}_all", "delete-all", true),
        ("my_hy.*", "list_files", true),
        ("my_hy.admin_reset_*", "admin.reset/now", true),
        ("my_hy.admin.reset/*", "admin.reset/now", true),
        ("my_hy.class_", "class", true),
        ("my_hy.read", "Read", true),
        ("my_hy.delete_al", "delete-all", false),
        ("hy.delete_all", "delete-all", false),
        ("my_hy.delete_*", "list_files", false),
    ] {
        let names = of_server("my-hy", "my_hy", NAMED, tool);
        for decision in [Deny, Ask, Allow] {
            assert_eq!(decided(&[(pattern, decision)], &names), about.then_some(decision), "{pattern} on {tool}");
        }
    }
}

#[test]
fn between_spellings_the_most_specific_rule_decides_and_among_equals_the_strictest() {
    let names = of_server("my-hy", "my_hy", NAMED, "delete-all");
    for (less, more) in [
        ("my_hy.*", "my-hy.delete-all"),
        ("my-hy.delete-*", "my_hy.delete_all"),
        ("my_hy.delete_*", "my-hy.delete-all"),
        ("MY_HY.DELETE_*", "my-hy.delete-a*"),
    ] {
        for (of_less, of_more) in [(Deny, Allow), (Allow, Deny), (Deny, Ask)] {
            assert_eq!(decided(&[(less, of_less), (more, of_more)], &names), Some(of_more), "{more} and {less}");
        }
    }
    for (one, other) in [
        ("my_hy.delete_all", "my-hy.delete-all"),
        ("my_hy.delete_*", "my-hy.delete-*"),
        ("my-hy.Delete-All", "my-hy.delete-all"),
    ] {
        for (of_one, of_other, strictest) in [(Allow, Deny, Deny), (Deny, Allow, Deny), (Allow, Ask, Ask)] {
            assert_eq!(decided(&[(one, of_one), (other, of_other)], &names), Some(strictest), "{one} and {other}");
        }
    }
}

#[test]
fn a_twin_is_denied_with_its_tool_and_never_allowed_with_it() {
    let of = |tool: &str| of_server("hy", "hy", TWINS, tool);
    for (pattern, tool, twin) in [
        ("hy.delete_all", "delete_all", "delete-all"),
        ("hy.drop", "drop", "dr\u{200b}op"),
        ("hy.wipe", "wipe", "Wipe"),
        ("hy.Wipe", "Wipe", "wipe"),
    ] {
        for decision in [Deny, Ask] {
            let list = [(pattern, decision)];
            assert_eq!((decided(&list, &of(tool)), decided(&list, &of(twin))), (Some(decision), Some(decision)));
        }
        let list = [("hy.*", Deny), (pattern, Allow)];
        assert_eq!((decided(&list, &of(tool)), decided(&list, &of(twin))), (Some(Allow), Some(Deny)), "{pattern}");
    }
    // Rules that name both tools exactly apply as written.
    let both = [("hy.wipe", Allow), ("hy.Wipe", Deny)];
    assert_eq!((decided(&both, &of("wipe")), decided(&both, &of("Wipe"))), (Some(Allow), Some(Deny)));
    // The number identifies the tool whose name was taken.
    let numbered = [("hy.*", Deny), ("hy.delete_all_2", Allow)];
    assert_eq!(decided(&numbered, &of("delete-all")), Some(Allow));
    assert_eq!(decided(&numbered, &of("delete_all")), Some(Deny));
}

#[test]
fn if_the_tools_are_not_known_twins_are_denied_and_not_allowed() {
    let names = names("git", "Reset");
    assert_eq!(decided(&[("git.reset", Deny)], &names), Some(Deny));
    assert_eq!(decided(&[("git.reset", Allow)], &names), None);
    assert_eq!(decided(&[("git.Reset", Allow)], &names), Some(Allow));
}

#[test]
fn rules_that_match_nothing_are_found() {
    let known = |server: &str, tools: Option<&[&str]>| KnownServer {
        server: Arc::clone(&Spellings::of_all([Naming { wire: server, plain: server, identifier: server }])[server]),
        tools: tools.map(|tools| {
            let named = tools.iter().map(|wire| Naming { wire, plain: wire, identifier: wire });
            Spellings::of_all(named).into_values().collect()
        }),
    };
    let (git, db, unknown) =
        (known("git", Some(&["log", "reset"])), known("db", Some(&["query"])), known("slow", None));
    let list = [
        ("git.log", Deny),
        ("git.LOG", Ask),
        ("git.lgo", Deny),
        ("git.delete_*", Deny),
        ("db.*", Ask),
        ("*.query", Allow),
        ("*.drop", Deny),
        ("slow.anything", Deny),
        ("gti.reset", Deny),
        ("nobody*.reset", Deny),
        ("*", Ask),
    ];
    let rules = rules(&list);
    let found = |servers: &[KnownServer]| -> Vec<String> {
        rules.without_effect(servers).into_iter().map(|rule| rule.pattern.clone()).collect()
    };
    assert_eq!(found(&[git.clone(), db.clone()]), ["git.lgo", "git.delete_*", "*.drop"]);
    // A rule for all servers may match a tool of a server that is not known yet.
    assert_eq!(found(&[git.clone(), db.clone(), unknown.clone()]), ["git.lgo", "git.delete_*"]);
    assert_eq!(found(std::slice::from_ref(&unknown)), Vec::<String>::new());
    let servers = [git.server, db.server, unknown.server];
    let without: Vec<&str> = rules.without_server(&servers).iter().map(|rule| rule.pattern.as_str()).collect();
    assert_eq!(without, ["gti.reset"]);
}
