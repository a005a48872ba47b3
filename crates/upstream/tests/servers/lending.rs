//! Connections that one process lends to another, here both in the same process. The tests of `cli` use two programs.

use crate::gateway::{Person, all_capabilities, asking};
use crate::lab::{arguments, eventually, is_alive, rogue, said, server, user};
use crate::web::{echo_service, http, serve};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use coracle_types::{Scope, Secret, ServerSpec, ToolResult, Transport, UserId};
use coracle_upstream::{CallContext, Change, Changed, Lender, Options, Owner, Upstream, UpstreamError};
use serde_json::{Map, Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The maximum number of lent connections.
const MAX_LENT: usize = 64;

/// A lender, and the folder of its socket and the server's log.
struct Lending {
    folder: TempDir,
    spec: ServerSpec,
    upstream: Upstream,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Lending {
    fn of(mode: &str) -> Self {
        Self::with(mode, Options::default(), |_| {})
    }

    fn with(mode: &str, options: Options, change: impl FnOnce(&mut ServerSpec)) -> Self {
        let folder = private();
        let mut spec = rogue("one", &[mode]);
        put(&mut spec, "ROGUE_LOG", folder.path().join("log").to_str().unwrap());
        change(&mut spec);
        let upstream = Upstream::new(vec![spec.clone()], options);
        let stop = CancellationToken::new();
        let lender = Lender::open(&folder.path().join("servers.sock")).unwrap();
        let serving = tokio::spawn(lender.serve(upstream.clone(), stop.clone()));
        Self { folder, spec, upstream, stop, serving }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("servers.sock")
    }

    /// A client that borrows if possible.
    fn borrower(&self) -> Upstream {
        self.borrower_of(self.spec.clone(), Map::new())
    }

    fn borrower_of(&self, spec: ServerSpec, capabilities: Map<String, Value>) -> Upstream {
        Upstream::new(vec![spec], Options { lender: Some(self.socket()), capabilities, ..Options::default() })
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The number of times that the server was started.
    fn starts(&self) -> usize {
        self.log().iter().filter(|line| line.starts_with("start ")).count()
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
        self.upstream.shutdown().await;
        assert!(!self.folder.path().join("servers.sock").exists());
    }
}

/// A folder that only its owner can enter.
pub(crate) fn private() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    folder
}

fn put(spec: &mut ServerSpec, name: &str, value: &str) {
    let Transport::Stdio { env, .. } = &mut spec.transport else { panic!("the server has a URL") };
    env.insert(name.to_owned(), Secret::new(value));
}

async fn act(upstream: &Upstream, context: CallContext) -> Result<ToolResult, UpstreamError> {
    upstream.call(&UserId::local(), &server("one"), "act", Map::new(), context).await
}

async fn echo(upstream: &Upstream, who: &UserId) -> String {
    let with = arguments(json!({"a": 1}));
    said(&upstream.call(who, &server("one"), "echo", with, CallContext::default()).await.unwrap())
}

#[tokio::test]
async fn a_lent_server_is_not_started_again() {
    let lending = Lending::of("raw");
    let (first, second) = (lending.borrower(), lending.borrower());
    assert_eq!(echo(&first, &UserId::local()).await, r#"{"a": 1}"#);
    // The lender has started the server, and continues to use it.
    assert_eq!(lending.starts(), 1);
    assert_eq!(echo(&second, &UserId::local()).await, r#"{"a": 1}"#);
    assert_eq!(echo(&lending.upstream, &UserId::local()).await, r#"{"a": 1}"#);
    assert_eq!(lending.starts(), 1);
    // Definitions and results are identical, including unknown members.
    let (name, local) = (server("one"), UserId::local());
    let own = lending.upstream.tools(&local, &name).await.unwrap();
    assert_eq!(*first.tools(&local, &name).await.unwrap(), *own);
    assert!(own.get("rich").is_some());
    let raw = first.call_raw(&local, &name, "act", Map::new(), CallContext::default()).await.unwrap();
    assert_eq!(raw["unknown"], json!([1]));
    assert_eq!(raw["_meta"], json!({"a": 1}));
    // The end of a borrower does not affect the server.
    let pid: u32 = lending.log()[0].strip_prefix("start ").unwrap().parse().unwrap();
    first.shutdown().await;
    second.shutdown().await;
    assert!(is_alive(pid));
    // Positive control: a client that does not borrow starts the server.
    let alone = Upstream::new(vec![lending.spec.clone()], Options::default());
    assert_eq!(echo(&alone, &local).await, r#"{"a": 1}"#);
    assert_eq!(lending.starts(), 2);
    alone.shutdown().await;
    lending.end().await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn only_the_same_server_of_the_same_user_is_lent() {
    let lending = Lending::of("plain");
    assert_eq!(echo(&lending.borrower(), &UserId::local()).await, r#"{"a": 1}"#);
    assert_eq!(lending.starts(), 1);
    // Connections of another user are not lent.
    let other = lending.borrower();
    echo(&other, &user("ada")).await;
    assert_eq!(lending.starts(), 2);
    let mut changed = lending.spec.clone();
    put(&mut changed, "MORE", "1");
    let different = lending.borrower_of(changed, Map::new());
    echo(&different, &UserId::local()).await;
    assert_eq!(lending.starts(), 3);
    let mut renamed = lending.spec.clone();
    renamed.name = server("two");
    let unknown = lending.borrower_of(renamed, Map::new());
    unknown.tools(&UserId::local(), &server("two")).await.unwrap();
    assert_eq!(lending.starts(), 4);
    // The time-outs belong to the borrower.
    let mut patient = lending.spec.clone();
    patient.call_timeout *= 2;
    echo(&lending.borrower_of(patient, Map::new()), &UserId::local()).await;
    assert_eq!(lending.starts(), 4);
    for upstream in [other, different, unknown] {
        upstream.shutdown().await;
    }
    lending.end().await;

    let shared = Lending::with("plain", Options::default(), |spec| spec.scope = Scope::Shared);
    echo(&shared.upstream, &user("ada")).await;
    echo(&shared.borrower(), &UserId::local()).await;
    assert_eq!(shared.starts(), 1);
    shared.end().await;
}

#[tokio::test]
async fn progress_and_changes_are_forwarded() {
    let lending = Lending::of("progress");
    let (progress, mut reports) = mpsc::channel(16);
    let borrower = lending.borrower();
    let context = CallContext { progress: Some(progress), ..CallContext::default() };
    assert_eq!(said(&act(&borrower, context).await.unwrap()), "done");
    for done in 0..3 {
        let report = reports.recv().await.unwrap();
        assert_eq!((report.progress, report.total), (f64::from(done), Some(3.0)));
        assert_eq!(report.message.unwrap(), format!("step {done}"));
    }
    assert_eq!(lending.starts(), 1);
    lending.end().await;

    let lending = Lending::of("change");
    let borrower = lending.borrower();
    let mut changes = borrower.changes();
    act(&borrower, CallContext::default()).await.unwrap();
    let owner = Owner::User(UserId::local());
    assert_eq!(changes.recv().await.unwrap(), Change { owner, server: server("one"), what: Changed::Tools });
    assert!(borrower.tools(&UserId::local(), &server("one")).await.unwrap().get("new").is_some());
    assert_eq!(lending.starts(), 1);
    lending.end().await;
}

#[tokio::test]
async fn questions_of_a_server_reach_the_caller() {
    let options = || Options { capabilities: all_capabilities(), ..Options::default() };
    let lending = Lending::with("asks", options(), |_| {});
    let person = Arc::new(Person::default());
    let borrower = lending.borrower_of(lending.spec.clone(), all_capabilities());
    let answers = said(&act(&borrower, asking(&person)).await.unwrap());
    let expected = json!({"s0": "ok", "s1": "ok", "s2": "there are no folders", "s3": "ok"});
    assert_eq!(serde_json::from_str::<Value>(&answers).unwrap(), expected);
    assert_eq!(person.asked.lock().unwrap().len(), 3);
    assert_eq!(lending.starts(), 1);
    lending.end().await;

    // A borrower that cannot be asked refuses, even if the lender could be asked.
    let lending = Lending::with("asks", options(), |_| {});
    let answers = said(&act(&lending.borrower(), CallContext::default()).await.unwrap());
    let answers: Value = serde_json::from_str(&answers).unwrap();
    assert_eq!(answers["s1"], "elicitation/create is not supported for this call");
    assert_eq!(answers["s3"], "ok");
    lending.end().await;
}

#[tokio::test]
async fn another_caller_of_the_lender_is_not_asked() {
    let options = Options { capabilities: all_capabilities(), ..Options::default() };
    // The first call waits for the second; see below.
    let lending = Lending::with("asks-late", options, |_| {});
    let person = Arc::new(Person::default());
    let (own, context) = (lending.upstream.clone(), asking(&person));
    let waiting = tokio::spawn(async move { act(&own, context).await });
    eventually("the lender's own call is under way", || lending.log().iter().any(|line| line == "tools/call")).await;
    let answers = said(&act(&lending.borrower(), CallContext::default()).await.unwrap());
    let answers: Value = serde_json::from_str(&answers).unwrap();
    let refused = "several calls are in progress, and it is unclear whose caller to ask";
    assert_eq!(answers["s1"], refused, "{answers}");
    assert!(person.asked.lock().unwrap().is_empty());
    waiting.abort();
    lending.end().await;
}

#[tokio::test]
async fn the_borrower_answers_questions_that_are_results() {
    let lending = Lending::of("input");
    let person = Arc::new(Person::default());
    let borrower = lending.borrower_of(lending.spec.clone(), all_capabilities());
    let seen = said(&act(&borrower, asking(&person)).await.unwrap());
    assert!(seen.contains("Ada") && seen.contains("where it was"), "{seen}");
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    let unanswered = act(&lending.borrower(), CallContext::default()).await.unwrap_err();
    assert_eq!(unanswered.code(), "input_required");
    assert_eq!(lending.starts(), 1);
    lending.end().await;
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled_at_the_server() {
    for ends in ["by its caller", "with its process"] {
        let lending = Lending::of("hang");
        let borrower = lending.borrower();
        let context = CallContext::default();
        let cancel = context.cancel.clone();
        let also = borrower.clone();
        let call = tokio::spawn(async move { act(&also, context).await });
        eventually("the call is under way", || lending.log().iter().any(|line| line == "tools/call")).await;
        assert!(!lending.log().iter().any(|line| line == "notifications/cancelled"));
        if ends == "by its caller" {
            cancel.cancel();
            assert_eq!(call.await.unwrap().unwrap_err().code(), "cancelled");
        } else {
            call.abort();
            borrower.shutdown().await;
        }
        eventually("the server is told", || lending.log().iter().any(|line| line == "notifications/cancelled")).await;
        assert_eq!(lending.starts(), 1);
        lending.end().await;
    }
}

#[tokio::test]
async fn errors_are_forwarded_from_the_server() {
    let lending = Lending::of("refuse");
    let error = act(&lending.borrower(), CallContext::default()).await.unwrap_err();
    assert!(matches!(&error, UpstreamError::Refused { number: -32_000, .. }), "{error:?}");
    lending.end().await;
    let lending = Lending::of("huge");
    let error = act(&lending.borrower(), CallContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("more than 32 MiB"), "{error:?}");
    lending.end().await;
    // The server dies during a call: the error is the same as without lending, and the next use restarts it.
    let lending = Lending::of("die");
    let borrower = lending.borrower();
    let error = act(&borrower, CallContext::default()).await.unwrap_err();
    assert_eq!(error.code(), "closed");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(echo(&borrower, &UserId::local()).await, r#"{"a": 1}"#);
    assert_eq!(lending.starts(), 2);
    lending.end().await;
    // The server cannot be started: the borrower tries as well, and gets the reason.
    let lending = Lending::of("die-start");
    let error = act(&lending.borrower(), CallContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("cannot start"), "{error}");
    lending.end().await;
}

#[tokio::test]
async fn the_end_of_the_lender_is_reported_and_the_borrower_continues_alone() {
    let lending = Lending::of("hang");
    let borrower = lending.borrower();
    let also = borrower.clone();
    let call = tokio::spawn(async move { act(&also, CallContext::default()).await });
    eventually("the call is under way", || lending.log().iter().any(|line| line == "tools/call")).await;
    let folder = lending.folder.path().to_owned();
    lending.stop.cancel();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "closed");
    assert!(error.to_string().contains("server one") && error.to_string().contains("`coracle up`"), "{error}");
    assert_eq!(echo(&borrower, &UserId::local()).await, r#"{"a": 1}"#);
    assert_eq!(lending.starts(), 2);
    borrower.shutdown().await;
    eventually("the socket is gone", || !folder.join("servers.sock").exists()).await;
    lending.end().await;
}

#[tokio::test]
async fn a_connection_to_a_url_is_lent_too() {
    let greetings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&greetings);
    // Every new connection sends `initialize`.
    let count = move |request: Request, next: Next| {
        let counted = Arc::clone(&counted);
        async move {
            let (parts, body) = request.into_parts();
            let bytes = to_bytes(body, usize::MAX).await.unwrap();
            let text = String::from_utf8_lossy(&bytes);
            if text.contains(r#""initialize""#) || text.contains(r#""server/discover""#) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            next.run(Request::from_parts(parts, Body::from(bytes))).await
        }
    };
    let router = Router::new().nest_service("/mcp", echo_service(true)).layer(from_fn(count));
    let spec = http("one", &format!("{}/mcp", serve(router).await));
    let folder = private();
    let path = folder.path().join("servers.sock");
    let (upstream, stop) = (Upstream::new(vec![spec.clone()], Options::default()), CancellationToken::new());
    let lending = tokio::spawn(Lender::open(&path).unwrap().serve(upstream.clone(), stop.clone()));
    let local = UserId::local();
    assert_eq!(echo(&upstream, &local).await, r#"{"a":1}"#);
    let seen = greetings.load(Ordering::SeqCst);
    assert!(seen > 0);
    let borrower = Upstream::new(vec![spec.clone()], Options { lender: Some(path), ..Options::default() });
    assert_eq!(echo(&borrower, &local).await, r#"{"a":1}"#);
    assert_eq!(greetings.load(Ordering::SeqCst), seen);
    // Positive control: a client that does not borrow makes a connection.
    assert_eq!(echo(&Upstream::new(vec![spec], Options::default()), &local).await, r#"{"a":1}"#);
    assert!(greetings.load(Ordering::SeqCst) > seen);
    stop.cancel();
    lending.await.unwrap();
    upstream.shutdown().await;
}

#[tokio::test]
async fn the_number_of_lent_connections_is_limited() {
    let lending = Lending::of("plain");
    let mut borrowers = Vec::new();
    for _ in 0..MAX_LENT {
        let borrower = lending.borrower();
        echo(&borrower, &UserId::local()).await;
        borrowers.push(borrower);
    }
    assert_eq!(lending.starts(), 1);
    let late = lending.borrower();
    echo(&late, &UserId::local()).await;
    assert_eq!(lending.starts(), 2);
    for borrower in borrowers.iter().chain([&late]) {
        borrower.shutdown().await;
    }
    lending.end().await;
}

#[tokio::test]
async fn the_socket_is_private_and_replaces_a_stale_one_but_no_file() {
    let folder = private();
    let path = folder.path().join("servers.sock");
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    // The state that a killed lender leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let lender = Lender::open(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    // A socket that another process has created since is left alone.
    fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(lender);
    assert!(path.exists());
    drop(other);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    assert!(Lender::open(&path).unwrap_err().to_string().contains("not a socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    fs::remove_file(&path).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o750)).unwrap();
    assert!(Lender::open(&path).unwrap_err().to_string().contains("no permissions for others"));
    assert!(!path.exists());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    drop(Lender::open(&path).unwrap());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_path_may_be_longer_than_the_address_of_a_socket() {
    let folder = TempDir::new().unwrap();
    let deep = folder.path().join("x".repeat(200));
    fs::create_dir(&deep).unwrap();
    fs::set_permissions(&deep, Permissions::from_mode(0o700)).unwrap();
    let path = deep.join("servers.sock");
    let mut spec = rogue("one", &["plain"]);
    put(&mut spec, "ROGUE_LOG", folder.path().join("log").to_str().unwrap());
    let upstream = Upstream::new(vec![spec.clone()], Options::default());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(Lender::open(&path).unwrap().serve(upstream.clone(), stop.clone()));
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    let borrower = Upstream::new(vec![spec], Options { lender: Some(path.clone()), ..Options::default() });
    echo(&borrower, &UserId::local()).await;
    echo(&upstream, &UserId::local()).await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log.matches("start ").count(), 1, "{log}");
    stop.cancel();
    serving.await.unwrap();
    upstream.shutdown().await;
    assert!(!path.exists());
}
