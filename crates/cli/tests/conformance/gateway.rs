//! `coracle up --profile direct` in front of the fixture.

use coracle_testing::harness::{As, Coracle};
use serde_json::json;
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

/// Protocol generation of the fixture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The revision without `initialize`.
    Stateless,
    /// Only revisions with `initialize`.
    Initialize,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stateless => "a server of 2026",
            Self::Initialize => "a server of 2025",
        })
    }
}

/// Gateway that stops when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) url: String,
    _coracle: Coracle,
}

impl Gateway {
    pub(crate) fn start(generation: Generation) -> Self {
        let coracle = Coracle::new(As::current());
        let fixture = coracle.home().join("fixture.py");
        fs::write(&fixture, include_str!("fixture.py")).unwrap();
        coracle.own(&fixture);
        let old = (generation == Generation::Initialize).then_some("old");
        let arguments: Vec<&str> = ["-I", fixture.to_str().unwrap()].into_iter().chain(old).collect();
        let settings = coracle.home().join("coracle.yaml");
        // JSON is valid YAML.
        let servers = json!({ "mcpServers": { "fixture": { "command": "/usr/bin/python3", "args": arguments } } });
        fs::write(&settings, servers.to_string()).unwrap();
        coracle.own(&settings);
        let mut command = coracle.command();
        command.args(["up", "--profile", "direct", "--port", "0"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        let url = loop {
            let mut line = String::new();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it does not serve: {all}");
            if let Some(word) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                break word.to_owned();
            }
            all += &line;
        };
        // The output does not matter, but the pipe must be read.
        std::thread::spawn(move || drop(said.read_to_end(&mut Vec::new())));
        Self { child, url, _coracle: coracle }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Its children notice.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
