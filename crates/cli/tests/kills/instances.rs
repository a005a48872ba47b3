//! Several instances on one data folder, and dropped executions.

use crate::server::{Server, engine, launcher};
use crate::traces::{Process, files, instances, leftovers, nothing_within, tree};
use coracle_engine::Request;
use coracle_testing::harness::{As, Coracle};
use coracle_types::{Language, SessionId, UserId};
use std::collections::BTreeSet;
use std::time::Duration;

const GONE_WITHIN: Duration = Duration::from_secs(8);

fn in_session(code: &str) -> Request {
    let mut request = Request::new(UserId::local(), Language::Python, code);
    request.session = Some(SessionId::new("kept").unwrap());
    request
}

/// An instance keeps running in this process while others start, die and are cleaned up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_instance_is_not_affected_by_others_on_its_data_folder() {
    let who = As::current();
    let coracle = Coracle::new(who);
    let home = coracle.home();
    let (first, backend) = engine(&home, &launcher(&coracle), 1);
    assert!(first.execute(in_session("n = 40")).await.success);
    let own = instances(&home);
    assert_eq!(own.len(), 1, "{own:?}");

    let second = coracle.exec(&["-c", "print(6*7)"]);
    assert_eq!(second.stdout, b"42\n", "{second:?}");
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
        let fourth = coracle.exec(&["-c", "print(6*7)"]);
        assert_eq!(fourth.stdout, b"42\n", "{fourth:?}");
    }
    nothing_within(GONE_WITHIN, "the third, after the next start", || {
        instances(&home).difference(&own).cloned().collect()
    });
    assert_eq!(instances(&home), own, "the live instance's folder");
    let answer = first.execute(in_session("n + 2")).await;
    assert_eq!((answer.result, answer.session_restarted), (Some(42.into()), false), "the live instance's session");

    let last = tree(backend.launcher_pid().await.unwrap());
    first.shutdown().await;
    let all = own.union(&of_third).cloned().collect();
    nothing_within(GONE_WITHIN, "everybody", || [leftovers(&home, &last, &all), files(&home)].concat());
}

/// Dropped at any moment: queued, starting or running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_dropped_at_random_leave_nothing() {
    let coracle = Coracle::new(As::current());
    let home = coracle.home();
    let (engine, backend) = engine(&home, &launcher(&coracle), 2);
    let mut rng = fastrand::Rng::with_seed(11);
    assert!(engine.execute(Request::new(UserId::local(), Language::Python, "1")).await.success);
    for round in 0..60 {
        let code = "open('/artifacts/x', 'w').write('x')\nimport os, time\nos.fork()\nos.fork()\ntime.sleep(60)";
        let mut request = Request::new(UserId::local(), Language::Python, code);
        request.session = (round % 4 == 0).then(|| SessionId::new(format!("s{}", round % 8)).unwrap());
        let most = if round % 3 == 0 { 200_000 } else { 5_000 };
        let dropped = tokio::time::timeout(Duration::from_micros(rng.u64(..most)), engine.execute(request)).await;
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
    assert!(engine.execute(Request::new(UserId::local(), Language::Python, "1")).await.success);
    let (last, ids) = (tree(pid), instances(&home));
    engine.shutdown().await;
    nothing_within(GONE_WITHIN, "the end", || [leftovers(&home, &last, &ids), files(&home)].concat());
}
