//! `coracle chat`, with a scripted model.

use crate::playing::{Playing, computes, local_key};
use crate::site::Site;
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::{As, Coracle};
use coracle_testing::terminal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Output, Stdio};

fn lab(model: &Playing) -> Coracle {
    let coracle = Coracle::new(As::current());
    std::fs::write(coracle.workspace().join("coracle.yaml"), model.settings("chat")).unwrap();
    coracle
}

fn chat(coracle: &Coracle, arguments: &[&str], typed: &str) -> Output {
    let mut command = coracle.command();
    command.current_dir(coracle.workspace()).arg("chat").args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn at_a_terminal(coracle: &Coracle, arguments: &[&str], answers: &[(&str, &str)]) -> (i64, String) {
    let mut command = coracle.command();
    command.current_dir(coracle.workspace()).arg("chat").args(arguments);
    let (status, _, output) = terminal::at_a_terminal(&command, answers);
    (status, output)
}

#[test]
fn a_chat_remembers_and_can_be_continued() {
    let code = Step::call("execute_code", json!({"code": "result = 6 * 7"}));
    let library = Library::single([
        vec![code],
        vec![Step::text("It is {{result}}.")],
        vec![Step::text("You said: {{user}}.")],
        vec![Step::text("Still here: {{user}}.")],
    ]);
    let model = Playing::new(library);
    let coracle = lab(&model);
    let missing = chat(&coracle, &["--continue"], "");
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no conversation yet"), "{missing:?}");

    let done = chat(&coracle, &["What is 6 times 7?"], "\nhello \\\nagain\n");
    let (said, work) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(0), "{work}");
    assert!(said.starts_with("It is 42") && said.contains("You said: hello \nagain."), "{said}");
    assert!(work.contains("result = 6 * 7"), "{work}");

    let more = chat(&coracle, &["--continue", "--quiet"], "and now\n");
    assert_eq!(String::from_utf8_lossy(&more.stdout), "Still here: and now.\n", "{more:?}");
    // The model got the whole conversation.
    let asked = model.model.requests().all();
    let last = asked.last().unwrap().body["messages"].to_string();
    for text in ["What is 6 times 7?", "hello ", "You said", "and now"] {
        assert!(last.contains(text), "{text}: {last}");
    }
}

#[test]
fn a_chat_is_a_conversation_of_the_server() {
    let model = Playing::new(computes());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    std::fs::write(site.coracle.workspace().join("coracle.yaml"), model.settings("chat")).unwrap();
    let done = chat(&site.coracle, &["What is 6 times 7?"], "");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let shown = chat(&site.coracle, &["--continue"], "");
    let text = String::from_utf8_lossy(&shown.stderr).into_owned();
    let id = text.split_whitespace().find(|word| word.starts_with("conv_")).expect(&text).trim_end_matches(',');
    let items = local_key(&site).get(&format!("/v1/conversations/{id}/items?order=asc")).json();
    let kinds: Vec<&Value> = items["data"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "message", "code_interpreter_call", "message"], "{items}");
}

#[test]
fn a_person_can_stop_an_answer_change_the_model_and_begin_anew() {
    let waits = Script::new([vec![Step::text("I begin."), Step::gate("never")]]);
    let library = Library::single([vec![Step::text("Answer: {{user}}.")], vec![Step::text("Second: {{user}}.")]]);
    let model = Playing::new(library.with("waits", waits));
    let coracle = lab(&model);
    let (code, shown) = at_a_terminal(
        &coracle,
        &[],
        &[
            ("> ", "/help\n"),
            ("Ctrl-C stops an answer", "[script:waits]\n"),
            ("I begin.", "\u{3}"),
            ("error: cancelled", ""),
            ("> ", "/new\n"),
            ("a new conversation", "one\n"),
            ("Answer: one.", "/model\n"),
            ("the model is lab/demo", "/model lab/other\n"),
            ("going on with lab/other", "two\n"),
            ("Second: two.", ""),
            ("> ", "\u{3}"),
            ("(Ctrl-C again or Ctrl-D to end)", "\u{4}"),
        ],
    );
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("to go on later: coracle chat --conversation conv_"), "{shown}");
    let models: Vec<Value> = model.model.requests().all().iter().map(|asked| asked.body["model"].clone()).collect();
    assert_eq!(models, ["demo", "demo", "other"]);
}
