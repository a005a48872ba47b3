//! Limits without an option of `coracle exec`, set low: files, folders and quotas.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::ErrorCode;
use coracle_types::{Execution, Language, Limits};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_mins(10);

/// Seconds that code above a limit waits; it is ended long before. Space that other tests free hides it for a few
/// seconds.
const UNTIL_ENDED: f64 = 25.0;

fn lab(limits: Limits) -> Lab {
    Lab::new(limits, 0, LONG)
}

fn assert_limit(execution: &Execution, code: ErrorCode, words: &str) {
    let failure = execution.failure.as_ref().unwrap_or_else(|| panic!("no failure: {execution:?}"));
    assert_eq!(failure.error_code, code, "{execution:?}");
    assert!(failure.error.contains(words), "{failure:?}");
    assert!(failure.hint.is_some(), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_has_a_quota_and_deleting_helps() {
    let lab = lab(Limits { workspace_mb: 20, ..Limits::default() });
    let write = |megabytes: u32, wait: f64| {
        format!(
            "
import time
for i in range({megabytes}): open(f'/workspace/{{i}}', 'wb').write(b'x' * 1_000_000)
time.sleep({wait})"
        )
    };
    assert_eq!(error_code(&lab.python(&write(10, 1.0)).await), None);
    let over = lab.python(&write(60, UNTIL_ENDED)).await;
    assert_limit(&over, ErrorCode::Disk, "the limit is 20 MB");
    // Now only deleting and reading work.
    assert_limit(
        &lab.python("open('/workspace/more', 'wb', buffering=0).write(b'x')").await,
        ErrorCode::Disk,
        "File too large",
    );
    let deleted = lab.python("import os\nfor name in os.listdir('.'): os.remove(name)").await;
    assert_eq!(error_code(&deleted), None, "{deleted:?}");
    assert_eq!(error_code(&lab.python(&write(5, 1.0)).await), None);
    lab.close().await;
}

/// Less than what triggers an immediate check; there is also one every few seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_excess_is_noticed() {
    let write = |megabytes: u32, wait: f64| {
        format!("import time\nopen('/workspace/a', 'wb').write(b'x' * {megabytes}_000_000)\ntime.sleep({wait})")
    };
    let lab = lab(Limits { workspace_mb: 5, ..Limits::default() });
    assert_eq!(error_code(&lab.python(&write(4, 7.0)).await), None);
    assert_limit(&lab.python(&write(8, UNTIL_ENDED)).await, ErrorCode::Disk, "the limit is 5 MB");
    lab.close().await;
}

each_user!(a_workspace_that_was_filled_by_earlier_programs_is_full);
/// Every start checks the workspace, so many small runs cannot exceed the quota.
fn a_workspace_that_was_filled_by_earlier_programs_is_full(who: As) {
    let coracle = Coracle::new(who);
    let full = coracle.workspace().join("full");
    let file = std::fs::File::create(&full).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1_100_000_000).unwrap();
    coracle.own(&full);
    let write = "open('/workspace/more', 'wb', buffering=0).write(b'x')";
    let execution = coracle.run("python", write, &[]);
    assert_eq!(execution["error_code"], "disk", "as {who:?}: {execution:#}");
    coracle.python("import os, time; os.remove('/workspace/full'); time.sleep(0.5)");
    assert_eq!(coracle.python(write), 1, "as {who:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_files_is_limited() {
    let lab = lab(Limits { workspace_files: 1_000, ..Limits::default() });
    let make = |many: &str| {
        format!(
            "
import os, time
for i in range({many}): os.close(os.open(f'/workspace/{{i}}', os.O_CREAT | os.O_WRONLY))
time.sleep(0.5)"
        )
    };
    assert_eq!(error_code(&lab.python(&make("900")).await), None);
    assert_limit(&lab.python(&make("1_000_000")).await, ErrorCode::Disk, "files and folders: the limit is 1000");
    let deleted = lab.execute(lab.request(Language::Bash, "find /workspace -type f -delete")).await;
    assert_eq!(error_code(&deleted), None, "{deleted:?}");
    assert_eq!(error_code(&lab.python("open('/workspace/a', 'w').write('x')").await), None);
    lab.close().await;
}

/// Creates this number of empty files in a folder.
fn make_files(folder: &str, many: u64, wait: f64) -> String {
    format!(
        "
import os, time
for i in range({many}): os.close(os.open(f'{folder}/{{i}}', os.O_CREAT | os.O_WRONLY))
time.sleep({wait})"
    )
}

/// Long enough that a slow disk is not the limit.
const TIME_FOR_FILES: u64 = 80_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_million_files_are_stopped_at_the_default_limit() {
    let lab = lab(Limits { wall_ms: TIME_FOR_FILES, ..Limits::default() });
    let under = lab.python(&make_files("/workspace", 10_000, 0.5)).await;
    assert_eq!(error_code(&under), None, "{under:?}");
    let over = lab.python(&make_files("/workspace", 1_000_000, UNTIL_ENDED)).await;
    assert_limit(&over, ErrorCode::Disk, "files and folders: the limit is 100000");
    println!("{}", over.failure.unwrap().error);
    let cleaned = lab.execute(lab.request(Language::Bash, "find /workspace -type f -delete")).await;
    assert_eq!(error_code(&cleaned), None, "{cleaned:?}");
    assert_eq!(lab.python("open('/workspace/a', 'w').write('x')").await.result, Some(1.into()));
    lab.close().await;
}

/// A million files with a limit that permits them; as artifacts they are never permitted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: cargo xtask soak"]
async fn soak_a_million_files_are_counted_and_removed() {
    // The kernel's memory for a million files counts for the process that opened them.
    let limits = Limits { workspace_files: 1_005_000, wall_ms: 600_000, memory_mb: 4_000, ..Limits::default() };
    let lab = lab(limits);
    let long = async |code: &str, language| {
        let executed = tokio::time::timeout(LONG, lab.engine.execute(lab.request(language, code))).await;
        executed.unwrap_or_else(|elapsed| panic!("hangs ({elapsed}): {code}"))
    };
    let million = long(&make_files("/workspace", 1_000_000, 0.5), Language::Python).await;
    assert_eq!(error_code(&million), None, "{million:?}");
    let over = long(&make_files("/workspace", 1_200_000, 300.0), Language::Python).await;
    assert_limit(&over, ErrorCode::Disk, "the workspace holds ");
    assert_limit(&over, ErrorCode::Disk, "files and folders: the limit is 1005000");
    let cleaned = long("find /workspace -type f -delete", Language::Bash).await;
    assert_eq!(error_code(&cleaned), None, "{cleaned:?}");
    assert_eq!(lab.python("open('/workspace/a', 'w').write('x')").await.result, Some(1.into()));
    let mut request = lab.request(Language::Python, &make_files("/artifacts", 1_000_000, UNTIL_ENDED));
    request.limits.workspace_files = Limits::default().workspace_files;
    let over = tokio::time::timeout(LONG, lab.engine.execute(request)).await.expect("it ends");
    assert_limit(&over, ErrorCode::Disk, "/artifacts holds ");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_have_a_quota() {
    let lab = lab(Limits { artifacts_mb: 20, ..Limits::default() });
    let write = |megabytes: u32, wait: f64| {
        format!(
            "
import time
for i in range({megabytes}): open(f'/artifacts/{{i}}', 'wb').write(b'x' * 1_000_000)
time.sleep({wait})"
        )
    };
    let under = lab.python(&write(10, 1.0)).await;
    assert_eq!((error_code(&under), under.artifacts.len()), (None, 10));
    assert_limit(&lab.python(&write(60, UNTIL_ENDED)).await, ErrorCode::Disk, "/artifacts holds");
    assert_eq!(error_code(&lab.python(&write(10, 1.0)).await), None);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_limits_on_tmp_files_and_output_are_enforced() {
    let lab =
        lab(Limits { tmp_mb: 5, file_mb: 3, output_bytes: 4_096, open_files: 32, processes: 8, ..Limits::default() });
    let fill = |many: u32| format!("for i in range({many}): open(f'/tmp/{{i}}', 'wb').write(b'x' * 1_000_000)");
    assert_limit(&lab.python(&fill(6)).await, ErrorCode::Disk, "No space left");
    assert_eq!(error_code(&lab.python(&fill(4)).await), None);
    assert_limit(&lab.python("open('a', 'wb').write(b'x' * 3_100_000)").await, ErrorCode::Disk, "File too large");
    assert_eq!(error_code(&lab.python("open('a', 'wb').write(b'x' * 2_900_000)").await), None);
    assert_limit(&lab.python("print('x' * 4_096)").await, ErrorCode::Output, "4096 bytes");
    assert_eq!(error_code(&lab.python("print('x' * 4_000)").await), None);
    assert_limit(
        &lab.python("files = [open('/dev/null') for _ in range(32)]").await,
        ErrorCode::Files,
        "Too many open files",
    );
    assert_eq!(error_code(&lab.python("files = [open('/dev/null') for _ in range(16)]").await), None);
    let fork = |many: u32| {
        format!("import os, time\nfor _ in range({many}):\n  if os.fork() == 0: time.sleep(5); os._exit(0)")
    };
    assert_limit(&lab.python(&fork(9)).await, ErrorCode::Processes, "temporarily unavailable");
    assert_eq!(error_code(&lab.python(&fork(5)).await), None);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_folders_are_refused_and_removed() {
    let lab = lab(Limits::default());
    let nest = |depth: u32, wait: f64| {
        format!(
            "
import os, time
for _ in range({depth}):
    os.mkdir('d'); os.chdir('d')
for i in range(5_000): os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))
time.sleep({wait})"
        )
    };
    assert_eq!(error_code(&lab.python(&nest(100, 0.5)).await), None);
    let cleaned = lab.execute(lab.request(Language::Bash, "rm -rf d")).await;
    assert_eq!(error_code(&cleaned), None, "{cleaned:?}");
    assert_limit(&lab.python(&nest(2_000, UNTIL_ENDED)).await, ErrorCode::Disk, "nested deeper than");
    let cleaned = lab.execute(lab.request(Language::Bash, "rm -rf d")).await;
    assert_eq!(error_code(&cleaned), None, "{cleaned:?}");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_limits_are_refused() {
    let lab = lab(Limits::default());
    let wrong = [
        Limits { wall_ms: 0, ..Limits::default() },
        Limits { memory_mb: 1, ..Limits::default() },
        Limits { processes: 0, ..Limits::default() },
        Limits { open_files: u64::MAX, ..Limits::default() },
        Limits { output_tokens: u64::MAX, ..Limits::default() },
    ];
    for limits in wrong {
        let mut request = lab.request(Language::Python, "1");
        request.limits = limits.clone();
        let execution = lab.execute(request).await;
        assert_eq!(error_code(&execution), Some(ErrorCode::InvalidRequest), "{limits:?}");
    }
    assert_eq!(lab.python("1").await.result, Some(1.into()));
    lab.close().await;
}

each_user!(deep_leftovers_of_a_killed_program_are_removed);
/// Artifacts of a killed program that are nested too deeply for a plain removal are removed by the next start.
fn deep_leftovers_of_a_killed_program_are_removed(who: As) {
    let code = "import os, time\nos.chdir('/artifacts')\nfor _ in range(3_000):\n  os.mkdir('d'); os.chdir('d')\nprint('deep', flush=True)\ntime.sleep(99)";
    let coracle = Coracle::new(who);
    // If a slow disk lets the depth be noticed, the run fails and is repeated.
    let mut child = loop {
        let mut command = coracle.command();
        let mut child = command.args(["exec", "-c", code]).stdout(Stdio::piped()).spawn().unwrap();
        if child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).is_ok() {
            break child;
        }
        child.wait().unwrap();
    };
    let of_child = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(of_child).unwrap();
    let pids: Vec<i32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 1, "as {who:?}: the launcher");
    for pid in [i32::try_from(child.id()).unwrap(), pids[0]] {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    child.wait().unwrap();
    assert_eq!(coracle_testing::outcome::left_in_run(&coracle.home()).len(), 1, "the folder of the killed instance");
    let begun = Instant::now();
    // The killed processes may still be ending at the first start.
    loop {
        let next = coracle.run("python", "6 * 7", &[]);
        assert_eq!(next["result"], 42, "as {who:?}: {next:#}");
        if coracle_testing::outcome::left_in_run(&coracle.home()).is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "as {who:?}: the folder is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
