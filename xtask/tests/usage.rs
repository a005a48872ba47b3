//! `cargo xtask` as a developer meets it.

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
        for command in ["test", "check", "soak", "dist", "generate", "help"] {
            assert!(text.contains(&format!("\n  {command} ")), "{command} in {text}");
        }
    }
}

#[test]
fn what_is_not_a_command_is_wrong_usage() {
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
