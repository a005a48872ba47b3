//! Guests that lie. Whatever they send, the execution returns one answer in time, with the right code, and the guest is
//! killed.

use crate::fake::{FakeBackend, Guest, Life, Script, call, done, script};
use async_trait::async_trait;
use coracle_engine::{Engine, EngineConfig, HostCallError, HostCalls, Request};
use coracle_protocol::ToGuest;
use coracle_store::MemoryStore;
use coracle_types::{ErrorCode, Execution, Language, SessionId, UserId};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Wall-clock limit of these executions.
const WALL: Duration = Duration::from_millis(400);

/// Additional time that the engine may need on a busy machine to kill a sandbox, drain its output and wait for its end.
const SLACK: Duration = Duration::from_secs(3);

/// Maximum length of a text in an answer, in bytes: 32 Ki characters of four bytes each, and a few words of the host.
const MOST_TEXT: usize = 132 << 10;

struct Stage {
    engine: Engine,
    backend: Arc<FakeBackend>,
    _home: TempDir,
}

fn stage(scripts: Vec<Script>) -> Stage {
    let home = TempDir::new().unwrap();
    let backend = FakeBackend::new(scripts);
    let config = EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(1) };
    Stage { engine: Engine::new(config, backend.clone(), Arc::new(MemoryStore::new()), None), backend, _home: home }
}

fn request() -> Request {
    let mut request = Request::new(UserId::local(), Language::Python, "the guest does what it wants");
    request.limits.wall_ms = WALL.as_millis() as u64;
    request.limits.calls = 100;
    request
}

/// Executes a request, and checks the invariants of every execution.
async fn execute(stage: &Stage, request: Request) -> Execution {
    let begun = Instant::now();
    let execution = stage.engine.execute(request).await;
    assert!(begun.elapsed() < WALL + SLACK, "took {:?}: {execution:?}", begun.elapsed());
    assert_eq!(execution.success, execution.failure.is_none());
    assert!(execution.success || execution.exit_code != 0 || code(&execution) == Some(ErrorCode::Exception));
    if let Some(failure) = &execution.failure {
        let texts = [Some(&failure.error), failure.traceback.as_ref(), failure.hint.as_ref()];
        for text in texts.into_iter().flatten() {
            assert!(text.len() < MOST_TEXT, "{} bytes of {:?}", text.len(), failure.error_code);
        }
    }
    execution
}

fn code(execution: &Execution) -> Option<ErrorCode> {
    execution.failure.as_ref().map(|failure| failure.error_code)
}

/// Runs one hostile sandbox, then a well-behaved one on the same engine.
async fn survives(name: &str, expected: Option<ErrorCode>, play: Script) {
    let stage = stage(vec![play]);
    let execution = execute(&stage, request()).await;
    assert_eq!(code(&execution), expected, "{name}: {execution:#?}");
    let lives = stage.backend.lives();
    assert_eq!(lives.len(), 1, "{name}");
    assert!(lives[0].was_killed(), "{name}: the sandbox was not killed");
    let after = execute(&stage, request()).await;
    assert_eq!((after.success, after.stdout.as_str()), (true, "hello\n"), "after {name}: {after:#?}");
}

/// Returns a guest that waits for its run, then sends these bytes and stays alive.
fn then_raw(bytes: impl Into<Vec<u8>>) -> Script {
    let bytes = bytes.into();
    script(async move |mut guest: Guest| {
        guest.run().await;
        guest.raw(&bytes).await;
        guest.live_on().await
    })
}

/// Like [`then_raw`], but sends the body in a frame with the right length.
fn then_text(body: impl Into<Vec<u8>>) -> Script {
    let body = body.into();
    script(async move |mut guest: Guest| {
        guest.run().await;
        guest.say_text(&body).await;
        guest.live_on().await
    })
}

fn then(frame: &Value) -> Script {
    then_text(frame.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_lies_is_killed_and_reported() {
    let lie = Some(ErrorCode::GuestProtocol);
    let error = json!({ "code": "exception", "message": "no" });
    let long = "x".repeat(1 << 20);
    let cases: Vec<(&str, Script)> = vec![
        ("another id", then(&done(2))),
        ("id 0", then(&done(0))),
        ("success and error", then(&json!({"type": "done", "id": 1, "ok": true, "exit_code": 0, "error": error}))),
        ("neither success nor error", then(&json!({"type": "done", "id": 1, "ok": false, "exit_code": 1}))),
        ("success with a status", then(&json!({"type": "done", "id": 1, "ok": true, "exit_code": 3}))),
        ("ready again", then(&json!({"type": "ready", "protocol": 1, "runtime": "python"}))),
        ("a frame of 4 GiB", then_raw(u32::MAX.to_be_bytes())),
        ("a frame just too long", then_raw(((8_u32 << 20) + 1).to_be_bytes())),
        ("an empty frame", then_raw([0; 4])),
        ("no JSON", then_text("hello")),
        ("no UTF-8", then_text(b"{\"type\":\"\xff\"}")),
        ("no object", then_text("[1]")),
        ("a frame of the host", then(&json!({"type": "reply", "id": 1, "ok": true}))),
        ("an unknown type of a megabyte", then(&json!({"type": long}))),
        ("an unknown field of a megabyte", then_text(format!(r#"{{"type":"done","{long}":1}}"#))),
        (
            "nesting",
            then_text(r#"{"type":"call","id":1,"method":"m","params":{"a":"#.to_owned() + &"[".repeat(1 << 20)),
        ),
        (
            "a result longer than allowed",
            then(&json!({"type": "done", "id": 1, "ok": true, "exit_code": 0, "result": "y".repeat(7 << 20)})),
        ),
        (
            "unready after a call",
            script(async |mut guest: Guest| {
                guest.run().await;
                guest.say(call(1, "m")).await;
                guest.say(json!({"type": "failed", "step": "seal", "errno": 1})).await;
                guest.live_on().await
            }),
        ),
        (
            "closes its channel and lives on",
            script(async |mut guest: Guest| {
                guest.run().await;
                let Guest { channel, stdout, stderr, .. } = guest;
                drop(channel);
                let _open = (stdout, stderr);
                std::future::pending().await
            }),
        ),
    ];
    for (name, play) in cases {
        survives(name, lie, play).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_does_not_answer_times_out() {
    let late = Some(ErrorCode::Timeout);
    survives("silence", late, script(|guest: Guest| guest.live_on())).await;
    survives("half a header", late, then_raw([0, 0])).await;
    survives("half a frame", late, then_raw(*b"\x00\x00\x00\x20{\"type\"")).await;
    survives("a length and nothing", late, then_raw((8_u32 << 20).to_be_bytes())).await;
    let closed = script(async |mut guest: Guest| {
        guest.run().await;
        let Guest { channel, .. } = guest;
        let _open = channel;
        std::future::pending().await
    });
    survives("closed output", late, closed).await;
}

/// Replies that are never read fill the stream. The usual time limit applies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_never_reads_times_out() {
    let deaf_to_replies = script(async |mut guest: Guest| {
        guest.run().await;
        for id in 0..90 {
            guest.say(call(id, "large")).await;
        }
        guest.live_on().await
    });
    let stage = stage(vec![deaf_to_replies, script(|guest: Guest| guest.live_on())]);
    let mut asked = request();
    asked.calls = Arc::new(Answers { bytes: 32 << 10, ..Answers::default() });
    assert_eq!(code(&execute(&stage, asked).await), Some(ErrorCode::Timeout));
    let mut asked = request();
    asked.code = "#".repeat(1 << 20);
    assert_eq!(code(&execute(&stage, asked).await), Some(ErrorCode::Timeout), "deaf to the run itself");
    assert!(stage.backend.lives().iter().all(Life::was_killed));
    assert!(execute(&stage, request()).await.success);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_exits_at_any_point_fails_the_execution() {
    let gone = Some(ErrorCode::Exception);
    survives("before the run", gone, script(async |_| 3)).await;
    survives(
        "after the run",
        gone,
        script(async |mut guest: Guest| {
            guest.run().await;
            3
        }),
    )
    .await;
    survives(
        "in the middle of a frame",
        gone,
        script(async |mut guest: Guest| {
            guest.run().await;
            guest.raw(b"\x00\x00\x00\x20{").await;
            3
        }),
    )
    .await;
    survives(
        "while a call is under way",
        gone,
        script(async |mut guest: Guest| {
            guest.run().await;
            guest.say(call(1, "slow")).await;
            3
        }),
    )
    .await;
    survives(
        "after printing",
        gone,
        script(async |mut guest: Guest| {
            guest.run().await;
            guest.print(b"last words").await;
            3
        }),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_calls_and_endless_output_are_stopped() {
    survives(
        "endless calls",
        Some(ErrorCode::Calls),
        script(async |mut guest: Guest| {
            guest.run().await;
            for id in 0.. {
                guest.say(call(id % 3, "m")).await;
                if id % 16 == 15 {
                    for _ in 0..16 {
                        guest.hear().await;
                    }
                }
            }
            0
        }),
    )
    .await;
    let stage = stage(vec![script(async |mut guest: Guest| {
        guest.run().await;
        loop {
            guest.print(&[b'a'; 4096]).await;
        }
    })]);
    let mut asked = request();
    asked.limits.output_bytes = 1 << 20;
    let execution = execute(&stage, asked).await;
    assert_eq!(code(&execution), Some(ErrorCode::Output));
    assert!(stage.backend.lives()[0].was_killed());
    assert!(execution.stdout.len() <= 1 << 20);
}

/// A guest may report any error of its own, but the text is shortened, and codes of the host are not accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_errors_are_capped_and_cannot_claim_codes_of_the_host() {
    let long = "é".repeat(1 << 18);
    let error = |code: &str| json!({"code": code, "message": long, "traceback": long, "hint": long});
    let failed = |code: &str| json!({"type": "done", "id": 1, "ok": false, "exit_code": -7, "error": error(code)});
    for (claimed, expected) in [
        ("exception", ErrorCode::Exception),
        ("syntax", ErrorCode::Syntax),
        ("memory", ErrorCode::Memory),
        ("timeout", ErrorCode::Exception),
        ("denied", ErrorCode::Exception),
        ("internal", ErrorCode::Exception),
        ("guest_protocol", ErrorCode::Exception),
        ("sandbox_unavailable", ErrorCode::Exception),
        (long.as_str(), ErrorCode::Exception),
    ] {
        survives(claimed.get(..20).unwrap_or(claimed), Some(expected), then(&failed(claimed))).await;
    }
    let step = json!({"type": "failed", "step": long, "errno": i32::MIN});
    // Only the backend can confirm a failed set-up.
    survives("a failed set-up", Some(ErrorCode::GuestProtocol), then(&step)).await;
}

/// A hint tells people what to do on the host, so a text that is not a known hint of the guest is not shown as
/// Coracle's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_hint_is_attributed_to_the_sandbox() {
    for (said, shown) in [
        ("run curl x | sh\nhint: now\u{1b}[2K\u{202e}", "from the sandbox: run curl x | sh hint: now [2K"),
        ("network is off in this sandbox", "network is off in this sandbox"),
    ] {
        let error = json!({"code": "exception", "message": "m", "traceback": "", "hint": said});
        let failed = json!({"type": "done", "id": 1, "ok": false, "exit_code": 1, "error": error});
        let stage = stage(vec![then(&failed)]);
        let execution = execute(&stage, request()).await;
        assert_eq!(execution.failure.unwrap().hint.as_deref(), Some(shown));
    }
}

/// The guest is killed after its last frame. Later frames and output are discarded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_after_the_last_one_are_ignored() {
    survives(
        "done twice",
        None,
        script(async |mut guest: Guest| {
            let id = guest.run().await;
            guest.say(done(id)).await;
            guest.say(done(id)).await;
            guest.live_on().await
        }),
    )
    .await;
    survives(
        "megabytes after done",
        None,
        script(async |mut guest: Guest| {
            let id = guest.run().await;
            guest.say(done(id)).await;
            // Slowly, because the output limit would stop faster output.
            for _ in 0..1024 {
                guest.print(&[b'a'; 4096]).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            guest.live_on().await
        }),
    )
    .await;
}

/// The next run of a session reads the frames that the previous one left. An answer without a run ends the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_its_run_ends_the_session() {
    for unasked in [1, 2] {
        let early = script(async move |mut guest: Guest| {
            let id = guest.run().await;
            guest.say(done(id)).await;
            guest.say(done(unasked)).await;
            guest.ignore().await;
            0
        });
        let stage = stage(vec![early]);
        let session = || {
            let mut request = request();
            request.session = Some(SessionId::new("s").unwrap());
            request
        };
        assert!(execute(&stage, session()).await.success);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second = execute(&stage, session()).await;
        assert_eq!(code(&second), Some(ErrorCode::GuestProtocol), "done {unasked}: {second:#?}");
        assert_eq!(second.result, None, "of a lie nothing is kept");
        assert!(stage.backend.lives()[0].was_killed());
        let third = execute(&stage, session()).await;
        assert!(third.success && third.session_restarted, "{third:#?}");
    }
}

/// Answers calls by their method, and records the maximum number of concurrent calls.
#[derive(Debug, Default)]
struct Answers {
    bytes: usize,
    now: AtomicUsize,
    most: AtomicUsize,
    made: AtomicUsize,
}

#[async_trait]
impl HostCalls for Answers {
    async fn call(&self, method: String, mut params: Map<String, Value>) -> Result<Value, HostCallError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.made.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        match method.as_str() {
            "echo" => Ok(params.remove("n").unwrap_or_default()),
            "large" => Ok("z".repeat(self.bytes).into()),
            _ => Err(HostCallError { code: "nothing".to_owned(), message: "no".to_owned(), retryable: false }),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_concurrently_up_to_the_limit() {
    let (many, at_once) = (100, 32);
    let caller = script(async move |mut guest: Guest| {
        let id = guest.run().await;
        for n in 0..many {
            guest.say(call(n, if n % 10 == 9 { "refuse" } else { "echo" })).await;
        }
        let mut seen = Vec::new();
        for _ in 0..many {
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            let right = match &reply.error {
                None => reply.ok && reply.value == json!(reply.id),
                Some(error) => !reply.ok && error.code == "nothing" && reply.id % 10 == 9,
            };
            assert!(right, "{reply:?}");
            seen.push(reply.id);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..many).collect::<Vec<_>>());
        guest.say(done(id)).await;
        0
    });
    let stage = stage(vec![caller]);
    let answers = Arc::new(Answers::default());
    let mut asked = request();
    asked.limits.wall_ms = 10_000;
    asked.calls = answers.clone();
    let execution = stage.engine.execute(asked).await;
    assert!(execution.success, "{execution:#?}");
    assert_eq!(answers.made.load(Ordering::SeqCst), many as usize);
    assert_eq!(answers.most.load(Ordering::SeqCst), at_once);
}

/// Parsed calls take far more memory than their text, so only a few large ones are read at once. All are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_calls_are_answered_a_few_at_a_time() {
    let stage = stage(vec![script(async |mut guest: Guest| {
        let id = guest.run().await;
        for n in 0..12_u64 {
            let params = json!({ "n": n, "text": "x".repeat(300_000) });
            guest.say(json!({ "type": "call", "id": n, "method": "echo", "params": params })).await;
        }
        for _ in 0..12 {
            assert!(matches!(guest.hear().await, ToGuest::Reply(reply) if reply.ok));
        }
        guest.say(done(id)).await;
        0
    })]);
    let answers = Arc::new(Answers::default());
    let mut asked = request();
    asked.limits.wall_ms = 10_000;
    asked.calls = answers.clone();
    let execution = stage.engine.execute(asked).await;
    assert!(execution.success, "{execution:#?}");
    assert_eq!(answers.made.load(Ordering::SeqCst), 12);
    assert!(answers.most.load(Ordering::SeqCst) <= 4, "{answers:?}");
}

/// Two calls with the same id are separate calls: the id has a meaning only for the guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_calls_with_the_same_id_are_both_answered() {
    let stage = stage(vec![script(async |mut guest: Guest| {
        let id = guest.run().await;
        guest.say(call(7, "echo")).await;
        guest.say(call(7, "echo")).await;
        for _ in 0..2 {
            assert!(matches!(guest.hear().await, ToGuest::Reply(reply) if reply.id == 7 && reply.ok));
        }
        guest.say(done(id)).await;
        0
    })]);
    let mut asked = request();
    asked.calls = Arc::new(Answers::default());
    assert!(execute(&stage, asked).await.success);
}

/// An answer that is too long for a frame is replaced by an error that the code can read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_too_long_for_a_frame_is_an_error() {
    let stage = stage(vec![script(async |mut guest: Guest| {
        let id = guest.run().await;
        guest.say(call(1, "large")).await;
        let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
        assert!(reply.id == 1 && !reply.ok && reply.error.is_some());
        guest.say(done(id)).await;
        0
    })]);
    let mut asked = request();
    asked.limits.wall_ms = 5_000;
    asked.calls = Arc::new(Answers { bytes: 9 << 20, ..Answers::default() });
    let execution = stage.engine.execute(asked).await;
    assert!(execution.success, "{execution:#?}");
}

/// Cancelling or dropping an execution ends its sandbox at any point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_or_dropped_execution_ends_its_sandbox() {
    let mut rng = fastrand::Rng::with_seed(7);
    let stage = stage((0..40).map(|_| script(|guest: Guest| guest.live_on())).collect());
    for round in 0..40 {
        let asked = request();
        let (cancel, pause) = (asked.cancel.clone(), Duration::from_micros(rng.u64(..3_000)));
        let running = tokio::spawn({
            let engine = stage.engine.clone();
            async move { engine.execute(asked).await }
        });
        tokio::time::sleep(pause).await;
        if round % 2 == 0 {
            cancel.cancel();
            assert_eq!(code(&running.await.unwrap()), Some(ErrorCode::Cancelled));
        } else {
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled());
        }
        for life in stage.backend.lives() {
            assert!(life.was_killed());
        }
    }
}
