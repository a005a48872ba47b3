//! Sandboxes whose code may use a proxy: it reaches the proxy of its own sandbox, and nothing else.

use crate::escape::battery::{Outside, inside_with, outside};
use crate::lab::{place, program, run};
use coracle_protocol::{FromGuest, RunNetwork, ToGuest, read_frame, write_frame};
use coracle_sandbox::{Backend, NativeBackend, NativeConfig, Network, PROXY, Sandbox, Spec};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::traces::nothing_within;
use coracle_types::Limits;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A time limit that is sufficient even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const NETWORK: &[&str] = &["--network"];

each_user!(only_the_proxy_can_be_reached);
fn only_the_proxy_can_be_reached(who: As) {
    let probes = include_str!("escape/egress.py");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = format!("HOST_PORT = {}", listener.local_addr().unwrap().port());
    let coracle = place(who);
    inside_with(&coracle, &told, probes, NETWORK).demand(480, &format!("{who:?} inside"));
    outside(&coracle, Outside::Namespaces, &told, probes).demand(20, &format!("{who:?} outside"));
    let host = "connect(('127.0.0.1', HOST_PORT))\ncheck('the listener of the host', True)";
    let connect = "import socket\ndef connect(address):\n    socket.create_connection(address, 5).close()\n";
    outside(&coracle, Outside::Host, &told, &format!("{connect}{host}")).demand(1, &format!("{who:?} host"));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok(), "{who:?}: the control has connected");
    assert!(listener.accept().is_err(), "{who:?}: a sandbox has connected");
}

each_user!(requests_in_every_language_reach_the_host);
fn requests_in_every_language_reach_the_host(who: As) {
    let coracle = place(who);
    let python = "import urllib.request\nurllib.request.urlopen('http://example.test/python').read().decode()";
    let bash = "exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET /bash HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3";
    let typescript = "const answer = await fetch('http://example.test/typescript', {\n\
          method: 'post', headers: { 'x-own': 'a' }, body: JSON.stringify({ word: 1 }) });\n\
        const bytes = new Uint8Array(await answer.arrayBuffer());\n\
        [answer.ok, answer.status, answer.headers.get('X-By'), await answer.text(), bytes.length]";
    let seen = |language: &str, code: &str| {
        let report = run(&coracle, language, code, NETWORK);
        assert_eq!(report["ok"], true, "{who:?}: {report:#}");
        assert_eq!(report["sockets_left"], 0, "{who:?}: {report:#}");
        report
    };
    let report = seen("python", python);
    assert_eq!(report["requests"], json!(["GET http://example.test/python HTTP/1.1"]), "{who:?}");
    assert_eq!(report["result"], "GET http://example.test/python HTTP/1.1|", "{who:?}");
    let report = seen("bash", bash);
    assert_eq!(report["requests"], json!(["GET /bash HTTP/1.1"]), "{who:?}");
    let report = seen("typescript", typescript);
    let line = "POST http://example.test/typescript HTTP/1.1";
    let text = format!("{line}|{{\"word\":1}}");
    assert_eq!(report["result"], json!([true, 201, "responder", text, text.len()]), "{who:?}");
    assert_eq!(report["requests"], json!([line]), "{who:?}");
}

#[test]
fn fetch_explains_why_it_fails() {
    let coracle = place(As::current());
    let off = run(&coracle, "typescript", "await fetch('http://example.test/')", &[]);
    let told = (&off["error"]["message"], &off["error"]["hint"]);
    let hint = "network is off in this sandbox; call tools instead: import { a_tool } from \"servers/NAME\"";
    assert_eq!(told, (&json!("TypeError: fetch failed: network is off in this sandbox"), &json!(hint)), "{off:#}");
    let code = "const told = [];\n\
        for (const url of ['https://example.test/', 'file:///etc/passwd', '/path']) {\n\
          try { await fetch(url); } catch (error) { told.push(error instanceof TypeError, String(error)); }\n\
        }\n\
        told";
    let report = run(&coracle, "typescript", code, NETWORK);
    let told: Vec<&Value> = report["result"].as_array().unwrap_or_else(|| panic!("{report:#}")).iter().collect();
    assert_eq!((told.len(), told[0], told[2], told[4]), (6, &json!(true), &json!(true), &json!(true)), "{report:#}");
    // The responder does not speak TLS, and answers CONNECT as any other request.
    assert_eq!(report["requests"], json!(["CONNECT example.test:443 HTTP/1.1"]), "{report:#}");
    for (index, part) in [(1, "fetch failed"), (3, "neither an http nor an https URL"), (5, "is not a URL")] {
        assert!(told[index].as_str().unwrap().contains(part), "{report:#}");
    }
    assert!(!report.to_string().contains("network is off"), "{report:#}");
}

#[test]
fn errors_have_no_hint_that_the_network_is_off() {
    let coracle = place(As::current());
    let code = "import socket\nsocket.getaddrinfo('example.com', 80)";
    let hint = |more: &[&str]| {
        let report = run(&coracle, "python", code, more);
        assert_eq!(report["ok"], false, "{report:#}");
        report["error"]["hint"].clone()
    };
    assert_eq!(hint(&[]), "network is off in this sandbox");
    assert_eq!(hint(NETWORK), Value::Null);
}

#[test]
fn programs_find_the_proxy_and_the_certificates() {
    let coracle = place(As::current());
    let code = "import os\n\
        seen = {name: os.environ.get(name) for name in ('http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'SSL_CERT_FILE')}\n\
        bundle = seen.pop('SSL_CERT_FILE')\n\
        system = os.path.exists('/etc/ssl/certs/ca-certificates.crt')\n\
        [seen, bundle and open(bundle).read(), system]";
    let result = |more: &[&str]| {
        let report = run(&coracle, "python", code, more);
        assert_eq!(report["ok"], true, "{report:#}");
        report["result"].clone()
    };
    let nothing = json!({ "http_proxy": null, "HTTPS_PROXY": null, "ALL_PROXY": null });
    assert_eq!(result(&[]), json!([nothing, null, false]));
    let http = format!("http://{PROXY}");
    // Libraries that do not speak SOCKS would refuse to start.
    let proxies = json!({ "http_proxy": http, "HTTPS_PROXY": http, "ALL_PROXY": null });
    let system = Path::new("/etc/ssl/certs/ca-certificates.crt").exists();
    assert_eq!(result(NETWORK), json!([proxies, null, system]));
    let with = result(&["--network", "--certificates", "PEM"]);
    let bundle = with[1].as_str().unwrap();
    assert_eq!((&with[0], &with[2]), (&proxies, &json!(system)));
    assert!(bundle.ends_with("PEM") && (!system || bundle.contains("BEGIN CERTIFICATE")), "{bundle}");
}

fn backend(home: &Path, pool: usize) -> NativeBackend {
    NativeBackend::new(NativeConfig {
        home: home.to_owned(),
        launcher: program().to_owned(),
        python: None,
        pool,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    })
}

async fn within<T>(what: &str, act: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, act).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

async fn open(backend: &NativeBackend, workspace: &Path, network: Network) -> Sandbox {
    let (servers, skills, limits) = (None, None, Limits::default());
    let spec = Spec { workspace: workspace.to_owned(), servers, skills, limits, network };
    let sandbox = within("open", backend.open(spec)).await.unwrap();
    assert_eq!(sandbox.connections.is_some(), network == Network::Proxy, "{sandbox:?}");
    sandbox
}

async fn send(sandbox: &mut Sandbox, code: &str) {
    let network = sandbox.connections.is_some().then(|| RunNetwork { proxy: PROXY.to_string(), certificates: None });
    let (language, code, vars) = ("python".to_owned(), code.to_owned(), serde_json::Map::new());
    let run = ToGuest::Run { id: 1, language, code, vars, result_bytes: 1 << 20, network };
    write_frame(&mut sandbox.to_guest, &run).await.unwrap();
}

async fn answer(sandbox: &mut Sandbox) -> Value {
    let answer = within("an answer", read_frame(&mut sandbox.from_guest, &mut sandbox.buffer)).await;
    match answer {
        Ok(Some(FromGuest::Done { ok: true, result, .. })) => result,
        other => panic!("{other:?}"),
    }
}

async fn accept(sandbox: &mut Sandbox) -> TcpStream {
    within("a connection", sandbox.connections.as_mut().unwrap().accept()).await.unwrap()
}

/// Code that sends a word to the proxy and returns the reply, and its network namespace.
fn talk(word: &str) -> String {
    format!(
        "import os, socket\nwith socket.create_connection(('127.0.0.1', 3128)) as one:\n    one.sendall(b'{word}')\n    \
         one.shutdown(socket.SHUT_WR)\n    reply = one.recv(100).decode()\n[reply, os.readlink('/proc/self/ns/net')]"
    )
}

/// Reads to the end of a connection and replies.
async fn reply(mut connection: TcpStream) -> String {
    let mut word = String::new();
    within("a word", connection.read_to_string(&mut word)).await.unwrap();
    connection.write_all(format!("to {word}").as_bytes()).await.unwrap();
    word
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_belong_to_one_sandbox() {
    for pool in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let backend = backend(&folder.path().join("home"), pool);
        let mut namespaces = Vec::new();
        // Two at a time, from the pool and beyond it. Each would see the connection of the other first.
        for round in 0..3 {
            let mut left = open(&backend, folder.path(), Network::Proxy).await;
            let mut right = open(&backend, folder.path(), Network::Proxy).await;
            send(&mut left, &talk(&format!("left{round}"))).await;
            let first = accept(&mut left).await;
            send(&mut right, &talk(&format!("right{round}"))).await;
            let second = accept(&mut right).await;
            assert_eq!(reply(second).await, format!("right{round}"), "pool of {pool}");
            assert_eq!(reply(first).await, format!("left{round}"), "pool of {pool}");
            for (sandbox, word) in [(&mut left, "left"), (&mut right, "right")] {
                let result = answer(sandbox).await;
                assert_eq!(result[0], format!("to {word}{round}"), "pool of {pool}");
                namespaces.push(result[1].clone());
            }
            // The other connection that a run leaves open does not outlive its sandbox.
            left.control.kill();
            within("exit", left.control.exit()).await;
            assert!(within("the end", left.connections.as_mut().unwrap().accept()).await.is_none());
        }
        let host = fs::read_link("/proc/self/ns/net").unwrap();
        namespaces.push(json!(host.to_str().unwrap()));
        let plain = r"import socket
try:
    socket.socket()
    made = True
except PermissionError:
    made = False
import os
[made, os.readlink('/proc/self/ns/net')]";
        let mut off = open(&backend, folder.path(), Network::Off).await;
        send(&mut off, plain).await;
        let result = answer(&mut off).await;
        assert_eq!(result[0], false, "a sandbox without a network beside those with one");
        namespaces.push(result[1].clone());
        let distinct: std::collections::BTreeSet<_> = namespaces.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), namespaces.len(), "{namespaces:?}");
        within("shutdown", backend.shutdown()).await;
    }
}

/// Processes in a network namespace.
fn members(namespace: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let links = entries.filter_map(|entry| Some((entry.path(), fs::read_link(entry.path().join("ns/net")).ok()?)));
    links.filter(|(_, link)| link.to_str() == Some(namespace)).map(|(path, _)| path.display().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_ends_leaves_no_process_and_no_connection() {
    const STAY: &str = "import os, socket, subprocess\n\
        one = socket.create_connection(('127.0.0.1', 3128))\n\
        one.sendall(os.readlink('/proc/self/ns/net').encode() + b'\\n')\n\
        subprocess.Popen(['sleep', '300'])\n\
        one.recv(1)\n\
        open('released', 'w').close()\n\
        import time; time.sleep(300)";
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder.path().join("home"), 1);
    for way in ["kill", "drop", "shutdown"] {
        let mut sandbox = open(&backend, folder.path(), Network::Proxy).await;
        send(&mut sandbox, STAY).await;
        let mut connection = accept(&mut sandbox).await;
        let mut namespace = Vec::new();
        while namespace.last() != Some(&b'\n') {
            namespace.push(within("a byte", connection.read_u8()).await.unwrap());
        }
        let namespace = String::from_utf8(namespace).unwrap().trim().to_owned();
        assert!(!members(&namespace).is_empty(), "{way}: the sandbox is in {namespace}");
        let mut connections = sandbox.connections.take().unwrap();
        match way {
            "kill" => {
                sandbox.control.kill();
                within("exit", sandbox.control.exit()).await;
            }
            "drop" => drop(sandbox),
            _ => within("shutdown", backend.shutdown()).await,
        }
        assert!(within("the end of the listener", connections.accept()).await.is_none(), "{way}");
        // The end of the stream, or its reset.
        let rest = within("the end of the connection", connection.read(&mut [0; 1])).await;
        assert!(matches!(rest, Ok(0) | Err(_)), "{way}: {rest:?}");
        nothing_within(PATIENCE, way, || members(&namespace));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_cancelled_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let backend = backend(&home, 1);
    for microseconds in [0, 100, 1_000, 3_000, 10_000, 50_000, 200_000] {
        let (servers, skills, limits) = (None, None, Limits::default());
        let spec = Spec { workspace: folder.path().to_owned(), servers, skills, limits, network: Network::Proxy };
        drop(tokio::time::timeout(Duration::from_micros(microseconds), backend.open(spec)).await);
    }
    let mut sandbox = open(&backend, folder.path(), Network::Proxy).await;
    send(&mut sandbox, &talk("word")).await;
    let connection = accept(&mut sandbox).await;
    assert_eq!(reply(connection).await, "word");
    answer(&mut sandbox).await;
    within("shutdown", backend.shutdown()).await;
    let left: Vec<_> = fs::read_dir(home.join("run")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [".lock"]);
}
