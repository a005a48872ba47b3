//! The program as a server, and its clients.

use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{left_in_run, processes_in};
use coracle_testing::place::installed;
use coracle_testing::wait::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The two generations of the protocol: with `initialize` and without.
pub(crate) const GENERATIONS: [&str; 2] = ["legacy", "2026-07-28"];

/// An official client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    Python,
    TypeScript,
}

/// `coracle up`, stopped when dropped.
pub(crate) struct Up {
    child: Child,
    /// Listening address: `127.0.0.1:PORT`.
    pub(crate) address: String,
    said: Arc<Mutex<String>>,
}

impl Up {
    pub(crate) fn start(coracle: &Coracle, arguments: &[&str]) -> Self {
        let mut command = coracle.command();
        command.args(["up", "--port", "0"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = listen(child.stderr.take().unwrap());
        let begun = Instant::now();
        loop {
            let text = said.lock().unwrap().clone();
            if let Some((_, rest)) = text.split_once("http://") {
                let address = rest.split('/').next().unwrap().to_owned();
                return Self { child, address, said };
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "does not serve ({ended:?}): {text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Server description for clients.
    pub(crate) fn server(&self) -> Value {
        json!({ "url": self.url() })
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGINT, like Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Value of a metric.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let text = super::wire::get(&self.address, "/metrics");
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.interrupt();
            self.wait();
        }
    }
}

fn listen(stderr: ChildStderr) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let also = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            also.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    said
}

/// `coracle mcp` with these arguments, as a server description for clients.
pub(crate) fn stdio(coracle: &Coracle, arguments: &[&str]) -> Value {
    let mut command = coracle.command();
    command.arg("mcp").args(arguments);
    described(&command)
}

/// Server description of a command.
pub(crate) fn described(command: &Command) -> Value {
    let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
    let env: Map<String, Value> =
        command.get_envs().filter_map(|(name, value)| Some((text(name), Value::from(text(value?))))).collect();
    let args: Vec<String> = command.get_args().map(text).collect();
    json!({ "command": text(command.get_program()), "args": args, "env": env })
}

/// What a client does with a server.
pub(crate) struct Plan<'a> {
    pub(crate) server: Value,
    /// Generation of the protocol.
    pub(crate) mode: &'a str,
    /// Answers to questions, in order; without any, the client does not support questions.
    pub(crate) answers: &'a [Value],
    pub(crate) steps: &'a [Value],
}

impl Plan<'_> {
    fn text(&self) -> String {
        let answer = if self.answers.is_empty() { Value::Null } else { Value::from(self.answers) };
        json!({ "server": self.server, "mode": self.mode, "answer": answer, "steps": self.steps }).to_string()
    }
}

/// Client that waits for its plan.
pub(crate) fn client(sdk: Sdk) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/frontend");
    match sdk {
        Sdk::Python => {
            let mut command = Command::new(installed("venv/bin/python"));
            command.arg("-I").arg(scripts.join("client.py"));
            command
        }
        Sdk::TypeScript => {
            let mut command = Command::new("node");
            let library = installed("npm-clients/node_modules/@modelcontextprotocol/client");
            command.arg(scripts.join("client.mjs")).env("CLIENT", library);
            command
        }
    }
}

/// Starts a client with its plan.
pub(crate) fn start(sdk: Sdk, plan: &Plan<'_>) -> Child {
    let mut command = client(sdk);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(plan.text().as_bytes()).unwrap();
    child
}

/// Outcome of each step: `value` or `error`, `asked`, `progress`.
pub(crate) fn follow(sdk: Sdk, plan: &Plan<'_>) -> Vec<Value> {
    let output = start(sdk, plan).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let outcomes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(outcomes.len(), plan.steps.len(), "{sdk:?} {}: {text}\n{complaints}", plan.mode);
    assert!(output.status.success(), "{sdk:?} {}: {complaints}", plan.mode);
    outcomes
}

/// Runs steps with the Python client of one generation, without answers.
pub(crate) fn steps(server: Value, mode: &str, steps: &[Value]) -> Vec<Value> {
    follow(Sdk::Python, &Plan { server, mode, answers: &[], steps })
}

pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    json!({ "do": "call", "name": name, "arguments": arguments })
}

/// Runs Python code.
pub(crate) fn code(text: &str) -> Value {
    call("execute_code", &json!({ "code": text }))
}

/// First text of a result.
pub(crate) fn text(outcome: &Value) -> &str {
    outcome["value"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{outcome:#}"))
}

/// Asserts that no sandbox, server or process of this data folder is left.
pub(crate) fn assert_nothing_left(coracle: &Coracle) {
    eventually("nothing is left", || {
        left_in_run(&coracle.home()).is_empty() && processes_in(coracle.home().parent().unwrap()).is_empty()
    });
}

/// Resident memory of a process, in MiB.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Root if the tests run as root, or else the current user.
pub(crate) fn first() -> As {
    coracle_testing::harness::As::current()
}
