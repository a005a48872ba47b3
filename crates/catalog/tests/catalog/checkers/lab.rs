//! Six real servers and the two checkers, from the folder that `cargo xtask needs` fills.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The servers by name, each with its program and arguments. `SCRATCH` stands for a temporary folder of the test.
const SERVERS: &[(&str, &str, &[&str])] = &[
    ("everything", "npm/node_modules/.bin/mcp-server-everything", &["stdio"]),
    ("filesystem", "npm/node_modules/.bin/mcp-server-filesystem", &["SCRATCH"]),
    ("memory", "npm/node_modules/.bin/mcp-server-memory", &[]),
    ("git", "venv/bin/mcp-server-git", &[]),
    ("time", "venv/bin/mcp-server-time", &[]),
    ("sqlite", "venv-sqlite/bin/mcp-server-sqlite", &["--db-path", "SCRATCH/test.db"]),
];

/// A part of the folder of servers. Fails with instructions if it is missing.
pub(crate) fn installed(part: &str) -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        // The test binary is in `<target>/debug/deps`.
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("test-servers"),
    };
    let path = folder.join(part);
    assert!(path.exists(), "{} is missing: run `cargo xtask needs`", path.display());
    path
}

/// Every server with its tools.
pub(crate) fn tools(scratch: &Path) -> Vec<(&'static str, Vec<Value>)> {
    SERVERS.iter().map(|(name, program, arguments)| (*name, listed(&installed(program), arguments, scratch))).collect()
}

/// Starts a server, lists its tools over standard input and output, and stops it.
fn listed(program: &Path, arguments: &[&str], scratch: &Path) -> Vec<Value> {
    let scratch = scratch.to_str().unwrap();
    let mut server = Command::new(program)
        .args(arguments.iter().map(|argument| argument.replace("SCRATCH", scratch)))
        .env("MEMORY_FILE_PATH", format!("{scratch}/memory.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut ask = |id: u64, method: &str, params: Value| -> Value {
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "{} has ended", program.display());
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                break message["result"].clone();
            }
        }
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    ask(1, "initialize", hello);
    let mut tools = Vec::new();
    let mut params = json!({});
    for id in 3.. {
        let page = ask(id, "tools/list", params);
        tools.extend(page["tools"].as_array().unwrap().iter().cloned());
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({ "cursor": cursor }),
            _ => break,
        }
    }
    drop(input);
    server.kill().unwrap();
    server.wait().unwrap();
    tools
}
