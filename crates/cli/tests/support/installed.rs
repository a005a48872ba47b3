//! What `cargo xtask needs` has put into the build folder.

use std::path::PathBuf;

/// A part of it; a test without it fails and says how to get it.
pub(crate) fn installed(part: &str) -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        // A test is run from below `<target>/debug/deps`.
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("test-servers"),
    };
    let path = folder.join(part);
    assert!(path.exists(), "{} is missing: run `cargo xtask needs`", path.display());
    path
}
