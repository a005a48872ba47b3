//! The commands and programs in the chapters about the agent and its API, as a reader would run them, with a scripted
//! model in the place of the provider.

use crate::playing::{Playing, key_of};
use crate::site::Site;
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::{As, Coracle, program};
use coracle_testing::installed;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

/// The demo goes on until it is stopped; `demo.rs` has its tests.
const DEMO: &str = "coracle up --demo\n";

/// The blocks of a chapter in a language.
fn blocks(chapter: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(chapter);
    let text = std::fs::read_to_string(path).unwrap();
    let (mut blocks, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside && info == language;
            blocks.extend(inside.then(String::new));
        } else if inside {
            blocks.last_mut().unwrap().extend([line, "\n"]);
        }
    }
    blocks
}

/// Settings whose provider `anthropic` is the scripted model, too.
fn settings(model: &Playing) -> String {
    let url = model.address();
    let anthropic = json!({ "url": format!("{url}/v1"), "api": "messages", "api_key": "key" });
    let shop = json!({ "shop": { "command": program(), "args": ["mcp-demo", "shop"] } });
    format!("{}    anthropic: {anthropic}\nmcpServers: {shop}\n", model.settings("chat"))
}

fn library() -> Library {
    let cancels = "from servers.shop import cancel_order\nresult = cancel_order(id=1007)['status']";
    let cancels = [vec![Step::call("execute_code", json!({ "code": cancels }))], vec![Step::text("It is {{result}}.")]];
    Library { default: Some("echo".to_owned()), ..Library::default() }
        .with("echo", Script::new([vec![Step::text("You said: {{user}}")], vec![Step::text("Again: {{user}}")]]))
        .with("cancels", Script::new(cancels).says("Clean up my repository."))
}

fn succeeded(output: &Output, what: &str) -> String {
    let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{what}\n{said}\n{complained}");
    said
}

#[test]
fn the_commands_of_the_chapter_about_the_agent_work() {
    let model = Playing::new(library());
    let coracle = Coracle::new(As::current());
    std::fs::write(coracle.workspace().join("coracle.yaml"), settings(&model)).unwrap();
    let own = coracle.command();
    let programs = program().parent().unwrap().to_owned();
    let path =
        std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let shell = |block: &str| {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &block.replace('…', "key")]).current_dir(coracle.workspace());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("PATH", path.as_ref().unwrap()).stdin(std::process::Stdio::null()).output().unwrap()
    };
    let blocks = blocks("agent.md", "sh");
    assert!(blocks.len() >= 4 && blocks.iter().any(|block| block == DEMO), "{blocks:?}");
    for block in blocks.iter().filter(|block| *block != DEMO) {
        let said = succeeded(&shell(block), block);
        assert!(said.contains("You said: "), "{block}\n{said}");
    }
    // The models of both providers were asked.
    let asked: Vec<String> = model.model.requests().all().iter().map(|request| request.body.to_string()).collect();
    for words in ["larger than 1 MB", "claude-sonnet-5", "each author", "open issues", "What does this project do"] {
        assert!(asked.iter().any(|body| body.contains(words)), "{words}: {asked:#?}");
    }
}

#[test]
fn the_programs_of_the_chapter_about_the_api_work() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &settings(&model));
    let blocks = blocks("api.md", "python");
    let [first, second] = &blocks[..] else { panic!("{blocks:?}") };
    let program = format!("{first}\nmodel = 'lab/demo'\n{second}\nprint(response.output_text)\n");
    let program = program.replace("127.0.0.1:8989", site.address()).replace("\"…\"", &format!("\"{}\"", key_of(&site)));
    let python = installed::path("venv-openai/bin/python");
    let said = succeeded(&Command::new(python).args(["-I", "-c", &program]).output().unwrap(), &program);
    assert!(said.starts_with("You said: Sum the first 1000 primes.\nIt is cancelled\n"), "{said}");
}
