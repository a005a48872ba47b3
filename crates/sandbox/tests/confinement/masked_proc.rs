//! If parts of the host's `/proc` are masked, as in a container, the kernel refuses to mount another one. Sandboxes
//! then have an empty `/proc`, never the host's.

use crate::lab::place;
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::process::Command;

/// Runs the program as root of a user namespace, after a preparation in the shell.
fn listing_of_proc(coracle: &Coracle, preparation: &str) -> Value {
    let model = coracle.command();
    let mut command = Command::new(model.get_program());
    let mut arguments: Vec<_> = model.get_args().collect();
    let program = arguments.pop().map_or_else(|| model.get_program().to_owned(), ToOwned::to_owned);
    if !arguments.is_empty() {
        command.args(&arguments);
    }
    let script = format!("{preparation} exec \"$0\" -c 'import os; sorted(os.listdir(\"/proc\"))' \"$1\"");
    let unshare = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"];
    if arguments.is_empty() {
        command = Command::new("unshare");
        command.args(unshare.iter().skip(1));
    } else {
        command.args(unshare);
    }
    command.arg(script).arg(program).arg(coracle.workspace());
    let output = command.env("CORACLE_HOME", coracle.home()).current_dir("/").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_masked_proc_results_in_an_empty_one() {
    let coracle = place(As::Ordinary);
    let whole = listing_of_proc(&coracle, "");
    assert_eq!((&whole["ok"], &whole["result"]), (&json!(true), &json!(["1", "self", "thread-self"])), "{whole:#}");
    let masked = listing_of_proc(&coracle, "mount -t tmpfs none /proc/driver &&");
    assert_eq!((&masked["ok"], &masked["result"]), (&json!(true), &json!([])), "{masked:#}");
    assert_eq!(masked["tier"], "native-partial");
}
