//! The program with a settings file, and servers for it.

use coracle_testing::harness::{As, Coracle};
use coracle_testing::installed;
use coracle_testing::outcome::is_alive;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program with its own settings, and a folder for servers.
pub(crate) struct Bridge {
    pub(crate) coracle: Coracle,
}

impl Bridge {
    pub(crate) fn new(who: As) -> Self {
        let bridge = Self { coracle: Coracle::new(who) };
        for (name, text) in [
            ("plain.py", include_str!("bridge/fixtures/plain.py")),
            ("rogue.py", include_str!("../../../upstream/tests/fixtures/rogue.py")),
        ] {
            bridge.write(name, text);
        }
        fs::create_dir(bridge.path("data")).unwrap();
        bridge.coracle.own(&bridge.path("data"));
        bridge
    }

    /// Path beside the data folder: readable for all users, invisible in sandboxes.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.coracle.home().parent().unwrap().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file that belongs to the user of the program.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.coracle.own(&self.path(name));
    }

    /// Writes the settings; JSON is valid YAML.
    pub(crate) fn settings(&self, settings: &Value) {
        let path = self.coracle.home().join("coracle.yaml");
        fs::write(&path, settings.to_string()).unwrap();
        self.coracle.own(&path);
    }

    pub(crate) fn servers(&self, servers: &Value) {
        self.settings(&json!({ "mcpServers": servers }));
    }

    /// Well-behaved server; see `bridge/fixtures/plain.py`. It logs to `NAME.log` and writes its effects to `data/NAME`.
    pub(crate) fn plain(&self, name: &str) -> Value {
        json!({
            "command": "/usr/bin/python3",
            "args": ["-I", self.text("plain.py")],
            "env": { "PLAIN_LOG": self.text(&format!("data/{name}.log")), "PLAIN_NOTES": self.text(&format!("data/{name}")) },
        })
    }

    /// Server that misbehaves on purpose.
    pub(crate) fn rogue(&self, mode: &str) -> Value {
        let log = self.text(&format!("data/{mode}.log"));
        json!({
            "command": "/usr/bin/python3",
            "args": ["-I", self.text("rogue.py"), mode],
            "env": { "ROGUE_LOG": log },
            "call_timeout": 20,
        })
    }

    /// Lines in the log or the notes of a server.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path("data").join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Number of times the server was started.
    pub(crate) fn starts(&self, name: &str) -> usize {
        self.lines(&format!("{name}.log")).iter().filter(|line| line.starts_with("start ")).count()
    }

    /// Runs code with `--json`. No server may be left afterwards.
    pub(crate) fn run(&self, language: &str, code: &str, more: &[&str]) -> Value {
        let execution = self.coracle.run(language, code, more);
        self.assert_no_servers();
        execution
    }

    /// Returns the result of code that must succeed.
    pub(crate) fn result(&self, language: &str, code: &str) -> Value {
        let execution = self.run(language, code, &[]);
        assert_eq!(execution["success"], true, "as {:?}: {code}\n{execution:#}", self.coracle.who);
        match language {
            "bash" => serde_json::from_str(execution["stdout"].as_str().unwrap()).unwrap(),
            _ => execution["result"].clone(),
        }
    }

    /// Runs code without `--json`.
    pub(crate) fn exec(&self, code: &str) -> Output {
        let output = self.coracle.exec(&["-c", code]);
        self.assert_no_servers();
        output
    }

    /// Asserts that no server that was ever started is running.
    pub(crate) fn assert_no_servers(&self) {
        for entry in fs::read_dir(self.path("data")).unwrap().flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            for pid in text.lines().filter_map(|line| line.strip_prefix("start ")) {
                eventually(&format!("server {pid} of {} has ended", entry.file_name().display()), || !is_alive(pid));
            }
        }
    }
}

/// Server from npm.
pub(crate) fn npm(package: &str, args: &[&str]) -> Value {
    let folder = installed::path(&format!("npm/node_modules/@modelcontextprotocol/server-{package}"));
    let script = folder.join("dist/index.js");
    let args: Vec<&str> = [&[script.to_str().unwrap()], args].concat();
    json!({ "command": "node", "args": args })
}

/// Server from PyPI.
pub(crate) fn pypi(name: &str, args: &[&str]) -> Value {
    json!({ "command": installed::path(&format!("venv/bin/mcp-server-{name}")), "args": args })
}

/// Creates a repository with one commit.
pub(crate) fn repository(bridge: &Bridge) -> String {
    let folder = bridge.text("repository");
    fs::create_dir(&folder).unwrap();
    fs::write(Path::new(&folder).join("README"), "hello\n").unwrap();
    for words in
        [&["init", "--quiet", "--initial-branch=trunk"][..], &["add", "."], &["commit", "--quiet", "-m", "The first"]]
    {
        let git = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", &folder])
            .args(words)
            .status();
        assert!(git.unwrap().success());
    }
    // Git refuses repositories of other users.
    for path in walk(Path::new(&folder)) {
        bridge.coracle.own(&path);
    }
    folder
}

fn walk(top: &Path) -> Vec<PathBuf> {
    let mut all = vec![top.to_owned()];
    let mut next = 0;
    while let Some(folder) = all.get(next).cloned() {
        all.extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()));
        next += 1;
    }
    all
}

/// Formats a list or an object with one element per line.
pub(crate) fn lines_of(value: &Value) -> String {
    let lines: Vec<String> = match value {
        Value::Array(list) => list.iter().map(|element| format!("{element}\n")).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| format!("{key}: {value}\n")).collect(),
        other => vec![other.to_string()],
    };
    lines.concat()
}
