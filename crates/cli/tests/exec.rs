//! `coracle exec` as a person uses it.

#[path = "support/harness.rs"]
mod harness;

use harness::{Coracle, everybody};

#[test]
fn the_first_command_of_the_readme_prints_42() {
    for who in everybody() {
        let output = Coracle::new(*who).exec(&["-c", "print(6*7)"]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"42\n"[..]), "{output:?}");
    }
}
