use anyhow::Context;
use coracle_config::TEST_SERVERS_VARIABLE;
use std::path::PathBuf;

/// How to get the test servers.
pub(crate) const HINT: &str = "install them with `cargo xtask needs`, or use --servers for another folder";

/// Returns the folder of the test servers: the named one, the configured one, or the one two levels above the program,
/// where a build has it.
pub(crate) fn test_servers(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    named.or_else(configured).or_else(built).with_context(|| format!("cannot find the test servers: {HINT}"))
}

fn configured() -> Option<PathBuf> {
    std::env::var_os(TEST_SERVERS_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn built() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.join("test-servers");
    folder.is_dir().then_some(folder)
}
