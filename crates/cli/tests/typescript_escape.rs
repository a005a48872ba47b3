//! The escape battery through TypeScript: the engine that runs it is no wall, so what code can reach by it must be what
//! every sandbox can reach.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "support/harness.rs"]
mod harness;

use harness::{Coracle, everybody};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// A battery of fewer probes has not fired.
const AT_LEAST: u64 = 145;

#[test]
fn nothing_of_the_host_is_reached() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let canary = coracle.home().join("canary.json");
        fs::write(&canary, "\"CANARY-OF-THE-HOST\"").unwrap();
        coracle.own(&canary);
        let workspace = coracle.workspace();
        for (name, text) in [("own.txt", "own"), ("own.json", r#"{"own":true}"#)] {
            fs::write(workspace.join(name), text).unwrap();
            coracle.own(&workspace.join(name));
        }
        symlink(&canary, workspace.join("link")).unwrap();
        symlink(&canary, workspace.join("link.json")).unwrap();
        symlink("/etc/passwd", workspace.join("passwd.json")).unwrap();
        symlink("own.txt", workspace.join("own-link")).unwrap();
        let facts = format!("const CANARY = {canary:?}, FOLDER = {:?};\n", coracle.home());
        let execution = coracle.run("typescript", &(facts + include_str!("typescript_escape/probes.ts")), &[]);
        assert_eq!(execution["success"], true, "as {who:?}: {execution:#}");
        assert_eq!(execution["result"]["failures"], json!([]), "as {who:?}");
        assert!(execution["result"]["seen"].as_u64() >= Some(AT_LEAST), "as {who:?}: {execution:#}");
        assert!(!execution.to_string().contains("CANARY-OF"), "as {who:?}: {execution:#}");
        // The canary is there, whole, and found by who may see it.
        assert_eq!(fs::read_to_string(&canary).unwrap(), "\"CANARY-OF-THE-HOST\"");
    }
}

/// A result, a stack or an error is told by what was there before the code changed everything.
#[test]
fn what_code_does_to_errors_does_not_hide_them() {
    let coracle = Coracle::new(everybody()[0]);
    for (name, code) in [
        ("the formatter of stacks", "(Error as any).prepareStackTrace = () => { throw 1 }"),
        ("the length of stacks", "(Error as any).stackTraceLimit = Infinity"),
        (
            "the stack itself",
            "Object.defineProperty(Error.prototype, 'stack', { get() { throw 1 }, configurable: true })",
        ),
        ("the name", "Object.defineProperty(Error.prototype, 'name', { get() { throw 1 }, configurable: true })"),
        ("the text", "Error.prototype.toString = () => { throw 1 }"),
    ] {
        let execution = coracle.run("typescript", &format!("{code};\nthrow new TypeError('the reason')"), &[]);
        assert_eq!(execution["error_code"], "exception", "{name}: {execution:#}");
        assert!(execution["error"].as_str().unwrap().contains("the reason"), "{name}: {execution:#}");
        let execution = coracle.run("typescript", &format!("{code};\n[1, 'fine']"), &[]);
        assert_eq!(execution["result"], json!([1, "fine"]), "{name}: {execution:#}");
    }
}

/// One run cannot change what the next one of another person finds: each has an engine of its own.
#[test]
fn two_executions_share_no_engine() {
    let coracle = Coracle::new(everybody()[0]);
    let spoil =
        "(globalThis as any).left = 1; (Object.prototype as any).left = 2; readFile = (() => 'spoiled') as any; 1";
    assert_eq!(coracle.run("typescript", spoil, &[])["result"], 1);
    let look = "['left' in globalThis, 'left' in {}, readFile('/etc/hostname')]";
    assert_eq!(coracle.run("typescript", look, &[])["result"], json!([false, false, "coracle\n"]));
    // The control: within one, they do.
    let both = format!("{}; {look}", spoil.trim_end_matches("; 1"));
    let execution: Value = coracle.run("typescript", &both, &[]);
    assert_eq!(execution["result"], json!([true, true, "spoiled"]), "{execution:#}");
}
