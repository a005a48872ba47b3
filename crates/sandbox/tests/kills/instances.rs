//! Several instances on one data folder, and dropped executions.

use crate::server::{Server, backend, next, open, place, sandboxed};
use coracle_protocol::FromGuest;
use coracle_sandbox::{Backend as _, Sandbox};
use coracle_testing::guest::answer_to;
use coracle_testing::harness::As;
use coracle_testing::kills::GONE_WITHIN;
use coracle_testing::traces::{Process, files, instances, leftovers, nothing_within, tree};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Returns the result of Python code that must succeed.
async fn python(sandbox: &mut Sandbox, id: u64, code: &str) -> Value {
    match answer_to(sandbox, id, "python", code).await {
        Some(FromGuest::Done { ok: true, result, .. }) => result,
        answer => panic!("{code}: {answer:?}"),
    }
}

/// An instance keeps running in this process while others start, die and are cleaned up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_instance_is_not_affected_by_others_on_its_data_folder() {
    let coracle = place(As::current());
    let home = coracle.home();
    let first = backend(&home, sandboxed(), 1);
    let mut kept = open(&first, &home).await.unwrap();
    python(&mut kept, 1, "n = 40").await;
    let own = instances(&home);
    assert_eq!(own.len(), 1, "{own:?}");

    next(&coracle, "the second");
    nothing_within(GONE_WITHIN, "a second that ended", || instances(&home).difference(&own).cloned().collect());

    let mut third = Server::start(&coracle);
    third.says("started", 1, 0);
    third.says("ok", 3, 0);
    let processes = tree(third.child.id());
    let of_third: BTreeSet<String> = instances(&home).difference(&own).cloned().collect();
    assert_eq!(of_third.len(), 1, "{of_third:?}");
    // Both at once, so that neither can clean up.
    let launcher_of_third = processes.iter().find(|process| process.depth == 1).unwrap();
    launcher_of_third.kill();
    processes[0].kill();
    third.child.wait().unwrap();
    nothing_within(GONE_WITHIN, "the third", || {
        processes.iter().filter(|process| process.is_alive()).map(Process::command_line).collect()
    });
    if instances(&home).is_superset(&of_third) {
        next(&coracle, "the fourth");
    }
    nothing_within(GONE_WITHIN, "the third, after the next start", || {
        instances(&home).difference(&own).cloned().collect()
    });
    assert_eq!(instances(&home), own, "the live instance's folder");
    assert_eq!(python(&mut kept, 2, "n + 2").await, 42, "the live instance's sandbox");

    let last = tree(first.launcher_pid().await.unwrap());
    first.shutdown().await;
    let all = own.union(&of_third).cloned().collect();
    nothing_within(GONE_WITHIN, "everybody", || [leftovers(&home, &last, &all), files(&home)].concat());
}

/// Dropped at any moment: queued, starting or running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_dropped_at_random_leave_nothing() {
    let coracle = place(As::current());
    let home = coracle.home();
    let backend = backend(&home, sandboxed(), 2);
    let mut rng = fastrand::Rng::with_seed(11);
    let works = async || python(&mut open(&backend, &home).await.unwrap(), 1, "1").await == 1;
    assert!(works().await);
    for round in 0..60 {
        let code = "open('/artifacts/x', 'w').write('x')\nimport os, time\nos.fork()\nos.fork()\ntime.sleep(60)";
        let run = async {
            let mut sandbox = open(&backend, &home).await.unwrap();
            answer_to(&mut sandbox, 1, "python", code).await
        };
        let most = if round % 3 == 0 { 200_000 } else { 5_000 };
        let dropped = tokio::time::timeout(Duration::from_micros(rng.u64(..most)), run).await;
        assert!(dropped.is_err(), "{dropped:?}");
    }
    let pid = backend.launcher_pid().await.unwrap();
    // Only the launcher, its zygote and the prepared sandboxes are left.
    nothing_within(GONE_WITHIN, "dropped executions", || {
        let deep: Vec<Process> = tree(pid).into_iter().filter(|process| process.depth > 1).collect();
        if deep.len() == 2 { Vec::new() } else { deep.iter().map(|process| format!("{process:?}")).collect() }
    });
    let instance = instances(&home).into_iter().next().unwrap();
    nothing_within(GONE_WITHIN, "artifacts of dropped executions", || {
        let folders = std::fs::read_dir(home.join("run").join(&instance).join("artifacts")).unwrap();
        // Empty folders are kept for reuse.
        let used = folders.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with("free-"));
        let folders: Vec<String> = used.map(|entry| entry.path().display().to_string()).collect();
        if folders.len() == 2 { Vec::new() } else { folders }
    });
    assert!(works().await);
    let (last, ids) = (tree(pid), instances(&home));
    backend.shutdown().await;
    nothing_within(GONE_WITHIN, "the end", || [leftovers(&home, &last, &ids), files(&home)].concat());
}
