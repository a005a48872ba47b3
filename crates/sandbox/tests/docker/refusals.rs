//! What the backend refuses, with a reason that says what to do. The control of each is a call that works.

use crate::lab::{Lab, call};
use coracle_sandbox::{Backend, DockerBackend, DockerConfig};

async fn reason(lab: &Lab, config: DockerConfig) -> String {
    let backend = DockerBackend::new(config);
    let refused = backend.open(lab.spec("ada")).await;
    backend.shutdown().await;
    refused.expect_err("it was not refused").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_images_and_runtimes_that_cannot_be_used() {
    let Some(lab) = Lab::new() else { return };
    for host in ["tcp://127.0.0.1:2375", "ssh://ada@127.0.0.1"] {
        let told = reason(&lab, DockerConfig { host: Some(host.to_owned()), ..lab.config() }).await;
        assert!(told.contains(host) && told.contains("folders of this machine"), "{told}");
    }
    let nobody = lab.folder.path().join("nobody");
    let host = format!("unix://{}", nobody.display());
    let told = reason(&lab, DockerConfig { host: Some(host.clone()), ..lab.config() }).await;
    assert!(told.contains(nobody.to_str().unwrap()) && told.contains("systemctl start docker"), "{told}");
    // A socket on which no one listens.
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    let told = reason(&lab, DockerConfig { host: Some(host), ..lab.config() }).await;
    assert!(told.contains("no engine answers"), "{told}");
    let told = reason(&lab, DockerConfig { image: "nowhere:1".to_owned(), ..lab.config() }).await;
    assert!(told.contains("nowhere:1") && told.contains("coracle image build"), "{told}");
    let told = reason(&lab, DockerConfig { runtime: Some("kata".to_owned()), ..lab.config() }).await;
    assert!(told.contains("kata") && told.contains("runc") && told.contains("daemon.json"), "{told}");
    let backend = lab.backend();
    drop(call(&backend, &lab.spec("ada")).await);
    backend.shutdown().await;
}
