//! Snapshots of generated files, with one folder of fixtures per case.

use crate::definitions;
use crate::fixtures::{cases, fixture};
use coracle_catalog::{ServerTools, generate};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;

#[test]
fn every_case_matches_its_snapshot() {
    for case in cases() {
        let mut text = String::new();
        for (path, content) in generate(&[fixture(&case)]).files() {
            write!(text, "━━━ {path}\n{content}").unwrap();
        }
        insta::with_settings!({ snapshot_suffix => case.as_str(), omit_expression => true }, {
            insta::assert_snapshot!("tree", text);
        });
    }
}

#[test]
fn the_order_of_servers_tools_and_keys_does_not_matter() {
    let mut servers: Vec<ServerTools> = cases().iter().map(|case| fixture(case)).collect();
    let first = generate(&servers);
    servers.reverse();
    for server in &mut servers {
        server.tools.reverse();
        for tool in &mut server.tools {
            let tool = Arc::make_mut(tool);
            tool.input_schema = tool.input_schema.object().into_iter().rev().collect();
        }
    }
    assert_eq!(first, generate(&servers));
    assert_eq!(first.digest(), generate(&servers).digest());
    Arc::make_mut(&mut servers[0].tools[0]).description.push('.');
    assert_ne!(first.digest(), generate(&servers).digest());
}

#[test]
fn servers_whose_names_clash_have_separate_folders() {
    let servers = ["a-b", "a_b", "A_B", "import", "3d"].map(|name| definitions::server(name, None, &[]));
    let tree = generate(&servers);
    let folders: Vec<&str> = tree.files().filter_map(|(path, _)| path.strip_suffix("/README.md")).collect();
    assert_eq!(folders, ["servers/A_B", "servers/_3d", "servers/a_b_2", "servers/a_b_3", "servers/import_"]);
}

#[test]
fn no_path_leaves_the_tree() {
    for case in cases() {
        for (path, _) in generate(&[fixture(&case)]).files() {
            let parts: Vec<&str> = path.split('/').collect();
            assert_eq!(parts[0], "servers");
            assert!(parts.len() <= 3, "{path}");
            let plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains('\\');
            assert!(parts.iter().all(plain), "{path}");
        }
    }
}

#[test]
fn text_for_the_terminal_is_cleaned_and_values_are_unchanged() {
    let hidden = "a\u{1b}[31m\u{202e}b";
    let schema = serde_json::json!({ "type": "object", "description": hidden, "properties": {
        "description": { "type": "string", "title": hidden, "enum": [hidden], "default": { "title": hidden } },
    } });
    let tools = [serde_json::json!({ "name": "t", "description": hidden, "inputSchema": schema })];
    let tree = generate(&[definitions::server("s", None, &tools)]);
    let written: Value = serde_json::from_str(tree.get("servers/s/tools.json").unwrap()).unwrap();
    let tool = &written["tools"][0];
    assert_eq!(tool["description"], "a[31mb");
    assert_eq!(tool["input_schema"]["description"], "a[31mb");
    let property = &tool["input_schema"]["properties"]["description"];
    assert_eq!(
        property,
        &serde_json::json!({ "type": "string", "title": "a[31mb", "enum": [hidden], "default": { "title": hidden } })
    );
}
