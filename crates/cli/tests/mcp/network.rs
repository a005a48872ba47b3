//! The network of code: real requests to a server of the test, which sandboxes reach by its name.

use crate::lab::Bridge;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A server that answers every request with `METHOD PATH`, and knows what it has answered.
struct Web {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else { continue };
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let body = first.trim_end_matches(" HTTP/1.1").to_owned();
                noted.lock().unwrap().push(body.clone());
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                // A client may be gone.
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn network(&self) -> Value {
        json!({ "allow": [format!("localhost:{}", self.port)], "private_addresses": ["localhost"] })
    }
}

/// Python whose result is the status and the text of each request.
fn python(requests: &[(&str, String)]) -> String {
    let list: Vec<String> = requests.iter().map(|(method, url)| format!("({method:?}, {url:?})")).collect();
    format!(
        "import urllib.request, urllib.error
result = []
for method, url in [{}]:
    data = b'' if method == 'POST' else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, method=method)) as answer:
            result.append([answer.status, answer.read().decode()])
    except urllib.error.HTTPError as error:
        result.append([error.code, error.read().decode()])
    except OSError as error:
        result.append([0, str(error)])
result",
        list.join(", ")
    )
}

fn bridge(settings: &Value) -> Bridge {
    let bridge = Bridge::new(As::current());
    bridge.settings(settings);
    bridge
}

fn records(bridge: &Bridge) -> Vec<Value> {
    let output = bridge.coracle.command().args(["audit", "export"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_host_that_is_allowed_is_reached_and_another_is_not() {
    let web = Web::start();
    let bridge = bridge(&json!({ "network": web.network() }));
    let refused = "http://other.example/".to_owned();
    let execution = bridge.run("python", &python(&[("GET", web.url("/a")), ("GET", refused)]), &[]);
    let result = &execution["result"];
    assert_eq!(result[0], json!([200, "GET /a"]), "{execution:#}");
    assert_eq!(result[1][0], 403, "{execution:#}");
    assert!(result[1][1].as_str().unwrap().contains("not allowed by any rule of network.allow"), "{execution:#}");
    assert!(execution["warnings"].to_string().contains("other.example"), "{execution:#}");
    let calls = execution["calls"].as_array().unwrap();
    let call = |call: &Value| (call["server"].clone(), call["tool"].clone(), call["ok"].clone());
    assert_eq!(
        calls.iter().map(call).collect::<Vec<_>>(),
        [true, false].map(|ok| (json!("network"), json!("get"), json!(ok)))
    );
    let decided: Vec<Value> = records(&bridge).into_iter().filter(|record| record["kind"] == "call.decided").collect();
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(
        (&decided[0]["server"], &decided[0]["tool"], &decided[0]["decision"]),
        (&json!("network"), &json!("get"), &json!("allow"))
    );
    assert_eq!(web.seen(), ["GET /a"]);
}

#[test]
fn other_languages_use_the_same_network() {
    let web = Web::start();
    let bridge = bridge(&json!({ "network": web.network() }));
    let fetched = format!("const answer = await fetch({:?}); await answer.text()", web.url("/ts"));
    assert_eq!(bridge.result("typescript", &fetched), "GET /ts");
    let curl = format!("command -v curl > /dev/null || exit 77\ncurl --silent {}", web.url("/sh"));
    let execution = bridge.run("bash", &curl, &[]);
    if execution["exit_code"] == 77 {
        coracle_testing::skip::skip("curl in a sandbox: this machine has none");
    } else {
        assert_eq!(execution["stdout"], "GET /sh", "{execution:#}");
    }
}

#[test]
fn nothing_is_reached_without_rules() {
    let web = Web::start();
    let code = python(&[("GET", web.url("/"))]);
    let bridge = bridge(&json!({}));
    assert_eq!(bridge.result("python", &code)[0][0], 0);
    assert_eq!(web.seen(), [""; 0]);
    bridge.settings(&json!({ "network": web.network() }));
    assert_eq!(bridge.result("python", &code)[0][0], 200, "control");
    // Every public host is no private one.
    bridge.settings(&json!({ "execution": { "allow_network_access": true } }));
    assert_eq!(bridge.result("python", &code)[0][0], 403);
}

#[test]
fn policies_decide_about_methods_and_flows() {
    let web = Web::start();
    let both = python(&[("GET", web.url("/a")), ("POST", web.url("/b"))]);
    let bridge = bridge(&json!({ "network": web.network(), "policy": { "tools": { "network.post": "deny" } } }));
    let result = bridge.result("python", &both);
    assert_eq!((&result[0][0], &result[1][0]), (&json!(200), &json!(403)), "{result}");
    assert!(result[1][1].as_str().unwrap().contains("denied_by_policy"), "{result}");
    let mut crm = bridge.plain("crm");
    crm["labels"] = json!(["private"]);
    let policy = json!({ "flows": ["crm -> network: ask"] });
    bridge.settings(&json!({ "network": web.network(), "policy": policy, "mcpServers": { "crm": crm } }));
    let one = python(&[("GET", web.url("/c"))]);
    assert_eq!(bridge.result("python", &one)[0][0], 200, "control: nothing private was read");
    let reading = format!("from servers.crm import echo\necho(text='x')\n{one}");
    let result = bridge.result("python", &reading);
    assert_eq!(result[0][0], 403, "{result}");
    assert!(result[0][1].as_str().unwrap().contains("denied_unasked"), "{result}");
    assert_eq!(web.seen(), ["GET /a", "GET /c"]);
}

#[test]
fn requests_count_toward_the_limit_of_calls() {
    let web = Web::start();
    let bridge = bridge(&json!({ "network": web.network(), "execution": { "limits": { "calls": 3 } } }));
    let result = bridge.result("python", &python(&vec![("GET", web.url("/")); 5]));
    let codes: Vec<&Value> = result.as_array().unwrap().iter().map(|answer| &answer[0]).collect();
    assert_eq!(codes, [200, 200, 200, 403, 403], "{result}");
    assert_eq!(web.seen().len(), 3);
}

/// An HTTPS server that sends back the header `authorization` that it got.
const ECHO: &str = "import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ('got ' + self.headers.get('authorization', 'nothing')).encode()
        open(sys.argv[2], 'ab').write(body)
        self.send_response(200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()";

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_credential_reaches_the_server_and_is_never_seen_inside() {
    const SECRET: &str = "canary-credential-81";
    let bridge = Bridge::new(As::current());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = pem("CERTIFICATE", made.cert.der());
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    bridge.write("trusted.pem", &certificate);
    bridge.write("server.pem", &(certificate + &key));
    let received = bridge.path("data").join("received");
    let mut server = Command::new("python3");
    server.args(["-c", ECHO]).arg(bridge.path("server.pem")).arg(&received).stdout(Stdio::piped());
    let mut server = Killed(server.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let allow = json!([format!("localhost:{port}")]);
    let credential = json!({
        "host": "localhost", "port": port, "header": "authorization", "value": "Bearer ${CANARY}", "shared": true,
    });
    let network = json!({ "allow": allow, "private_addresses": ["localhost"], "credentials": [credential] });
    bridge.settings(&json!({ "network": network }));
    let request = python(&[("GET", format!("https://localhost:{port}/"))]);
    let code = format!("import os\nprint(dict(os.environ))\n{request}");
    let mut command = bridge.coracle.command();
    command.env("CANARY", SECRET).env("SSL_CERT_FILE", bridge.path("trusted.pem"));
    let output = command.args(["exec", "--json", "-c", &code]).output().unwrap();
    let execution: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(execution["result"][0], json!([200, "got [redacted]"]), "{execution:#}");
    assert_eq!(fs::read_to_string(&received).unwrap(), format!("got Bearer {SECRET}"));
    assert!(!execution.to_string().contains(SECRET), "{execution:#}");
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let cases = [
        (json!({ "allow": ["https://example.org"] }), "network.allow[0]"),
        (json!({ "allow": [], "users": { "ann": ["get a.example"] } }), "network.users.ann[0]"),
        (json!({ "allow": [], "private_addresses": ["10.0.0.0/99"] }), "network.private_addresses"),
        (json!({ "users": { "ann": ["a.example"] } }), "network.users"),
        (json!({ "allow": [], "credentials": [{ "host": "a.example" }] }), "network.credentials.0"),
    ];
    let control = bridge(&json!({ "network": { "allow": ["example.org"] } }));
    assert_eq!(control.result("python", "1"), 1);
    for (network, told) in cases {
        let bridge = bridge(&json!({ "network": network }));
        let output = bridge.exec("print('ran')");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told) && said.contains("coracle.yaml:1:"), "{told}: {said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    let taken = bridge(&json!({ "network": { "allow": ["example.org"] } }));
    taken.settings(&json!({ "network": { "allow": [] }, "mcpServers": { "network": taken.plain("network") } }));
    let said = String::from_utf8_lossy(&taken.exec("1").stderr).into_owned();
    assert!(said.contains("mcpServers.network"), "{said}");
}
