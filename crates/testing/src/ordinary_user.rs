//! Repeats tests with an in-process engine as an ordinary user.

use crate::harness::{PROGRAM, as_ordinary, for_everybody, program};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Held by the module that is being repeated: each one runs as many tests at once as the machine has cores.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Starts this test program again as an ordinary user with the tests of one module, which is given as the caller's
/// `module_path!()`. The tests named in `but` are left out, such as the calling one, and so are those of
/// [`each_user`](crate::each_user). Does nothing if the current user is an ordinary one.
pub fn run_tests_except(module: &str, but: &[&str]) {
    let words = as_ordinary();
    let Some((setpriv, arguments)) = words.split_first() else {
        println!("the tests run as an ordinary user: once is enough");
        return;
    };
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Names of tests do not start with the test program's own name.
    let (_, module) = module.split_once("::").expect("the tests are in a module of the test program");
    let tests = for_everybody(&std::env::current_exe().unwrap(), "tests");
    let output = Command::new(setpriv)
        .args(arguments)
        .arg(tests)
        .arg(format!("{module}::"))
        .args(but.iter().flat_map(|test| ["--skip".to_owned(), format!("{module}::{test}")]))
        .args(["--skip", "::as_root", "--skip", "::as_ordinary_user"])
        .env(PROGRAM, program())
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "as an ordinary user: {words}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed: Vec<&str> =
        words.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok")).collect();
    println!("as an ordinary user: {} tests of {module} passed", passed.len());
    assert!(!passed.is_empty(), "no test ran: {words}");
    // The filter also finds modules whose names end in the same way.
    assert!(passed.iter().all(|test| test.starts_with(&format!("{module}::"))), "tests of other modules ran: {words}");
}
