//! Several users on one server: authentication is required, and users are isolated.

use super::driver::{Up, first};
use super::wire::{CALL, CALL_HEADERS, USUAL, exchange, get, post, status};
use coracle_testing::harness::Coracle;
use coracle_testing::wait::eventually;
use serde_json::json;

/// Calls a tool in a revision without sessions.
fn run(up: &Up, key: &str, code: &str) -> String {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "execute_code", "arguments": { "code": code }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} } } });
    let headers = format!(
        "{USUAL}mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: execute_code\r\n\
         authorization: Bearer {key}\r\n"
    );
    post(&up.address, &headers, &call.to_string())
}

fn output(coracle: &Coracle, arguments: &[&str]) -> String {
    let output = coracle.command().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_first_start_adds_an_admin_and_prints_a_sign_in_link() {
    let coracle = Coracle::new(first());
    let settings = coracle.workspace().join("required.yaml");
    std::fs::write(&settings, "server: { auth: required }\n").unwrap();
    coracle.own(&settings);
    let settings = ["--config", settings.to_str().unwrap()];
    let up = Up::start(&coracle, &settings);
    eventually("the link is printed", || up.said().contains("/sign-in/"));
    let said = up.said();
    let link = said.lines().find_map(|line| line.split_once("/sign-in/")).unwrap().1;
    let path = format!("/sign-in/{}", link.split(' ').next().unwrap());
    let bare = format!("{USUAL}{CALL_HEADERS}");
    let refused = post(&up.address, &bare, CALL);
    assert_eq!(status(&refused), 401, "{refused}");
    assert!(refused.contains("resource_metadata=\"http://"), "{refused}");
    assert_eq!(status(&get(&up.address, "/metrics")), 401);
    assert_eq!(status(&get(&up.address, "/health")), 200);

    assert_eq!(status(&get(&up.address, &path)), 200);
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", up.address);
    let signed_in = exchange(&up.address, request.as_bytes());
    assert_eq!(status(&signed_in), 303, "{signed_in}");
    let cookie = signed_in.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let me =
        format!("GET /api/auth/me HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n", up.address);
    let me = exchange(&up.address, me.as_bytes());
    assert!(me.contains("\"user\":\"admin\"") && me.contains("\"role\":\"admin\""), "{me}");
    assert_eq!(status(&exchange(&up.address, request.as_bytes())), 401);
    drop(up);

    // The next start does not print it again, and knows the user.
    let up = Up::start(&coracle, &settings);
    assert_eq!(status(&post(&up.address, &bare, CALL)), 401);
    eventually("it is ready", || up.said().contains("servers   none"));
    assert!(!up.said().contains("/sign-in/"), "{}", up.said());
}

#[test]
fn users_have_separate_workspaces() {
    let coracle = Coracle::new(first());
    apart(&coracle, &[]);
}

/// The folder of --workspace is not shared with users who are added later.
#[test]
fn users_added_later_do_not_share_the_workspace_folder() {
    let coracle = Coracle::new(first());
    let folder = coracle.workspace();
    apart(&coracle, &["--workspace", folder.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(folder.join("mine.txt")).unwrap(), "local");
}

fn apart(coracle: &Coracle, arguments: &[&str]) {
    let up = Up::start(coracle, arguments);
    // Without users, the local user needs no key.
    let local = run(&up, "whatever", "open('mine.txt', 'w').write('local')");
    assert!(local.contains("\"success\":true"), "{local}");

    let [ann, bob] = ["ann", "bob"].map(|name| {
        output(coracle, &["users", "add", name]);
        output(coracle, &["users", "keys", "add", name, "--name", "test"])
    });
    eventually("everyone has to sign in", || status(&run(&up, "whatever", "1")) == 401);
    for (key, name) in [(&ann, "ann"), (&bob, "bob")] {
        let written =
            run(&up, key, &format!("import os; before = os.listdir(); open('mine.txt', 'w').write('{name}'); before"));
        assert!(written.contains("\"success\":true") && !written.contains("mine.txt"), "{written}");
    }
    for (key, name) in [(&ann, "ann"), (&bob, "bob")] {
        let read = run(&up, key, "open('mine.txt').read()");
        assert!(read.contains(&format!("\"result\":\"{name}\"")), "{read}");
        let mine = std::fs::read_to_string(coracle.home().join("workspaces").join(name).join("files/mine.txt"));
        assert_eq!(mine.ok().as_deref(), Some(name));
    }
    output(coracle, &["users", "disable", "bob"]);
    assert_eq!(status(&run(&up, &bob, "1")), 401);
    assert_eq!(status(&run(&up, &ann, "1")), 200);
}
