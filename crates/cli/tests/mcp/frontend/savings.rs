//! Tokens saved by code compared with direct calls.

use super::driver::{Up, call, code, first, steps};
use crate::lab::{Bridge, npm};
use coracle_testing::place::installed;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const ROWS: usize = 10_000;

fn tokens(value: &Value) -> usize {
    coracle_server::count_tokens(&value.to_string())
}

/// Tokens that a model sees: definitions, calls and results.
fn transcript(definitions: &Value, calls: &[Value], outcomes: &[Value]) -> usize {
    let said = calls.iter().map(|call| tokens(&json!([call["name"], call["arguments"]]))).sum::<usize>();
    let heard = outcomes.iter().map(|outcome| tokens(&outcome["value"]["content"])).sum::<usize>();
    tokens(definitions) + said + heard
}

#[test]
fn code_moves_ten_thousand_rows_for_few_tokens() {
    let bridge = Bridge::new(first());
    let (database, folder) = (bridge.text("data/sales.db"), bridge.text("data/out"));
    fs::create_dir(&folder).unwrap();
    bridge.coracle.own(folder.as_ref());
    let fill = format!(
        "import sqlite3\nwith sqlite3.connect({database:?}) as db:\n\
         \x20   db.execute('create table sales (id integer, customer text, amount real)')\n\
         \x20   db.executemany('insert into sales values (?, ?, ?)',\n\
         \x20                  [(n, f'customer {{n % 97}}', n * 1.5) for n in range({ROWS})])\n"
    );
    assert!(Command::new("python3").args(["-I", "-c", &fill]).status().unwrap().success());
    bridge.coracle.own(database.as_ref());
    let sqlite = installed("venv-sqlite/bin/mcp-server-sqlite");
    bridge.settings(&json!({
        "mcpServers": {
            "sqlite": { "command": sqlite, "args": ["--db-path", database] },
            "files": npm("filesystem", &[&folder]),
        },
        "policy": { "tools": { "files.write_file": "allow" } },
    }));
    let query = "select * from sales order by id";

    // With code: searches for the tools, reads one definition, and moves the table.
    let program = format!(
        "from servers.sqlite import read_query\nfrom servers.files import write_file\n\
         import ast, csv, io\n\
         rows = read_query(query='{query}')\n\
         rows = ast.literal_eval(rows) if isinstance(rows, str) else rows\n\
         out = io.StringIO()\n\
         writer = csv.DictWriter(out, rows[0].keys())\n\
         writer.writeheader()\n\
         writer.writerows(rows)\n\
         write_file(path='{folder}/code.csv', content=out.getvalue())\n\
         len(rows)"
    );
    let calls = [
        call("search_tools", &json!({ "query": "query database, write file" })),
        call("get_tool_definition", &json!({ "tool_name": "sqlite.read_query" })),
        call("get_tool_definition", &json!({ "tool_name": "files.write_file" })),
        code(&program),
    ];
    let definitions = json!({ "do": "definitions" });
    let up = Up::start(&bridge.coracle, &[]);
    let outcomes = steps(up.server(), "2026-07-28", &[std::slice::from_ref(&definitions), &calls[..]].concat());
    assert_eq!(outcomes[4]["value"]["structuredContent"]["result"], ROWS, "{:#}", outcomes[4]);
    let by_code = transcript(&outcomes[0]["value"], &calls, &outcomes[1..]);
    drop(up);

    // With direct calls: the table passes through the model twice.
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    let first = call("read_query", &json!({ "query": query }));
    let read = steps(up.server(), "2026-07-28", &[definitions, first.clone()]);
    let written = fs::read_to_string(bridge.path("data/out/code.csv")).unwrap();
    let second = call("write_file", &json!({ "path": format!("{folder}/direct.csv"), "content": written }));
    let wrote = steps(up.server(), "2026-07-28", std::slice::from_ref(&second));
    assert_ne!(wrote[0]["value"]["isError"], true, "{:#}", wrote[0]);
    let outcomes = [read[1].clone(), wrote[0].clone()];
    let directly = transcript(&read[0]["value"], &[first, second], &outcomes);

    assert_eq!(written.lines().count(), ROWS + 1);
    assert_eq!(written, fs::read_to_string(bridge.path("data/out/direct.csv")).unwrap());
    println!("{ROWS} rows: {by_code} tokens by code, {directly} by direct calls: {} times as many", directly / by_code);
    assert!(by_code < 1500, "{by_code}");
    assert!(directly > 100 * by_code, "{directly}");
}
