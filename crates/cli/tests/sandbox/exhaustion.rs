//! Code that exhausts resources: each limit ends it with its own error code and a hint, never in a hang; all processes
//! are gone afterwards, and the next execution works. Limits without an option are in `exhaustion_limits.rs`, abuse of
//! output in `exhaustion_output.rs`.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{Ran, assert_settled, json};

/// Runs code that must end with this error and leave nothing.
fn ends(who: As, name: &str, language: &str, code: &str, more: &[&str], error_code: &str, exit: i32) {
    let coracle = Coracle::new(who);
    let ran = json(&coracle, language, code, more);
    assert_failure(&ran, who, name, error_code, exit);
    assert_settled(&coracle, &ran, name);
}

fn assert_failure(ran: &Ran, who: As, name: &str, error_code: &str, exit: i32) {
    let execution = ran.json();
    assert_eq!(execution["error_code"], error_code, "{name} as {who:?}: {execution:#}");
    assert_eq!(ran.code(), Some(exit), "{name} as {who:?}: {execution:#}");
    assert_eq!(execution["success"], false, "{name}");
    let hint = execution["hint"].as_str().unwrap_or_default();
    assert!(hint.len() > 10, "{name} as {who:?}: no hint to act on: {execution:#}");
}

/// Positive control: just below the limit.
fn works(who: As, name: &str, language: &str, code: &str, more: &[&str]) {
    let execution = json(&Coracle::new(who), language, code, more).json();
    assert_eq!(execution["success"], true, "{name} as {who:?}: {execution:#}");
}

const SHORT: &[&str] = &["--timeout", "0.8"];

fn times_out(who: As, name: &str, language: &str, code: &str) {
    ends(who, name, language, code, SHORT, "timeout", 124);
}

each_user!(loops_sleeps_and_blocking_reads_time_out);
fn loops_sleeps_and_blocking_reads_time_out(who: As) {
    times_out(who, "busy", "python", "while True: pass");
    times_out(who, "sleep", "python", "import time; time.sleep(100)");
    times_out(who, "read", "python", "import os; r, w = os.pipe(); os.read(r, 1)");
    times_out(who, "repr", "python", "class A:\n  def __repr__(self):\n    while True: pass\nA()");
    times_out(
        who,
        "thread",
        "python",
        "import threading, time\nthreading.Thread(target=lambda: time.sleep(99)).start()",
    );
    works(who, "short sleep", "python", "import time; time.sleep(0.2)", &["--timeout", "10"]);
}

each_user!(a_time_out_ends_all_processes);
fn a_time_out_ends_all_processes(who: As) {
    times_out(
        who,
        "bash tree",
        "bash",
        "for i in 1 2 3 4 5; do (sleep 99 & sleep 99) & done; (setsid sleep 99 &); wait",
    );
    let daemons = "
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir('/')
            time.sleep(99)
        os._exit(0)
time.sleep(99)";
    times_out(who, "double fork", "python", daemons);
    works(who, "a tree that ends", "bash", "for i in 1 2 3; do sleep 0.1 & done; wait", &["--timeout", "10"]);
}

each_user!(ignoring_signals_does_not_prevent_time_outs);
fn ignoring_signals_does_not_prevent_time_outs(who: As) {
    let deaf = "
import signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1)";
    times_out(who, "ignores all signals", "python", deaf);
    times_out(who, "bash ignores signals", "bash", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done");
    let stopped = "
import os, signal, subprocess
child = subprocess.Popen(['sleep', '99'])
os.kill(child.pid, signal.SIGSTOP)
child.wait()";
    times_out(who, "a stopped child", "python", stopped);
    times_out(who, "a stopped shell", "bash", "kill -STOP $$; echo back");
    // The first process of a PID namespace cannot stop itself, so it continues.
    works(
        who,
        "stops itself",
        "python",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        &["--timeout", "20"],
    );
}

const SMALL: &[&str] = &["--memory", "120"];

each_user!(growing_memory_is_limited);
fn growing_memory_is_limited(who: As) {
    ends(who, "bytearray", "python", "b = []\nwhile True: b.append(bytearray(b'x') * 5_000_000)", SMALL, "memory", 137);
    let shared =
        "import mmap\nm = mmap.mmap(-1, {})\nfor at in range(0, len(m), 4096): m[at] = 1\nimport time; time.sleep(1)";
    ends(who, "shared mapping", "python", &shared.replace("{}", "300_000_000"), SMALL, "memory", 137);
    works(who, "shared mapping under the limit", "python", &shared.replace("{}", "60_000_000"), SMALL);
    works(who, "bytearray under the limit", "python", "b = bytearray(b'x') * 60_000_000", SMALL);
}

each_user!(the_memory_of_children_and_of_tmp_counts);
fn the_memory_of_children_and_of_tmp_counts(who: As) {
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
failed = [child for child in children if os.waitpid(child, 0)[1]]
if failed: raise SystemExit(f'{len(failed)} children were ended')";
    ends(who, "children", "python", &children.replace("{}", "50_000_000"), SMALL, "memory", 137);
    works(who, "children under the limit", "python", &children.replace("{}", "8_000_000"), SMALL);
    let tmp = "
open('/tmp/a', 'wb').write(b'x' * {})
held = bytearray(b'x') * {}
import time; time.sleep(1.5)";
    ends(who, "tmp", "python", &tmp.replace("{}", "70_000_000"), SMALL, "memory", 137);
    works(who, "tmp under the limit", "python", &tmp.replace("{}", "30_000_000"), SMALL);
}

each_user!(memfd_counts_against_the_memory_limit);
fn memfd_counts_against_the_memory_limit(who: As) {
    let files = "
import os, time
files = []
for _ in range(10):
    files.append(os.memfd_create('x'))
    for _ in range(30): os.write(files[-1], b'x' * 1_000_000)
time.sleep(1)";
    let coracle = Coracle::new(who);
    let execution = json(&coracle, "python", files, SMALL).json();
    // Without a cgroup, memory files are refused.
    let (code, error) = match execution["limits"]["enforced"]["memory"].as_str() {
        Some("watch") => ("exception", "PermissionError: [Errno 1] Operation not permitted"),
        _ => ("memory", "the code used all of its 120 MB of memory, and a process of it was killed"),
    };
    assert_eq!((&execution["error_code"], &execution["error"]), (&code.into(), &error.into()), "{execution:#}");
}

each_user!(programs_without_memory_fail_with_the_memory_code);
fn programs_without_memory_fail_with_the_memory_code(who: As) {
    let bash = "set -o pipefail; head -c 400000000 /dev/zero | tail -n 1 | wc -c";
    ends(who, "tail", "bash", bash, SMALL, "memory", 137);
    works(who, "tail under the limit", "bash", &bash.replace("400000000", "4000000"), SMALL);
    let program = r#"
import subprocess, sys
code = "held = bytearray(b'x') * {}"
subprocess.run([sys.executable, "-c", code], check=True)"#;
    ends(who, "sub-process", "python", &program.replace("{}", "400_000_000"), SMALL, "memory", 137);
    works(who, "sub-process under the limit", "python", &program.replace("{}", "20_000_000"), SMALL);
    // Even if the parent handles killed children.
    let copes = program.replace("{}", "400_000_000").replace(", check=True", "");
    ends(who, "the parent goes on", "python", &format!("{copes}\n'still here'"), SMALL, "memory", 137);
    works(who, "no process is killed", "python", &copes.replace("400_000_000", "20_000_000"), SMALL);
}

each_user!(children_killed_for_memory_are_a_failure);
/// The result of the parent is not what was requested, even if it handles the error.
fn children_killed_for_memory_are_a_failure(who: As) {
    let children = "
import os
ended = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        held = bytearray(b'x') * {}
        os._exit(0)
    ended.append(os.waitpid(child, 0)[1])
ended";
    ends(who, "twenty children", "python", &children.replace("{}", "300_000_000"), SMALL, "memory", 137);
    works(who, "twenty small children", "python", &children.replace("{}", "10_000_000"), SMALL);
}

each_user!(only_used_memory_counts);
/// Mapped memory is free; used memory counts.
fn only_used_memory_counts(who: As) {
    let maps = "
import mmap
held = [mmap.mmap(-1, 50_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(8)]
used = bytearray(b'x') * {}
import time; time.sleep(0.5)";
    works(who, "400 MB mapped, 60 used", "python", &maps.replace("{}", "60_000_000"), SMALL);
    let coracle = Coracle::new(who);
    let execution = json(&coracle, "python", &maps.replace("{}", "300_000_000"), SMALL).json();
    assert_eq!(execution["error_code"], "memory", "as {who:?}: {execution:#}");
    let (error, hint) = (execution["error"].as_str().unwrap(), execution["hint"].as_str().unwrap());
    assert!(error.contains("the code used ") && error.contains("120 MB"), "as {who:?}: {error}");
    assert!(hint.contains("more than 120 MB of memory"), "as {who:?}: {hint}");
}

each_user!(a_fork_bomb_is_limited);
fn a_fork_bomb_is_limited(who: As) {
    let forks = "import os, time\nfor _ in range({}):\n    if os.fork() == 0: time.sleep(9); os._exit(0)\n";
    ends(who, "forks", "python", &forks.replace("{}", "10_000"), &[], "processes", 1);
    works(who, "forks under the limit", "python", &forks.replace("{}", "50"), &[]);
    ends(who, "bomb", "python", "import os\nwhile True: os.fork()", &[], "processes", 1);
    let threads =
        "import threading, time\nfor _ in range({}): threading.Thread(target=time.sleep, args=(0.5,)).start()";
    ends(who, "threads", "python", &threads.replace("{}", "500"), &[], "processes", 1);
    works(who, "threads under the limit", "python", &threads.replace("{}", "50"), &[]);
    let jobs = "for i in $(seq {}); do sleep 9 & done";
    ends(who, "jobs", "bash", &jobs.replace("{}", "500"), &["--timeout", "3"], "processes", 1);
    works(who, "jobs under the limit", "bash", &jobs.replace("{}", "50"), &[]);
}

each_user!(a_bash_bomb_ends_with_its_shell);
fn a_bash_bomb_ends_with_its_shell(who: As) {
    let coracle = Coracle::new(who);
    let ran = json(&coracle, "bash", ":(){ :|:& };:; sleep 1", &["--timeout", "5"]);
    let execution = ran.json();
    assert!(["processes", "null"].contains(&execution["error_code"].as_str().unwrap_or("null")), "{execution:#}");
    assert_settled(&coracle, &ran, "bash bomb");
}

each_user!(open_files_are_limited);
fn open_files_are_limited(who: As) {
    ends(who, "python", "python", "files = [open('/dev/null') for _ in range(300)]", &[], "files", 1);
    works(who, "python under the limit", "python", "files = [open('/dev/null') for _ in range(200)]", &[]);
    let bash = "for i in $(seq {}); do exec {file}</dev/null || exit 1; done";
    ends(who, "bash", "bash", &bash.replace("{}", "300"), &[], "files", 1);
    works(who, "bash under the limit", "bash", &bash.replace("{}", "200"), &[]);
}

each_user!(the_size_of_a_file_is_limited);
fn the_size_of_a_file_is_limited(who: As) {
    ends(who, "truncate", "python", "open('a', 'wb').truncate(600_000_000)", &[], "disk", 1);
    ends(who, "seek", "python", "f = open('a', 'wb')\nf.seek(600_000_000)\nf.write(b'x')\nf.flush()", &[], "disk", 1);
    let allocate = "import os\nos.posix_fallocate(os.open('a', os.O_CREAT | os.O_WRONLY), 0, {})";
    ends(who, "fallocate", "python", &allocate.replace("{}", "600_000_000"), &[], "disk", 1);
    works(who, "fallocate under the limit", "python", &allocate.replace("{}", "100_000_000"), &[]);
    ends(who, "bash", "bash", "truncate -s 600M a", &[], "disk", 1);
    ends(
        who,
        "dd",
        "bash",
        "dd if=/dev/zero of=/workspace/a bs=1M seek=511 count=2 conv=notrunc 2>/dev/null",
        &[],
        "disk",
        1,
    );
    works(
        who,
        "sparse under the limit",
        "bash",
        "truncate -s 480M a && dd if=/dev/zero of=a bs=1M seek=470 count=1",
        &[],
    );
}

each_user!(tmp_is_limited_in_size_and_in_files);
fn tmp_is_limited_in_size_and_in_files(who: As) {
    ends(who, "python", "python", "open('/tmp/a', 'wb').write(b'x' * 101_000_000)", &[], "disk", 1);
    works(who, "python under the limit", "python", "open('/tmp/a', 'wb').write(b'x' * 95_000_000)", &[]);
    ends(who, "bash", "bash", "head -c 200000000 /dev/zero > /tmp/a", &[], "disk", 1);
    let files = "import os\nfor i in range({}): os.close(os.open(f'/tmp/{i}', os.O_CREAT | os.O_WRONLY))";
    ends(who, "inodes", "python", &files.replace("{}", "70_000"), &[], "disk", 1);
    works(who, "inodes under the limit", "python", &files.replace("{}", "60_000"), &[]);
}

each_user!(enforced_limits_are_reported);
fn enforced_limits_are_reported(who: As) {
    let execution = json(&Coracle::new(who), "python", "1", &[]).json();
    let tree = match (who, execution["limits"]["tier"].as_str()) {
        (_, Some("native-partial")) => ("watch", "rlimit"),
        _ if execution["limits"]["enforced"]["memory"] == "cgroup2" => ("cgroup2", "cgroup2"),
        _ => ("cgroup1", "rlimit"),
    };
    let expected = serde_json::json!({
        "wall": "host", "memory": tree.0, "processes": tree.1, "open_files": "rlimit", "file": "rlimit",
        "workspace": "watch", "tmp": "mount", "output": "host",
    });
    assert_eq!(execution["limits"]["enforced"], expected, "as {who:?}");
    assert_eq!(execution["limits"]["tier"], if tree.0 == "watch" { "native-partial" } else { "native" });
    if who == As::Root {
        assert_ne!(tree.0, "watch", "root has cgroups");
    }
}

each_user!(full_isolation_is_provided_or_refused);
fn full_isolation_is_provided_or_refused(who: As) {
    let coracle = Coracle::new(who);
    let partial = json(&coracle, "python", "1", &[]).json()["limits"]["tier"] == "native-partial";
    let ran = json(&coracle, "python", "6 * 7", &["--require-full-isolation"]);
    let execution = ran.json();
    if partial {
        assert_failure(&ran, who, "full isolation", "sandbox_unavailable", 125);
        let error = execution["error"].as_str().unwrap();
        assert!(error.contains("a cgroup for memory ("), "{error}");
    } else {
        assert_eq!((&execution["result"], ran.code()), (&42.into(), Some(0)), "as {who:?}: {execution:#}");
    }
    assert_settled(&coracle, &ran, "full isolation");
}
