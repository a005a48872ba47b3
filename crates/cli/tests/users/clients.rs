//! Clients of OpenAI's API, unchanged but for address and key. Everything that they get is checked against the types of
//! the official client.

use crate::playing::{Playing, computes, key_of};
use crate::recording::Recorder;
use crate::site::Site;
use coracle_scripted_model::{Arrangement, Call, CallGroup, Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::installed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the model does in these tests, by the marker in the user's message.
fn library() -> Library {
    let code = || Step::call("execute_code", json!({"code": "print('working')\nresult = 6 * 7"}));
    let weather = |city: &str| Call::new("get_weather", json!({"city": city}));
    let bash = Step::call("execute_code", json!({"code": "echo from bash", "language": "bash"}));
    let search = Step::call("search_tools", json!({"query": "anything"}));
    let two = CallGroup { calls: vec![weather("Rome"), weather("Oslo")], arrangement: Arrangement::OneChunk };
    computes()
        .with("weather", Script::new([vec![Step::Call(weather("Rome"))], vec![Step::text("It is {{result}}.")]]))
        .with("two", Script::new([vec![Step::Calls(two)], vec![Step::text("Both: {{result}}.")]]))
        // Tools of the server and of the client in one conversation.
        .with(
            "both",
            Script::new([
                vec![Step::text("First code."), code()],
                vec![Step::reasoning("Now the weather."), Step::Call(weather("Rome"))],
                vec![code()],
                vec![Step::text("It is sunny, and {{result}}.")],
            ]),
        )
        .with("shell", Script::new([vec![bash], vec![Step::text("Done.")]]))
        .with("search", Script::new([vec![Step::reasoning("I should search."), search], vec![Step::text("Done.")]]))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/users/clients").join(name)
}

fn python(name: &str) -> Command {
    let mut command = Command::new(installed::path("venv-openai/bin/python"));
    command.arg("-I").arg(script(name));
    // Neither prices nor traces are fetched or sent.
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("OPENAI_AGENTS_DISABLE_TRACING", "1");
    command
}

/// A program for Node, in a folder where it finds its packages.
fn node(name: &str, folder: &Path) -> Command {
    std::os::unix::fs::symlink(installed::path("npm-openai/node_modules"), folder.join("node_modules")).unwrap();
    std::fs::copy(script(name), folder.join(name)).unwrap();
    let mut command = Command::new(installed::path("npm-conformance/node_modules/.bin/node"));
    command.arg(folder.join(name));
    command
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Checks recorded answers against the types of the official client.
fn checked(answers: &[Value]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, answers).unwrap();
    python("answers.py").arg(file.path()).output().unwrap()
}

/// Runs a client while the model is on this wire.
#[track_caller]
fn runs(wire: &str, mut client: Command) {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings(wire));
    let recorder = Recorder::new(site.address());
    let done = client.args([format!("http://{}/v1", recorder.address()), key_of(&site)]).output().unwrap();
    assert!(done.status.success(), "{wire}: {}", said(&done));
    let answers = recorder.answers();
    let checked = checked(&answers);
    assert!(checked.status.success(), "{wire}: {}", said(&checked));
    println!("{wire}: {}", said(&checked).trim());
}

#[test]
fn openai_for_python_can_do_everything() {
    for wire in ["chat", "responses", "messages"] {
        runs(wire, python("openai_python.py"));
    }
}

#[test]
fn openai_for_node_has_conversations_with_tools() {
    let folder = tempfile::tempdir().unwrap();
    runs("chat", node("openai_node.mjs", folder.path()));
}

#[test]
fn the_ai_sdk_has_conversations_with_tools() {
    let folder = tempfile::tempdir().unwrap();
    runs("responses", node("ai_sdk.mjs", folder.path()));
}

#[test]
fn openai_agents_has_conversations_with_tools() {
    runs("messages", python("openai_agents.py"));
}

#[test]
fn litellm_has_conversations_with_tools() {
    runs("chat", python("lite_llm.py"));
}

#[test]
fn langchain_has_conversations_with_tools() {
    runs("responses", python("lang_chain.py"));
}

/// The check rejects what the tests above must not miss.
#[test]
fn wrong_answers_are_found() {
    let chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": null}],
    });
    let answer = |chunk: &Value| {
        let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        json!([{"method": "POST", "path": "/v1/chat/completions", "status": 200, "type": "text/event-stream", "body": body}])
    };
    let check = |chunk: &Value| checked(answer(chunk).as_array().unwrap());
    assert!(check(&chunk).status.success(), "{}", said(&check(&chunk)));
    for (pointer, name, value) in [
        ("", "created", json!("1")),
        ("", "unknown", json!(1)),
        ("/choices/0", "finish_reason", json!("ended")),
        ("/choices/0/delta", "content", json!(1)),
    ] {
        let mut wrong = chunk.clone();
        wrong.pointer_mut(pointer).unwrap()[name] = value;
        let found = check(&wrong);
        assert!(!found.status.success() && said(&found).contains(name), "{}", said(&found));
    }
}
