//! Code in a sandbox, through the program `sandboxed` of this crate, as root and as an ordinary user.

use coracle_testing::harness::{As, Coracle, for_everybody};
use coracle_testing::outcome::finish;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Path of `sandboxed` where every user can run it.
pub(crate) fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| for_everybody(Path::new(env!("CARGO_BIN_EXE_sandboxed")), "sandboxed"))
}

/// `sandboxed` as this user, with a data folder and a workspace.
pub(crate) fn place(who: As) -> Coracle {
    Coracle::running(program(), who)
}

/// Runs code and returns the report.
pub(crate) fn run(place: &Coracle, language: &str, code: &str, more: &[&str]) -> Value {
    let mut command = place.command();
    command.args(["--lang", language]).args(more).arg(place.workspace());
    finish(place, &mut command, code.as_bytes()).json()
}

/// Returns the result of Python code that must succeed.
pub(crate) fn python(place: &Coracle, code: &str, more: &[&str]) -> Value {
    let report = run(place, "python", code, more);
    assert_eq!(report["ok"], true, "as {:?}: {report:#}", place.who);
    report["result"].clone()
}
