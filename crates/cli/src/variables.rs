//! The environment variables that Coracle reads, each named once.

use anyhow::Context;
use std::path::PathBuf;

/// The data folder; `~/.coracle` without it.
pub(crate) const HOME: &str = "CORACLE_HOME";
/// The interpreter for sandboxes; without it the system's `python3`, else the first on `PATH`.
pub(crate) const PYTHON: &str = "CORACLE_PYTHON";
/// What is logged to standard error, as `tracing` filters are written: `warn`, `coracle_sandbox=debug`.
pub(crate) const LOG: &str = "CORACLE_LOG";
/// The MCP servers that `bench tools` and the tests call; without it `test-servers` in the build folder.
pub(crate) const TEST_SERVERS: &str = "CORACLE_TEST_SERVERS";

/// The image for docker and podman in `bench sandbox`; without it the first local one that has a `python3`.
pub(crate) const BENCH_IMAGE: &str = "CORACLE_BENCH_IMAGE";

/// The data folder.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Some(home) = std::env::var_os(HOME).filter(|home| !home.is_empty()) {
        return std::path::absolute(&home).with_context(|| format!("{HOME} is {}", home.display()));
    }
    let user = std::env::home_dir().filter(|home| home.is_absolute());
    user.map(|home| home.join(".coracle"))
        .with_context(|| format!("no home folder is known: set {HOME} to a folder for Coracle's data"))
}

/// The interpreter that was asked for.
pub(crate) fn python() -> Option<PathBuf> {
    std::env::var_os(PYTHON).filter(|python| !python.is_empty()).map(PathBuf::from)
}

/// The folder of the test servers: named, or two levels above the program, where a build has it.
pub(crate) fn test_servers() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(TEST_SERVERS).filter(|folder| !folder.is_empty()) {
        return Some(folder.into());
    }
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("test-servers");
    folder.is_dir().then_some(folder)
}
