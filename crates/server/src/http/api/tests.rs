//! Routes for files and artifacts, with two authenticated users.

use crate::agent::AgentOptions;
use crate::approvals::OpenQuestions;
use crate::http::auth_state::{AuthOptions, AuthState};
use crate::http::rate_limit::RateLimit;
use crate::http::sessions::Sessions;
use crate::http::{App, McpService, Parts};
use crate::identity::Identity;
use crate::mcp::{Frontend, FrontendOptions};
use crate::pending_sign_ins::PendingSignIns;
use crate::user_turns::UserTurns;
use async_trait::async_trait;
use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use coracle_accounts::People;
use coracle_engine::{Engine, EngineConfig};
use coracle_sandbox::{Backend, Sandbox, SandboxError, Spec};
use coracle_store::{Artifacts as _, MemoryStore, NewArtifact};
use coracle_types::{ArtifactId, ExecutionId, UserId};
use rmcp::transport::StreamableHttpServerConfig;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

/// Backend without sandboxes.
#[derive(Debug)]
struct NoSandboxes;

#[async_trait]
impl Backend for NoSandboxes {
    async fn open(&self, _: Spec) -> Result<Sandbox, SandboxError> {
        Err(SandboxError::Unavailable("none in this test".to_owned()))
    }

    async fn shutdown(&self) {}
}

struct Place {
    home: tempfile::TempDir,
    store: Arc<MemoryStore>,
    frontend: Frontend,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts an error response with this status and code.
    fn assert_error(&self, status: u16, code: &str) {
        let body = self.json();
        assert_eq!((self.status, body["code"].as_str()), (status, Some(code)), "{body}");
        assert!(body["error"].as_str().is_some_and(|error| error.len() > 5), "{body}");
    }
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let config = EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(1) };
        let engine = Engine::new(config, Arc::new(NoSandboxes), Arc::<MemoryStore>::clone(&store), None);
        let mut options = FrontendOptions::default();
        options.settings.execution.limits.workspace_mb = 1;
        let frontend = Frontend::new(engine, options).unwrap();
        Self { home, store, frontend }
    }

    fn app(&self) -> App {
        let frontend = self.frontend.clone();
        let mcp = McpService::new(move || Ok(frontend.clone()), Arc::default(), StreamableHttpServerConfig::default());
        let people = People::new(Arc::<MemoryStore>::clone(&self.store));
        let stop = CancellationToken::new();
        let questions = OpenQuestions::new(people.clone(), Duration::from_mins(1), stop.clone());
        let agent = self.frontend.start_agent(AgentOptions::default(), &people, Some(questions.clone()), &stop);
        App {
            frontend: self.frontend.clone(),
            mcp,
            manager: Arc::default(),
            sessions: Sessions::default(),
            auth: Arc::new(AuthState::new(&AuthOptions::local_only())),
            agent: Arc::clone(&agent.models.options),
            user_models: agent.models,
            parts: Parts::default(),
            continuations: Arc::default(),
            runs: agent.runs,
            questions,
            rate: RateLimit::new(None, &self.frontend.metrics),
            sign_ins: PendingSignIns::default(),
            exports: UserTurns::at_most(1),
            replays: UserTurns::at_most(1),
            deleting: Arc::default(),
            configuration: None,
            stop,
        }
    }

    async fn ask(&self, who: &str, method: Method, uri: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let identity = Identity { user: UserId::new(who).unwrap(), ..Identity::local() };
        let (routes, _) = super::authenticated_routes().split_for_parts();
        let mut router = routes.layer(Extension(identity)).with_state(self.app());
        let request = request.body(Body::from(body.to_vec())).unwrap();
        let response = router.call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.to_vec() }
    }

    async fn get(&self, who: &str, uri: &str) -> Answer {
        self.ask(who, Method::GET, uri, &[], b"").await
    }

    async fn put(&self, who: &str, path: &str, body: &[u8]) -> Answer {
        self.ask(who, Method::PUT, &format!("/api/workspace/file?path={path}"), &[], body).await
    }

    fn folder(&self, who: &str, kind: &str) -> PathBuf {
        self.home.path().join("workspaces").join(who).join(kind)
    }

    /// Stores an artifact as if an execution had written it.
    async fn leave(&self, who: &str, execution: &str, name: &str, mime: &str, bytes: &[u8]) -> ArtifactId {
        let file = self.folder(who, "artifacts").join(execution).join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
        let new = NewArtifact {
            id: ArtifactId::from_random(u128::from(fresh())),
            name: name.to_owned(),
            execution_id: ExecutionId::new(execution).unwrap(),
            session: None,
            mime: mime.to_owned(),
            bytes: bytes.len() as u64,
            sha256: execution.repeat(4),
            created_at: SystemTime::now(),
            preview: None,
        };
        let user = UserId::new(who).unwrap();
        self.store.add_artifacts(&user, &[new], u64::MAX).await.unwrap().remove(0).unwrap().0
    }
}

fn fresh() -> u64 {
    getrandom::u64().unwrap()
}

#[tokio::test]
async fn files_are_written_read_in_ranges_listed_moved_and_deleted() {
    let place = Place::new();
    let written = place.put("ada", "a/b%20c.txt", b"0123456789").await;
    assert_eq!(
        (written.status, &written.json()["path"], &written.json()["bytes"]),
        (200, &json!("a/b c.txt"), &json!(10))
    );
    let read = place.get("ada", "/api/workspace/file?path=a%2Fb%20c.txt").await;
    assert_eq!((read.status, read.body.as_slice()), (200, &b"0123456789"[..]));
    assert_eq!(read.header("content-disposition"), "attachment; filename=\"b c.txt\"; filename*=UTF-8''b%20c.txt");
    assert_eq!(read.header("x-content-type-options"), "nosniff");
    let uri = "/api/workspace/file?path=a/b%20c.txt";
    let part = place.ask("ada", Method::GET, uri, &[("range", "bytes=2-4")], b"").await;
    assert_eq!((part.status, part.body.as_slice(), part.header("content-range")), (206, &b"234"[..], "bytes 2-4/10"));
    assert_eq!(part.header("content-length"), "3");
    place.ask("ada", Method::GET, uri, &[("range", "bytes=10-")], b"").await.assert_error(416, "range");
    let etag = read.header("etag");
    assert_eq!(place.ask("ada", Method::GET, uri, &[("if-none-match", etag)], b"").await.status, 304);
    let stale = place.ask("ada", Method::GET, uri, &[("range", "bytes=2-4"), ("if-range", "\"x\"")], b"").await;
    assert_eq!((stale.status, stale.body.len()), (200, 10));
    let head = place.ask("ada", Method::HEAD, uri, &[], b"").await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "10", 0));

    let list = place.get("ada", "/api/workspace/files?recursive=true").await.json();
    let paths: Vec<&str> = list["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["kind"] != "link")
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["a", "a/b c.txt"]);
    let json = [("content-type", "application/json")];
    let body = br#"{"from": "a/b c.txt", "to": "new/d.txt"}"#;
    // An array of the fields in order is not an object.
    let listed = br#"["a.txt", "b.txt", true]"#;
    let refused = place.ask("ada", Method::POST, "/api/workspace/move", &json, listed).await;
    refused.assert_error(400, "invalid_request");
    let moved = place.ask("ada", Method::POST, "/api/workspace/move", &json, body).await;
    assert_eq!((moved.status, &moved.json()["path"]), (200, &json!("new/d.txt")));
    place.ask("ada", Method::POST, "/api/workspace/move", &json, body).await.assert_error(404, "not_found");
    let uri = "/api/workspace/file?path=new";
    place.ask("ada", Method::DELETE, uri, &[], b"").await.assert_error(400, "wrong_kind");
    assert_eq!(
        place.ask("ada", Method::DELETE, "/api/workspace/file?path=new&recursive=true", &[], b"").await.status,
        204
    );
    place.get("ada", "/api/workspace/file?path=new/d.txt").await.assert_error(404, "not_found");
}

#[tokio::test]
async fn users_cannot_reach_files_of_others() {
    let place = Place::new();
    assert_eq!(place.put("bob", "secret.txt", b"bob's").await.status, 200);
    assert_eq!(place.put("ada", "mine.txt", b"mine").await.status, 200);
    std::os::unix::fs::symlink("../../bob/files/secret.txt", place.folder("ada", "files").join("link")).unwrap();
    std::os::unix::fs::symlink("../../bob/files", place.folder("ada", "files").join("folder")).unwrap();
    let long = format!("{}.txt", "x".repeat(300));
    for path in [
        "secret.txt",
        "link",
        "folder/secret.txt",
        "..%2F..%2Fbob%2Ffiles%2Fsecret.txt",
        "../../bob/files/secret.txt",
        "%2e%2e/%2e%2e/bob/files/secret.txt",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "secret.txt%00",
        "%FF%FE",
        "SECRET.TXT",
        &long,
    ] {
        let uri = format!("/api/workspace/file?path={path}");
        let read = place.get("ada", &uri).await;
        assert!([400, 404].contains(&read.status), "{path}: {} {:?}", read.status, read.json());
        assert!(read.json()["code"].is_string(), "{path}: {:?}", read.json());
        let removed = place.ask("ada", Method::DELETE, &format!("{uri}&recursive=true"), &[], b"").await;
        // A link itself may be deleted; its target is kept.
        assert!([400, 404].contains(&removed.status) || path == "link", "{path}: {}", removed.status);
    }
    assert_eq!(place.get("bob", "/api/workspace/file?path=secret.txt").await.body, b"bob's");
    assert_eq!(place.get("ada", "/api/workspace/file?path=mine.txt").await.body, b"mine", "the control");
}

#[tokio::test]
async fn the_quota_holds_before_a_write() {
    let place = Place::new();
    assert_eq!(place.put("ada", "old", &vec![1; 900_000]).await.status, 200);
    place.put("ada", "more", &vec![2; 200_000]).await.assert_error(507, "quota");
    place.put("ada", "huge&overwrite=false", &vec![2; 2_000_000]).await.assert_error(507, "quota");
    place.put("ada", "old&overwrite=false", b"x").await.assert_error(409, "exists");
    assert_eq!(
        place.get("ada", "/api/workspace/file?path=old").await.body,
        vec![1; 900_000],
        "the old file is unchanged"
    );
    let usage = place.get("ada", "/api/workspace").await.json();
    // Includes the two links of every workspace.
    assert_eq!((&usage["files"], &usage["max_bytes"]), (&json!(3), &json!(1_000_000)));
    assert_eq!(place.put("bob", "more", &vec![2; 200_000]).await.status, 200, "the control");
    let cut =
        place.ask("ada", Method::PUT, "/api/workspace/file?path=x", &[("content-length", "600000000")], b"").await;
    cut.assert_error(413, "too_large");
}

#[tokio::test]
async fn artifacts_are_listed_and_downloaded_in_versions() {
    let place = Place::new();
    let id = place.leave("ada", "exec-1", "ü/plot.png", "image/png", b"\x89PNG one").await;
    assert_eq!(place.leave("ada", "exec-2", "ü/plot.png", "image/png", b"\x89PNG two!").await, id);
    let page = place.leave("ada", "exec-3", "page.html", "text/html", b"<script>1</script>").await;
    let bobs = place.leave("bob", "exec-4", "secret.txt", "text/plain", b"bob's").await;
    let list = place.get("ada", "/api/artifacts").await.json();
    let names: Vec<&str> =
        list["artifacts"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&"page.html") && names.contains(&"ü/plot.png"), "{names:?}");
    assert_eq!(list["bytes"], 3 * 4096);
    let one = place.get("ada", &format!("/api/artifacts/{id}")).await.json();
    assert_eq!(
        (&one["count"], &one["versions"][0]["version"], &one["versions"][1]["execution_id"]),
        (&json!(2), &json!(2), &json!("exec-1"))
    );
    let first = place.get("ada", &format!("/api/artifacts/{id}/versions/1/content")).await;
    assert_eq!((first.status, first.body.as_slice()), (200, &b"\x89PNG one"[..]));
    assert!(first.header("content-disposition").starts_with("attachment;"));
    let newest = place.get("ada", &format!("/api/artifacts/{id}/content?inline=1")).await;
    assert_eq!((newest.body.as_slice(), newest.header("content-type")), (&b"\x89PNG two!"[..], "image/png"));
    assert!(newest.header("content-disposition").starts_with("inline;"));
    let unclear = place.get("ada", &format!("/api/artifacts/{id}/content?inline=2")).await;
    unclear.assert_error(400, "invalid_request");
    let uri = format!("/api/artifacts/{id}/versions/2/content");
    let part = place.ask("ada", Method::GET, &uri, &[("range", "bytes=-4")], b"").await;
    assert_eq!((part.status, part.body.as_slice()), (206, &b"two!"[..]));

    let shown = place.get("ada", &format!("/api/artifacts/{page}/content?inline=1")).await;
    assert_eq!(shown.header("content-type"), "text/plain; charset=utf-8");
    assert!(shown.header("content-security-policy").starts_with("sandbox; default-src 'none';"));
    assert!(shown.header("content-disposition").starts_with("inline;") && shown.body.starts_with(b"<"), "its source");
    let saved = place.get("ada", &format!("/api/artifacts/{page}/content")).await;
    assert!(saved.header("content-disposition").starts_with("attachment;"));
    assert!(saved.header("content-security-policy").starts_with("sandbox;"));
    assert!(saved.body.starts_with(b"<"), "the unchanged file");

    for uri in [
        format!("/api/artifacts/{bobs}"),
        format!("/api/artifacts/{bobs}/content"),
        format!("/api/artifacts/{bobs}/versions/1/content"),
        format!("/api/artifacts/{id}/versions/3/content"),
        "/api/artifacts/..%2F..%2Fbob/content".to_owned(),
        "/api/artifacts/x%00/content".to_owned(),
    ] {
        place.get("ada", &uri).await.assert_error(404, "not_found");
    }
    place.get("ada", &format!("/api/artifacts/{id}/versions/x/content")).await.assert_error(404, "not_found");
    place.get("ada", "/api/artifacts?limit=0").await.assert_error(400, "invalid_request");
    place.get("ada", "/api/artifacts?limit=x").await.assert_error(400, "invalid_request");
    let delete = async |who, uri: String| place.ask(who, Method::DELETE, &uri, &[], b"").await;
    delete("ada", format!("/api/artifacts/{bobs}")).await.assert_error(404, "not_found");
    assert_eq!(place.get("bob", &format!("/api/artifacts/{bobs}/content")).await.body, b"bob's", "the control");
    assert_eq!(delete("ada", format!("/api/artifacts/{id}/versions/1")).await.status, 204);
    assert!(!place.folder("ada", "artifacts").join("exec-1").exists());
    assert_eq!(place.get("ada", &uri).await.status, StatusCode::OK.as_u16());
    assert_eq!(delete("ada", format!("/api/artifacts/{id}")).await.status, 204);
    place.get("ada", &uri).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn requests_over_http_require_an_identity() {
    let place = Place::new();
    let mut extensions = rmcp::model::Extensions::new();
    assert_eq!(
        place.frontend.of(&extensions).unwrap().user(),
        UserId::local(),
        "without HTTP, the caller is the local user"
    );
    let mut parts = Request::new(()).into_parts().0;
    extensions.insert(parts.clone());
    assert!(place.frontend.of(&extensions).is_err());
    let alice = UserId::new("alice").unwrap();
    parts.extensions.insert(Identity { user: alice.clone(), ..Identity::local() });
    extensions.insert(parts);
    assert_eq!(place.frontend.of(&extensions).unwrap().user(), alice);
}
