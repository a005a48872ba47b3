//! Runs the guest's Python tests, which drive the agent over a real socket, outside a sandbox.

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_tests_pass() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/run.py");
    // The interpreter that sandboxes prefer, or else any `python3`.
    let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let output = Command::new(python).arg("-I").arg(script).output().expect("python3 starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("\nOK"), "{words}");
}
