//! Tools of each profile, and the results of Coracle's own tools.

use super::driver::{GENERATIONS, Up, call, first, stdio, steps, text};
use crate::lab::{Bridge, npm};
use coracle_testing::harness::Coracle;
use serde_json::{Value, json};
use std::fs;

fn tools() -> Value {
    json!({ "do": "tools" })
}

#[test]
fn profile_full_has_the_tools_and_results_that_programs_rely_on() {
    let bridge = Bridge::new(first());
    let registry = bridge.coracle.home().join("registry");
    fs::create_dir_all(registry.join("travel")).unwrap();
    let away = json!({ "name": "away", "server": "far", "description": "Goes to a remote place", "url": "https://far.example/mcp" });
    fs::write(registry.join("travel/far.json"), away.to_string()).unwrap();
    bridge.settings(&json!({
        "mcpServers": { "plain": bridge.plain("plain"), "memory": npm("memory", &[]), "gone": { "command": "/gone" } },
        "search": { "registry_dir": registry },
    }));
    let up = Up::start(&bridge.coracle, &["--profile", "full"]);
    let source =
        "def f():\n    \"\"\"What it does.\"\"\"\n\nclass C:\n    def m(self):\n        \"\"\"Of a class.\"\"\"\n";
    let plan = [
        tools(),
        call("write_file", &json!({ "file_path": "deep/er/code.py", "content": source })),
        call("read_file", &json!({ "file_path": "deep/er/code.py" })),
        call("read_file", &json!({ "file_path": "deep/er/code.py", "offset": 1, "line_count": 1 })),
        call("read_docstring", &json!({ "file_path": "deep/er/code.py", "function_name": "C.m" })),
        call("execute_bash", &json!({ "command": "wc -l < deep/er/code.py; exit 3" })),
        call("list_servers", &json!({})),
        call("get_server_tools", &json!({ "server_name": "plain" })),
        call("list_tool_categories", &json!({})),
        call("list_available_tools", &json!({})),
        call("search_tools", &json!({ "query": "echo", "limit": 1, "detail_level": "full" })),
        call("get_tool_definition", &json!({ "tool_name": "plain.ecko" })),
        call("get_version", &json!({})),
        call("get_execution_stats", &json!({})),
        call("execute_code", &json!({ "code": "6 * 7" })),
        call("read_file", &json!({ "file_path": "/etc/shadow" })),
        call("write_file", &json!({ "file_path": "../../x", "content": "" })),
        call("read_docstring", &json!({ "file_path": "deep/er/code.py", "function_name": "g" })),
        call("get_server_tools", &json!({ "server_name": "nope" })),
        call("search_tools", &json!({ "query": "x", "category": "nope" })),
        call("search_tools", &json!({ "query": "x", "server": "nope" })),
        call("search_tools", &json!({ "query": "x", "detail_level": "most" })),
        call("get_tool_definition", &json!({ "tool_name": "far.away" })),
        call("search_tools", &json!({ "query": "go somewhere remote" })),
        call("search_tools", &json!({ "query": "", "limit": 100, "max_tokens": 60 })),
        call("search_tools", &json!({ "query": "", "limit": 100, "server": "memory", "detail_level": "name" })),
    ];
    let all = steps(up.server(), "2026-07-28", &plan);
    let names = all[0]["value"].as_array().unwrap();
    assert_eq!(names.len(), coracle_server::tool_names().len(), "{names:?}");
    let whole = |at: usize| &all[at]["value"]["structuredContent"];
    assert_eq!(text(&all[1]), format!("Successfully wrote {} bytes to deep/er/code.py", source.len()));
    assert_eq!(text(&all[2]), source);
    assert_eq!(text(&all[3]), "    \"\"\"What it does.\"\"\"\n");
    assert_eq!(text(&all[4]), "Of a class.");
    assert_eq!(*whole(5), json!({ "exit_code": 3, "stdout": "6\n", "stderr": "" }));
    assert_eq!(whole(6)["count"], 3, "{:#}", all[6]);
    let gone = whole(6)["servers"].as_array().unwrap().iter().find(|server| server["name"] == "gone").unwrap();
    assert!(gone["state"] == "failed" && gone["reason"].as_str().unwrap().contains("/gone"), "{gone}");
    assert!(whole(7)["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "plain.echo"), "{:#}", all[7]);
    assert!(whole(8)["count"].as_u64().unwrap() >= 2, "{:#}", all[8]);
    assert!(text(&all[9]).contains("plain.echo: ") && text(&all[9]).contains("memory."), "{:#}", all[9]);
    assert_eq!(whole(10)["tools"][0]["input_schema"]["type"], "object", "{:#}", all[10]);
    assert!(all[11]["value"]["isError"] == true && text(&all[11]).contains("plain.echo"), "{:#}", all[11]);
    assert_eq!(whole(12)["name"], "coracle");
    assert_eq!(whole(13)["tool_registry"]["servers"], 2, "{:#}", all[13]);
    for field in
        ["execution_id", "success", "result", "output", "stdout", "stderr", "exit_code", "execution_time_ms", "limits"]
    {
        assert!(whole(14).get(field).is_some(), "{field}: {:#}", all[14]);
    }
    for refused in &all[15..23] {
        assert_eq!(refused["value"]["isError"], true, "{refused:#}");
    }
    assert!(text(&all[17]).contains("f, C"), "{:#}", all[17]);
    assert!(text(&all[18]).contains("plain"), "{:#}", all[18]);
    assert!(text(&all[19]).contains("there are: "), "{:#}", all[19]);
    assert!(text(&all[20]).contains("plain"), "{:#}", all[20]);
    assert!(text(&all[22]).contains("coracle servers add far --url https://far.example/mcp"), "{:#}", all[22]);
    assert!(
        whole(23)["tools"][0]["name"] == "far.away" && whole(23)["tools"][0]["connect"].is_string(),
        "{:#}",
        all[23]
    );
    assert!(coracle_server::count_tokens(text(&all[24])) < 120, "{:#}", all[24]);
    assert!(text(&all[24]).contains("more matches exceed max_tokens"), "{:#}", all[24]);
    let of_memory: Vec<&str> =
        whole(25)["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(of_memory.len() > 5 && of_memory.iter().all(|name| name.starts_with("memory.")), "{of_memory:?}");
}

#[test]
fn exactly_the_named_tools_are_offered() {
    let coracle = Coracle::new(first());
    for mode in GENERATIONS {
        let some = stdio(&coracle, &["--tools", "read_file,execute_bash"]);
        let outcomes = steps(
            some,
            mode,
            &[
                tools(),
                call("execute_bash", &json!({ "command": "echo hello" })),
                call("execute_code", &json!({ "code": "1" })),
            ],
        );
        assert_eq!(outcomes[0]["value"], json!(["read_file", "execute_bash"]), "{mode}");
        assert_eq!(outcomes[1]["value"]["structuredContent"]["stdout"], "hello\n", "{mode}");
        assert!(outcomes[2]["error"].as_str().unwrap().contains("no tool"), "{mode}: {}", outcomes[2]);
    }
    let output = coracle.command().args(["mcp", "--tools", "execute_code,nope"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nope") && said.contains("execute_bash") && output.stdout.is_empty(), "{said}");
}

#[test]
fn the_gateway_forwards_everything_unchanged() {
    let bridge = Bridge::new(first());
    bridge.servers(&json!({ "everything": npm("everything", &["stdio"]), "plain": bridge.plain("plain") }));
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    for server in [up.server(), stdio(&bridge.coracle, &["--profile", "direct"])] {
        for mode in GENERATIONS {
            let outcomes = steps(
                server.clone(),
                mode,
                &[
                    tools(),
                    call("get-sum", &json!({ "a": 2, "b": 40 })),
                    json!({ "do": "resources" }),
                    json!({ "do": "prompts" }),
                    json!({ "do": "prompt", "name": "simple-prompt" }),
                    call("wipe", &json!({ "what": "the disk" })),
                    call("nope", &json!({})),
                ],
            );
            let names = outcomes[0]["value"].as_array().unwrap();
            assert!(names.contains(&json!("get-sum")) && names.contains(&json!("wipe")), "{mode}: {names:?}");
            assert!(!names.contains(&json!("execute_code")), "{mode}");
            assert!(text(&outcomes[1]).contains("42"), "{mode}: {:#}", outcomes[1]);
            assert!(!outcomes[2]["value"].as_array().unwrap().is_empty(), "{mode}: {:#}", outcomes[2]);
            assert!(outcomes[3]["value"].as_array().unwrap().contains(&json!("simple-prompt")), "{mode}");
            assert!(outcomes[4]["value"]["messages"][0].is_object(), "{mode}: {:#}", outcomes[4]);
            // The policy also applies to the gateway, and this client cannot be asked.
            assert_eq!(outcomes[5]["value"]["isError"], true, "{mode}: {:#}", outcomes[5]);
            assert!(text(&outcomes[5]).contains("policy: { tools:"), "{mode}: {:#}", outcomes[5]);
            assert!(outcomes[6]["error"].as_str().unwrap().contains("nope"), "{mode}: {:#}", outcomes[6]);
        }
    }
    assert_eq!(bridge.lines("plain"), Vec::<String>::new(), "the disk was wiped");
}
