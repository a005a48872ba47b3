//! The session log: contents, access, crashes and replays.

use async_trait::async_trait;
use coracle_engine::{HostCallError, HostCalls, ReplayFiles};
use coracle_store::{Home, KeySource, SqliteStore};
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python, TypeScript};
use coracle_types::{ErrorCode, Language, Limits, SessionId, UserId};
use serde_json::{Map, Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

async fn lab() -> Lab {
    lab_on(TempDir::new().unwrap()).await
}

async fn lab_on(home: TempDir) -> Lab {
    let store = SqliteStore::open(&Home::new(home.path()), KeySource::File).await.unwrap();
    Lab::on(home, Arc::new(store), Limits { wall_ms: 10_000, ..Limits::default() }, 0)
}

fn ada() -> UserId {
    UserId::new("ada").unwrap()
}

/// Runs code that must succeed in a session; returns the result and the session ID.
async fn in_session(lab: &Lab, session: &str, language: Language, code: &str) -> (Value, SessionId) {
    let execution = lab.execute(lab.in_session(session, language, code)).await;
    assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
    (execution.result.unwrap_or_default(), execution.session_id.expect("a session has an id"))
}

async fn task_states(lab: &Lab, handle: &str) -> Vec<&'static str> {
    let history = lab.engine.history();
    let session = history.session(&ada(), handle).await.unwrap().unwrap();
    let tasks = history.tasks(&ada(), &session, 100).await.unwrap();
    tasks.iter().map(|task| task.state.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_in_the_store_and_in_the_workspace() {
    let lab = lab().await;
    let mut request = lab.in_session("analysis", Python, "print('hi')\nx = 20\nx * 2");
    request.description = Some("find the answer".to_owned());
    let first = lab.execute(request).await;
    let id = first.session_id.clone().unwrap();
    assert!(id.is_minted() && first.session.unwrap().as_str() == "analysis", "{id}");
    let (_, same) =
        in_session(&lab, "analysis", Python, "import os; os.makedirs('state'); open('state/a.json', 'w').close()")
            .await;
    assert_eq!(same, id);
    let failed = lab.execute(lab.in_session(id.as_str(), Python, "1 / 0")).await;
    assert_eq!(
        (failed.session_id, failed.session_restarted),
        (Some(id.clone()), false),
        "the ID names the same session"
    );

    // Code of the session finds earlier tasks.
    let code = "import json, os\n[json.load(open('sessions/current_session.json')), sorted(os.listdir('sessions'))]";
    let (seen, _) = in_session(&lab, "analysis", Python, code).await;
    assert_eq!(seen[1], json!(["current_session.json", "session_001.json"]));
    let mut log = seen[0].clone();
    for task in log["tasks"].as_array_mut().unwrap() {
        assert!(humantime::parse_rfc3339(task["timestamp"].as_str().unwrap()).is_ok());
        task["timestamp"] = "T".into();
    }
    assert!(humantime::parse_rfc3339(log["started_at"].as_str().unwrap()).is_ok());
    log["started_at"] = "T".into();
    assert_eq!(
        log,
        json!({
            "session_id": id, "label": "analysis", "customer_uid": "ada", "started_at": "T", "ended_at": null,
            "tasks": [
                {"task_id": "task_001", "description": "find the answer", "language": "python", "state": "done",
                 "code": "print('hi')\nx = 20\nx * 2", "result": 40, "output": ["hi"], "calls": [], "timestamp": "T"},
                {"task_id": "task_002", "description": null, "language": "python", "state": "done",
                 "code": "import os; os.makedirs('state'); open('state/a.json', 'w').close()",
                 "result": null, "output": [], "calls": [], "timestamp": "T"},
                {"task_id": "task_003", "description": null, "language": "python", "state": "done", "code": "1 / 0",
                 "result": null, "output": [], "calls": [], "timestamp": "T",
                 "error": "ZeroDivisionError: division by zero", "error_code": "exception"},
            ],
            "state_files": ["state/a.json"], "checkpoint": null,
        })
    );
    let history = lab.engine.history();
    let session = history.session(&ada(), "analysis").await.unwrap().unwrap();
    let export = history.export(&ada(), &session).await.unwrap();
    assert_eq!(export["tasks"].as_array().unwrap().len(), 4);
    assert_eq!(export["tasks"][0]["outcome"]["result"], 40);

    // A session without a name is also logged.
    let (_, one) = in_session(&lab, "new", Python, "y = 1").await;
    let (_, other) = in_session(&lab, "new", Python, "assert 'y' not in globals()").await;
    assert_ne!(one, other);
    assert_eq!(in_session(&lab, one.as_str(), Python, "y").await, (json!(1), one));
    // Without a session there is no log.
    lab.python("1").await;
    assert_eq!(history.sessions(&ada(), 10, None).await.unwrap().len(), 3);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_others_are_not_found() {
    let lab = lab().await;
    let (_, id) = in_session(&lab, "mine", Python, "secret = 1").await;
    let as_bob = |session: &str, code: &str| {
        let mut request = lab.in_session(session, Python, code);
        request.user = UserId::new("bob").unwrap();
        lab.execute(request)
    };
    let unknown = SessionId::from_random(7);
    let (theirs, none) = (as_bob(id.as_str(), "secret").await, as_bob(unknown.as_str(), "secret").await);
    for (execution, id) in [(theirs, &id), (none, &unknown)] {
        let failure = execution.failure.unwrap();
        assert_eq!(failure.error_code, ErrorCode::InvalidRequest);
        assert_eq!(failure.error, format!("there is no session {id}"), "same error as for an unknown session");
    }
    let own = as_bob("mine", "'secret' in globals()").await;
    assert_eq!(own.result, Some(false.into()));
    assert_ne!(own.session_id, Some(id.clone()));
    let (history, bob) = (lab.engine.history(), UserId::new("bob").unwrap());
    assert_eq!(history.session(&bob, id.as_str()).await.unwrap(), None);
    assert_eq!(history.sessions(&bob, 10, None).await.unwrap().len(), 1);
    // The owner finds it.
    assert_eq!(in_session(&lab, id.as_str(), Python, "secret").await.0, json!(1));
    assert!(history.session(&ada(), id.as_str()).await.unwrap().is_some());
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_can_set_checkpoints_in_every_language() {
    let lab = lab().await;
    let history = lab.engine.history();
    let last = async || {
        let session = history.session(&ada(), "s").await.unwrap().unwrap();
        let point = history.checkpoint(&ada(), &session).await.unwrap().unwrap();
        (point.step, point.context, point.last_task)
    };
    let (result, _) = in_session(&lab, "s", Python, "checkpoint('loaded', {'rows': 3})").await;
    assert_eq!((result, last().await), (Value::Null, ("loaded".to_owned(), json!({"rows": 3}), 1)));
    in_session(
        &lab,
        "s",
        Python,
        "from coracle import checkpoint\nimport datetime\ncheckpoint('dated', [datetime.date(2026, 1, 2)])",
    )
    .await;
    assert_eq!(last().await, ("dated".to_owned(), json!(["2026-01-02"]), 2));
    in_session(&lab, "s", TypeScript, "import { checkpoint } from 'coracle';\nawait checkpoint('typed', { n: 1 });")
        .await;
    assert_eq!(last().await, ("typed".to_owned(), json!({"n": 1}), 3));
    in_session(&lab, "s", Bash, "tool checkpoint shelled '{\"a\": [1]}' && tool checkpoint 'plain text' done").await;
    assert_eq!(last().await, ("plain text".to_owned(), json!("done"), 4));
    // The checkpoint is in the file that the next program reads.
    let code = "import json; json.load(open('sessions/session_001.json'))['checkpoint']";
    let (seen, _) = in_session(&lab, "s", Python, code).await;
    assert_eq!(
        (&seen["step"], &seen["last_task"], &seen["context"]),
        (&json!("plain text"), &json!("task_004"), &json!("done"))
    );

    for (code, expected) in [
        ("checkpoint('big', 'x' * 100_000)", "put more into a file"),
        ("checkpoint('')", "empty"),
        ("checkpoint(3)", "a checkpoint has a step"),
        ("checkpoint('odd', object())", "is a object, which is not JSON"),
    ] {
        let execution = lab.execute(lab.in_session("s", Python, code)).await;
        let error = execution.failure.expect(code).error;
        assert!(error.contains(expected), "{code}: {error}");
    }
    let alone = lab.python("checkpoint('nowhere')").await.failure.unwrap();
    assert!(alone.error.contains("this code runs in none"), "{}", alone.error);
    let own = lab.python("checkpoint = len\ncheckpoint('abc')").await;
    assert_eq!(own.result, Some(3.into()), "a name defined by the user takes precedence");
    assert_eq!(last().await.0, "plain text");
    lab.close().await;
}

/// The host does not follow links that code puts in place of the log.
#[tokio::test(flavor = "multi_thread")]
async fn links_in_the_workspace_are_not_followed() {
    let lab = lab().await;
    in_session(&lab, "s", Python, "1").await;
    let workspace = lab.home.path().join("workspaces/ada/files");
    let outside = lab.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    let current = workspace.join("sessions/current_session.json");
    let replaced = |what: &str| {
        assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "untouched", "{what}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{what}");
    };
    fs::remove_file(&current).unwrap();
    symlink(outside.join("victim"), &current).unwrap();
    in_session(&lab, "s", Python, "2").await;
    replaced("a link in the place of the file");
    assert!(fs::symlink_metadata(&current).unwrap().is_file());

    for link in [outside.clone(), "../../../outside".into()] {
        fs::remove_dir_all(workspace.join("sessions"))
            .or_else(|_| fs::remove_file(workspace.join("sessions")))
            .unwrap();
        symlink(link, workspace.join("sessions")).unwrap();
        in_session(&lab, "s", Python, "3").await;
        replaced("a link in the place of the folder");
    }
    fs::remove_file(workspace.join("sessions")).unwrap();
    symlink(&outside, workspace.join("state")).unwrap();
    let (_, id) = in_session(&lab, "s", Python, "4").await;
    let log: Value = serde_json::from_slice(&fs::read(&current).unwrap()).unwrap();
    assert_eq!((&log["session_id"], &log["state_files"]), (&json!(id), &json!([])));
    assert_eq!(task_states(&lab, "s").await, ["done"; 5]);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_session_continues_and_reports_lost_variables() {
    let lab = lab().await;
    let (_, id) = in_session(&lab, "s", Python, "total = 1\ncheckpoint('half', {'n': 5})").await;
    let lab = lab_on(lab.close_for_next().await).await;
    let execution = lab.execute(lab.in_session("s", Python, "'total' in globals()")).await;
    assert_eq!((execution.result, execution.session_restarted), (Some(false.into()), true));
    assert_eq!(execution.session_id, Some(id));
    let fresh = lab.execute(lab.in_session("other", Python, "1")).await;
    assert!(!fresh.session_restarted, "a new session is not a restart");
    let history = lab.engine.history();
    let session = history.session(&ada(), "s").await.unwrap().unwrap();
    let text = history.resume(&ada(), &session).await.unwrap();
    for expected in ["Checkpoint: half", "{\"n\":5}", "total", "task_002", "2 tasks"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_runs_nothing_and_frees_its_name() {
    let lab = lab().await;
    let (_, id) = in_session(&lab, "s", Python, "x = 1").await;
    let history = lab.engine.history();
    let session = history.session(&ada(), "s").await.unwrap().unwrap();
    assert_eq!(lab.engine.live_sessions(), 1);
    assert!(lab.engine.end_session(&ada(), &session).await.unwrap());
    assert_eq!(lab.engine.live_sessions(), 0);
    let refused = lab.execute(lab.in_session(id.as_str(), Python, "x")).await.failure.unwrap();
    assert_eq!((refused.error_code, refused.error.as_str()), (ErrorCode::InvalidRequest, "session s has ended"));
    let (result, other) = in_session(&lab, "s", Python, "'x' in globals()").await;
    assert_eq!(result, json!(false));
    assert_ne!(other, id);
    assert_eq!(history.session(&ada(), "2").await.unwrap().unwrap().id, other);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_execution_is_recorded_as_interrupted() {
    let lab = lab().await;
    in_session(&lab, "s", Python, "1").await;
    let request = lab.in_session("s", Python, "import time; time.sleep(60)");
    let dropped = tokio::time::timeout(Duration::from_millis(700), lab.engine.execute(request)).await;
    assert!(dropped.is_err());
    let begun = Instant::now();
    while task_states(&lab, "s").await != ["done", "interrupted"] {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", task_states(&lab, "s").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lab.close().await;
}

/// Tool that counts its calls.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

#[async_trait]
impl HostCalls for Counter {
    async fn call(&self, _method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        let call = self.0.fetch_add(1, Ordering::SeqCst);
        if params["tool"] == "fail" {
            return Err(HostCallError { code: "upstream".to_owned(), message: "no".to_owned(), retryable: true });
        }
        Ok(json!({"value": {"call": call, "arguments": params["arguments"]}, "media": []}))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_makes_no_calls_and_reports_differences() {
    let lab = lab().await;
    let tools = Arc::new(Counter::default());
    let run = async |session: &str, language: Language, code: &str| {
        let mut request = lab.in_session(session, language, code);
        request.calls = Arc::<Counter>::clone(&tools);
        request.vars = json!({"given": 7}).as_object().cloned().unwrap();
        lab.execute(request).await
    };
    let same = [
        (Python, "from coracle import call, ToolError\nfirst = call('s', 'echo', {'n': 1})\nprint(first)\nfirst"),
        (Python, "again = call('s', 'echo', {'n': 1})\ncheckpoint('here')\n[first, again, given]"),
        (Python, "try: call('s', 'fail', {})\nexcept ToolError as error: result = str(error)"),
        (Python, "open('made', 'w').write('x' * 300_000)\nopen('made').read()"),
        (Bash, "wc -c < made"),
        (Python, "1 / 0"),
    ];
    for (language, code) in same {
        run("same", language, code).await;
    }
    let differs = [
        "import time\nfrom coracle import call\ntime.time_ns()",
        "call('s', 'echo', {'n': time.time_ns()})['arguments'] is None",
        "print(time.time_ns())",
        "'same'",
    ];
    for code in differs {
        run("differs", Python, code).await;
    }
    let calls = tools.0.load(Ordering::SeqCst);
    assert_eq!(calls, 4);
    let history = lab.engine.history();
    let replay_with = async |name: &str, files: ReplayFiles| {
        let session = history.session(&ada(), name).await.unwrap().unwrap();
        lab.engine.replay(&ada(), &session, files, &lab.limits, &CancellationToken::new()).await.unwrap()
    };
    let replay = async |name: &str| replay_with(name, ReplayFiles::Nothing).await;
    let replayed = replay("same").await;
    assert!(replayed.is_same(), "{replayed:#?}");
    assert!(replayed.tasks.len() == 6 && replayed.tasks.iter().all(|task| task.skipped.is_none()), "{replayed:#?}");
    let replayed = replay("differs").await;
    let what: Vec<Vec<&str>> = replayed
        .tasks
        .iter()
        .map(|task| task.differences.iter().map(|difference| difference.what.as_str()).collect())
        .collect();
    assert_eq!(what, [vec!["result"], vec!["result", "error", "calls"], vec!["output"], vec![]], "{replayed:#?}");
    assert_eq!(tools.0.load(Ordering::SeqCst), calls, "a replay makes no calls");
    assert_eq!(task_states(&lab, "same").await.len(), 6, "a replay is not part of the session");
    // Files from before the session are there only on request.
    let workspace = lab.home.path().join("workspaces/ada/files");
    fs::write(workspace.join("given"), "from before").unwrap();
    run("reads", Python, "open('given').read()").await;
    let replayed = replay("reads").await;
    assert_eq!(replayed.tasks[0].differences.len(), 2, "{replayed:#?}");
    let replayed = replay_with("reads", ReplayFiles::Copied).await;
    assert!(replayed.is_same() && replayed.all_files, "{replayed:#?}");
    run("writes", Python, "open('given', 'a').write('!')\nopen('given').read()").await;
    let replayed = replay_with("writes", ReplayFiles::Copied).await;
    assert_eq!(replayed.tasks[0].differences[0].now, "from before!!", "{replayed:#?}");
    assert_eq!(
        fs::read_to_string(workspace.join("given")).unwrap(),
        "from before!",
        "the workspace itself is untouched"
    );
    lab.close().await;
}

each_user!(a_killed_process_leaves_an_interrupted_task);
/// After `kill -9` during an execution, the log says so, and acknowledged work is kept.
fn a_killed_process_leaves_an_interrupted_task(who: As) {
    let coracle = Coracle::new(who);
    let done = coracle.exec(&["--json", "--session", "work", "-c", "n = 41\nn + 1"]);
    assert!(done.status.success(), "{done:?}");
    let code = "checkpoint('half way', {'n': 41})\nprint('up', flush=True)\nimport time; time.sleep(60)";
    let mut command = coracle.command();
    command.args(["exec", "--session", "work", "--timeout", "60", "-c", code]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    let show = || -> Value {
        let said = coracle.command().args(["sessions", "show", "work", "--json"]).output().unwrap();
        serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    };
    let states = |log: &Value| -> Vec<String> {
        log["tasks"].as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states(&show()), ["done", "running"], "it is running while the process is alive");
    child.kill().unwrap();
    child.wait().unwrap();
    let log = show();
    assert_eq!(states(&log), ["done", "interrupted"]);
    assert_eq!((&log["tasks"][0]["result"], &log["checkpoint"]["step"]), (&json!(42), &json!("half way")));
    let resume = coracle.command().args(["sessions", "resume", "work"]).output().unwrap();
    let text = String::from_utf8(resume.stdout).unwrap();
    for expected in ["Interrupted: task_002", "Checkpoint: half way (by task_002", "{\"n\":41}", "task_001"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    let next: Value = serde_json::from_slice(
        &coracle
            .exec(&[
                "--json",
                "--session",
                "work",
                "-c",
                "import json\n[task['state'] for task in json.load(open('sessions/current_session.json'))['tasks']]",
            ])
            .stdout,
    )
    .unwrap();
    assert_eq!(next["result"], json!(["done", "interrupted"]), "the next program sees it: {next}");
}
