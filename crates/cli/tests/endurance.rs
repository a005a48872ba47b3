//! Many executions do not increase memory, descriptors, processes, cgroups or folders. The short version always runs;
//! the long one with `CORACLE_SOAK=1` and `--ignored`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

use coracle_store::{Home, KeySource, SqliteStore};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python};
use coracle_types::Limits;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Tolerated difference of resident memory in kB, because allocators keep some freed memory.
const MEMORY_SLACK: u64 = 4_096;
/// Additional tolerance for each thousand executions, too small to hide a leak.
const MEMORY_PER_THOUSAND: u64 = 100;
/// Tolerated descriptors: one prepared sandbox more or less, with four streams and a timer.
const DESCRIPTOR_SLACK: usize = 12;
/// Tolerated processes.
const PROCESS_SLACK: usize = 2;
/// Tolerated cgroups: one may be emptying while the next is taken.
const GROUP_SLACK: usize = 4;
/// Maximum number of cgroups and folders that are kept for reuse.
const KEPT: usize = 32;

const POOL: usize = 2;

/// Resources of one process.
#[derive(Clone, Copy, Debug)]
struct Held {
    kilobytes: u64,
    descriptors: usize,
}

/// Resources of the whole.
#[derive(Debug)]
struct Census {
    own: Held,
    launcher: Held,
    zygote: Held,
    processes: usize,
    cgroups: usize,
    scratch: usize,
    kept: usize,
}

fn held(pid: u32) -> Held {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    Held { kilobytes: resident.unwrap(), descriptors: entries(Path::new(&format!("/proc/{pid}/fd"))) }
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).into_iter().flatten().count()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

async fn census(lab: &Lab) -> Census {
    // The pool is refilled, and killed processes disappear.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let launcher = lab.backend.launcher_pid().await.expect("the launcher runs");
    let zygotes = children(launcher);
    assert_eq!(zygotes.len(), 1, "one zygote");
    let instance = coracle_testing::outcome::left_in_run(lab.home.path());
    assert_eq!(instance.len(), 1, "one instance");
    let run = lab.home.path().join("run").join(&instance[0]);
    let groups = fs::read_to_string(run.join("cgroups")).unwrap_or_default();
    Census {
        own: held(std::process::id()),
        launcher: held(launcher),
        zygote: held(zygotes[0]),
        processes: coracle_testing::outcome::processes_in(lab.home.path()).len(),
        cgroups: groups.lines().map(PathBuf::from).map(|root| folders(&root)).sum(),
        scratch: entries(&run.join("artifacts")),
        kept: entries(&lab.home.path().join("workspaces/ada/artifacts")),
    }
}

fn folders(root: &Path) -> usize {
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    fs::read_dir(root).into_iter().flatten().flatten().filter(is_folder).count()
}

/// Runs one of all kinds of executions, none of which leaves anything behind.
async fn one(lab: &Lab, round: u32) {
    let request = match round % 25 {
        5 => lab.request(Bash, "echo hi"),
        10 => lab.in_session(&format!("s{}", round % 2), Python, "x = 1"),
        15 => {
            let mut request = lab.request(Python, "while True: pass");
            request.limits.wall_ms = 30;
            let execution = lab.execute(request).await;
            assert!(error_code(&execution).is_some());
            return;
        }
        20 => lab.request(Python, "import os; os._exit(0)"),
        24 => {
            // Dropped halfway.
            let request = lab.request(Python, "import time; time.sleep(9)");
            let dropped = tokio::time::timeout(Duration::from_millis(20), lab.engine.execute(request)).await;
            assert!(dropped.is_err());
            return;
        }
        _ => lab.request(Python, "print('x'); 6 * 7"),
    };
    let expects_failure = round % 25 == 20;
    let execution = lab.execute(request).await;
    assert_eq!(execution.success, !expects_failure, "round {round}: {execution:?}");
}

async fn endure(warm_up: u32, rounds: u32) {
    // With the store of a server: the one in memory keeps executions in this process, up to a limit.
    let home = TempDir::new().unwrap();
    let store = SqliteStore::open(&Home::new(home.path()), KeySource::File).await.unwrap();
    let lab = Lab::on(home, Arc::new(store), Limits::default(), POOL);
    for round in 0..warm_up {
        one(&lab, round).await;
    }
    let before = census(&lab).await;
    for round in 0..rounds {
        one(&lab, round).await;
    }
    let after = census(&lab).await;
    println!("before {before:#?}\nafter {after:#?}");
    let slack = MEMORY_SLACK + MEMORY_PER_THOUSAND * u64::from(rounds) / 1_000;
    for (name, before, after) in [
        ("this process", before.own, after.own),
        ("the launcher", before.launcher, after.launcher),
        ("the zygote", before.zygote, after.zygote),
    ] {
        assert!(after.kilobytes <= before.kilobytes + slack, "{name} grew from {before:?} to {after:?}");
        assert!(after.descriptors <= before.descriptors + DESCRIPTOR_SLACK, "{name} from {before:?} to {after:?}");
    }
    assert!(after.processes <= before.processes + PROCESS_SLACK, "processes");
    assert!(after.cgroups <= before.cgroups.max(KEPT) + GROUP_SLACK, "cgroups");
    assert!(after.scratch <= before.scratch.max(KEPT) + PROCESS_SLACK, "sandbox folders");
    assert_eq!(after.kept, before.kept, "nothing was created, so nothing is kept");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_executions_leave_nothing() {
    endure(100, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes long: set CORACLE_SOAK=1"]
async fn soak_ten_thousand_executions_leave_nothing() {
    if std::env::var_os("CORACLE_SOAK").is_none_or(|value| value != "1") {
        coracle_testing::skip::skip("ten thousand executions: CORACLE_SOAK is not 1");
        return;
    }
    endure(500, 10_000).await;
}
