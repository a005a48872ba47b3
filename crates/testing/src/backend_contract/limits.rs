//! The part of the contract about limits: each is reached once, and once code stays below it.

use super::code::{done, python};
use super::{answer_to, open, within};
use coracle_protocol::FromGuest;
use coracle_sandbox::{Backend, Cause, Sandbox, Spec};
use coracle_types::{Limits, Mechanism};

/// Checks the limits that a backend enforces by whatever means.
pub(super) async fn hold(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    says_what_it_enforces(&open(backend, spec()).await);
    let small = || Spec { limits: Limits { memory_mb: 120, ..Limits::default() }, ..spec() };
    memory(backend, &small).await;
    let few = || Spec { limits: Limits { processes: 24, ..Limits::default() }, ..spec() };
    kernel_limits(backend, &few).await;
    let narrow = || Spec { limits: Limits { workspace_mb: 20, artifacts_mb: 10, ..Limits::default() }, ..spec() };
    disk(backend, &narrow).await;
    one_does_not_count_for_another(backend, &small).await;
}

fn says_what_it_enforces(sandbox: &Sandbox) {
    let enforced = &sandbox.enforced;
    for mechanism in [
        enforced.wall,
        enforced.memory,
        enforced.processes,
        enforced.open_files,
        enforced.file,
        enforced.workspace,
        enforced.tmp,
        enforced.output,
    ] {
        assert_ne!(mechanism, Mechanism::None, "{enforced:?}");
    }
}

/// The limits that ended a sandbox, or that its code reported itself.
async fn ended(mut sandbox: Sandbox, code: &str) -> Vec<Cause> {
    let answer = answer_to(&mut sandbox, 1, "python", code).await;
    let mut causes = sandbox.control.causes().await;
    causes.extend(sandbox.control.passed().await);
    if answer.is_none() {
        causes.extend(within("exit", sandbox.control.exit()).await.causes);
    }
    causes
}

async fn memory(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let grow = |bytes: u64| format!("held = bytearray(b'x') * {bytes}\nimport time; time.sleep(1.5)\nlen(held)");
    let causes = ended(open(backend, spec()).await, &grow(400_000_000)).await;
    assert!(causes.iter().any(|cause| matches!(cause, Cause::Memory { .. })), "{causes:?}");
    assert_eq!(python(&mut open(backend, spec()).await, 1, &grow(50_000_000)).await, 50_000_000, "control");
    let children = |bytes: u64| {
        format!(
            "
import os, time
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        held = bytearray(b'x') * {bytes}
        time.sleep(1.5)
        os._exit(0)
    children.append(child)
[os.waitpid(child, 0)[1] for child in children]"
        )
    };
    let causes = ended(open(backend, spec()).await, &children(50_000_000)).await;
    assert!(causes.iter().any(|cause| matches!(cause, Cause::Memory { .. })), "{causes:?}");
    let all_well = serde_json::json!([0, 0, 0, 0, 0, 0]);
    assert_eq!(python(&mut open(backend, spec()).await, 1, &children(4_000_000)).await, all_well, "control");
}

/// Limits that code runs into: it gets an error, or the sandbox is ended for it.
async fn kernel_limits(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let forks = "import os, time\nfor _ in range({}):\n    if os.fork() == 0: time.sleep(30); os._exit(0)\n1";
    let files = "files = [open('/dev/null') for _ in range({})]\n1";
    let long = "open('/workspace/long', 'wb').truncate({})\nimport os; os.remove('/workspace/long')\n1";
    let tmp = "open('/tmp/a', 'wb').write(b'x' * {})\n1";
    for (code, over, below, error) in [
        (forks, "1_000", "10", "Resource temporarily unavailable"),
        (files, "300", "150", "Too many open files"),
        (long, "600_000_000", "500_000_000", "File too large"),
        (tmp, "130_000_000", "60_000_000", "No space left on device"),
    ] {
        let mut sandbox = open(backend, spec()).await;
        let watched = code == forks && sandbox.enforced.processes == Mechanism::Watch;
        match answer_to(&mut sandbox, 1, "python", &code.replace("{}", over)).await {
            Some(FromGuest::Done { ok, error: told, .. }) => {
                let told = told.map(|told| told.message).unwrap_or_default();
                assert!(!ok && told.contains(error), "{code}: {told}");
            }
            None if watched => {
                let exit = within("exit", sandbox.control.exit()).await;
                assert!(exit.causes.contains(&Cause::Processes), "{exit:?}");
            }
            other => panic!("{code}: {other:?}"),
        }
        // In one sandbox after the other, because a file may be left over.
        let mut sandbox = open(backend, spec()).await;
        let _ = done(
            &mut sandbox,
            1,
            "python",
            "import os; os.path.exists('/workspace/long') and os.remove('/workspace/long')",
        )
        .await;
        assert_eq!(python(&mut sandbox, 2, &code.replace("{}", below)).await, 1, "control: {code}");
    }
}

async fn disk(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    for (folder, over, below) in [("workspace", 40, 5), ("artifacts", 30, 5)] {
        let write = |megabytes: u64| {
            format!(
                "
import os, time
for number in range({megabytes}): open(f'/{folder}/part{{number}}', 'wb').write(b'x' * 1_000_000)
for _ in range({pauses}): time.sleep(0.05)
for number in range({megabytes}): os.remove(f'/{folder}/part{{number}}')
1",
                // Until it is ended, or not at all.
                pauses = if megabytes == over { 400 } else { 4 },
            )
        };
        assert_eq!(python(&mut open(backend, spec()).await, 1, &write(below)).await, 1, "control: {folder}");
        let causes = ended(open(backend, spec()).await, &write(over)).await;
        assert!(causes.iter().any(|cause| matches!(cause, Cause::Disk(_))), "{folder}: {causes:?}");
        let workspace = spec().workspace;
        for entry in std::fs::read_dir(workspace).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("part") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

/// What one sandbox of a user takes does not end another.
async fn one_does_not_count_for_another(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let (mut quiet, greedy) = (open(backend, spec()).await, open(backend, spec()).await);
    python(&mut quiet, 1, "held = bytearray(b'x') * 40_000_000").await;
    let causes = ended(greedy, "held = bytearray(b'x') * 400_000_000\nimport time; time.sleep(1.5)").await;
    assert!(causes.iter().any(|cause| matches!(cause, Cause::Memory { .. })), "{causes:?}");
    assert_eq!(python(&mut quiet, 2, "len(held)").await, 40_000_000);
    assert_eq!(quiet.control.causes().await, []);
}
