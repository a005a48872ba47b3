//! MCP servers in sandboxes: what they can read, compared with the same server without one.

use coracle_testing::place::Place;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A server with the tools `read_file` and `write_file`.
const SERVER: &str = r#"
import json, sys

TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}
         for name in ("read_file", "write_file")]


def call(name, path):
    try:
        if name == "read_file":
            with open(path) as file:
                return file.read(), False
        with open(path, "w") as file:
            return str(file.write("written")), False
    except OSError as error:
        return str(error), True


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "files", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        text, failed = call(params["name"], params["arguments"]["path"])
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

const SECRET: &str = "SECRET-OF-THE-USER";

/// What a tool of a server answers, or its error.
fn ask(place: &Place, server: &str, tool: &str, path: &Path) -> Result<String, String> {
    let code = format!("from servers.{server} import {tool}\n{tool}(path='{}')", path.display());
    let output = place.run(&["exec", "--json", "-c", &code]).stdout;
    let execution: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    if execution["success"] == true {
        Ok(execution["result"].as_str().unwrap_or_else(|| panic!("{execution:#}")).to_owned())
    } else {
        Err(execution["error"].as_str().unwrap_or_else(|| panic!("{execution:#}")).to_owned())
    }
}

#[test]
fn a_server_in_a_sandbox_reads_only_what_it_was_given() {
    let place = Place::new();
    // Not in `/tmp`, of which every sandbox has its own.
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let secret = home.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    let folder = home.path().to_str().unwrap();
    let add = |name: &str, more: &[&str]| {
        let words = [&["servers", "add", name][..], more, &["--", "/usr/bin/python3", "-I", "-c", SERVER]].concat();
        place.output(&words);
    };
    add("unconfined", &[]);
    add("closed", &["--sandbox"]);
    add("reader", &["--sandbox", "--read", folder]);
    add("writer", &["--sandbox", "--write", folder]);

    let refused = ask(&place, "closed", "read_file", &secret).unwrap_err();
    assert!(refused.contains("No such file"), "{refused}");
    // The control: the same server without a sandbox, and one that was given the folder.
    assert_eq!(ask(&place, "unconfined", "read_file", &secret).unwrap(), SECRET);
    assert_eq!(ask(&place, "reader", "read_file", &secret).unwrap(), SECRET);

    let new = home.path().join("new");
    let refused = ask(&place, "reader", "write_file", &new).unwrap_err();
    assert!(refused.contains("Permission denied") || refused.contains("Read-only file system"), "{refused}");
    assert!(!new.exists());
    assert_eq!(ask(&place, "writer", "write_file", &new).unwrap(), "7");
    assert_eq!(fs::read_to_string(&new).unwrap(), "written");
}

#[test]
fn folders_need_a_sandbox() {
    let place = Place::new();
    let said = place.run(&["servers", "add", "files", "--read", "/opt", "--", "x"]);
    assert!(said.code == Some(2) && said.stderr.contains("--sandbox"), "{said:?}");
    place.put("coracle.yaml", "mcpServers: { files: { command: x, sandbox_read: [/opt] } }\n");
    let said = place.run(&["servers", "list"]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("`sandbox_read`, but no `sandbox`") && told.contains("sandbox: native"), "{said:?}");
}
