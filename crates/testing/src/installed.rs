//! Files that `cargo xtask needs` has installed in the build folder.

use std::path::PathBuf;

/// Path of an installed part. If it is missing, the test fails and says how to get it.
pub fn path(part: &str) -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        // Tests run below `<target>/debug/deps`.
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("test-servers"),
    };
    let path = folder.join(part);
    assert!(path.exists(), "{} is missing: run `cargo xtask needs`", path.display());
    path
}
