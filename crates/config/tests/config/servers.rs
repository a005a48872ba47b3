//! Servers in the formats of clients, with variables expanded.

use crate::case::Case;
use coracle_types::{Scope, ServerSpec, Transport};
use std::time::Duration;

/// A server including its secrets, for a snapshot.
fn rendered(server: &ServerSpec) -> String {
    serde_json::to_string(server).unwrap()
}

const FILE: &str = "\
mcpServers:
  claude: { command: npx, args: [-y, '@scope/x', 1.10, 007, true], env: { A: '${A}', PORT: 8080, EMPTY: } }
  cursor: { url: 'https://${HOST:-example.com}/mcp', headers: { Authorization: 'Bearer ${env:TOKEN}' } }
  vscode: { type: stdio, command: '${HOME}/bin/x', cwd: sub, envFile: sub/x.env, env: { B: own } }
  old: { type: sse, url: 'http://localhost:1/sse', scope: shared, description: d, category: c, start_timeout: 0.5,
    call_timeout: 7 }
  known: { url: 'https://example.com/known', client_id: 'coracle-${A}', client_secret: '${TOKEN}' }
  literal: { command: sh, args: [-c, 'echo $${HOME} $HOME'] }
  off: { command: '${MISSING}', disabled: true }
  off_too: { command: '${MISSING}', enabled: false }
";

#[test]
fn servers_are_resolved() {
    let case = Case::new()
        .file(FILE)
        .dot_env("TOKEN=from-file\nA=weak\n")
        .put("sub/x.env", "B=file\nC='see'\n")
        .env("A", "strong")
        .env("HOME", "/home/u");
    let loaded = case.load().unwrap();
    assert_eq!(loaded.server_problems, []);
    insta::assert_snapshot!(case.plain(&loaded.servers.iter().map(rendered).collect::<Vec<_>>().join("\n")));
}

#[test]
fn an_unusable_server_does_not_affect_others() {
    let case = Case::new().file(
        "\
mcpServers:
  good: { command: x }
  missing_arg: { command: x, args: [a, '${NOT_SET}'] }
  missing_env: { command: x, env: { TOKEN: '${NOT_SET}' } }
  missing_header: { url: 'https://x', headers: { A: '${NOT_SET}' } }
  bad_reference: { command: x, args: ['${input:key}'] }
  nothing: { description: x }
  both: { command: x, url: 'https://x' }
  mismatch: { type: stdio, url: 'https://x' }
  mismatch_too: { type: http, command: x }
  bad_url: { url: 'ftp://x' }
  bad_url_too: { url: 'https:///x' }
  my server: { command: x }
  ../../x: { command: x }
  no_file: { command: x, envFile: none.env }
  bad_header: { url: 'https://x', headers: { A: \"b\\r\\nC: d\" } }
  bad_env: { command: x, env: { 'A=B': c } }
  nul: { command: x, args: [\"a\\0b\"] }
",
    );
    let loaded = case.load().unwrap();
    assert_eq!(loaded.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["good"]);
    let problems: Vec<String> = loaded
        .server_problems
        .iter()
        .map(|problem| case.plain(&format!("{problem} [{}] hint: {}", problem.fault.code(), problem.fault.hint())))
        .collect();
    insta::assert_snapshot!(problems.join("\n"));
    // Positive control: with the variable, the same entries work.
    let loaded = case.env("NOT_SET", "set").load().unwrap();
    let names: Vec<_> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["good", "missing_arg", "missing_env", "missing_header"]);
}

#[test]
fn servers_are_not_shared_by_default() {
    let loaded = Case::new()
        .file("mcpServers: { a: { command: x }, b: { url: 'http://x' }, c: { url: 'http://x', scope: shared } }")
        .load()
        .unwrap();
    let scopes: Vec<_> = loaded.servers.iter().map(|server| server.scope).collect();
    assert_eq!(scopes, [Scope::User, Scope::User, Scope::Shared]);
    assert_eq!(loaded.servers[0].start_timeout, Duration::from_mins(1));
    assert!(matches!(loaded.servers[1].transport, Transport::Http { .. }));
}

#[test]
fn five_hundred_servers_are_loaded() {
    let entries: Vec<String> =
        (0..500).map(|n| format!("  s{n}: {{ command: x, args: [a, b, c], env: {{ A: b }} }}\n")).collect();
    let loaded = Case::new().file(&format!("mcpServers:\n{}", entries.concat())).load().unwrap();
    assert_eq!(loaded.servers.len(), 500);
}
