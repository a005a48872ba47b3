//! Which containers there are, and for whom.

use crate::lab::{Lab, call, eventually, python};
use coracle_sandbox::{Backend, DockerBackend, DockerConfig, SandboxError, Spec};
use coracle_types::Limits;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_one_container_which_is_kept_between_calls() {
    let Some(lab) = Lab::new() else { return };
    let backend = lab.backend();
    let (ada, bob) = (lab.spec("ada"), lab.spec("bob"));
    let first = call(&backend, &ada).await;
    let container = backend.containers().await;
    assert_eq!(container.len(), 1);
    let second = call(&backend, &ada).await;
    drop((first, second));
    drop(call(&backend, &ada).await);
    assert_eq!(backend.containers().await, container);
    let of_bob = call(&backend, &bob).await;
    assert_eq!(backend.containers().await.len(), 2);
    drop(of_bob);
    // Limits of a container are those of the calls in it.
    let large = Spec { limits: Limits { memory_mb: 900, ..Limits::default() }, ..ada.clone() };
    drop(call(&backend, &large).await);
    assert_eq!(backend.containers().await.len(), 3);
    backend.shutdown().await;
    for id in container {
        assert!(!lab.engine.containers().contains(&id), "it outlived the shutdown");
    }
}

/// The outer wall, as the engine knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_are_confined() {
    let Some(lab) = Lab::new() else { return };
    let backend = lab.backend();
    let sandbox = call(&backend, &lab.spec("ada")).await;
    let id = backend.containers().await.remove(0);
    let seen: serde_json::Value = serde_json::from_str(&lab.engine.docker(&["inspect", &id])).unwrap();
    let host = &seen[0]["HostConfig"];
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["Privileged"], false);
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["CapAdd"], json!(["SETUID", "SETGID", "KILL"]));
    assert!(host["SecurityOpt"].as_array().unwrap().contains(&json!("no-new-privileges")));
    for limit in ["Memory", "PidsLimit", "NanoCpus"] {
        assert!(host[limit].as_i64().unwrap() > 0, "{limit}: {host:#}");
    }
    // Of the host, nothing above the user's own folders can be written.
    let writable: Vec<_> = host["Mounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["ReadOnly"] != true)
        .map(|mount| mount["Target"].as_str().unwrap())
        .collect();
    assert_eq!(writable, ["/workspace", "/calls", "/artifacts"]);
    drop(sandbox);
    backend.shutdown().await;
}

/// The agent is another user, whom code can neither signal nor trace, and nothing of it can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_cannot_reach_the_agent() {
    let Some(lab) = Lab::new() else { return };
    let backend = lab.backend();
    let mut sandbox = call(&backend, &lab.spec("ada")).await;
    let id = backend.containers().await.remove(0);
    // From outside: the agent is root of its container, and code is not.
    let processes = lab.engine.docker(&["top", &id, "-eo", "uid,pid,args"]);
    let agent = processes.lines().find(|line| line.contains("container.main()")).unwrap().trim_start();
    assert!(agent.starts_with("0 "), "{processes}");
    let code = "
import os
def attempt(act):
    try:
        act()
        return True
    except OSError:
        return False
pids = [name for name in os.listdir('/proc') if name.isdigit()]
[len(pids), [os.path.exists(f'/calls/{number}') for number in (1, 2)], attempt(lambda: os.listdir('/proc/1/fd')),
 attempt(lambda: os.kill(1, 0)), os.getpid()]";
    // The first process that it sees is itself, in a pid namespace of its own.
    assert_eq!(python(&mut sandbox, 2, code).await, json!([1, [false, false], true, true, 1]));
    let attack = "
import os
tried = []
for name in ('/proc/1/root/guest/coracle_guest/agent.py', '/guest/coracle_guest/agent.py', '/coracle/bin/python3'):
    try:
        open(name, 'a').close()
        tried.append(name)
    except OSError:
        pass
tried";
    assert_eq!(python(&mut sandbox, 3, attack).await, json!([]));
    drop(sandbox);
    backend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_was_stopped_or_killed_is_replaced() {
    let Some(lab) = Lab::new() else { return };
    let backend = lab.backend();
    let spec = lab.spec("ada");
    for end in ["kill", "stop"] {
        let mut sandbox = call(&backend, &spec).await;
        python(&mut sandbox, 2, &format!("open('/workspace/{end}', 'w').write('kept')")).await;
        let id = backend.containers().await.remove(0);
        let arguments: &[&str] = if end == "stop" { &["stop", "--time", "1", &id] } else { &["kill", &id] };
        lab.engine.docker(arguments);
        let exit = sandbox.control.exit().await;
        assert_eq!(exit.status, 137);
        assert!(matches!(exit.causes.as_slice(), [coracle_sandbox::Cause::Lost(_)]), "{exit:?}");
        drop(sandbox);
        let mut next = call(&backend, &spec).await;
        let kept = python(&mut next, 2, &format!("open('/workspace/{end}').read()")).await;
        assert_eq!(kept, "kept");
        assert!(!backend.containers().await.contains(&id));
    }
    backend.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_container_is_removed_and_one_in_use_is_not() {
    let Some(lab) = Lab::new() else { return };
    let backend = DockerBackend::new(DockerConfig { idle: Duration::from_millis(300), ..lab.config() });
    let mut used = call(&backend, &lab.spec("ada")).await;
    let busy = backend.containers().await;
    drop(call(&backend, &lab.spec("bob")).await);
    eventually("only the container in use is left", async || backend.containers().await == busy).await;
    assert_eq!(python(&mut used, 2, "'still here'").await, "still here");
    drop(used);
    eventually("all are removed", async || backend.containers().await.is_empty()).await;
    drop(call(&backend, &lab.spec("ada")).await);
    backend.shutdown().await;
}

/// Where the data folder is in the workspace, code does not see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_folder_is_hidden() {
    let Some(lab) = Lab::new() else { return };
    let backend = lab.backend();
    std::fs::create_dir_all(lab.home()).unwrap();
    std::fs::write(lab.home().join("secret"), "").unwrap();
    let spec = |workspace| Spec { workspace, servers: None, skills: None, limits: Limits::default() };
    let refused = backend.open(spec(lab.home())).await;
    assert!(matches!(&refused, Err(SandboxError::Workspace { .. })), "{refused:?}");
    let mut sandbox = call(&backend, &spec(lab.folder.path().to_owned())).await;
    std::fs::write(lab.folder.path().join("beside"), "").unwrap();
    let look = "import os; [os.listdir('/workspace/home'), os.path.exists('/workspace/beside')]";
    assert_eq!(python(&mut sandbox, 2, look).await, json!([[], true]));
    drop(sandbox);
    backend.shutdown().await;
}
