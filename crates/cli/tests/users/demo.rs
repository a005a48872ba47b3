//! `coracle up --demo`: scripted words, real code, and nothing left behind.

use crate::site::Client;
use coracle_testing::harness::{As, Coracle, program};
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const TASK: &str = "Which customers spent the most?";

/// A machine of someone who has never used Coracle.
struct Machine {
    coracle: Coracle,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { coracle: Coracle::new(As::current()) };
        for folder in [machine.user(), machine.temporary()] {
            fs::create_dir(&folder).unwrap();
            machine.coracle.own(&folder);
        }
        machine
    }

    fn user(&self) -> PathBuf {
        self.coracle.workspace().join("user")
    }

    fn temporary(&self) -> PathBuf {
        self.coracle.workspace().join("tmp")
    }

    fn command(&self) -> Command {
        let mut command = self.coracle.command();
        command.env_remove("CORACLE_HOME").env_remove("CORACLE_CONFIG").env_remove("CORACLE_AGENT_FIND_LOCAL_SERVERS");
        command.env("HOME", self.user()).env("TMPDIR", self.temporary()).stdin(Stdio::null());
        command
    }

    fn refused(&self, change: impl FnOnce(&mut Command)) -> String {
        let mut command = self.command();
        command.args(["up", "--demo", "--port", "0"]);
        change(&mut command);
        let Output { status, stderr, .. } = command.output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(self.leftovers().is_empty(), "{said}");
        said
    }

    /// Data folders of demos.
    fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temporary()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.to_str().unwrap().contains("coracle-demo-")).collect()
    }
}

/// A running demo.
struct Tour {
    child: Child,
    said: String,
    client: Client,
}

impl Tour {
    fn start(machine: &Machine) -> Self {
        let mut command = machine.command();
        let mut child =
            command.args(["up", "--demo", "--port", "0"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("server    shop") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "the demo does not serve: {said}");
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let address = said.split_once("http://").unwrap().1.split('/').next().unwrap();
        let [folder] = machine.leftovers().try_into().unwrap();
        let key = fs::read_to_string(folder.join("api_key")).unwrap();
        let client = Client::new(address, key.trim());
        Self { child, said, client }
    }

    fn ask(&self, text: &str) -> String {
        let body = json!({"model": "demo/tour", "messages": [{"role": "user", "content": text}]});
        let answer = self.client.post("/v1/chat/completions", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    fn signal(&self) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    }

    /// Stops the demo, which must succeed.
    fn stop(&mut self) {
        self.signal();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    /// The command on the line with this label.
    fn command(&self, label: &str) -> &str {
        let line = self.said.lines().find_map(|line| line.trim_start().strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label:?}: {}", self.said)).trim()
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        // Only a failed test has not waited for it. The launcher and the servers end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a line in a shell in which `coracle` is the program of the tests.
fn in_shell(line: &str, folder: &Path) -> String {
    let programs = folder.join("bin");
    fs::create_dir_all(&programs).unwrap();
    if !programs.join("coracle").exists() {
        std::os::unix::fs::symlink(program(), programs.join("coracle")).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-c", line]).env("PATH", path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn shows_real_calls(text: &str) {
    for words in ["(Scripted.)", "Elm Street School      1544", "shop.list_orders ok", "crm.list_customers ok"] {
        assert!(text.contains(words), "{words:?}: {text}");
    }
}

#[test]
fn code_runs_and_calls_the_servers_of_the_demo() {
    let machine = Machine::new();
    let mut tour = Tour::start(&machine);
    assert!(tour.said.contains("the words are scripted"), "{}", tour.said);
    shows_real_calls(&tour.ask(TASK));
    let runs = tour.client.get("/api/executions").json();
    assert_eq!(runs[0]["outcome"]["success"], true, "{runs}");
    let cancelled = tour.ask("Cancel order 1007");
    assert!(cancelled.contains("refused:") && cancelled.contains("order 1007 is delivered"), "{cancelled}");
    let chart = tour.ask("Draw the orders per month");
    assert!(chart.contains("orders.svg (image/svg+xml"), "{chart}");
    let reached = tour.ask("What can the code reach?");
    assert!(
        reached.contains("write to /usr: OSError") && reached.contains("open a socket: PermissionError"),
        "{reached}"
    );
    let own = tour.ask("```python\nprint(6 * 7)\n```");
    assert!(own.contains("42"), "{own}");
    let other = tour.ask("Hello!");
    assert!(other.contains("has no language model") && other.contains(TASK), "{other}");
    let models: Value = tour.client.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "demo/tour", "{models}");
    tour.stop();
    assert_eq!(machine.leftovers(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(machine.user()).unwrap().count(), 0);
}

#[test]
fn the_printed_commands_work() {
    let machine = Machine::new();
    let mut tour = Tour::start(&machine);
    let folder = machine.coracle.workspace();
    let answer: Value = serde_json::from_str(&in_shell(tour.command("try"), &folder)).unwrap();
    let answer = answer["choices"][0]["message"]["content"].as_str().unwrap();
    shows_real_calls(answer);
    // It shows the code, too.
    assert!(answer.contains("from servers.shop import list_orders"), "{answer}");
    shows_real_calls(&in_shell(tour.command("or"), &folder));
    tour.stop();
}

#[test]
fn two_signals_leave_nothing_either() {
    let machine = Machine::new();
    let mut tour = Tour::start(&machine);
    let body = json!({"code": "while True: pass", "timeout_seconds": 600});
    let waiting = tour.client.begin("/api/executions", &body);
    let runs = || tour.client.get("/api/executions").json();
    eventually("the code runs", || runs().as_array().unwrap().iter().any(|run| run["state"] == "running"));
    tour.signal();
    // The server is stopping as soon as it does not accept connections any more.
    eventually("the server stops", || tour.client.ask("GET", "/livez", "text/plain", b"").is_err());
    tour.signal();
    tour.child.wait().unwrap();
    eventually("the folder is removed", || machine.leftovers().is_empty());
    drop(waiting);
}

#[test]
fn a_demo_is_refused_where_it_could_be_mistaken_for_the_real_thing() {
    let machine = Machine::new();
    let said = machine.refused(|command| {
        command.env("CORACLE_HOME", machine.user().join("data"));
    });
    assert!(said.contains("CORACLE_HOME names one"), "{said}");
    let said = machine.refused(|command| {
        command.args(["--host", "0.0.0.0"]);
    });
    assert!(said.contains("loopback addresses only, not on 0.0.0.0"), "{said}");
    let said = machine.refused(|command| {
        command.args(["--workspace", "."]);
    });
    assert!(said.contains("workspace of its own"), "{said}");
    let said = machine.refused(|command| {
        command.args(["--config", "x.yaml"]);
    });
    assert!(said.contains("settings of its own"), "{said}");
    let added = machine.command().args(["users", "add", "ann"]).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let said = machine.refused(|_| {});
    assert!(said.contains("this Coracle has users"), "{said}");
}
