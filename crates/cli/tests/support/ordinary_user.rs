//! Repeats tests with an in-process engine as an ordinary user.

use crate::harness::{PROGRAM, as_ordinary, for_everybody, program};
use std::process::Command;

/// Starts this test program again as an ordinary user, without the calling test and those that handle both users
/// themselves. Does nothing if the current user is an ordinary one.
pub(crate) fn run_tests_except(but: &[&str]) {
    let words = as_ordinary();
    let Some((setpriv, arguments)) = words.split_first() else {
        println!("the tests run as an ordinary user: once is enough");
        return;
    };
    let tests = for_everybody(&std::env::current_exe().unwrap(), "tests");
    let output = Command::new(setpriv)
        .args(arguments)
        .arg(tests)
        .args(but.iter().flat_map(|test| ["--skip", *test]))
        .env(PROGRAM, program())
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "as an ordinary user: {words}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = words.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ok")).count();
    println!("as an ordinary user: {passed} tests passed");
    assert!(passed > 0, "no test ran: {words}");
}
