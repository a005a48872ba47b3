//! If parts of the host's `/proc` are masked, as in a container, the kernel refuses to mount another one. Sandboxes
//! then have an empty `/proc`, never the host's.

use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::process::Command;

/// Runs the program as root of a user namespace, after a preparation in the shell.
fn listing_of_proc(coracle: &Coracle, preparation: &str) -> Value {
    let exec = coracle.command();
    let mut command = Command::new(exec.get_program());
    let mut arguments: Vec<_> = exec.get_args().collect();
    let program = arguments.pop().map_or_else(|| exec.get_program().to_owned(), ToOwned::to_owned);
    if !arguments.is_empty() {
        command.args(&arguments);
    }
    let script = format!("{preparation} exec \"$0\" exec --json -c 'import os; sorted(os.listdir(\"/proc\"))'");
    let unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"];
    if arguments.is_empty() {
        command = Command::new("unshare");
        command.args(unshare.iter().skip(1));
    } else {
        command.args(unshare);
    }
    let output =
        command.arg(script).arg(program).env("CORACLE_HOME", coracle.home()).current_dir("/").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_masked_proc_results_in_an_empty_one() {
    let coracle = Coracle::new(As::Ordinary);
    let whole = listing_of_proc(&coracle, "");
    assert_eq!(
        (&whole["success"], &whole["result"]),
        (&json!(true), &json!(["1", "self", "thread-self"])),
        "{whole:#}"
    );
    let masked = listing_of_proc(&coracle, "mount -t tmpfs none /proc/driver &&");
    assert_eq!((&masked["success"], &masked["result"]), (&json!(true), &json!([])), "{masked:#}");
    assert_eq!(masked["limits"]["tier"], "native-partial");
}
