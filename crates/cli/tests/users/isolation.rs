//! Ten users on one server. Each one attempts to read and change data of another through every tool, interface and kind
//! of path, and can do the same with their own data.

use crate::site::{Client, Site};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::path::Path;

const PEOPLE: [&str; 10] = ["ada", "bob", "cy", "dora", "eve", "finn", "gus", "hana", "ivo", "jo"];

/// Data of one user.
struct Own {
    canary: String,
    execution: String,
    session: String,
    artifact: String,
    artifact_id: String,
}

fn canary(name: &str) -> String {
    format!("canary-of-{name}-{}", name.len() * 7)
}

/// Stores the user's canary everywhere.
fn settle(client: &Client, name: &str) -> Own {
    let canary = canary(name);
    let wrote = client.tool("write_workspace_file", json!({ "filename": "secret.txt", "content": canary }));
    assert_eq!(wrote["result"]["isError"], json!(false), "{wrote}");
    client.tool(
        "write_file",
        json!({ "file_path": "deep/er/secret.py", "content": format!("def f():\n    '''{canary}'''\n") }),
    );
    client.tool("save_state", json!({ "key": "plans", "value": { "canary": canary } }));
    let saved =
        client.tool("save_skill", json!({ "name": format!("skill_of_{name}"), "code": format!("X = '{canary}'\n") }));
    assert_eq!(saved["result"]["isError"], json!(false), "{saved}");
    let code = format!("kept = '{canary}'\nopen('/artifacts/report.txt', 'w').write(kept)\nkept");
    let ran = client.tool("execute_code", json!({ "code": code, "session": "work" }));
    let ran = &ran["result"]["structuredContent"];
    assert_eq!(ran["result"], json!(canary), "{ran}");
    let sessions = client.get("/api/sessions").json();
    let listed = client.get("/api/artifacts").json();
    let artifact_id = find(&listed, "id").unwrap_or_else(|| panic!("{listed}"));
    Own {
        canary,
        execution: ran["execution_id"].as_str().unwrap().to_owned(),
        session: sessions[0]["session_id"].as_str().unwrap().to_owned(),
        artifact: ran["artifacts"][0]["uri"].as_str().unwrap().to_owned(),
        artifact_id,
    }
}

/// First text under this name, at any depth.
fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(map) => map
            .get(name)
            .and_then(|found| found.as_str().map(str::to_owned))
            .or_else(|| map.values().find_map(|value| find(value, name))),
        Value::Array(all) => all.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

/// Paths to a file in another user's workspace, as seen by the host and by the sandbox.
fn paths(workspaces: &Path, other: &str) -> Vec<String> {
    let host = workspaces.join(other).join("files");
    let host = host.to_str().unwrap();
    vec![
        format!("../{other}/files/secret.txt"),
        format!("../../{other}/files/secret.txt"),
        format!("../../workspaces/{other}/files/secret.txt"),
        format!("{host}/secret.txt"),
        format!("/{host}/secret.txt"),
        format!("/workspace/../../{other}/files/secret.txt"),
        format!("deep/../../../{other}/files/secret.txt"),
        format!("./deep/er/../../../../{other}/files/secret.txt"),
        format!("/proc/self/root{host}/secret.txt"),
        format!("/proc/1/root{host}/secret.txt"),
        format!("/proc/self/cwd/../../{other}/files/secret.txt"),
        "link/secret.txt".to_owned(),
        "file-link".to_owned(),
        "hard-link".to_owned(),
        format!("../{}/files/SECRET.TXT", other.to_uppercase()),
        format!("．．/{other}/files/secret.txt"),
        format!("..\u{2215}{other}\u{2215}files\u{2215}secret.txt"),
        format!("%2e%2e/{other}/files/secret.txt"),
        format!("..%2f{other}%2ffiles%2fsecret.txt"),
        format!("..\\{other}\\files\\secret.txt"),
        format!("secret.txt\0/../../{other}/files/secret.txt"),
        format!("../{other}/files/secret.txt\0"),
        format!("{}secret.txt", "../".repeat(3_000)),
        format!("{}/secret.txt", "x".repeat(5_000)),
    ]
}

fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() { out.push(char::from(byte)) } else { write!(out, "%{byte:02X}").unwrap() }
    }
    out
}

/// Attempts to access another user's data, and returns each attempt with its response.
fn tries(client: &Client, other: &str, theirs: &Own, paths: &[String]) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    let mut tool = |name: &str, arguments: Value| {
        let answer = client.tool(name, arguments.clone());
        // Errors may only repeat what was sent.
        heard.push((format!("{name} {arguments}"), answer.to_string()));
    };
    for path in paths {
        tool("read_file", json!({ "file_path": path }));
        tool("read_workspace_file", json!({ "filename": path }));
        tool(
            "read_docstring",
            json!({ "file_path": path.replace("secret.txt", "deep/er/secret.py"), "function_name": "f" }),
        );
        tool("list_workspace_files", json!({ "subpath": path.trim_end_matches("/secret.txt") }));
        tool("get_state", json!({ "key": path }));
        tool("write_file", json!({ "file_path": path, "content": "overwritten" }));
        tool("write_workspace_file", json!({ "filename": path, "content": "overwritten" }));
        tool("save_state", json!({ "key": path, "value": "overwritten" }));
        tool("save_skill", json!({ "name": path, "code": "X = 1" }));
        tool("load_skill", json!({ "name": path }));
        tool("delete_skill", json!({ "name": path }));
        tool("get_skill", json!({ "name": path }));
        tool(
            "execute_bash",
            json!({ "command": format!("cat -- {:?}; echo overwritten > {:?}", path.replace('\0', ""), path.replace('\0', "")) }),
        );
    }
    tool(
        "execute_code",
        json!({
            "code": "import os\nfound = []\nfor path in paths:\n    for mode in ('r', 'w'):\n        try:\n            with open(path, mode) as file:\n                found.append(file.read() if mode == 'r' else file.write('overwritten'))\n        except (OSError, ValueError) as error:\n            pass\nfound",
            "context_vars": { "paths": paths.iter().filter(|path| path.starts_with(['/', '.'])).collect::<Vec<_>>() },
        }),
    );
    let skill = format!("skill_of_{other}");
    tool("load_skill", json!({ "name": skill }));
    tool("delete_skill", json!({ "name": skill }));
    tool("get_skill", json!({ "name": skill }));
    tool("search_skills", json!({ "query": skill }));
    tool("list_skills", json!({}));
    tool("execute_code", json!({ "code": format!("from skills.{skill} import X\nX") }));
    tool(
        "execute_code",
        json!({ "code": format!("import {{ X }} from \"skills/{skill}\"; X"), "language": "typescript" }),
    );
    // Another user's session, by its ID and by a name that both use.
    tool("execute_code", json!({ "code": "kept", "session": theirs.session }));
    tool("execute_code", json!({ "code": "import os\n[os.listdir('/workspace'), dir()]", "session": theirs.session }));
    // Another user's execution, resumed by its ID.
    tool("execute_code", json!({ "resume": theirs.execution }));
    tool("execute_code", json!({ "code": "dir()", "resume": theirs.execution }));
    tool("execute_code", json!({ "resume": format!("../../{other}/calls/{}", theirs.execution) }));
    tool("get_execution_stats", json!({}));
    let workspace = encoded("secret.txt");
    for uri in [
        theirs.artifact.clone(),
        format!("coracle://artifacts/{}", theirs.artifact_id),
        format!("coracle://artifacts/{}/versions/1", theirs.artifact_id),
        format!("coracle://artifacts/../../{other}/artifacts/{}/report.txt", theirs.execution),
        format!("coracle://artifacts/..%2f..%2f{other}%2fartifacts%2f{}%2freport.txt", theirs.execution),
        format!("coracle://workspace/../../{other}/files/{workspace}"),
        format!("coracle://workspace/..%2f..%2f{other}%2ffiles%2fsecret.txt"),
        format!("skill://../../{other}/skills/{skill}.py"),
    ] {
        let answer = client.mcp("resources/read", json!({ "uri": uri })).unwrap();
        heard.push((format!("resources/read {uri}"), answer.to_string()));
    }
    let answer = client.mcp("resources/list", json!({})).unwrap();
    heard.push(("resources/list".to_owned(), answer.to_string()));
    let answer = client.mcp("prompts/get", json!({ "name": "agent_system_prompt" })).unwrap();
    heard.push(("prompts/get".to_owned(), answer.to_string()));
    let mut request = |method: &str, path: String, body: &[u8]| {
        let answer = client.ask(method, &path, "application/json", body).unwrap();
        heard.push((format!("{method} {path}"), answer.text()));
    };
    for raw in paths {
        let path = encoded(raw);
        request("GET", format!("/api/workspace/file?path={path}"), b"");
        request("GET", format!("/api/workspace/files?path={path}"), b"");
        request("PUT", format!("/api/workspace/file?path={path}"), b"overwritten");
        request("DELETE", format!("/api/workspace/file?path={path}"), b"");
        let body = json!({ "from": raw, "to": "stolen.txt" }).to_string();
        request("POST", "/api/workspace/move".to_owned(), body.as_bytes());
        let body = json!({ "from": "own.txt", "to": raw }).to_string();
        request("POST", "/api/workspace/move".to_owned(), body.as_bytes());
    }
    for (method, path) in [
        ("GET", format!("/api/executions/{}", theirs.execution)),
        ("GET", format!("/api/executions?before={}", theirs.execution)),
        ("GET", format!("/api/sessions/{}", theirs.session)),
        ("GET", format!("/api/sessions/{}/resume", theirs.session)),
        ("DELETE", format!("/api/sessions/{}", theirs.session)),
        ("DELETE", format!("/api/sessions/{}/log", theirs.session)),
        ("GET", "/api/artifacts/archive".to_owned()),
        ("GET", "/api/runs".to_owned()),
        ("GET", "/api/me/usage".to_owned()),
        ("POST", format!("/api/skills/{skill}/test")),
        ("GET", format!("/api/artifacts/{}", theirs.artifact_id)),
        ("GET", format!("/api/artifacts/{}/content", theirs.artifact_id)),
        ("GET", format!("/api/artifacts/{}/versions/1/content", theirs.artifact_id)),
        ("DELETE", format!("/api/artifacts/{}", theirs.artifact_id)),
        ("DELETE", format!("/api/artifacts/{}/versions/1", theirs.artifact_id)),
        ("GET", format!("/api/skills/{skill}")),
        ("DELETE", format!("/api/skills/{skill}")),
        ("GET", "/api/skills".to_owned()),
        ("GET", "/api/artifacts".to_owned()),
        ("GET", "/api/sessions".to_owned()),
        ("GET", "/api/executions".to_owned()),
        ("GET", "/api/approvals".to_owned()),
        ("GET", "/api/decisions".to_owned()),
        ("GET", "/api/servers".to_owned()),
        ("GET", "/api/tools".to_owned()),
        ("GET", "/api/providers".to_owned()),
        ("GET", "/api/users".to_owned()),
        ("GET", format!("/api/users/{other}")),
    ] {
        request(method, path, b"");
    }
    heard
}

/// Control: the same accesses work for the owner.
fn is_all_there(client: &Client, name: &str, own: &Own) {
    let has = |what: &str, answer: String| assert!(answer.contains(&own.canary), "{name}: {what}: {answer}");
    has("file", client.tool("read_file", json!({ "file_path": "secret.txt" })).to_string());
    has("workspace file", client.tool("read_workspace_file", json!({ "filename": "secret.txt" })).to_string());
    let docstring = json!({ "file_path": "deep/er/secret.py", "function_name": "f" });
    has("docstring", client.tool("read_docstring", docstring).to_string());
    has("state", client.tool("get_state", json!({ "key": "plans" })).to_string());
    has("skill", client.tool("load_skill", json!({ "name": format!("skill_of_{name}") })).to_string());
    has("import", client.python(&format!("from skills.skill_of_{name} import X\nX")).to_string());
    has("bash", client.tool("execute_bash", json!({ "command": "cat secret.txt" })).to_string());
    has("session", client.tool("execute_code", json!({ "code": "kept", "session": "work" })).to_string());
    has("resource", client.mcp("resources/read", json!({ "uri": own.artifact })).unwrap().to_string());
    for path in [
        "/api/workspace/file?path=secret.txt".to_owned(),
        format!("/api/executions/{}", own.execution),
        format!("/api/sessions/{}", own.session),
        format!("/api/artifacts/{}/content", own.artifact_id),
        format!("/api/skills/skill_of_{name}"),
    ] {
        let answer = client.get(&path);
        assert_eq!(answer.status, 200, "{name}: {path}: {}", answer.text());
        has(&path, answer.text());
    }
}

fn users_are_isolated(who: coracle_testing::harness::As) {
    let site = Site::new(who, &PEOPLE);
    let workspaces = site.coracle.home().join("workspaces");
    let own: Vec<Own> = PEOPLE.iter().map(|name| settle(&site.client(name), name)).collect();
    for (place, name) in PEOPLE.iter().enumerate() {
        is_all_there(&site.client(name), name, &own[place]);
    }
    std::thread::scope(|scope| {
        for (place, name) in PEOPLE.iter().enumerate() {
            let (site, own, workspaces) = (&site, &own, &workspaces);
            scope.spawn(move || {
                let client = site.client(name);
                let next = (place + 1) % PEOPLE.len();
                // Links to another user's files, created inside the sandbox.
                let host = workspaces.join(PEOPLE[next]).join("files");
                let host = host.to_str().unwrap();
                let links = format!(
                    "import os\nfor make, target, name in ((os.symlink, {host:?}, 'link'), (os.symlink, {host:?} + '/secret.txt', 'file-link'), \
                     (os.link, {host:?} + '/secret.txt', 'hard-link')):\n    try:\n        make(target, name)\n    except OSError:\n        pass\nopen('own.txt', 'w').write('x')"
                );
                client.python(&links);
                let paths = paths(workspaces, PEOPLE[next]);
                for (said, answer) in tries(&client, PEOPLE[next], &own[next], &paths) {
                    for (other, theirs) in PEOPLE.iter().zip(own).filter(|(other, _)| *other != name) {
                        assert!(!answer.contains(&theirs.canary), "{name} got what is {other}'s by {said}: {answer}");
                    }
                }
            });
        }
    });
    for (place, name) in PEOPLE.iter().enumerate() {
        let client = site.client(name);
        is_all_there(&client, name, &own[place]);
        assert!(!client.get("/api/workspace/file?path=secret.txt").text().contains("overwritten"));
    }
}

each_user!(users_cannot_reach_data_of_others);
fn users_cannot_reach_data_of_others(who: As) {
    users_are_isolated(who);
}
