//! The program with a settings file, and servers to put into it.

use crate::harness::{As, Coracle};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What must become true does within this time, or never.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The program with its own settings, and a folder that servers may use.
pub(crate) struct Bridge {
    pub(crate) coracle: Coracle,
}

impl Bridge {
    pub(crate) fn new(who: As) -> Self {
        let bridge = Self { coracle: Coracle::new(who) };
        for (name, text) in [
            ("plain.py", include_str!("fixtures/plain.py")),
            ("rogue.py", include_str!("../../../upstream/tests/fixtures/rogue.py")),
        ] {
            bridge.write(name, text);
        }
        fs::create_dir(bridge.path("data")).unwrap();
        bridge.coracle.own(&bridge.path("data"));
        bridge
    }

    /// Beside the data folder: readable by everybody, seen by no sandbox.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.coracle.home().parent().unwrap().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A file that belongs to whom the program runs as.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.coracle.own(&self.path(name));
    }

    /// What the program is told: JSON is YAML.
    pub(crate) fn settings(&self, settings: &Value) {
        let path = self.coracle.home().join("coracle.yaml");
        fs::write(&path, settings.to_string()).unwrap();
        self.coracle.own(&path);
    }

    pub(crate) fn servers(&self, servers: &Value) {
        self.settings(&json!({ "mcpServers": servers }));
    }

    /// The server that behaves; see `fixtures/plain.py`. It logs to `NAME.log` and has its effects in `data/NAME`.
    pub(crate) fn plain(&self, name: &str) -> Value {
        json!({
            "command": "/usr/bin/python3",
            "args": ["-I", self.text("plain.py")],
            "env": { "PLAIN_LOG": self.text(&format!("data/{name}.log")), "PLAIN_NOTES": self.text(&format!("data/{name}")) },
        })
    }

    /// The server that misbehaves on purpose.
    pub(crate) fn rogue(&self, mode: &str) -> Value {
        let log = self.text(&format!("data/{mode}.log"));
        json!({
            "command": "/usr/bin/python3",
            "args": ["-I", self.text("rogue.py"), mode],
            "env": { "ROGUE_LOG": log },
            "call_timeout": 20,
        })
    }

    /// What the server of this name wrote into its log or its notes.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path("data").join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often the server was started.
    pub(crate) fn starts(&self, name: &str) -> usize {
        self.lines(&format!("{name}.log")).iter().filter(|line| line.starts_with("start ")).count()
    }

    /// Runs it with `--json`; afterwards no server may be left.
    pub(crate) fn run(&self, language: &str, code: &str, more: &[&str]) -> Value {
        let execution = self.coracle.run(language, code, more);
        self.assert_no_servers();
        execution
    }

    /// What code must give without an error.
    pub(crate) fn result(&self, language: &str, code: &str) -> Value {
        let execution = self.run(language, code, &[]);
        assert_eq!(execution["success"], true, "as {:?}: {code}\n{execution:#}", self.coracle.who);
        match language {
            "bash" => serde_json::from_str(execution["stdout"].as_str().unwrap()).unwrap(),
            _ => execution["result"].clone(),
        }
    }

    /// As people use it, with its words.
    pub(crate) fn exec(&self, code: &str) -> Output {
        let output = self.coracle.exec(&["-c", code]);
        self.assert_no_servers();
        output
    }

    /// None of the servers that ever were started runs.
    pub(crate) fn assert_no_servers(&self) {
        for entry in fs::read_dir(self.path("data")).unwrap().flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            for pid in text.lines().filter_map(|line| line.strip_prefix("start ")) {
                eventually(&format!("server {pid} of {} has ended", entry.file_name().display()), || !is_alive(pid));
            }
        }
    }
}

/// A server from npm.
pub(crate) fn npm(package: &str, args: &[&str]) -> Value {
    let folder = test_servers().join("npm/node_modules/@modelcontextprotocol").join(format!("server-{package}"));
    let script = folder.join("dist/index.js");
    let args: Vec<&str> = [&[script.to_str().unwrap()], args].concat();
    json!({ "command": "node", "args": args })
}

/// A server from PyPI.
pub(crate) fn pypi(name: &str, args: &[&str]) -> Value {
    json!({ "command": test_servers().join("venv/bin").join(format!("mcp-server-{name}")), "args": args })
}

/// The folder that `cargo xtask needs` fills.
fn test_servers() -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        // `target/debug/deps/test` → `target/test-servers`
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("test-servers"),
    };
    assert!(folder.join("npm/node_modules").is_dir(), "{} is not there: run `cargo xtask needs`", folder.display());
    folder
}

/// Whether a process is there and not just waiting to be collected.
pub(crate) fn is_alive(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Waits for what must become true.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A repository with one commit.
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
    // Git refuses what belongs to somebody else.
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

/// A list or an object, one element in a line.
pub(crate) fn lines_of(value: &Value) -> String {
    let lines: Vec<String> = match value {
        Value::Array(list) => list.iter().map(|element| format!("{element}\n")).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| format!("{key}: {value}\n")).collect(),
        other => vec![other.to_string()],
    };
    lines.concat()
}
