//! The Docker backend keeps the contract of every backend, with each runtime.

use crate::lab::Lab;
use coracle_sandbox::{Backend, DockerBackend, DockerConfig};
use coracle_testing::backend_contract;

async fn keeps(lab: &Lab, config: DockerConfig, tier: &str) {
    let backend = DockerBackend::new(config);
    assert_eq!(backend.report().await.unwrap().tier, tier);
    backend_contract::holds(&backend, lab.folder.path(), true).await;
    backend.shutdown().await;
    let left: Vec<_> =
        std::fs::read_dir(lab.home().join("run")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [".lock"]);
    assert_eq!(backend.containers().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_keep_the_contract() {
    let Some(lab) = Lab::new() else { return };
    keeps(&lab, lab.config(), "docker").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_of_gvisor_keep_the_contract() {
    let Some(lab) = Lab::new().filter(|lab| lab.engine.has_gvisor) else { return };
    keeps(&lab, DockerConfig { runtime: Some("runsc".to_owned()), ..lab.config() }, "docker-gvisor").await;
}
