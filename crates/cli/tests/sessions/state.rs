//! Interpreters that live between executions: what they keep, when they restart, and who shares them.

use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python};
use coracle_types::{ErrorCode, Limits, UserId};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn lab() -> Lab {
    Lab::new(Limits { wall_ms: 10_000, ..Limits::default() }, 2, Duration::from_mins(10))
}

/// Runs Python in a session; returns the result and whether the session was restarted.
async fn in_session(lab: &Lab, session: &str, code: &str) -> (Option<Value>, bool) {
    let execution = lab.execute(lab.in_session(session, Python, code)).await;
    assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
    (execution.result, execution.session_restarted)
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_imports_and_the_folder_are_kept() {
    let lab = lab();
    let code = "import os, math as m\nx = 40\ndef add(n): return x + n\nos.mkdir('sub'); os.chdir('sub')";
    assert_eq!(in_session(&lab, "a", code).await, (None, false));
    let code = "[add(2), m.floor(1.5), os.getcwd()]";
    assert_eq!(in_session(&lab, "a", code).await, (Some(json!([42, 1, "/workspace/sub"])), false));
    // An error does not restart the session.
    let failed = lab.execute(lab.in_session("a", Python, "y = 1\n1 / 0")).await;
    assert_eq!((error_code(&failed), failed.session_restarted), (Some(ErrorCode::Exception), false));
    assert_eq!(in_session(&lab, "a", "[x, y]").await, (Some(json!([40, 1])), false));
    // An earlier value of `result` is not returned again.
    assert_eq!(in_session(&lab, "a", "result = 7").await.0, Some(7.into()));
    assert_eq!(in_session(&lab, "a", "z = 1").await.0, None);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_only_files_are_kept() {
    let lab = lab();
    assert_eq!(error_code(&lab.python("x = 1\nopen('kept', 'w').write('file')").await), None);
    let execution = lab.python("['x' in globals(), open('kept').read()]").await;
    assert_eq!((execution.result, execution.session_restarted), (Some(json!([false, "file"])), false));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_files_but_not_variables() {
    let lab = lab();
    in_session(&lab, "a", "x = 'a'\nopen('f', 'w').write('from a')").await;
    assert_eq!(in_session(&lab, "b", "['x' in globals(), open('f').read()]").await.0, Some(json!([false, "from a"])));
    in_session(&lab, "b", "x = 'b'").await;
    assert_eq!(in_session(&lab, "a", "x").await.0, Some("a".into()));
    assert_eq!(lab.engine.live_sessions(), 2);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_users_with_the_same_name_are_separate() {
    let lab = lab();
    for user in ["ada", "bob"] {
        let code = format!(
            "import os\nassert 'secret' not in globals() and sorted(os.listdir('.')) == ['servers', 'skills']\nsecret = '{user}'\nopen(secret, 'w').write(secret)"
        );
        let mut request = lab.in_session("same", Python, &code);
        request.user = UserId::new(user).unwrap();
        let execution = lab.execute(request).await;
        assert_eq!(error_code(&execution), None, "{execution:?}");
    }
    for user in ["ada", "bob"] {
        let mut request =
            lab.in_session("same", Python, "import os\n[secret, os.path.exists(secret), len(os.listdir('.'))]");
        request.user = UserId::new(user).unwrap();
        assert_eq!(lab.execute(request).await.result, Some(json!([user, true, 4])));
    }
    lab.close().await;
}

/// Causes of a restart, and how it is reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_or_a_crash_restarts_the_session() {
    let lab = lab();
    let ends = [
        ("while True: pass", ErrorCode::Timeout),
        ("import os; os._exit(3)", ErrorCode::Exception),
        ("import ctypes; ctypes.string_at(0)", ErrorCode::Exception),
        ("import os; os.write(3, b'garbage')\nimport time; time.sleep(1)", ErrorCode::GuestProtocol),
        ("while True: print('x' * 10_000)", ErrorCode::Output),
    ];
    for (code, expected) in ends {
        in_session(&lab, "s", "x = 1\nopen('kept', 'w').write('still')").await;
        let mut request = lab.in_session("s", Python, code);
        request.limits.wall_ms = 1_500;
        assert_eq!(error_code(&lab.execute(request).await), Some(expected), "{code}");
        let (result, restarted) = in_session(&lab, "s", "['x' in globals(), open('kept').read()]").await;
        assert_eq!((result, restarted), (Some(json!([false, "still"])), true), "{code}");
        assert_eq!(in_session(&lab, "s", "1").await, (Some(1.into()), false), "{code}");
    }
    lab.close().await;
}

/// A forged answer only affects its own code; the real one that follows ends the interpreter.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_answer_affects_only_its_own_session() {
    let lab = lab();
    let forge = "
import json, os, struct
data = json.dumps({'type': 'done', 'id': 1, 'ok': True, 'exit_code': 0, 'result': 'forged'}).encode()
os.write(3, struct.pack('>I', len(data)) + data)";
    assert_eq!(in_session(&lab, "liar", forge).await.0, Some("forged".into()));
    let next = lab.execute(lab.in_session("liar", Python, "5")).await;
    assert_eq!(error_code(&next), Some(ErrorCode::GuestProtocol), "{next:?}");
    assert_eq!(in_session(&lab, "liar", "5").await, (Some(5.into()), true));
    assert_eq!(in_session(&lab, "honest", "5").await, (Some(5.into()), false));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_ends_and_reports_a_restart() {
    const IDLE: Duration = Duration::from_millis(400);
    let lab = Lab::new(Limits::default(), 0, IDLE);
    // A session in use stays alive for longer than that. If the machine stalls between two uses, try again.
    let mut lived_on = false;
    for _ in 0..20 {
        in_session(&lab, "s", "x = 1").await;
        let (begun, mut last, mut stalled) = (Instant::now(), Instant::now(), false);
        while begun.elapsed() < IDLE * 2 && !stalled {
            tokio::time::sleep(IDLE / 4).await;
            let used = in_session(&lab, "s", "globals().get('x')").await;
            stalled = last.elapsed() >= IDLE;
            assert!(stalled || used == (Some(1.into()), false), "{used:?}");
            last = Instant::now();
        }
        lived_on = !stalled;
        if lived_on {
            break;
        }
    }
    assert!(lived_on, "the machine stalled again and again");
    until(|| lab.engine.live_sessions() == 0).await;
    assert_eq!(in_session(&lab, "s", "'x' in globals()").await, (Some(false.into()), true));
    // A running session is not idle. On a machine that stalls, the session may have ended before.
    let (done, _) = in_session(&lab, "s", "import time; time.sleep(1.2); 'done'").await;
    assert_eq!(done, Some("done".into()));
    lab.close().await;
}

/// Waits for an event that is sure to come.
async fn until(event: impl Fn() -> bool) {
    let begun = Instant::now();
    while !event() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A live session is not looked up again, so another process may have ended it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ended_by_another_process_is_new_by_name_and_gone_by_id() {
    let lab = lab();
    let user = lab.request(Python, "").user;
    let first = lab.execute(lab.in_session("a", Python, "x = 1")).await.session_id.unwrap();
    assert_eq!(in_session(&lab, "a", "x").await, (Some(1.into()), false), "control: it is alive");
    assert_eq!(in_session(&lab, first.as_str(), "x").await, (Some(1.into()), false), "control: by its ID");
    let session = lab.engine.history().session(&user, "a").await.unwrap().unwrap();
    // Bypasses the engine, like another process.
    assert!(lab.engine.history().end(&user, &session).await.unwrap());
    let runs = (0..3).map(|_| lab.execute(lab.in_session("a", Python, "globals().get('x')")));
    for execution in join_all(runs).await {
        assert_eq!((error_code(&execution), execution.result), (None, None));
        assert_ne!(execution.session_id, Some(first.clone()));
    }
    assert_eq!(lab.engine.live_sessions(), 1);
    let gone = lab.execute(lab.in_session(first.as_str(), Python, "x")).await;
    assert_eq!(error_code(&gone), Some(ErrorCode::InvalidRequest), "{gone:?}");
    // Each execution is logged once.
    let log = lab.engine.executions(&user, 100, None).await.unwrap();
    assert_eq!(log.len(), 6, "{log:?}");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_of_one_session_take_turns() {
    let lab = lab();
    in_session(&lab, "s", "log = []").await;
    let code = "log.append('in'); import time; time.sleep(0.05); log.append('out')";
    let runs = (0..8).map(|_| lab.execute(lab.in_session("s", Python, code)));
    for execution in join_all(runs).await {
        assert_eq!((error_code(&execution), execution.session_restarted), (None, false));
    }
    let expected: Vec<&str> = ["in", "out"].repeat(8);
    assert_eq!(in_session(&lab, "s", "log").await.0, Some(json!(expected)));
    // An execution that waits for its turn longer than its time limit is ended.
    let wait = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)";
    let slow = lab.in_session("s", Python, wait);
    let mut hasty = lab.in_session("s", Python, "1");
    hasty.limits.wall_ms = 300;
    let files = lab.home.path().join("workspaces/ada/files");
    let late = async {
        until(|| files.join("begun").exists()).await;
        let hasty = lab.execute(hasty).await;
        std::fs::write(files.join("go"), "").unwrap();
        hasty
    };
    let (slow, hasty) = tokio::join!(lab.execute(slow), late);
    assert_eq!((error_code(&slow), error_code(&hasty)), (None, Some(ErrorCode::Timeout)));
    assert_eq!(in_session(&lab, "s", "len(log)").await, (Some(16.into()), false));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_execution_ends_it_and_restarts_the_session() {
    let lab = lab();
    in_session(&lab, "s", "x = 1").await;
    let marks = "import time\nwhile True:\n  open('mark', 'w').write(str(time.time())); time.sleep(0.02)";
    let mark = lab.home.path().join("workspaces/ada/files/mark");
    tokio::select! {
        ended = lab.engine.execute(lab.in_session("s", Python, marks)) => panic!("{ended:?}"),
        () = until(|| mark.exists()) => {}
    }
    assert_eq!(in_session(&lab, "s", "'x' in globals()").await, (Some(false.into()), true));
    let before = std::fs::metadata(&mark).unwrap().modified().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(std::fs::metadata(&mark).unwrap().modified().unwrap(), before, "the code runs on");
    lab.close().await;
}

/// Cancelled at moments from before the start to after the end; the short version of a long run.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_works_at_any_moment() {
    let lab = lab();
    let mut cancelled = 0;
    for round in 0..60_u64 {
        let mut request = match round % 3 {
            0 => lab.request(Python, "import time\nfor _ in range(30): time.sleep(0.001)\n'done'"),
            1 => lab.in_session("s", Python, "import time\nfor _ in range(30): time.sleep(0.001)\n'done'"),
            _ => lab.request(Bash, "sleep 0.03; echo done"),
        };
        request.cancel = tokio_util::sync::CancellationToken::new();
        let cancel = request.cancel.clone();
        // Spread over the duration of an execution, differently in each run of the test.
        let nanos =
            u64::from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos());
        let moment = Duration::from_micros((round * 1_000 + nanos % 1_000) % 60_000);
        tokio::spawn(async move {
            tokio::time::sleep(moment).await;
            cancel.cancel();
        });
        let begun = Instant::now();
        let execution = lab.execute(request).await;
        assert!(begun.elapsed() < Duration::from_secs(10));
        match error_code(&execution) {
            None => {}
            Some(ErrorCode::Cancelled) => cancelled += 1,
            Some(other) => panic!("round {round} at {moment:?}: {other}: {execution:?}"),
        }
    }
    assert!(cancelled > 5, "{cancelled} of 60 were cancelled");
    assert_eq!(in_session(&lab, "s", "6 * 7").await.0, Some(42.into()));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_keeps_its_state_in_a_session() {
    let lab = lab();
    let bash = async |code: &str| {
        let execution = lab.execute(lab.in_session("s", Bash, code)).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        execution.stdout
    };
    bash("x=40; f() { echo $((x + $1)); }; export Y=env; mkdir -p sub; cd sub; a=(1 2 3)").await;
    assert_eq!(bash("f 2; pwd; printenv Y; echo ${a[2]}").await, "42\n/workspace/sub\nenv\n3\n");
    // Python in the same session is in the same folder.
    assert_eq!(in_session(&lab, "s", "import os; os.getcwd()").await.0, Some("/workspace/sub".into()));
    let failed = lab.execute(lab.in_session("s", Bash, "x=41; exit 3")).await;
    assert_eq!((failed.exit_code, failed.session_restarted), (3, false));
    assert_eq!(bash("f 1").await, "42\n");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_children_are_collected() {
    let lab = lab();
    for _ in 0..5 {
        // Orphans whose parent is gone.
        let code = "import os\nfor _ in range(20):\n  if os.fork() == 0:\n    if os.fork() == 0: os._exit(0)\n    os._exit(0)\nwhile True:\n  try: os.wait()\n  except ChildProcessError: break";
        in_session(&lab, "s", code).await;
        let bash = lab.execute(lab.in_session("s", Bash, "for i in 1 2 3 4 5; do (true &) ; done; sleep 0.05")).await;
        assert_eq!(error_code(&bash), None, "{bash:?}");
    }
    // Children that the code did not collect are collected by the next run.
    in_session(
        &lab,
        "s",
        "import os\nfor _ in range(20):\n  if os.fork() == 0: os._exit(0)\nimport time; time.sleep(0.2)",
    )
    .await;
    let code = "import os\n[name for name in os.listdir('/proc') if name.isdigit()]";
    assert_eq!(in_session(&lab, "s", code).await.0, Some(json!(["1"])));
    lab.close().await;
}

/// Processes that a session leaves running count against it, and the session is still usable.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_too_many_processes_reports_it() {
    let lab = Lab::new(Limits { processes: 8, ..Limits::default() }, 0, Duration::from_mins(10));
    let fill = "import subprocess\nheld = []\nwhile True: held.append(subprocess.Popen(['sleep', '99']))";
    let full = lab.execute(lab.in_session("s", Python, fill)).await;
    assert_eq!(error_code(&full), Some(ErrorCode::Processes), "{full:?}");
    let bash = lab.execute(lab.in_session("s", Bash, "echo hi")).await;
    assert_eq!(error_code(&bash), Some(ErrorCode::Processes), "{bash:?}");
    in_session(&lab, "s", "for child in held: child.kill(); child.wait()").await;
    let bash = lab.execute(lab.in_session("s", Bash, "echo hi")).await;
    assert_eq!((error_code(&bash), bash.stdout.as_str()), (None, "hi\n"));
    lab.close().await;
}

/// A child that was ended by a limit in one run is not the cause of the next failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_an_earlier_run_is_not_blamed_again() {
    let lab = Lab::new(Limits { memory_mb: 120, processes: 16, ..Limits::default() }, 0, Duration::from_mins(10));
    let eat = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'x = bytearray(b\"x\") * 400_000_000'], stderr=subprocess.DEVNULL).returncode != 0";
    let execution = lab.execute(lab.in_session("s", Python, eat)).await;
    let by_cgroup = execution.limits.tier == "native";
    // Without a cgroup, the result depends on when memory is checked.
    let blamed = error_code(&execution);
    assert!(blamed == Some(ErrorCode::Memory) || (!by_cgroup && blamed.is_none()), "{execution:?}");
    let fork = "import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(0.3); os._exit(0)\nexcept OSError: time.sleep(0.5)";
    assert_eq!(in_session(&lab, "s", fork).await.0, None);
    for code in ["1 / 0", "raise SystemExit(2)"] {
        let execution = lab.execute(lab.in_session("s", Python, code)).await;
        assert_eq!(error_code(&execution), Some(ErrorCode::Exception), "{execution:?}");
    }
    // A limit of this run is reported.
    let checked = eat.replace("DEVNULL)", "DEVNULL, check=True)");
    let execution = lab.execute(lab.in_session("s", Python, &checked)).await;
    let blamed = error_code(&execution);
    assert!(blamed == Some(ErrorCode::Memory) || (!by_cgroup && blamed == Some(ErrorCode::Exception)), "{execution:?}");
    lab.close().await;
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
