//! Code that exhausts resources or wants to outlive its sandbox: the host sees the cause, and nothing is left. How limits
//! are reported to users is tested with the program `coracle`.

use crate::lab::{place, run};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::outcome::assert_nothing_left;
use serde_json::{Value, json};

/// Runs code, and checks that nothing is left of it.
fn settled(who: As, name: &str, language: &str, code: &str, more: &[&str]) -> Value {
    let place = place(who);
    let report = run(&place, language, code, more);
    println!("{name} as {who:?}: {report}");
    assert_nothing_left(&place, name);
    report
}

/// Positive control: just below the limit.
fn works(who: As, name: &str, language: &str, code: &str, more: &[&str]) {
    let report = settled(who, name, language, code, more);
    assert_eq!((&report["ok"], &report["causes"]), (&json!(true), &json!([])), "{name} as {who:?}: {report:#}");
}

/// The code is killed, or one of its processes is, and the host knows why.
fn is_ended(who: As, name: &str, cause: &str, language: &str, code: &str, more: &[&str]) {
    let report = settled(who, name, language, code, more);
    let causes: Vec<&str> = report["causes"].as_array().unwrap().iter().map(|cause| cause.as_str().unwrap()).collect();
    assert!(causes.iter().any(|found| found.starts_with(cause)), "{name} as {who:?}: {report:#}");
}

/// The kernel refuses, and code sees this error.
fn is_refused(who: As, name: &str, error: &str, code: &str, more: &[&str]) {
    let report = settled(who, name, "python", code, more);
    assert_eq!(report["ok"], false, "{name} as {who:?}: {report:#}");
    let message = report["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(error), "{name} as {who:?}: {report:#}");
}

const SMALL: &[&str] = &["--memory", "120"];

each_user!(the_memory_of_the_process_tree_is_limited);
fn the_memory_of_the_process_tree_is_limited(who: As) {
    let grow = "held = bytearray(b'x') * {}\nimport time; time.sleep(1.5)";
    is_ended(who, "one process", "memory", "python", &grow.replace("{}", "400_000_000"), SMALL);
    works(who, "one process under the limit", "python", &grow.replace("{}", "60_000_000"), SMALL);
    let children = "
import os, time
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        held = bytearray(b'x') * {}
        time.sleep(1.5)
        os._exit(0)
    children.append(child)
[os.waitpid(child, 0)[1] for child in children]";
    is_ended(who, "children", "memory", "python", &children.replace("{}", "50_000_000"), SMALL);
    works(who, "children under the limit", "python", &children.replace("{}", "8_000_000"), SMALL);
    let tmp = "open('/tmp/a', 'wb').write(b'x' * {})\nheld = bytearray(b'x') * {}\nimport time; time.sleep(1.5)";
    is_ended(who, "tmp", "memory", "python", &tmp.replace("{}", "70_000_000"), SMALL);
    works(who, "tmp under the limit", "python", &tmp.replace("{}", "30_000_000"), SMALL);
}

each_user!(processes_threads_files_and_tmp_are_limited);
fn processes_threads_files_and_tmp_are_limited(who: As) {
    let forks = "import os, time\nfor _ in range({}):\n    if os.fork() == 0: time.sleep(9); os._exit(0)\n";
    is_refused(who, "forks", "Resource temporarily unavailable", &forks.replace("{}", "10_000"), &[]);
    works(who, "forks under the limit", "python", &forks.replace("{}", "50"), &[]);
    let threads =
        "import threading, time\nfor _ in range({}): threading.Thread(target=time.sleep, args=(0.5,)).start()";
    is_refused(who, "threads", "can't start new thread", &threads.replace("{}", "500"), &[]);
    works(who, "threads under the limit", "python", &threads.replace("{}", "50"), &[]);
    let files = "files = [open('/dev/null') for _ in range({})]";
    is_refused(who, "open files", "Too many open files", &files.replace("{}", "300"), &[]);
    works(who, "open files under the limit", "python", &files.replace("{}", "200"), &[]);
    let long = "open('a', 'wb').truncate({})";
    is_refused(who, "a long file", "File too large", &long.replace("{}", "600_000_000"), &[]);
    works(who, "a long file under the limit", "python", &long.replace("{}", "500_000_000"), &[]);
    let tmp = "open('/tmp/a', 'wb').write(b'x' * {})";
    is_refused(who, "tmp", "No space left on device", &tmp.replace("{}", "101_000_000"), &[]);
    works(who, "tmp under the limit", "python", &tmp.replace("{}", "95_000_000"), &[]);
}

each_user!(the_workspace_is_limited);
fn the_workspace_is_limited(who: As) {
    let write = "
import time
for i in range({}): open(f'/workspace/{i}', 'wb').write(b'x' * 1_000_000)
time.sleep({wait})";
    let over = write.replace("{}", "60").replace("{wait}", "25");
    is_ended(who, "a full workspace", "disk: ", "python", &over, &["--workspace-mb", "20"]);
    let under = write.replace("{}", "10").replace("{wait}", "1");
    works(who, "a workspace under the limit", "python", &under, &["--workspace-mb", "20"]);
}

each_user!(daemons_do_not_outlive_the_code);
fn daemons_do_not_outlive_the_code(who: As) {
    let code = "setsid sleep 99 & (nohup sleep 99 >/dev/null 2>&1 &); echo started";
    let report = settled(who, "daemons", "bash", code, &[]);
    assert_eq!(report["stdout"], "started\n", "{report:#}");
}

each_user!(a_kill_ends_the_whole_tree);
/// Also processes that ignore signals, are stopped, or have left their session.
fn a_kill_ends_the_whole_tree(who: As) {
    let deaf = "
import os, signal, subprocess, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(99)
        os._exit(0)
child = subprocess.Popen(['sleep', '99'])
os.kill(child.pid, signal.SIGSTOP)
print('up', flush=True)
while True: time.sleep(1)";
    let report = settled(who, "deaf", "python", deaf, &["--wall-ms", "1500"]);
    assert_eq!((&report["timed_out"], &report["stdout"]), (&json!(true), &json!("up\n")), "{report:#}");
    let short = deaf.replace("while True: time.sleep(1)", "'ended'");
    let report = settled(who, "the same that ends", "python", &short, &["--wall-ms", "30000"]);
    assert_eq!((&report["ok"], &report["result"]), (&json!(true), &json!("ended")), "{report:#}");
}

each_user!(the_first_process_cannot_be_killed_from_inside);
fn the_first_process_cannot_be_killed_from_inside(who: As) {
    let code = "import os\nfor number in (9, 15, 1, 19): os.kill(1, number)\n'alive'";
    assert_eq!(settled(who, "python", "python", code, &[])["result"], "alive");
    let code = "kill -9 1; kill -9 $PPID; kill -9 -1; echo alive";
    assert_eq!(settled(who, "bash", "bash", code, &[])["stdout"], "alive\n");
    let code = "import os; [os.getpid(), os.getppid()]";
    assert_eq!(settled(who, "the parent is nobody", "python", code, &[])["result"], json!([1, 0]));
}
