//! The official clients list and call tools, in both generations of the protocol and over both transports.

use super::driver::{GENERATIONS, Plan, Sdk, Up, assert_nothing_left, call, code, first, follow, stdio, text};
use crate::lab::{Bridge, npm, pypi, repository};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::place::installed;
use serde_json::{Value, json};
use std::process::Command;

/// Real servers of three generations: one with `server/discover`, one without, one of 2024.
fn bridge(who: As) -> (Bridge, String) {
    let bridge = Bridge::new(who);
    let repository = repository(&bridge);
    let github = installed("npm-clients/node_modules/@modelcontextprotocol/server-github/dist/index.js");
    bridge.servers(&json!({
        "git": pypi("git", &["--repository", &repository]),
        "files": npm("filesystem", &[&repository]),
        "github": { "command": "node", "args": [github] },
    }));
    (bridge, repository)
}

fn talk(sdk: Sdk, mode: &str, server: Value, repository: &str) {
    let program = format!(
        "from servers.git import git_log\nfrom servers.files import read_text_file\n\
         from servers.github import get_issue\n\
         log = git_log(repo_path={repository:?})\n\
         print('The first' in str(log), callable(get_issue))\n\
         read_text_file(path={repository:?} + '/README')"
    );
    let steps = [
        json!({ "do": "tools" }),
        code(&program),
        call("search_tools", &json!({ "query": "commit history log" })),
        call("get_tool_definition", &json!({ "tool_name": "git.git_log" })),
        call("execute_code", &json!({ "code": "const n: number = 6; n * 7", "language": "typescript" })),
        call("execute_code", &json!({ "code": "raise ValueError('no')" })),
        json!({ "do": "prompts" }),
    ];
    let outcomes = follow(sdk, &Plan { server, mode, answers: &[], steps: &steps });
    let what = format!("{sdk:?} {mode}");
    assert_eq!(outcomes[0]["value"], json!(["execute_code", "search_tools", "get_tool_definition"]), "{what}");
    let run = &outcomes[1]["value"];
    assert!(!run["isError"].as_bool().unwrap_or_default(), "{what}: {run:#}");
    assert!(run["structuredContent"]["result"].to_string().contains("hello"), "{what}: {run:#}");
    assert!(text(&outcomes[1]).contains("True True"), "{what}: {run:#}");
    assert!(text(&outcomes[2]).starts_with("git.git_log"), "{what}: {}", outcomes[2]);
    assert!(text(&outcomes[3]).contains("def git_log("), "{what}: {}", outcomes[3]);
    assert_eq!(outcomes[4]["value"]["structuredContent"]["result"], 42, "{what}: {}", outcomes[4]);
    assert_eq!(outcomes[5]["value"]["isError"], true, "{what}");
    assert!(text(&outcomes[5]).contains("ValueError: no"), "{what}: {}", outcomes[5]);
    assert_eq!(outcomes[6]["value"], json!(["agent_system_prompt"]), "{what}");
}

each_user!(official_clients_list_and_call_over_http);
fn official_clients_list_and_call_over_http(who: As) {
    let (bridge, repository) = bridge(who);
    let up = Up::start(&bridge.coracle, &[]);
    for mode in GENERATIONS {
        for sdk in [Sdk::Python, Sdk::TypeScript] {
            talk(sdk, mode, up.server(), &repository);
        }
    }
    drop(up);
    assert_nothing_left(&bridge.coracle);
}

each_user!(official_clients_list_and_call_over_stdio);
fn official_clients_list_and_call_over_stdio(who: As) {
    let (bridge, repository) = bridge(who);
    for mode in GENERATIONS {
        for sdk in [Sdk::Python, Sdk::TypeScript] {
            talk(sdk, mode, stdio(&bridge.coracle, &[]), &repository);
            assert_nothing_left(&bridge.coracle);
        }
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let (bridge, _) = bridge(first());
    let up = Up::start(&bridge.coracle, &[]);
    let program = installed("npm-clients/node_modules/.bin/mcp-inspector");
    let home = bridge.coracle.home();
    let mut by_stdio = vec![env!("CARGO_BIN_EXE_coracle").to_owned(), "mcp".to_owned()];
    by_stdio.extend(["-e".to_owned(), format!("CORACLE_HOME={}", home.display())]);
    let by_http = vec![up.url(), "--transport".to_owned(), "http".to_owned()];
    for target in [by_stdio, by_http] {
        let inspect = |more: &[&str]| -> Value {
            let output = Command::new("node").arg(&program).arg("--cli").args(&target).args(more).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{target:?} {error}: {output:?}"))
        };
        let listed = inspect(&["--method", "tools/list"]);
        let names: Vec<&Value> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["execute_code", "search_tools", "get_tool_definition"]);
        let called = inspect(&["--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", "code=6*7"]);
        assert_eq!(called["structuredContent"]["result"], 42, "{called:#}");
    }
}

#[test]
fn up_prints_what_is_served_and_how_to_connect() {
    let (bridge, _) = bridge(first());
    let up = Up::start(&bridge.coracle, &[]);
    coracle_testing::wait::eventually("all servers are named", || up.said().matches("  server ").count() == 3);
    let said = up.said();
    for part in
        [&up.url(), "profile code", "sandbox", "native", "coracle mcp --install", "git: ", "files: ", "github: "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(super::wire::status(&super::wire::get(&up.address, "/readyz")), 200);
    assert_eq!(super::wire::status(&super::wire::get(&up.address, "/livez")), 200);
    assert!(super::wire::get(&up.address, "/health").contains("\"status\":\"ok\""));
}
