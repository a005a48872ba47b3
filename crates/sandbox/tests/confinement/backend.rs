//! The native backend keeps the contract of every backend.

use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_testing::backend_contract;
use coracle_types::Limits;

/// Runs as the current user: the launcher is a child of this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_backend_keeps_the_contract() {
    for pool in [0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let backend = NativeBackend::new(NativeConfig {
            home: home.clone(),
            launcher: crate::lab::program().to_owned(),
            python: None,
            pool,
            preload: false,
            require_full_isolation: false,
            folders: Vec::new(),
            limits: Limits::default(),
        });
        backend_contract::holds(&backend, folder.path(), true).await;
        assert_eq!(backend.launcher_pid().await, None);
        let left: Vec<_> =
            std::fs::read_dir(home.join("run")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }
}
