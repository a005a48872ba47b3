//! Environment variables that Coracle reads.

use anyhow::Context;
use std::path::PathBuf;

/// Data folder [default: `~/.coracle`].
pub(crate) const HOME: &str = "CORACLE_HOME";
/// Python interpreter for sandboxes [default: the system's `python3`, or the first on `PATH`].
pub(crate) const PYTHON: &str = "CORACLE_PYTHON";
/// Log filter in the syntax of `tracing`, such as `warn` or `coracle_sandbox=debug`.
pub(crate) const LOG: &str = "CORACLE_LOG";
/// Folder of the MCP servers for `bench tools` and the tests [default: `test-servers` in the build folder].
pub(crate) const TEST_SERVERS: &str = "CORACLE_TEST_SERVERS";

/// Image for docker and podman in `bench sandbox` [default: the first local one with `python3`].
pub(crate) const BENCH_IMAGE: &str = "CORACLE_BENCH_IMAGE";

/// Returns the data folder.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Some(home) = std::env::var_os(HOME).filter(|home| !home.is_empty()) {
        return std::path::absolute(&home).with_context(|| format!("{HOME} is {}", home.display()));
    }
    let user = std::env::home_dir().filter(|home| home.is_absolute());
    user.map(|home| home.join(".coracle"))
        .with_context(|| format!("cannot find the home folder: set {HOME} to a folder for Coracle's data"))
}

/// Returns the configured interpreter.
pub(crate) fn python() -> Option<PathBuf> {
    std::env::var_os(PYTHON).filter(|python| !python.is_empty()).map(PathBuf::from)
}

/// Returns the folder of the test servers: the configured one, or the one two levels above the program, where a build
/// has it.
pub(crate) fn test_servers() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(TEST_SERVERS).filter(|folder| !folder.is_empty()) {
        return Some(folder.into());
    }
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("test-servers");
    folder.is_dir().then_some(folder)
}
