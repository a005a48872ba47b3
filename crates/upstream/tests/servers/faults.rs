//! Servers that misbehave: each causes a clear error, and does not affect other servers.

use crate::lab::{arguments, call, is_alive, rogue, said, server, upstream, user};
use coracle_types::ServerSpec;
use coracle_upstream::{CallContext, ServerState, Upstream, UpstreamError};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A server in some mode, next to one that behaves.
fn beside(mode: &str) -> Upstream {
    upstream(vec![rogue("bad", &[mode]), rogue("good", &["good"])])
}

/// Checks that the good server answers.
async fn good_answers(upstream: &Upstream) {
    let result = call(upstream, "good", "echo", json!({"a": 1})).await.unwrap();
    assert_eq!(said(&result), r#"{"a": 1}"#);
}

/// Checks that `act` fails as expected, that the other server is not affected, and that the bad one can be used again.
#[track_caller]
fn code(result: Result<coracle_types::ToolResult, UpstreamError>) -> (&'static str, String) {
    let error = result.unwrap_err();
    (error.code(), error.to_string())
}

async fn echo_works_again(upstream: &Upstream) {
    let result = call(upstream, "bad", "echo", json!({"b": 2})).await.unwrap();
    assert_eq!(said(&result), r#"{"b": 2}"#);
}

#[tokio::test]
async fn control_a_server_that_behaves_works() {
    let upstream = beside("good");
    let result = call(&upstream, "bad", "act", json!({})).await.unwrap();
    assert_eq!(said(&result), "done");
    good_answers(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let upstream = upstream(vec![crate::lab::stdio("bad", "no-such-program-here", &[]), rogue("good", &["good"])]);
    let error = call(&upstream, "bad", "act", json!({})).await.unwrap_err();
    assert!(error.to_string().contains(r#"the program "no-such-program-here" was not found"#), "{error}");
    assert!(error.retryable());
    good_answers(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_hanging_call_times_out_and_the_server_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let upstream = upstream(vec![logged(rogue("bad", &["hang"]), &log), rogue("good", &["good"])]);
    let context = CallContext { timeout: Some(Duration::from_millis(300)), ..CallContext::default() };
    let result = upstream.call(&user("ada"), &server("bad"), "act", arguments(json!({})), context).await;
    assert_eq!(code(result).0, "timeout");
    crate::lab::eventually("the server is told", || {
        std::fs::read_to_string(&log).unwrap().contains("notifications/cancelled")
    })
    .await;
    good_answers(&upstream).await;
    echo_works_again(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn the_server_is_notified_of_a_cancelled_and_of_a_dropped_call() {
    for dropped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let upstream = upstream(vec![logged(rogue("bad", &["hang"]), &log)]);
        upstream.tools(&user("ada"), &server("bad")).await.unwrap();
        let cancel = CancellationToken::new();
        let context = CallContext { cancel: cancel.clone(), ..CallContext::default() };
        let task = tokio::spawn({
            let upstream = upstream.clone();
            async move { upstream.call(&user("ada"), &server("bad"), "act", arguments(json!({})), context).await }
        });
        let seen = |text: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
        crate::lab::eventually("the call has arrived", || seen("tools/call")).await;
        assert!(!seen("notifications/cancelled"));
        if dropped {
            task.abort();
        } else {
            cancel.cancel();
            assert_eq!(code(task.await.unwrap()).0, "cancelled");
        }
        crate::lab::eventually("the server is told", || seen("notifications/cancelled")).await;
        echo_works_again(&upstream).await;
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn death_during_a_call_is_reported_with_the_last_output_and_the_next_call_restarts_the_server() {
    let upstream = beside("die");
    echo_works_again(&upstream).await;
    let (code, text) = code(call(&upstream, "bad", "act", json!({})).await);
    assert_eq!(code, "closed");
    assert!(text.contains("exit status: 3") && text.contains("fatal: the disk is full"), "{text}");
    good_answers(&upstream).await;
    echo_works_again(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_failed_start_is_remembered_and_not_repeated_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let upstream = upstream(vec![logged(rogue("bad", &["die-start"]), &log), rogue("good", &["good"])]);
    let first = call(&upstream, "bad", "act", json!({})).await.unwrap_err();
    assert!(first.to_string().contains("cannot start: the key"), "{first}");
    let starts = || std::fs::read_to_string(&log).unwrap().matches("start").count();
    let so_far = starts();
    let UpstreamError::Unavailable { reason, retry_in, .. } =
        call(&upstream, "bad", "act", json!({})).await.unwrap_err()
    else {
        panic!("unexpected state");
    };
    assert!(reason.contains("cannot start: the key") && retry_in.is_some(), "{reason}");
    assert_eq!(starts(), so_far);
    let status = upstream.status(&user("ada"));
    assert!(matches!(&status[0].state, ServerState::Failed { reason, .. } if reason.contains("cannot start")));
    assert!(matches!(&status[1].state, ServerState::Idle));
    good_answers(&upstream).await;
    upstream.restart(&user("ada"), &server("bad")).unwrap();
    call(&upstream, "bad", "act", json!({})).await.unwrap_err();
    assert!(starts() > so_far);
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_hanging_start_does_not_delay_others() {
    let mut bad = rogue("bad", &["hang-start"]);
    bad.start_timeout = Duration::from_secs(2);
    let upstream = upstream(vec![bad, rogue("good", &["good"])]);
    let waiting = tokio::spawn({
        let upstream = upstream.clone();
        async move { call(&upstream, "bad", "act", json!({})).await }
    });
    crate::lab::eventually("it is being started", || upstream.status(&user("ada"))[0].state == ServerState::Starting)
        .await;
    good_answers(&upstream).await;
    assert!(!waiting.is_finished(), "the good one had to wait");
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "unavailable");
    assert!(error.to_string().contains("not ready within 2s; its last output: loading the world"), "{error}");
    upstream.shutdown().await;
}

#[tokio::test]
async fn garbage_is_skipped_and_too_much_of_it_ends_the_connection() {
    let upstream = upstream(vec![
        rogue("greeting", &["greeting"]),
        rogue("bad", &["garbage"]),
        rogue("flood", &["garbage-flood"]),
    ]);
    assert_eq!(said(&call(&upstream, "greeting", "act", json!({})).await.unwrap()), "done");
    let context = CallContext { timeout: Some(Duration::from_millis(500)), ..CallContext::default() };
    let result = upstream.call(&user("ada"), &server("bad"), "act", arguments(json!({})), context).await;
    let (code_, text) = code(result);
    assert_eq!(code_, "timeout");
    assert!(text.contains("one line that is not a message"), "{text}");
    echo_works_again(&upstream).await;
    let (code_, text) = code(call(&upstream, "flood", "act", json!({})).await);
    assert_eq!(code_, "protocol");
    assert!(text.contains("more than 100 lines") && text.contains("noise 100"), "{text}");
    upstream.shutdown().await;
}

#[tokio::test]
async fn an_invalid_answer_and_a_refusal_are_reported_at_once() {
    let upstream = upstream(vec![rogue("bad", &["wrong"]), rogue("refuse", &["refuse"])]);
    let (code_, _) = code(call(&upstream, "bad", "act", json!({})).await);
    assert_eq!(code_, "protocol");
    let (code_, text) = code(call(&upstream, "refuse", "act", json!({})).await);
    assert_eq!((code_, text.as_str()), ("refused", "server refuse refused the call (-32000): not today"));
    let (code_, _) = code(call(&upstream, "bad", "no-such-tool", json!({})).await);
    assert_eq!(code_, "tool_not_found");
    echo_works_again(&upstream).await;
    upstream.shutdown().await;
}

/// Peak memory of this process, in kilobytes.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_answer_of_100_mb_is_not_held_in_memory() {
    let upstream = beside("huge");
    echo_works_again(&upstream).await;
    let pid = upstream.status(&user("ada"))[0].pid.unwrap();
    let before = peak_memory();
    let (code_, text) = code(call(&upstream, "bad", "act", json!({})).await);
    assert_eq!(code_, "too_large", "{text}");
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < 80_000, "{grown} kB more than before");
    // The server is still writing, so it is killed without waiting.
    crate::lab::eventually("it is gone", || !is_alive(pid)).await;
    good_answers(&upstream).await;
    echo_works_again(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_block_calls() {
    let upstream = beside("flood");
    for _ in 0..50 {
        echo_works_again(&upstream).await;
        good_answers(&upstream).await;
    }
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_requests_ends_the_connection() {
    let upstream = beside("flood-requests");
    let error = loop {
        match call(&upstream, "bad", "echo", json!({})).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("more than 1000 requests of its own"), "{error}");
    good_answers(&upstream).await;
    upstream.shutdown().await;
}

#[tokio::test]
async fn tools_with_strange_names_are_kept_and_broken_ones_left_out() {
    let upstream = upstream(vec![rogue("bad", &["tools"])]);
    let list = upstream.tools(&user("ada"), &server("bad")).await.unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "act", "../../x", "naïve tool\n", "recursive", "bare"]);
    insta::assert_debug_snapshot!(list.warnings);
    let result = call(&upstream, "bad", "../../x", json!({})).await.unwrap();
    assert_eq!(said(&result), "called '../../x'");
    upstream.shutdown().await;
}

#[tokio::test]
async fn endless_pages_end() {
    let upstream = upstream(vec![rogue("bad", &["pages"])]);
    let list = upstream.tools(&user("ada"), &server("bad")).await.unwrap();
    assert_eq!(list.tools.len(), 100);
    upstream.shutdown().await;
}

#[tokio::test]
async fn requests_of_a_server_are_refused_and_ping_is_answered() {
    let upstream = upstream(vec![rogue("bad", &["asks"])]);
    let result = call(&upstream, "bad", "act", json!({})).await.unwrap();
    let answers: serde_json::Value = serde_json::from_str(&said(&result)).unwrap();
    let nobody = "no call is in progress whose caller can be asked";
    assert_eq!(answers, json!({"s0": nobody, "s1": nobody, "s2": nobody, "s3": "ok"}));
    upstream.shutdown().await;
}

#[tokio::test]
async fn input_that_only_a_person_can_give_is_an_error() {
    let upstream = upstream(vec![rogue("bad", &["input"])]);
    let (code_, text) = code(call(&upstream, "bad", "act", json!({})).await);
    assert_eq!(code_, "input_required", "{text}");
    upstream.shutdown().await;
}

pub(crate) fn logged(mut spec: ServerSpec, log: &std::path::Path) -> ServerSpec {
    if let coracle_types::Transport::Stdio { env, .. } = &mut spec.transport {
        env.insert("ROGUE_LOG".to_owned(), coracle_types::Secret::new(log.to_str().unwrap()));
    }
    spec
}
