//! The escape tests through TypeScript: its engine is not a security boundary, so code must have no more access than
//! any sandbox has.

use crate::lab::{place, run};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// Minimum number of probes.
const AT_LEAST: u64 = 145;

each_user!(the_host_is_out_of_reach);
fn the_host_is_out_of_reach(who: As) {
    let coracle = place(who);
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
    let (shown, home) = (canary.display(), coracle.home());
    let facts = format!("const CANARY = \"{shown}\", FOLDER = \"{}\";\n", home.display());
    let execution = run(&coracle, "typescript", &(facts + include_str!("typescript_escape/probes.ts")), &[]);
    assert_eq!(execution["ok"], true, "as {who:?}: {execution:#}");
    assert_eq!(execution["result"]["failures"], json!([]), "as {who:?}");
    assert!(execution["result"]["seen"].as_u64() >= Some(AT_LEAST), "as {who:?}: {execution:#}");
    assert!(!execution.to_string().contains("CANARY-OF"), "as {who:?}: {execution:#}");
    // The canary is intact, and readable from outside.
    assert_eq!(fs::read_to_string(&canary).unwrap(), "\"CANARY-OF-THE-HOST\"");
}

/// Results, stacks and errors are rendered with the original built-ins.
#[test]
fn changed_errors_are_still_reported() {
    let coracle = place(As::current());
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
        let execution = run(&coracle, "typescript", &format!("{code};\nthrow new TypeError('the reason')"), &[]);
        assert_eq!(execution["error"]["code"], "exception", "{name}: {execution:#}");
        assert!(execution["error"]["message"].as_str().unwrap().contains("the reason"), "{name}: {execution:#}");
        let execution = run(&coracle, "typescript", &format!("{code};\n[1, 'fine']"), &[]);
        assert_eq!(execution["result"], json!([1, "fine"]), "{name}: {execution:#}");
    }
}

/// Each execution has its own engine, so one cannot affect the next.
#[test]
fn executions_do_not_share_an_engine() {
    let coracle = place(As::current());
    let spoil =
        "(globalThis as any).left = 1; (Object.prototype as any).left = 2; readFile = (() => 'spoiled') as any; 1";
    assert_eq!(run(&coracle, "typescript", spoil, &[])["result"], 1);
    let look = "['left' in globalThis, 'left' in {}, readFile('/etc/hostname')]";
    assert_eq!(run(&coracle, "typescript", look, &[])["result"], json!([false, false, "coracle\n"]));
    // Control: within one execution the change is visible.
    let both = format!("{}; {look}", spoil.trim_end_matches("; 1"));
    let execution: Value = run(&coracle, "typescript", &both, &[]);
    assert_eq!(execution["result"], json!([true, true, "spoiled"]), "{execution:#}");
}
