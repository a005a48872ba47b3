//! Questions to a person at a terminal.

use super::terminal::Window;
use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Calls a tool that asks; the outcome is the result or the error code.
const TRY: &str = r"
import asyncio
from coracle import ToolError
from servers.plain import note, wipe
async def attempt(what):
    try:
        return await wipe.aio(what=what)
    except ToolError as error:
        return error.code
";

fn bridge(who: coracle_testing::harness::As) -> Bridge {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    // The list is known, so that a run starts with its question.
    bridge.result("python", "from servers.plain import echo\necho(text='ready')");
    bridge
}

fn notes(bridge: &Bridge) -> Vec<String> {
    let lines = bridge.lines("plain");
    let _ = fs::remove_file(bridge.path("data/plain"));
    lines
}

each_user!(waiting_for_an_answer_does_not_count_as_time);
fn waiting_for_an_answer_does_not_count_as_time(who: As) {
    let bridge = bridge(who);
    let code = format!("{TRY}\nawait attempt('the disk')");
    let window = Window::exec(&bridge, &code, &["--timeout", "1"]);
    let question = window.question(1);
    assert!(question.contains("plain.wipe?") && question.contains("the disk"), "{question}");
    // Longer than the time limit of the code.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(notes(&bridge), Vec::<String>::new(), "the call did not wait");
    window.answer("y");
    let execution = window.finish();
    assert_eq!(execution["result"], "done", "as {who:?}: {execution:#}");
    assert_eq!(notes(&bridge), ["wipe the disk"]);

    let window = Window::exec(&bridge, &code, &[]);
    window.question(1);
    window.answer("n");
    let execution = window.finish();
    assert_eq!(execution["result"], "denied_by_person", "as {who:?}: {execution:#}");
    assert_eq!(execution["calls"][0]["code"], "denied_by_person");
    assert_eq!(notes(&bridge), Vec::<String>::new());
}

/// Input from before the question is not an answer to it.
#[test]
fn input_from_before_the_question_is_discarded() {
    let bridge = bridge(As::current());
    let gate = bridge.text("data/gate");
    let code = format!("{TRY}\nfrom servers.plain import wait\nwait(path={gate:?})\nawait attempt('a')");
    let window = Window::exec(&bridge, &code, &[]);
    eventually("it waits", || bridge.lines("plain.log").last().is_some_and(|line| line == "wait"));
    window.answer("y");
    eventually("it is typed", || window.screen().contains('y'));
    bridge.write("data/gate", "");
    window.question(1);
    window.answer("n");
    let execution = window.finish();
    assert_eq!(execution["result"], "denied_by_person", "{execution:#}");
}

#[test]
fn calls_wait_for_their_own_answers_and_others_continue() {
    let bridge = bridge(As::current());
    // A question does not occupy a slot for calls.
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "calls": { "concurrency": 1 } }));
    let code = format!("{TRY}\nawait asyncio.gather(attempt('good'), attempt('bad'), note.aio(text='went on'))");
    let window = Window::exec(&bridge, &code, &[]);
    for number in 1..=2 {
        let question = window.question(number);
        // Calls that need no answer do not wait.
        eventually("the other call is made", || bridge.lines("plain").contains(&"note went on".to_owned()));
        let is_good = question.contains("good");
        assert_ne!(is_good, question.contains("bad"), "{question}");
        window.answer(if is_good { "yes" } else { "no" });
    }
    let execution = window.finish();
    assert_eq!(execution["result"], json!(["done", "denied_by_person", "done"]), "{execution:#}");
    assert_eq!(notes(&bridge), ["note went on", "wipe good"]);
}

#[test]
fn an_answer_can_apply_to_the_session_or_permanently() {
    let bridge = bridge(As::current());
    let code = format!("{TRY}\n[await attempt('a'), await attempt('b')]");
    // Invalid answers are asked again.
    let window = Window::exec(&bridge, &code, &[]);
    window.question(1);
    window.answer("perhaps");
    window.question(2);
    assert!(window.screen().contains("please answer"));
    window.answer("s");
    let execution = window.finish();
    assert_eq!(execution["result"], json!(["done", "done"]), "{execution:#}");

    // The session was that run.
    let window = Window::exec(&bridge, &code, &[]);
    window.question(1);
    window.answer("a");
    let execution = window.finish();
    assert_eq!(execution["result"], json!(["done", "done"]), "{execution:#}");

    let execution = Window::exec(&bridge, &code, &[]).finish();
    assert_eq!(execution["result"], json!(["done", "done"]), "{execution:#}");
    // A terminal is no longer needed either.
    assert_eq!(bridge.result("python", &code), json!(["done", "done"]));

    // The permission is for the definition, not for the name: another tool with the same name asks again.
    let changed =
        fs::read_to_string(bridge.path("plain.py")).unwrap().replace("Removes something.", "Removes everything.");
    bridge.write("plain.py", &changed);
    assert_eq!(bridge.result("python", &code), json!(["denied_unasked", "denied_unasked"]));
}

/// Ctrl-C during a question ends everything.
#[test]
fn ctrl_c_during_a_question_ends_the_program() {
    let bridge = bridge(As::current());
    let window = Window::exec(&bridge, &format!("{TRY}\nawait attempt('a')"), &[]);
    window.question(1);
    window.press("C-c");
    let execution: Value = window.finish();
    assert_eq!(execution["error_code"], "cancelled", "{execution:#}");
    assert_eq!(notes(&bridge), Vec::<String>::new());
}
