//! A server with a tool that has personal data, and everything that can be asked of it on behalf of a model.

use super::records::{Record, record};
use crate::playing::{Playing, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use fastrand::Rng;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use tempfile::TempDir;

pub(crate) const LANGUAGES: [&str; 3] = ["python", "typescript", "bash"];

/// What a model was told, and over which interface.
pub(crate) struct Told {
    pub(crate) by: String,
    pub(crate) text: String,
}

/// A batch of cases that a tool returns.
pub(crate) struct Batch {
    pub(crate) name: String,
    pub(crate) records: Vec<Record>,
    /// With which act the programs begin. Programs with an odd one fail at the end.
    pub(crate) first: usize,
}

impl Batch {
    pub(crate) fn new(folder: &Path, rng: &mut Rng, number: usize, cases: usize) -> Self {
        let records: Vec<Record> = (0..cases).map(|case| record(rng, case)).collect();
        let batch = Self { name: format!("b{number}"), records, first: number };
        batch.write(folder, &batch.name);
        batch
    }

    /// Makes the records those of the resources and prompts of the server, too.
    pub(crate) fn write_resources(&self, folder: &Path) {
        self.write(folder, "resources");
    }

    fn write(&self, folder: &Path, name: &str) {
        let data: Value = self.records.iter().map(|record| record.data.clone()).collect();
        std::fs::write(folder.join(format!("{name}.json")), data.to_string()).unwrap();
    }

    /// The program that uses the batch.
    pub(crate) fn program(&self, language: &str) -> String {
        let Self { name, records, first } = self;
        let (count, code) = (
            records.len(),
            match language {
                "python" => include_str!("act.py"),
                "typescript" => include_str!("act.ts"),
                _ => include_str!("act.sh"),
            },
        );
        match language {
            "python" => format!("BATCH, FIRST = '{name}', {first}\n{code}"),
            "typescript" => format!("const BATCH = '{name}', FIRST = {first};\n{code}"),
            _ => format!("BATCH={name} FIRST={first} COUNT={count}\n{code}"),
        }
    }

    /// A sentence of a person with values that are recognized by themselves.
    pub(crate) fn question(&self) -> String {
        let values = self.records.iter().flat_map(|record| &record.planted).filter(|value| value.is_plain);
        let values: Vec<&str> = values.take(6).map(|value| value.text.as_str()).collect();
        format!("[script:{}] Compare {} with the export.", self.name, values.join(" and "))
    }
}

/// A server in a mode, with a model that runs the programs of all batches.
pub(crate) struct Lab {
    pub(crate) site: Site,
    pub(crate) model: Playing,
    pub(crate) folder: TempDir,
}

impl Lab {
    /// A server with the tools of `people.py`. `programs` are code and language of scripts, by name.
    pub(crate) fn new(mode: &str, folder: TempDir, programs: &[(String, String, String)]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/leaks/people.py");
        let people = json!({ "command": "/usr/bin/python3", "args": ["-I", script, folder.path()] });
        Self::with_servers(mode, folder, &json!({ "people": people }), programs)
    }

    pub(crate) fn with_servers(
        mode: &str,
        folder: TempDir,
        servers: &Value,
        programs: &[(String, String, String)],
    ) -> Self {
        let mut library = Library::single([vec![Step::text("Nothing to do.")]]);
        for (name, language, code) in programs {
            let call = Step::call("execute_code", json!({ "code": code, "language": language }));
            library = library.with(name, Script::new([vec![call], vec![Step::text("Done.")]]));
        }
        let model = Playing::new(library);
        let settings = format!(
            "{}mcpServers: {}\nprivacy: {}\nexecution: {}\n",
            model.settings("chat"),
            servers,
            json!({ "mode": mode }),
            json!({ "limits": { "output_tokens": 1_000_000 } }),
        );
        let site = Site::with_settings(As::current(), &[], &settings);
        Self { site, model, folder }
    }

    /// Checks that tools got exactly what they had returned, also as an attachment. Returns how many batches there were.
    pub(crate) fn assert_exact<'a>(&self, batches: impl IntoIterator<Item = &'a Batch>) -> usize {
        let stored = std::fs::read_to_string(self.folder.path().join("stored.jsonl")).unwrap_or_default();
        let stored: Vec<Value> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut count = 0;
        for batch in batches {
            let original: Value = batch.records.iter().map(|record| record.data.clone()).collect();
            for one in stored.iter().filter(|one| one["batch"] == *batch.name) {
                assert_eq!(one["records"], original, "{}", batch.name);
                let attached = one["attached"].as_str().unwrap();
                let attached = unencoded(attached);
                assert_eq!(serde_json::from_slice::<Value>(&attached).unwrap(), original, "{}", batch.name);
                count += 1;
            }
        }
        count
    }

    pub(crate) fn client(&self) -> Client {
        local_key(&self.site)
    }

    /// `execute_code` over HTTP with progress, and what it left behind.
    pub(crate) fn over_mcp(&self, batch: &Batch, language: &str, profile: &str) -> Told {
        let client = self.client();
        let ask = |method: &str, params: Value| {
            let more = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
            client.mcp_text(method, params, &more).unwrap()
        };
        let text = Self::asked(batch, language, profile, ask);
        Told { by: format!("MCP over HTTP, {profile}, {language}"), text }
    }

    /// The same over standard input and output.
    pub(crate) fn over_stdio(&self, batch: &Batch, language: &str, profile: &str) -> Told {
        let mut client = StdioClient::start(&self.site, profile);
        let text = Self::asked(batch, language, profile, |method, params| client.ask(method, params));
        Told { by: format!("MCP over stdio, {profile}, {language}"), text }
    }

    fn asked(batch: &Batch, language: &str, profile: &str, mut ask: impl FnMut(&str, Value) -> String) -> String {
        let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
        if profile == "direct" {
            return direct(batch, ask);
        }
        let code = batch.program(language);
        let mut told = vec![ask("tools/call", call("execute_code", json!({ "code": code, "language": language })))];
        assert!(told[0].contains("case"), "{}", told[0]);
        let resources = ask("resources/list", json!({}));
        for uri in uris(&resources) {
            told.push(ask("resources/read", json!({ "uri": uri })));
        }
        told.push(resources);
        for (tool, arguments) in [
            ("search_tools", json!({ "query": batch.records[0].planted[0].text })),
            ("get_tool_definition", json!({ "tool_name": "people.records" })),
        ] {
            told.push(ask("tools/call", call(tool, arguments)));
        }
        if profile == "full" {
            told.push(ask("tools/call", call("list_workspace_files", json!({}))));
            for number in 0..batch.records.len() {
                let file = format!("{}-{number}.json", batch.name);
                told.push(ask("tools/call", call("read_file", json!({ "file_path": file }))));
                told.push(ask("tools/call", call("read_workspace_file", json!({ "filename": file }))));
            }
            let stats = call("get_execution_stats", json!({}));
            told.push(ask("tools/call", stats));
        }
        told.push(ask("prompts/get", json!({ "name": "coracle" })));
        told.join("\n")
    }

    /// `/api/executions`, and the records that it keeps.
    pub(crate) fn over_api(&self, batch: &Batch, language: &str) -> Told {
        let client = self.client();
        let body = json!({ "code": batch.program(language), "language": language, "session": batch.name });
        let ran = client.post("/api/executions", &body);
        assert_eq!(ran.status, 200, "{}", ran.text());
        let id = ran.json()["execution_id"].as_str().unwrap().to_owned();
        let session = ran.json()["session_id"].as_str().unwrap().to_owned();
        let mut told = vec![ran.text()];
        for path in [
            format!("/api/executions/{id}"),
            "/api/executions?limit=1".to_owned(),
            format!("/api/sessions/{session}"),
            format!("/api/sessions/{session}/resume"),
            "/api/skills".to_owned(),
            "/api/plans".to_owned(),
            "/api/sessions".to_owned(),
            "/api/artifacts".to_owned(),
            "/api/approvals".to_owned(),
            "/api/tools".to_owned(),
        ] {
            told.push(client.get(&path).text());
        }
        for form in ["structured", "error", "refused"] {
            let call = json!({ "arguments": { "batch": batch.name, "form": form } });
            told.push(client.post("/api/tools/people/records/call", &call).text());
        }
        Told { by: format!("/api/executions, {language}"), text: told.join("\n") }
    }

    /// `/v1/chat/completions`, `/v1/responses` or `coracle task`: what the provider receives, and what is answered.
    pub(crate) fn by_agent(&self, batch: &Batch, language: &str, way: &str) -> Told {
        Told { by: format!("{way}, {language}"), text: self.question(&batch.question(), way) }
    }

    pub(crate) fn question(&self, question: &str, way: &str) -> String {
        let before = self.model.model.requests().count();
        let client = self.client();
        let answered = match way {
            "chat" => {
                let messages = json!([{ "role": "user", "content": question }]);
                let shown = json!({ "activity": "reasoning" });
                let body = json!({ "model": "lab/demo", "messages": messages, "stream": true, "coracle": shown });
                client.post("/v1/chat/completions", &body).text()
            }
            "responses" => {
                let body = json!({ "input": question, "stream": true, "coracle": { "events": true } });
                client.post("/v1/responses", &body).text()
            }
            _ => {
                let mut task = self.site.coracle.command();
                task.args(["task", question]).current_dir(self.site.coracle.workspace()).stdin(Stdio::null());
                let done = task.output().unwrap();
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                // A person reads what the terminal shows.
                String::new()
            }
        };
        let requests = self.model.model.requests().all();
        let requests: Vec<_> = requests.into_iter().filter(|request| request.number > before).collect();
        assert!(requests.len() >= 2, "{way}: {answered}");
        let bodies: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
        format!("{}\n{answered}", bodies.join("\n"))
    }
}

/// The gateway: calls with every form of answer, and everything else that it passes on.
fn direct(batch: &Batch, mut ask: impl FnMut(&str, Value) -> String) -> String {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let mut told = vec![ask("tools/list", json!({}))];
    assert!(told[0].contains("\"records\""), "{}", told[0]);
    for form in ["structured", "text", "lines", "blob", "error", "refused"] {
        let of_all = json!({ "batch": batch.name, "form": form });
        told.push(ask("tools/call", call("records", of_all)));
    }
    for record in batch.records.iter().take(20) {
        for tool in ["echo", "narrow", "fail"] {
            told.push(ask("tools/call", call(tool, json!({ "value": record.data }))));
        }
    }
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "people://0" })),
        ("resources/read", json!({ "uri": "people://missing" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "letter" })),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "letter" }, "argument": { "name": "to", "value": "a" },
            }),
        ),
    ] {
        told.push(ask(method, params));
    }
    told.join("\n")
}

/// The bytes that base64 stands for.
fn unencoded(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| super::values::STANDARD.iter().position(|digit| *digit == byte));
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_usize, 0);
    for digit in digits {
        (held, bits) = ((held << 6 | digit) & 0xffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

/// The addresses in a list of resources.
fn uris(told: &str) -> Vec<String> {
    let line = told.lines().rev().find(|line| line.contains("\"resources\"")).unwrap_or_else(|| panic!("{told}"));
    let list: Value = serde_json::from_str(line.trim_start_matches("data: ")).unwrap();
    let all = list["result"]["resources"].as_array().unwrap().iter();
    all.map(|resource| resource["uri"].as_str().unwrap().to_owned()).filter(|uri| uri.contains("artifact")).collect()
}

/// A client of `coracle mcp` that keeps everything it is sent.
struct StdioClient {
    child: Child,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl StdioClient {
    fn start(site: &Site, profile: &str) -> Self {
        let mut command = site.coracle.command();
        command.args(["mcp", "--profile", profile]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, output, id: 0 };
        client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" },
            }),
        );
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, mut params: Value) -> String {
        self.id += 1;
        params["_meta"] = json!({ "progressToken": self.id });
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        let mut told = String::new();
        loop {
            let start = told.len();
            assert!(self.output.read_line(&mut told).unwrap() > 0, "{method}: {told}");
            let message: Value = serde_json::from_str(&told[start..]).unwrap();
            if message["id"] == self.id && message.get("method").is_none() {
                return told;
            }
        }
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
