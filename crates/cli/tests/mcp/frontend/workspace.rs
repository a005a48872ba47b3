//! Files and state of the workspace as tools and resources.

use super::driver::{Up, call, code, first, steps};
use coracle_testing::harness::Coracle;
use serde_json::{Value, json};

fn fields(outcome: &Value) -> &Value {
    &outcome["value"]["structuredContent"]
}

fn is_error(outcome: &Value) -> bool {
    outcome["value"]["isError"] == true
}

#[test]
fn files_and_state_are_tools() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &["--profile", "full"]);
    for mode in super::driver::GENERATIONS {
        let outcomes = steps(
            up.server(),
            mode,
            &[
                call("write_workspace_file", &json!({ "filename": "notes/a.txt", "content": "grün\n" })),
                call("read_workspace_file", &json!({ "filename": "/workspace/notes/a.txt" })),
                call("list_workspace_files", &json!({ "subpath": "notes" })),
                call("get_state", &json!({ "key": format!("none-{mode}") })),
                call("save_state", &json!({ "key": mode, "value": { "step": 3, "done": [1, null] } })),
                call("get_state", &json!({ "key": mode })),
                call("save_state", &json!({ "state": [mode], "filename": "state.json" })),
                call("get_state", &json!({})),
                call("write_file", &json!({ "file_path": "b.txt", "content": "ü" })),
                call("read_file", &json!({ "file_path": "notes/a.txt", "offset": 0, "line_count": 1 })),
                call("get_execution_stats", &json!({})),
                code("open('notes/a.txt', 'a').write('more'); import json; json.load(open('state/state.json'))"),
                json!({ "do": "read", "uri": "coracle://workspace/notes/a.txt" }),
                json!({ "do": "resources" }),
            ],
        );
        assert_eq!(outcomes[0]["value"]["content"][0]["text"], "Successfully wrote 6 bytes to notes/a.txt");
        let read = fields(&outcomes[1]);
        assert_eq!(read["success"], true, "{:#}", outcomes[1]);
        assert_eq!((&read["content"], &read["size"]), (&json!("grün\n"), &json!(6)), "{read:#}");
        assert_eq!(read["filename"], "/workspace/notes/a.txt");
        let listed = fields(&outcomes[2]);
        assert_eq!((&listed["path"], &listed["count"]), (&json!("notes"), &json!(1)), "{listed:#}");
        assert_eq!(listed["files"][0]["name"], "a.txt", "{listed:#}");
        let none = fields(&outcomes[3]);
        assert_eq!((&none["success"], &none["exists"], &none["value"]), (&json!(true), &json!(false), &Value::Null));
        assert_eq!(fields(&outcomes[5])["value"], json!({ "step": 3, "done": [1, null] }), "{:#}", outcomes[5]);
        assert_eq!(fields(&outcomes[7])["value"], json!([mode]), "{:#}", outcomes[7]);
        assert_eq!(outcomes[8]["value"]["content"][0]["text"], "Successfully wrote 2 bytes to b.txt");
        assert_eq!(outcomes[9]["value"]["content"][0]["text"], "grün\n");
        let workspace = &fields(&outcomes[10])["workspace"];
        assert!(workspace["bytes"].as_u64().unwrap() > 0 && workspace["files"].as_u64().unwrap() >= 4, "{workspace}");
        assert_eq!(workspace["quota"]["files"], 100_000, "{workspace}");
        // Code can use files that were written from outside.
        assert_eq!(fields(&outcomes[11])["result"], json!([mode]), "{:#}", outcomes[11]);
        assert_eq!(outcomes[12]["value"]["contents"][0]["text"], "grün\nmore", "{:#}", outcomes[12]);
        let resources = outcomes[13]["value"].as_array().unwrap();
        assert!(resources.contains(&json!("coracle://workspace/notes/a.txt")), "{resources:?}");
    }
}

#[test]
fn paths_cannot_leave_the_workspace() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &["--profile", "full"]);
    let made = steps(up.server(), "legacy", &[code("import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')")]);
    assert_eq!(fields(&made[0])["success"], true, "{:#}", made[0]);
    let long = "x".repeat(300);
    for path in ["../x", "/etc/passwd", "link", "pipe", "a/../../x", "a\u{0}b", &long, ".", "/workspace/../x"] {
        let outcomes = steps(
            up.server(),
            "legacy",
            &[
                call("read_workspace_file", &json!({ "filename": path })),
                call("write_workspace_file", &json!({ "filename": path, "content": "x" })),
                call("get_state", &json!({ "key": path })),
                call("save_state", &json!({ "key": path, "value": 1 })),
            ],
        );
        for outcome in &outcomes[..2] {
            assert!(is_error(outcome), "{path:?}: {outcome:#}");
            assert_eq!(fields(outcome)["success"], false, "{path:?}: {outcome:#}");
            assert!(fields(outcome)["error"].as_str().unwrap().len() > 10, "{path:?}: {outcome:#}");
        }
        // These two are valid keys: a file with the same name is unrelated to a state.
        if path != "link" && path != "pipe" {
            assert!(is_error(&outcomes[2]) && is_error(&outcomes[3]), "{path:?}: {outcomes:#?}");
        }
    }
    let control = steps(
        up.server(),
        "legacy",
        &[
            call("write_workspace_file", &json!({ "filename": "x", "content": "x" })),
            call("read_workspace_file", &json!({ "filename": "x" })),
            call("execute_bash", &json!({ "command": "exit 3" })),
            call("execute_bash", &json!({ "command": "sleep 9", "timeout": 0.5 })),
        ],
    );
    assert_eq!(fields(&control[1])["content"], "x");
    assert_eq!(fields(&control[2])["exit_code"], 3, "{:#}", control[2]);
    assert_eq!(fields(&control[3])["exit_code"], -1, "{:#}", control[3]);
}
