//! The location of the real servers, and shorthands that every test needs.

use coracle_types::{Content, Scope, Secret, ServerName, ServerSpec, ToolResult, Transport, UserId};
use coracle_upstream::{CallContext, Options, Upstream, UpstreamError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub(crate) fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// The folder that `cargo xtask needs` fills.
pub(crate) fn test_servers() -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        // `target/debug/deps/test` → `target/test-servers`
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("test-servers"),
    };
    assert!(folder.join("npm/node_modules").is_dir(), "{} is not there: run `cargo xtask needs`", folder.display());
    folder
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub(crate) fn stdio(name: &str, command: &str, args: &[&str]) -> ServerSpec {
    spec(
        name,
        Transport::Stdio {
            command: command.to_owned(),
            args: args.iter().copied().map(Secret::new).collect(),
            env: BTreeMap::new(),
            cwd: None,
        },
    )
}

pub(crate) fn spec(name: &str, transport: Transport) -> ServerSpec {
    ServerSpec {
        name: server(name),
        transport,
        scope: Scope::User,
        description: None,
        category: None,
        client: None,
        start_timeout: Duration::from_mins(1),
        call_timeout: Duration::from_mins(1),
    }
}

/// A server from npm.
pub(crate) fn npm(package: &str, args: &[&str]) -> ServerSpec {
    let folder = test_servers().join("npm/node_modules/@modelcontextprotocol").join(format!("server-{package}"));
    let script = text(&folder.join("dist/index.js"));
    stdio(package, "node", &[&[script.as_str()], args].concat())
}

/// A server from PyPI.
pub(crate) fn pypi(name: &str, args: &[&str]) -> ServerSpec {
    let folder = if name == "sqlite" { "venv-sqlite" } else { "venv" };
    stdio(name, &text(&test_servers().join(folder).join("bin").join(format!("mcp-server-{name}"))), args)
}

/// The server that misbehaves on purpose; see `fixtures/rogue.py`.
pub(crate) fn rogue(name: &str, mode: &[&str]) -> ServerSpec {
    let script = fixture("rogue.py");
    stdio(name, "/usr/bin/python3", &[&["-I", script.as_str()], mode].concat())
}

pub(crate) fn fixture(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
}

pub(crate) fn upstream(specs: Vec<ServerSpec>) -> Upstream {
    Upstream::new(specs, Options::default())
}

pub(crate) fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(arguments) => arguments,
        other => panic!("{other} is not an object"),
    }
}

/// Makes a call as the user `ada`.
pub(crate) async fn call(
    upstream: &Upstream,
    name: &str,
    tool: &str,
    with: Value,
) -> Result<ToolResult, UpstreamError> {
    upstream.call(&user("ada"), &server(name), tool, arguments(with), CallContext::default()).await
}

/// All text of a result.
pub(crate) fn said(result: &ToolResult) -> String {
    let text = |content: &Content| match content {
        Content::Text { text } => Some(text.clone()),
        _ => None,
    };
    result.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// Waits until a condition is true. Fails if it does not become true.
pub(crate) async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came true: {what}");
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}
