//! The contract that every [`Backend`] must fulfil.

mod code;
mod limits;

use crate::guest;
use coracle_protocol::FromGuest;
use coracle_sandbox::{Backend, Sandbox, SandboxError, Spec};
use coracle_types::Limits;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// A time limit that is sufficient even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks a backend, with an empty folder for its files. `runs_code` says whether its sandboxes run real code. The
/// backend is shut down afterwards.
pub async fn holds(backend: &dyn Backend, folder: &Path, runs_code: bool) {
    let workspace = folder.join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let spec = || Spec { workspace: workspace.clone(), servers: None, skills: None, limits: Limits::default() };
    rejects_invalid_workspaces(backend, folder).await;
    gives_sandboxes_that_are_ready(open(backend, spec()).await).await;
    ends_a_sandbox_that_is_dropped(open(backend, spec()).await).await;
    ends_a_sandbox_that_is_killed(open(backend, spec()).await).await;
    if runs_code {
        shows_modules_read_only(backend, &spec, folder).await;
        code::runs(backend, &spec, folder).await;
        limits::hold(backend, &spec).await;
    }
    keeps_two_apart(open(backend, spec()).await, open(backend, spec()).await).await;
    forgets_cancelled_requests(backend, &spec).await;
    let (left, right) = (open(backend, spec()).await, open(backend, spec()).await);
    shuts_down(backend, [left, right]).await;
    works_or_reports_why_not_after_shutdown(backend, spec()).await;
    within("the second shutdown", backend.shutdown()).await;
    within("a shutdown of nothing", backend.shutdown()).await;
}

async fn within<T>(what: &str, act: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, act).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

async fn open(backend: &dyn Backend, spec: Spec) -> Sandbox {
    within("open", backend.open(spec)).await.unwrap()
}

/// Runs something small in a sandbox. Returns whether it succeeded.
async fn runs(sandbox: &mut Sandbox, id: u64) -> bool {
    let answer = answer_to(sandbox, id, "python", "6 * 7").await;
    matches!(answer, Some(FromGuest::Done { id: answered, ok: true, .. }) if answered == id)
}

async fn answer_to(sandbox: &mut Sandbox, id: u64, language: &str, code: &str) -> Option<FromGuest> {
    within("an answer", guest::answer_to(sandbox, id, language, code)).await
}

const LOOK: &str = "
def attempt(act):
    try:
        return act()
    except (OSError, ImportError) as error:
        return isinstance(error, ImportError)
def change(path):
    with open(path, 'w') as file:
        return file.write('x')
def of_server():
    from servers.alpha import word
    return word
def of_skill():
    from skills.beta import word
    return word
[attempt(of_server), attempt(of_skill), *(attempt(lambda: change(path)) for path in (
    '/coracle/servers/alpha.py', '/coracle/skills/beta.py', '/coracle/skills/new', '/workspace/new'))]";

/// Modules of servers and skills, each optional, whoever owns them: importable in both languages, and read-only.
async fn shows_modules_read_only(backend: &dyn Backend, spec: &impl Fn() -> Spec, folder: &Path) {
    let (servers, skills) = (folder.join("servers"), folder.join("skills"));
    for (folder, module) in [(&servers, "alpha"), (&skills, "beta")] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("__init__.py"), "").unwrap();
        std::fs::write(folder.join(module).with_extension("py"), format!("word = {module:?}\n")).unwrap();
        std::fs::write(folder.join(module).with_extension("ts"), format!("export const word = {module:?};\n")).unwrap();
    }
    // Skills may be accessible only to their user.
    std::fs::set_permissions(&skills, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(skills.join("beta.py"), std::fs::Permissions::from_mode(0o600)).unwrap();
    for (given_servers, given_skills) in [(false, false), (true, false), (false, true), (true, true), (true, true)] {
        let given = |yes: bool, folder: &Path| yes.then(|| folder.to_owned());
        let spec = Spec { servers: given(given_servers, &servers), skills: given(given_skills, &skills), ..spec() };
        let mut sandbox = open(backend, spec.clone()).await;
        let Some(FromGuest::Done { result: seen, .. }) = answer_to(&mut sandbox, 1, "python", LOOK).await else {
            panic!("no answer: {spec:?}");
        };
        let word = |yes: bool, word: &str| if yes { json!(word) } else { json!(true) };
        let expected = [
            word(given_servers, "alpha"),
            word(given_skills, "beta"),
            json!(false),
            json!(false),
            json!(false),
            json!(1),
        ];
        assert_eq!(seen, json!(expected), "{spec:?}");
        let code = "import { word } from 'skills/beta'; word";
        let answer = answer_to(&mut sandbox, 2, "typescript", code).await;
        let found = matches!(&answer, Some(FromGuest::Done { result: word, .. }) if word == "beta");
        assert_eq!(found, given_skills, "{spec:?}: {answer:?}");
    }
}

async fn rejects_invalid_workspaces(backend: &dyn Backend, folder: &Path) {
    let file = folder.join("file");
    std::fs::write(&file, "no folder").unwrap();
    for wrong in [folder.join("missing"), file] {
        let opened = within(
            "open",
            backend.open(Spec { workspace: wrong.clone(), servers: None, skills: None, limits: Limits::default() }),
        )
        .await;
        assert!(matches!(&opened, Err(SandboxError::Workspace { path, .. }) if *path == wrong), "{opened:?}");
    }
}

/// `ready` was already received and is not sent again: the next frame is the answer.
async fn gives_sandboxes_that_are_ready(mut sandbox: Sandbox) {
    assert!(sandbox.artifacts.is_dir(), "{sandbox:?}");
    assert_eq!(std::fs::read_dir(&sandbox.artifacts).unwrap().count(), 0, "{sandbox:?}");
    for id in 1..=3 {
        assert!(runs(&mut sandbox, id).await);
    }
    assert_eq!(sandbox.control.causes().await, []);
}

/// Reads to the end of a stream of a sandbox that should be dead.
async fn ends(stream: &mut (dyn tokio::io::AsyncRead + Send + Sync + Unpin)) {
    // A stream that is reset has ended as well.
    let _ = within("the end of a stream", stream.read_to_end(&mut Vec::new())).await;
}

async fn ends_a_sandbox_that_is_dropped(mut sandbox: Sandbox) {
    assert!(runs(&mut sandbox, 1).await);
    let Sandbox { mut from_guest, mut stdout, mut stderr, control, .. } = sandbox;
    drop(control);
    for stream in [&mut from_guest, &mut stdout, &mut stderr] {
        ends(stream).await;
    }
}

async fn ends_a_sandbox_that_is_killed(mut sandbox: Sandbox) {
    // Only then is the workspace bound for certain, so that no failure to bind it is reported as the cause.
    assert!(runs(&mut sandbox, 1).await);
    sandbox.control.kill();
    let exit = within("exit", sandbox.control.exit()).await;
    assert_eq!((exit.status, exit.causes), (128 + 9, Vec::new()));
    assert!(!runs(&mut sandbox, 2).await);
    // Killing a dead sandbox is harmless.
    sandbox.control.kill();
    assert_eq!(within("exit", sandbox.control.exit()).await.status, 128 + 9);
}

async fn keeps_two_apart(mut left: Sandbox, mut right: Sandbox) {
    assert_ne!(left.artifacts, right.artifacts);
    assert!(runs(&mut left, 1).await && runs(&mut right, 1).await);
    left.control.kill();
    within("exit", left.control.exit()).await;
    assert!(runs(&mut right, 2).await, "one ended with the other");
}

/// The future of `open` may be dropped at any time.
async fn forgets_cancelled_requests(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    for microseconds in [0, 10, 100, 500, 1_000, 2_000, 5_000, 10_000] {
        let opened = tokio::time::timeout(Duration::from_micros(microseconds), backend.open(spec())).await;
        drop(opened);
    }
    assert!(runs(&mut open(backend, spec()).await, 1).await);
}

async fn shuts_down(backend: &dyn Backend, open: [Sandbox; 2]) {
    within("shutdown", backend.shutdown()).await;
    for mut sandbox in open {
        ends(sandbox.from_guest.as_mut()).await;
        assert!(!runs(&mut sandbox, 1).await, "a sandbox outlived the shutdown");
    }
}

async fn works_or_reports_why_not_after_shutdown(backend: &dyn Backend, spec: Spec) {
    match within("open", backend.open(spec)).await {
        Ok(mut sandbox) => assert!(runs(&mut sandbox, 1).await),
        Err(SandboxError::Unavailable(reason)) => assert!(!reason.is_empty()),
        Err(other) => panic!("{other:?}"),
    }
}
