//! Runs tasks with the scripted agent, a client of `coracle mcp`, in a separate world for each way.

use super::task::{Set, Task};
use crate::program::Program;
use crate::test_servers::{HINT, test_servers};
use anyhow::Context;
use coracle_config::{HOME_VARIABLE, LOG_VARIABLE, PYTHON_VARIABLE};
use coracle_server::count_tokens;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AGENT: &str = include_str!("agent.py");

/// Path of the world in tasks and in counted text, because the real folder has a random name.
const SHOWN_AS: &str = "/home/ada/work";

/// Time limit for all tasks in one way.
const WITHIN: Duration = Duration::from_mins(10);

/// Way to do a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All definitions and all results are in the context.
    Direct,
    /// The same calls, but with a search and only the definitions of the tools that are used.
    Deferred,
    /// The three tools of the profile `code`.
    Code,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Direct, Self::Deferred, Self::Code];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Deferred => "deferred",
            Self::Code => "code",
        }
    }
}

/// Author of a part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    Context,
    Model,
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    by: By,
    kind: String,
    text: String,
}

/// Outcome of a task, as reported by the agent.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Outcome {
    name: String,
    parts: Vec<Part>,
    pub(super) round_trips: usize,
    pub(super) ms: f64,
    #[serde(default)]
    answer: Option<Value>,
    #[serde(default)]
    effect: Value,
    #[serde(default)]
    error: Option<String>,
    /// Number of direct calls, and the bytes of their arguments and results.
    #[serde(default)]
    pub(super) calls: usize,
    #[serde(default)]
    pub(super) bytes: usize,
}

impl Outcome {
    /// Tokens that enter the context.
    pub(super) fn tokens_in(&self) -> usize {
        self.tokens(|part| part.by == By::Context)
    }

    /// Tokens that the model writes.
    pub(super) fn tokens_out(&self) -> usize {
        self.tokens(|part| part.by == By::Model)
    }

    /// Tokens of definitions, as clients send them to a model, and of the server's instructions.
    pub(super) fn definitions(&self) -> usize {
        self.tokens(|part| part.kind == "definitions" || part.kind == "instructions")
    }

    fn tokens(&self, is_counted: impl Fn(&Part) -> bool) -> usize {
        self.parts.iter().filter(|part| is_counted(part)).map(|part| count_tokens(&part.text)).sum()
    }

    /// Returns what is wrong with the result, if anything.
    pub(super) fn fault(&self, task: &Task) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(error.clone());
        }
        let answer = self.answer.clone().unwrap_or_default();
        if answer != task.expect {
            return Some(format!("the answer is {answer} instead of {}", task.expect));
        }
        (self.effect != task.leaves).then(|| format!("it leaves {} instead of {}", self.effect, task.leaves))
    }
}

/// Agent and the servers whose tools it uses.
#[derive(Debug)]
pub(super) struct Agent {
    servers: PathBuf,
}

/// Paths of the servers in the folder of the test servers.
const NPM: &str = "npm/node_modules/@modelcontextprotocol";
const NEEDED: [&str; 7] = [
    "npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
    "npm/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
    "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
    "venv/bin/mcp-server-git",
    "venv/bin/mcp-server-time",
    "venv-sqlite/bin/mcp-server-sqlite",
    "venv/bin/python",
];

impl Agent {
    pub(super) fn find(servers: Option<PathBuf>) -> anyhow::Result<Self> {
        let servers =
            std::path::absolute(test_servers(servers)?).context("cannot find the folder of the test servers")?;
        for part in NEEDED {
            let path = servers.join(part);
            anyhow::ensure!(path.is_file(), "there is no {}: {HINT}", path.display());
        }
        Ok(Self { servers })
    }

    /// Runs all tasks in one way, in a fresh world.
    pub(super) async fn run(&self, way: Way, set: &Set) -> anyhow::Result<Vec<Outcome>> {
        let folder =
            tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
        let top = folder.path().canonicalize().context("cannot find the temporary folder")?;
        let (world, home) = (top.join("world"), top.join("home"));
        std::fs::create_dir(&world)
            .and_then(|()| std::fs::create_dir(&home))
            .context("cannot create a temporary folder")?;
        let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = top.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        let script = write("world.py", &set.world)?;
        self.python(&world, [script]).output().await.context("cannot create the world of the tasks")?;
        let settings = write("home/coracle.yaml", &self.settings(&world).to_string())?;
        let plan = json!({
            "way": way.as_str(),
            "command": [std::env::current_exe().context("cannot find this program")?, Path::new("--config"), &settings, Path::new("mcp")],
            "env": variables(&home),
            "world": world,
            "shown_as": SHOWN_AS,
            "tasks": set.tasks,
        });
        let (agent, plan) = (write("agent.py", AGENT)?, write("plan.json", &plan.to_string())?);
        let output = self.python(&top, [agent, plan]).output_within(WITHIN).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let outcomes: Result<Vec<Outcome>, _> = text.lines().map(serde_json::from_str).collect();
        let outcomes = outcomes.context("cannot read the report of the agent")?;
        let is_whole = outcomes.iter().map(|outcome| &outcome.name).eq(set.tasks.iter().map(|task| &task.name));
        anyhow::ensure!(is_whole, "the agent did not do all tasks");
        Ok(outcomes)
    }

    /// Runs Python on a script in a folder.
    fn python<const N: usize>(&self, folder: &Path, line: [PathBuf; N]) -> Program {
        let python = self.servers.join("venv/bin/python");
        let words = ["env".into(), "-C".into(), folder.into(), python.into_os_string(), "-I".into()];
        Program::new(words.into_iter().chain(line.map(OsString::from)))
    }

    /// Settings of the servers. Everything is allowed, because the world is our own.
    fn settings(&self, world: &Path) -> Value {
        let npm = |name: &str| self.servers.join(NPM).join(format!("server-{name}/dist/index.js"));
        json!({
            "mcpServers": {
                "everything": { "command": "node", "args": [npm("everything")] },
                "filesystem": { "command": "node", "args": [npm("filesystem"), world] },
                "git": { "command": self.servers.join("venv/bin/mcp-server-git") },
                "memory": {
                    "command": "node", "args": [npm("memory")],
                    "env": { "MEMORY_FILE_PATH": world.join("memory.jsonl") },
                },
                "sqlite": {
                    "command": self.servers.join("venv-sqlite/bin/mcp-server-sqlite"),
                    "args": ["--db-path", world.join("office.db")],
                },
                "time": {
                    "command": self.servers.join("venv/bin/mcp-server-time"), "args": ["--local-timezone", "UTC"],
                },
            },
            "policy": { "tools": { "*": "allow" } },
        })
    }
}

/// Environment of `coracle mcp`, without the user's own settings.
fn variables(home: &Path) -> Value {
    let mut variables = json!({ HOME_VARIABLE: home });
    for name in ["PATH", PYTHON_VARIABLE, LOG_VARIABLE] {
        if let Ok(value) = std::env::var(name) {
            variables[name] = Value::from(value);
        }
    }
    variables
}
