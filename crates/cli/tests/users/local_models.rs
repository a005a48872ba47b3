//! Model servers on this machine are found, offered, and used only if there is no doubt which one.

use crate::site::Site;
use coracle_scripted_model::{Library, ScriptedModel, Step, serve};
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Ollama, played by the scripted model, and nothing where LM Studio and llama.cpp usually are.
struct Machine {
    model: ScriptedModel,
    host: String,
    _runtime: Runtime,
}

impl Machine {
    fn with_models(names: &[&str]) -> Self {
        let runtime = Runtime::new().unwrap();
        let library = Library {
            models: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Library::single([vec![Step::text("Done.")]])
        };
        let model = ScriptedModel::new(library).unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        runtime.spawn(serve(listener, model.clone(), std::future::pending()));
        Self { model, host, _runtime: runtime }
    }

    /// The settings that the tests need on any machine: the other servers are where nothing listens.
    fn settings() -> &'static str {
        "agent:\n  providers:\n    lmstudio: { url: 'http://127.0.0.1:9/v1' }\n    llamacpp: { url: 'http://127.0.0.1:9/v1' }\n"
    }

    fn variables<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("OLLAMA_HOST", &self.host).env("CORACLE_AGENT_FIND_LOCAL_SERVERS", "true")
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let coracle = Coracle::new(As::current());
        std::fs::write(coracle.workspace().join("coracle.yaml"), Self::settings()).unwrap();
        let mut command = coracle.command();
        self.variables(&mut command).current_dir(coracle.workspace()).args(words).stdin(Stdio::null());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }
}

#[test]
fn a_task_uses_the_only_model() {
    let machine = Machine::with_models(&["qwen3:8b"]);
    let (code, answer, said) = machine.run(&["task", "do it"]);
    assert_eq!((code, answer.trim()), (Some(0), "Done."), "{said}");
    assert!(said.contains("Ollama at 127.0.0.1:") && said.contains("using ollama/qwen3:8b"), "{said}");
    assert_eq!(machine.model.requests().last().unwrap().body["model"], "qwen3:8b");
}

#[test]
fn with_several_models_a_task_asks_for_a_choice() {
    let machine = Machine::with_models(&["qwen3:8b", "llama3.2:latest"]);
    let (code, _, said) = machine.run(&["task", "do it"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ollama/qwen3:8b, ollama/llama3.2:latest"), "{said}");
    assert!(said.contains("such as --model ollama/qwen3:8b"), "{said}");
    assert_eq!(machine.model.requests().count(), 0);
    let (code, answer, said) = machine.run(&["task", "--model", "ollama/llama3.2:latest", "do it"]);
    assert_eq!((code, answer.trim()), (Some(0), "Done."), "{said}");
    assert!(!said.contains("using"), "{said}");
}

#[test]
fn a_configured_model_is_not_replaced() {
    let machine = Machine::with_models(&["qwen3:8b"]);
    let (code, _, said) = machine.run(&["task", "--model", "anthropic/claude", "do it"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ANTHROPIC_API_KEY") && !said.contains("qwen3"), "{said}");
    let coracle = Coracle::new(As::current());
    let mut command = coracle.command();
    machine.variables(&mut command).env("CORACLE_AGENT_FIND_LOCAL_SERVERS", "false");
    let refused = command.args(["task", "do it"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(machine.model.requests().count(), 0);
}

#[test]
fn models_are_listed() {
    let machine = Machine::with_models(&["qwen3:8b", "llama3.2:latest"]);
    let (code, listed, said) = machine.run(&["models"]);
    assert_eq!((code, listed.as_str()), (Some(0), "ollama/qwen3:8b\nollama/llama3.2:latest\n"), "{said}");
    assert!(said.contains("found on this machine") && said.contains("cannot list the models of lmstudio"), "{said}");
    let (_, listed, _) = machine.run(&["models", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["models"][0], json!({"name": "ollama/qwen3:8b", "provider": "ollama"}));
    assert_eq!(listed["default"], Value::Null);
    let coracle = Coracle::new(As::current());
    let none = coracle.command().arg("models").output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("agent.default_model"));
}

#[test]
fn a_server_offers_what_it_found() {
    let machine = Machine::with_models(&["qwen3:8b"]);
    let site = Site::start_with(As::current(), Machine::settings(), |command| {
        machine.variables(command).args(["--port", "0"]);
    });
    let said = site.said_until("to make one the default");
    assert!(said.contains("Ollama at 127.0.0.1:") && said.contains("ollama/qwen3:8b"), "{said}");
    assert!(said.contains("DEFAULT_MODEL=ollama/qwen3:8b coracle up"), "{said}");
    let client = site.local_client();
    let listed = client.get("/v1/models").json();
    assert_eq!(listed["data"][0]["id"], "ollama/qwen3:8b", "{listed}");
    let body = json!({"model": "ollama/qwen3:8b", "messages": [{"role": "user", "content": "x"}]});
    let answer = client.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, &answer.json()["choices"][0]["message"]["content"]), (200, &json!("Done.")));
}
