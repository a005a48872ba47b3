//! A server with users who have keys, and a client that can send anything.

use coracle_testing::harness::{As, Coracle};
use coracle_testing::wait::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Server and the keys of its users.
pub(crate) struct Site {
    pub(crate) coracle: Coracle,
    pub(crate) keys: BTreeMap<String, String>,
    up: Option<Up>,
}

struct Up {
    child: Child,
    address: String,
    /// What it has printed so far.
    said: Arc<Mutex<String>>,
}

/// Response of the server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Site {
    /// Adds these users and starts the server.
    pub(crate) fn new(who: As, people: &[&str]) -> Self {
        Self::with_settings(who, people, "")
    }

    /// The same, with this settings file.
    pub(crate) fn with_settings(who: As, people: &[&str], settings: &str) -> Self {
        let mut site = Self::stopped(who, settings);
        for name in people {
            site.run(&["users", "add", name]);
            let key = site.run(&["users", "keys", "add", name, "--name", "tests"]);
            let key = key.split_whitespace().find(|word| word.starts_with("crk_")).unwrap_or_else(|| panic!("{key}"));
            site.keys.insert((*name).to_owned(), key.to_owned());
        }
        site.start();
        site
    }

    /// A server without users, with this settings file. The change to its command says where it listens.
    pub(crate) fn start_with(who: As, settings: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut site = Self::stopped(who, settings);
        let mut command = site.coracle.command();
        command.args(["up", "--profile", "full"]);
        change(&mut command);
        site.begin(command);
        site
    }

    fn stopped(who: As, settings: &str) -> Self {
        let coracle = Coracle::new(who);
        if !settings.is_empty() {
            let file = coracle.home().join("coracle.yaml");
            std::fs::create_dir_all(coracle.home()).unwrap();
            std::fs::write(&file, settings).unwrap();
            coracle.own(&coracle.home());
            coracle.own(&file);
        }
        Self { coracle, keys: BTreeMap::new(), up: None }
    }

    /// Runs a command that must succeed.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.coracle.command().args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn start(&mut self) {
        self.start_as("full");
    }

    /// Starts the server with a profile.
    pub(crate) fn start_as(&mut self, profile: &str) {
        let mut command = self.coracle.command();
        command.args(["up", "--port", "0", "--profile", profile]);
        self.begin(command);
    }

    /// Starts the server again at the address that it had.
    pub(crate) fn start_at(&mut self, address: &str) {
        let mut command = self.coracle.command();
        command.args(["up", "--listen", address, "--profile", "full"]);
        self.begin(command);
    }

    fn begin(&mut self, mut command: Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("http://") {
            let read = reader.read_line(&mut text).unwrap();
            assert!(read > 0, "the server does not serve: {text}");
        }
        let address = text.split_once("http://").unwrap().1.split(['/', '\n', ' ']).next().unwrap().to_owned();
        let said = Arc::new(Mutex::new(text));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                heard.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        self.up = Some(Up { child, address, said });
    }

    /// What the server has printed, as soon as it contains a text.
    pub(crate) fn said_until(&self, text: &str) -> String {
        let said = &self.up.as_ref().unwrap().said;
        eventually(text, || said.lock().unwrap().contains(text));
        said.lock().unwrap().clone()
    }

    /// Client with the key of a server without users.
    pub(crate) fn local_client(&self) -> Client {
        let key = std::fs::read_to_string(self.coracle.home().join("api_key")).unwrap();
        self.client_with(key.trim())
    }

    pub(crate) fn address(&self) -> &str {
        &self.up.as_ref().unwrap().address
    }

    pub(crate) fn id(&self) -> u32 {
        self.up.as_ref().unwrap().child.id()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        let mut up = self.up.take().unwrap();
        up.child.kill().unwrap();
        up.child.wait().unwrap();
    }

    /// Stops the server like Ctrl-C.
    pub(crate) fn stop(&mut self) {
        kill_process(Pid::from_raw(self.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        self.wait();
    }

    /// Waits for the server to end.
    pub(crate) fn wait(&mut self) {
        let mut up = self.up.take().unwrap();
        let begun = Instant::now();
        while up.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn client(&self, user: &str) -> Client {
        self.client_with(&self.keys[user])
    }

    /// A client with a new key of a user that has these scopes.
    pub(crate) fn client_scoped(&self, user: &str, scopes: &str) -> Client {
        let said = self.run(&["users", "keys", "add", user, "--name", scopes, "--scope", scopes]);
        self.client_with(said.split_whitespace().find(|word| word.starts_with("crk_")).unwrap())
    }

    pub(crate) fn client_with(&self, key: &str) -> Client {
        Client { address: self.address().to_owned(), key: key.to_owned() }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.up.is_some() {
            self.stop();
        }
    }
}

/// Client of one user.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: String,
    key: String,
}

impl Client {
    pub(crate) fn new(address: &str, key: &str) -> Self {
        Self { address: address.to_owned(), key: key.to_owned() }
    }
}

impl Client {
    /// Sends a request; an error if the server is gone.
    pub(crate) fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> std::io::Result<Answer> {
        let more = format!("content-type: {kind}\r\n");
        self.send(method, path, &more, body)
    }

    /// Sends a request like a browser, without a key. Returns the status and the head of the response.
    pub(crate) fn answer(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut whole = Vec::new();
        stream.read_to_end(&mut whole).unwrap();
        let text = String::from_utf8_lossy(&whole);
        let head = text.split("\r\n\r\n").next().unwrap().replace("\r\n", "\n");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head)
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n",
            self.address,
            self.key,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut whole = Vec::new();
        stream.read_to_end(&mut whole)?;
        let cut = |reason: &str| std::io::Error::other(reason.to_owned());
        let end = whole.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| cut("no head"))?;
        let head = String::from_utf8_lossy(&whole[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|number| number.parse().ok()).ok_or_else(|| cut("no status"))?;
        let body = whole.split_off(end + 4);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length.is_some_and(|length| length != body.len()) {
            return Err(cut("cut short"));
        }
        let body =
            if head.contains("transfer-encoding: chunked") { joined(&body).ok_or_else(|| cut("cut"))? } else { body };
        Ok(Answer { status, body })
    }

    /// Sends a JSON body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, "application/json", body.to_string().as_bytes()).unwrap()
    }

    /// Sends a JSON body without waiting for the response.
    pub(crate) fn begin(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            self.key,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "application/json", b"").unwrap()
    }

    /// Sends an MCP request in the revision without sessions; an error if the server is gone.
    pub(crate) fn mcp(&self, method: &str, params: Value) -> std::io::Result<Value> {
        let text = self.mcp_text(method, params, &json!({}))?;
        // A response may be a stream with one event.
        let text = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        serde_json::from_str(text).map_err(|error| std::io::Error::other(format!("{error}: {text}")))
    }

    /// The same, with more members in `_meta`. Returns everything that the server sends.
    pub(crate) fn mcp_text(&self, method: &str, mut params: Value, more: &Value) -> std::io::Result<String> {
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            params["_meta"][name] = value.clone();
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
        let named = if name.is_empty() || !is_plain { String::new() } else { format!("mcp-name: {name}\r\n") };
        let headers = format!(
            "content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{named}"
        );
        Ok(self.send("POST", "/mcp", &headers, message.to_string().as_bytes())?.text())
    }

    /// Result of a tool.
    pub(crate) fn tool(&self, name: &str, arguments: Value) -> Value {
        self.try_tool(name, arguments).unwrap()
    }

    /// Result of a tool; an error if the server is gone.
    pub(crate) fn try_tool(&self, name: &str, arguments: Value) -> std::io::Result<Value> {
        let mut params = json!({ "name": name });
        params["arguments"] = arguments;
        self.mcp("tools/call", params)
    }

    /// Runs Python, and returns its structured result.
    pub(crate) fn python(&self, code: &str) -> Value {
        let answer = self.tool("execute_code", json!({ "code": code }));
        answer["result"]["structuredContent"].clone()
    }
}

fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).ok()?.trim(), 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(chunks.get(end + 2..end + 2 + length)?);
        chunks = chunks.get(end + 4 + length..)?;
    }
}
