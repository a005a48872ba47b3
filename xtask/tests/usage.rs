//! `cargo xtask` as developers use it.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output()
}

#[test]
fn help_and_no_arguments_print_the_usage() {
    for arguments in [&[][..], &["help"], &["--help"]] {
        let output = xtask(arguments).unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        for command in ["test", "check", "soak", "dist", "docs", "generate", "help"] {
            assert!(text.contains(&format!("\n  {command} ")), "{command} in {text}");
        }
    }
}

#[test]
fn unknown_commands_are_wrong_usage() {
    for (arguments, message) in [
        (&["nonsense"][..], "error: there is no command `nonsense`"),
        (&["check", "nonsense"], "error: `nonsense` comes unexpectedly"),
    ] {
        let output = xtask(arguments).unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(message), "{text}");
        assert!(text.contains("usage: cargo xtask"), "{text}");
    }
}

#[test]
fn the_book_needs_a_program_that_is_named_if_it_is_missing() {
    // The folder of the toolchain has what cargo needs, and nothing that people install.
    let cargo = std::env::var_os("CARGO").unwrap();
    let toolchain = std::path::Path::new(&cargo).parent().unwrap();
    assert!(!toolchain.join("mdbook").exists());
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("docs").env("PATH", toolchain).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cargo install mdbook"), "{text}");
}
