//! A person at a terminal is asked, and the answer counts.

use crate::harness::everybody;
use crate::lab::{Bridge, eventually};
use crate::terminal::Window;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Calls what asks; the outcome is the answer or the code of the error.
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

fn bridge(who: crate::harness::As) -> Bridge {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    // The list is known, so that a run begins with its question.
    bridge.result("python", "from servers.plain import echo\necho(text='ready')");
    bridge
}

fn notes(bridge: &Bridge) -> Vec<String> {
    let lines = bridge.lines("plain");
    let _ = fs::remove_file(bridge.path("data/plain"));
    lines
}

#[test]
fn a_call_waits_for_an_answer_and_the_clock_does_not_run() {
    for who in everybody() {
        let bridge = bridge(*who);
        let code = format!("{TRY}\nawait attempt('the disk')");
        let window = Window::exec(&bridge, &code, &["--timeout", "1"]);
        let question = window.question(1);
        assert!(question.contains("plain.wipe?") && question.contains("the disk"), "{question}");
        // Longer than the code has.
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(notes(&bridge), Vec::<String>::new(), "it did not wait");
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
}

/// A yes that was typed too early is no answer to a question that nobody has read.
#[test]
fn what_was_typed_before_the_question_does_not_count() {
    let bridge = bridge(everybody()[0]);
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
fn two_calls_wait_each_for_its_own_answer_and_others_go_on() {
    let bridge = bridge(everybody()[0]);
    // A question takes no place from a call.
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "calls": { "concurrency": 1 } }));
    let code = format!("{TRY}\nawait asyncio.gather(attempt('good'), attempt('bad'), note.aio(text='went on'))");
    let window = Window::exec(&bridge, &code, &[]);
    for number in 1..=2 {
        let question = window.question(number);
        // What needs no answer has none to wait for.
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
fn an_answer_may_hold_for_the_session_or_for_good() {
    let bridge = bridge(everybody()[0]);
    let code = format!("{TRY}\n[await attempt('a'), await attempt('b')]");
    // Anything else than an answer is asked again.
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
    // Nor is a terminal needed any more.
    assert_eq!(bridge.result("python", &code), json!(["done", "done"]));

    // The definition was allowed, not the name: another tool under the same name asks again.
    let changed =
        fs::read_to_string(bridge.path("plain.py")).unwrap().replace("Removes something.", "Removes everything.");
    bridge.write("plain.py", &changed);
    assert_eq!(bridge.result("python", &code), json!(["denied_unasked", "denied_unasked"]));
}

/// Ctrl-C while somebody is asked ends everything.
#[test]
fn a_question_can_be_left_by_ending_the_program() {
    let bridge = bridge(everybody()[0]);
    let window = Window::exec(&bridge, &format!("{TRY}\nawait attempt('a')"), &[]);
    window.question(1);
    window.press("C-c");
    let execution: Value = window.finish();
    assert_eq!(execution["error_code"], "cancelled", "{execution:#}");
    assert_eq!(notes(&bridge), Vec::<String>::new());
}
