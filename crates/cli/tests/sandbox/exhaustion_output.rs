//! Code that floods, closes or breaks its output, its result, its errors, or the channel to the host.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{assert_settled, finish, json, processes_in};
use coracle_testing::skip::unsupported;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Runs code, and checks its result and that nothing is left.
fn check(who: As, name: &str, language: &str, code: &str, more: &[&str], expected: impl Fn(&Value)) {
    let coracle = Coracle::new(who);
    let ran = json(&coracle, language, code, more);
    let execution = ran.json();
    println!("{name} as {who:?}: {}", summary(&execution));
    expected(&execution);
    assert_settled(&coracle, &ran, name);
}

fn summary(execution: &Value) -> String {
    let text: String = execution.to_string().chars().take(600).collect();
    text
}

fn fails(who: As, name: &str, language: &str, code: &str, error_code: &str, exit_code: i32) {
    check(who, name, language, code, &[], |execution| {
        assert_eq!(execution["error_code"], error_code, "{name}");
        assert_eq!(execution["exit_code"], exit_code, "{name}");
    });
}

fn gives(who: As, name: &str, language: &str, code: &str, result: &Value) {
    check(who, name, language, code, &[], |execution| {
        assert_eq!((&execution["success"], &execution["result"]), (&true.into(), result), "{name}");
    });
}

each_user!(a_flood_of_output_ends_the_code);
fn a_flood_of_output_ends_the_code(who: As) {
    let floods = [
        ("a gigabyte", "python", "import os\nfor _ in range(16_384): os.write(1, b'x' * 65_536)"),
        ("an endless line", "python", "import sys\nwhile True: sys.stdout.write('x' * 1_000)"),
        ("standard error", "bash", "yes >&2"),
        ("both", "bash", "yes | tee /dev/stderr"),
        ("children", "bash", "for i in 1 2 3; do yes & done; wait"),
    ];
    for (name, language, code) in floods {
        check(who, name, language, code, &[], |execution| {
            assert_eq!(execution["error_code"], "output", "{name}");
            assert!(execution["hint"].as_str().unwrap().contains("print less"));
            assert_eq!(execution["truncated"], true);
            for stream in ["stdout", "stderr"] {
                assert!(execution[stream].as_str().unwrap().len() < 50_000, "{name}: {stream} is over its budget");
            }
            let longest = execution["output"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().len()).max();
            assert!(longest.unwrap_or(0) < 2_100, "{name}: {longest:?}");
        });
    }
}

each_user!(large_output_below_the_limit_is_kept_in_a_file);
fn large_output_below_the_limit_is_kept_in_a_file(who: As) {
    let coracle = Coracle::new(who);
    let execution = json(&coracle, "python", "for i in range(200_000): print(i)", &[]).json();
    assert_eq!((&execution["success"], &execution["truncated"]), (&true.into(), &true.into()));
    let stdout = execution["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("0\n1\n") && stdout.ends_with("199998\n199999\n"), "start and end");
    let file = execution["output_file"].as_str().unwrap().strip_prefix("/workspace/").unwrap().to_owned();
    let whole = fs::read_to_string(coracle.workspace().join(&file)).unwrap();
    assert_eq!(whole.lines().count(), 200_000);
    // The code can read the file, as the hint says.
    let lines = coracle.python(&format!("len(open('/workspace/{file}').readlines())"));
    assert_eq!(lines, 200_000);
}

each_user!(a_flood_uses_little_memory_on_the_host);
fn a_flood_uses_little_memory_on_the_host(who: As) {
    let coracle = Coracle::new(who);
    let mut command = coracle.command();
    command.args([
        "exec",
        "--json",
        "-c",
        "import os, time\nfor _ in range(255): os.write(1, b'x' * 65_536)\ntime.sleep(1)",
    ]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    let begun = Instant::now();
    // Peak memory of the program.
    while let Some(kilobytes) = peak_kilobytes(child.id()).filter(|_| begun.elapsed() < Duration::from_mins(1)) {
        peak = peak.max(kilobytes);
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!((1_000..100_000).contains(&peak), "as {who:?}: {peak} kB for 16 MB of output");
}

/// Peak memory; `None` if the process has ended.
fn peak_kilobytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

each_user!(unread_output_does_not_keep_code_running);
fn unread_output_does_not_keep_code_running(who: As) {
    let coracle = Coracle::new(who);
    let mut command = coracle.command();
    let code = "open('/workspace/begun', 'w').close()\nwhile True: print('x' * 1_000_000)";
    command.args(["exec", "--timeout", "1", "-c", code, "--workspace"]).arg(coracle.workspace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let wait_until = |what: &str, happened: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !happened() {
            assert!(begun.elapsed() < Duration::from_mins(2), "as {who:?}: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // The code runs, and is ended in time, although the program still waits for its reader.
    let (begun, folder) = (coracle.workspace().join("begun"), coracle.home().parent().unwrap().to_owned());
    // The program has the audit log open.
    let program = format!("process {} (", child.id());
    wait_until("the code does not run", &|| begun.exists());
    wait_until("the code does not end", &|| processes_in(&folder).iter().all(|process| process.starts_with(&program)));
    assert!(child.try_wait().unwrap().is_none(), "as {who:?}");
    std::io::copy(&mut child.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(124), "as {who:?}: {}", String::from_utf8_lossy(&output.stderr));
}

each_user!(invalid_utf8_output_is_replaced);
fn invalid_utf8_output_is_replaced(who: As) {
    check(
        who,
        "garbage",
        "python",
        r"import os; os.write(1, b'\xff\xfe\x00ok\n\x1b[31m'); os.write(2, bytes(range(256)))",
        &[],
        |execution| {
            assert_eq!(execution["success"], true);
            assert_eq!(execution["stdout"], "\u{fffd}\u{fffd}\0ok\n\u{1b}[31m");
            assert!(execution["stderr"].as_str().unwrap().contains("ABC"));
        },
    );
    check(who, "random", "bash", "head -c 1000000 /dev/urandom", &[], |execution| {
        assert_eq!((&execution["success"], &execution["truncated"]), (&true.into(), &true.into()));
    });
}

each_user!(closed_and_redirected_streams_do_no_harm);
fn closed_and_redirected_streams_do_no_harm(who: As) {
    gives(who, "sys.stdout.close", "python", "import sys; sys.stdout.close(); 5", &5.into());
    gives(who, "close 1", "python", "import os; os.close(1); 5", &5.into());
    gives(who, "close 1 and 2", "python", "import os; os.close(1); os.close(2); 5", &5.into());
    gives(who, "replaced", "python", "import sys; sys.stdout = None; print('x'); 5", &5.into());
    fails(who, "print to a closed descriptor", "python", "import os; os.close(1); print('x')", "exception", 1);
    fails(who, "bash", "bash", "exec >&-; echo hi", "exception", 1);
    check(who, "bash, nothing printed", "bash", "exec >&- 2>&-; true", &[], |execution| {
        assert_eq!(execution["success"], true);
    });
    check(who, "redirected", "bash", "exec >out.txt; echo hi; cat out.txt >&2", &[], |execution| {
        assert_eq!((&execution["stdout"], &execution["stderr"]), (&"".into(), &"hi\n".into()));
    });
    gives(
        who,
        "python redirected",
        "python",
        "import sys; sys.stdout = open('o', 'w'); print('x'); sys.stdout.close(); open('o').read()",
        &"x\n".into(),
    );
}

each_user!(a_huge_result_becomes_a_summary);
fn a_huge_result_becomes_a_summary(who: As) {
    for code in
        ["['x' * 1_000] * 10_000", "'x' * 50_000_000", "{i: i for i in range(500_000)}", "list(range(1_000_000))"]
    {
        check(who, code, "python", code, &[], |execution| {
            assert_eq!((&execution["success"], &execution["truncated"]), (&true.into(), &true.into()), "{code}");
            assert!(execution["result"].to_string().len() < 1 << 20, "{code}");
        });
    }
    gives(who, "under the cap", "python", "len('x' * 50_000_000)", &50_000_000.into());
    gives(who, "a result under the cap", "python", "'x' * 100_000", &"x".repeat(100_000).into());
}

each_user!(hostile_results_and_errors_are_contained);
fn hostile_results_and_errors_are_contained(who: As) {
    fails(who, "recursion", "python", "def f(): return f()\nf()", "exception", 1);
    gives(
        who,
        "repr raises",
        "python",
        "class A:\n  def __repr__(self): raise KeyError('no')\nA()",
        &"<A object; its repr raised KeyError>".into(),
    );
    check(who, "a deep result", "python", "x = []\nfor _ in range(100_000): x = [x]\nx", &[], |execution| {
        assert_eq!(execution["success"], true);
        assert!(execution["result"].to_string().contains("<too deep>"));
    });
    let endless = "class Endless(Exception):\n  def __str__(self):\n    while True: pass\nraise Endless";
    check(who, "endless message", "python", endless, &["--timeout", "1"], |execution| {
        assert_eq!(execution["error_code"], "timeout");
    });
    check(who, "huge message", "python", "raise ValueError('x' * 50_000_000)", &[], |execution| {
        assert_eq!(execution["error_code"], "exception");
        assert!(execution["error"].as_str().unwrap().len() < 33_000);
        assert!(execution["traceback"].as_str().unwrap().len() < 130_000);
    });
    let long_lines = "exec('def f(n):\\n  ' + 'x' * 5_000 + ' = 1\\n  return f(n - 1) if n else 1 / 0\\n')\nf(900)";
    check(who, "huge traceback", "python", long_lines, &[], |execution| {
        assert_eq!(execution["error"], "ZeroDivisionError: division by zero");
        assert!(execution["traceback"].as_str().unwrap().len() < 130_000);
    });
}

each_user!(garbage_on_the_channel_ends_the_sandbox);
fn garbage_on_the_channel_ends_the_sandbox(who: As) {
    let frame = "import json, os, struct\ndef send(frame):\n  data = json.dumps(frame).encode()\n  os.write(3, struct.pack('>I', len(data)) + data)\n";
    let cases = [
        ("no length", r"import os; os.write(3, b'\xff' * 1_000)".to_owned()),
        ("no JSON", r"import os; os.write(3, b'\0\0\0\5hello')".to_owned()),
        ("another's answer", format!("{frame}send({{'type': 'done', 'id': 99, 'ok': True, 'exit_code': 0}})")),
        ("ready again", format!("{frame}send({{'type': 'ready', 'protocol': 1, 'runtime': 'x'}})")),
        ("unknown", format!("{frame}send({{'type': 'mount', 'path': '/'}})")),
        (
            "both",
            format!(
                "{frame}send({{'type': 'done', 'id': 1, 'ok': True, 'exit_code': 0, 'error': {{'code': 'x', 'message': 'y', 'traceback': ''}}}})"
            ),
        ),
        // Only the launcher can confirm such a failure; see below.
        ("failed", format!("{frame}send({{'type': 'failed', 'step': 'seccomp', 'errno': 1}})")),
        (
            "failed, and as such a child ends",
            format!("{frame}send({{'type': 'failed', 'step': 'seccomp', 'errno': 1}})\nos._exit(70)"),
        ),
        ("closed", "import os; os.close(3)".to_owned()),
        ("all closed", "import os; os.closerange(0, 256)".to_owned()),
    ];
    for (name, code) in cases {
        check(who, name, "python", &format!("{code}\nimport time; time.sleep(0.3)"), &[], |execution| {
            assert_eq!(execution["error_code"], "guest_protocol", "{name}");
            assert!(execution["hint"].as_str().unwrap().contains("descriptors"), "{name}");
        });
    }
    check(
        who,
        "half a frame",
        "python",
        r"import os; os.write(3, b'\0\0\1\0abc'); import time; time.sleep(99)",
        &["--timeout", "1"],
        |execution| {
            assert_eq!(execution["error_code"], "timeout");
        },
    );
}

each_user!(a_failed_confinement_cannot_be_forged);
/// The same through a zygote, whose children are confined after they are ready. A real failure, here caused by too few
/// descriptors, is reported as such.
fn a_failed_confinement_cannot_be_forged(who: As) {
    let forged = "import json, os, struct\ndata = json.dumps({'type': 'failed', 'step': 'x', 'errno': 1}).encode()\n\
        os.write(3, struct.pack('>I', len(data)) + data); os._exit(70)";
    // Without full isolation, the program cannot be asked for a zygote.
    if json(&Coracle::new(who), "python", "1", &[]).json()["limits"]["tier"] != "native" {
        assert_eq!(who, As::Ordinary, "root has full isolation");
        unsupported("a zygote of an ordinary user: no cgroup for memory");
        return;
    }
    let full = &["--require-full-isolation"];
    let lied = json(&Coracle::new(who), "python", forged, full).json();
    assert_eq!(lied["error_code"], "guest_protocol", "as {who:?}: {lied:#}");
    let few = Coracle::behind(who, &["prlimit", "--nofile=120:120", "--"]);
    let really = json(&few, "python", "1", full).json();
    assert_eq!(really["error_code"], "sandbox_unavailable", "as {who:?}: {really:#}");
}

each_user!(the_exit_of_the_interpreter_is_reported);
fn the_exit_of_the_interpreter_is_reported(who: As) {
    fails(who, "_exit", "python", "import os; os._exit(3)", "exception", 3);
    // The first process of a PID namespace ignores its own SIGABRT; the C library then ends it with a trap.
    check(who, "abort", "python", "import os; os.abort()", &[], |execution| {
        assert_eq!(execution["error_code"], "exception");
        assert!(execution["exit_code"].as_i64().unwrap() > 128);
    });
    fails(who, "segmentation fault", "python", "import ctypes; ctypes.string_at(0)", "exception", 139);
    fails(who, "exit 3", "python", "import sys; sys.exit(3)", "exception", 3);
    fails(who, "exit with words", "python", "import sys; sys.exit('bye')", "exception", 1);
    fails(who, "bash exit", "bash", "exit 7", "exception", 7);
    fails(who, "bash kills itself", "bash", "kill -9 $$", "exception", 137);
    for code in ["import sys; sys.exit()", "import sys; sys.exit(0)", "raise SystemExit(None)"] {
        check(who, code, "python", code, &[], |execution| {
            assert_eq!((&execution["success"], &execution["exit_code"]), (&true.into(), &0.into()));
        });
    }
}

each_user!(code_above_the_size_limit_is_refused);
fn code_above_the_size_limit_is_refused(who: As) {
    let coracle = Coracle::new(who);
    for filler in ["x", "é"] {
        let code = format!("#{}\nprint(5)", filler.repeat(10_000_000 / filler.len()));
        let ran = finish(&coracle, coracle.command().args(["exec", "-"]), code.as_bytes());
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(
            ran.stderr.contains("standard input is longer than 1048576 bytes, the limit for code"),
            "{}",
            ran.stderr
        );
        let code = format!("#{}\nprint(5)", filler.repeat(1_000_000 / filler.len()));
        let ran = finish(&coracle, coracle.command().args(["exec", "-"]), code.as_bytes());
        assert_eq!((ran.status.signal(), ran.stdout.as_slice()), (None, &b"5\n"[..]), "{ran:?}");
    }
}
