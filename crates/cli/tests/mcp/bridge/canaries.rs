//! Credentials of servers never enter a sandbox, and a sandbox reaches servers only through the broker.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Web server that ends with the test.
struct Web {
    process: Child,
    port: u16,
}

impl Web {
    fn start(bridge: &Bridge) -> Self {
        let port_file = bridge.path("port");
        let process = Command::new("/usr/bin/python3")
            .args(["-I", &bridge.text("plain.py")])
            .env("PLAIN_HTTP", &port_file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the web server listens", || port_file.exists());
        let port = std::fs::read_to_string(port_file).unwrap().parse().unwrap();
        Self { process, port }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Shifts every letter by one.
fn moved(text: &str) -> String {
    text.chars().map(|letter| char::from(letter as u8 + 1)).collect()
}

fn search(mark: &str, plant: bool, first: &str) -> String {
    let plant = if plant { "True" } else { "False" };
    format!("{first}\nmoved = {:?}\nplant = {plant}\n{}", moved(mark), include_str!("fixtures/search.py"))
}

fn digest(text: &str) -> Value {
    json!({ "sha256": hex::encode(Sha256::digest(text)) })
}

each_user!(credentials_never_enter_a_sandbox);
fn credentials_never_enter_a_sandbox(who: As) {
    let bridge = Bridge::new(who);
    let web = Web::start(&bridge);
    let mark = format!("canary{}x{}", std::process::id(), fastrand::u32(..));
    let secret = |place: &str| format!("{mark}-{place}");
    let mut plain = bridge.plain("plain");
    plain["env"]["SECRET"] = json!(secret("env"));
    plain["args"].as_array_mut().unwrap().push(json!(secret("argument")));
    let path = format!("/{}/mcp", secret("url"));
    let settings = json!({ "mcpServers": {
        "plain": plain,
        "web": {
            "url": format!("http://127.0.0.1:{}{path}", web.port),
            "headers": { "Authorization": format!("Bearer {}", secret("header")) },
        },
    }});
    bridge.settings(&settings);
    // The credentials reach the servers, in the same program that then searches for them.
    let first = "from servers import plain, web\n\
            got = [plain.digest(what='env'), plain.digest(what='argument'), web.digest(what='header'), web.digest(what='url')]";
    let expected = [
        digest(&secret("env")),
        digest(&secret("argument")),
        digest(&format!("Bearer {}", secret("header"))),
        digest(&path),
    ];
    let code = search(&mark, false, first).replace("result = {", "result = {\"got\": got, ");
    let result = bridge.result("python", &code);
    assert_eq!((&result["got"], &result["found"]), (&json!(expected), &json!([])), "as {who:?}: {result}");
    assert!(result["pages"].as_u64() > Some(1000) && result["files"].as_u64() > Some(20), "as {who:?}: {result}");
    // Control: the same search finds planted text.
    let found = &bridge.result("python", &search(&mark, true, first))["found"];
    for place in ["memory", "environment", "file in /tmp", "file in /workspace", "file in /artifacts"] {
        assert!(found.as_array().unwrap().contains(&json!(place)), "as {who:?}: {found}");
    }
    std::fs::remove_file(bridge.coracle.workspace().join("planted")).unwrap();
    let everything = "tool plain digest --what env; tool web digest --what url; env; \
            cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find /coracle/servers /workspace /tmp -type f -exec cat {} +";
    let execution = bridge.run("bash", &format!("{everything} 2>&1; true"), &[]);
    assert!(!execution.to_string().contains(&mark), "as {who:?}: {execution:#}");
    let control = bridge.run("bash", &format!("export X={mark}\nenv"), &[]);
    assert!(control["stdout"].as_str().unwrap().contains(&mark));
}

each_user!(servers_are_reached_only_through_the_broker);
fn servers_are_reached_only_through_the_broker(who: As) {
    let bridge = Bridge::new(who);
    let web = Web::start(&bridge);
    bridge.servers(&json!({ "web": { "url": format!("http://127.0.0.1:{}/mcp", web.port) } }));
    assert!(TcpStream::connect(("127.0.0.1", web.port)).is_ok());
    let code = format!(
        r#"
import socket
from servers.web import echo
tried = []
for family, address in [(socket.AF_INET, ("127.0.0.1", {0})), (socket.AF_INET6, ("::1", {0}))]:
    try:
        socket.socket(family).connect(address)
        tried.append("connected")
    except OSError as error:
        tried.append(type(error).__name__)
[tried, echo(text="through the tool")]"#,
        web.port
    );
    let denied = json!([["PermissionError", "PermissionError"], "through the tool"]);
    assert_eq!(bridge.result("python", &code), denied, "as {who:?}");
    let code = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{}) 2>/dev/null; echo \"[$?, \\\"$(tool web echo --text hi)\\\"]\"",
        web.port
    );
    assert_eq!(bridge.result("bash", &code), json!([1, "hi"]), "as {who:?}");
}
