//! Checks the native tier, started as by a server, from inside and outside.

use super::checks::{self, Outside, Probe};
use super::fixes;
use super::machine::Machine;
use super::report::{Check, Outcome, StartTimes, Tier, Verdict};
use crate::audit::Audit;
use crate::backends::{Sandboxes, native};
use crate::variables;
use crate::wiring::engine;
use anyhow::Context;
use coracle_bench::{cold_command, descendants, median, milliseconds, refilled, timed};
use coracle_config::Settings;
use coracle_engine::{Engine, Request};
use coracle_sandbox::{NativeBackend, Packages, SandboxError};
use coracle_store::MemoryStore;
use coracle_types::{ErrorCode, Execution, Language, Limits, SessionId, UserId};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const NAME: &str = "native";
const PROBE: &str = include_str!("probe.py");

const POOL: usize = 2;
const WARM_RUNS: usize = 7;
const COLD_RUNS: usize = 3;
/// Longest wait for the pool to fill; after that, the machine is measured as it is.
const REFILL_WITHIN: Duration = Duration::from_millis(200);
/// Time limit of a probe.
const PROBE_WALL_MS: u64 = 5_000;

const SMALL_MEMORY_MB: u64 = 96;
/// Takes twice the small limit, and less than the default one. The memory is written to, so that it is really
/// allocated, and held for a while: without a cgroup, memory use is checked only every 40 to 80 milliseconds.
const TAKE_MEMORY: &str = "import time\nblock = b'x' * 192_000_000\ntime.sleep(seconds)\nlen(block)";
const HOLD_OVER_LIMIT_SECONDS: f64 = 10.0;
const HOLD_WITHIN_LIMIT_SECONDS: f64 = 0.2;

const FEW_PROCESSES: u64 = 16;
/// Starts children until one is refused, and reports their number.
const TAKE_PROCESSES: &str = include_str!("processes.py");

/// Checks that a program above the limit was killed, and that the same program within the limit was not.
fn held(over: &Execution, within: &Execution) -> Result<(), String> {
    let outcome = |execution: &Execution| match &execution.failure {
        None => "it succeeded".to_owned(),
        Some(failure) => format!("{}: {}", failure.error_code.as_str(), failure.error),
    };
    if over.failure.as_ref().map(|failure| failure.error_code) != Some(ErrorCode::Memory) {
        Err(format!("a program that uses twice its memory limit was not killed for it: {}", outcome(over)))
    } else if !within.success {
        Err(format!("a program within its memory limit failed: {}", outcome(within)))
    } else {
        Ok(())
    }
}

/// Starts and checks the tier. Failures are part of the result.
pub(super) async fn examine(machine: &Machine) -> Tier {
    match boot(machine).await {
        Ok(tier) => tier,
        Err(error) => {
            let detail = format!("{error:#}");
            let fix = fixes::no_sandbox(machine, &detail, &program());
            unavailable(Check::new("sandbox", Outcome::Failed, detail).with_fix(fix))
        }
    }
}

fn unavailable(check: Check) -> Tier {
    Tier { name: NAME.to_owned(), verdict: Verdict::Unavailable, checks: vec![check], start: None }
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "coracle".into())
}

async fn boot(machine: &Machine) -> anyhow::Result<Tier> {
    let limits = Limits::default();
    let sandboxes = Sandboxes {
        pool: POOL,
        preload: true,
        require_full_isolation: false,
        limits,
        python: variables::python(),
        folders: Vec::new(),
        packages: Packages { environment: crate::python_environment::current()?, ..Packages::default() },
        containers: None,
    };
    let backend = native(&sandboxes)?;
    let report = match backend.report().await {
        Ok(report) => report,
        Err(SandboxError::Python(error)) => {
            let fix = fixes::python(machine, variables::python().as_deref());
            return Ok(unavailable(Check::new("python", Outcome::Failed, error.to_string()).with_fix(fix)));
        }
        Err(error) => return Err(error.into()),
    };
    let folder =
        tempfile::Builder::new().prefix("coracle-doctor-").tempdir().context("cannot create a temporary workspace")?;
    let tried = Tried {
        engine: engine(
            &Settings::default(),
            Audit::off().log(),
            backend.clone(),
            std::sync::Arc::new(MemoryStore::new()),
            None,
        )?,
        workspace: folder.path().join("workspace"),
        has_environment: sandboxes.packages.environment.is_some(),
    };
    std::fs::create_dir(&tried.workspace).context("cannot create a temporary workspace")?;
    let outcome = Box::pin(examine_booted(&tried, &backend, folder.path(), machine, &report)).await;
    tried.engine.shutdown().await;
    outcome
}

async fn examine_booted(
    tried: &Tried,
    backend: &NativeBackend,
    folder: &Path,
    machine: &Machine,
    report: &coracle_sandbox::NativeReport,
) -> anyhow::Result<Tier> {
    let host_file = folder.join("host");
    std::fs::write(&host_file, "not for the sandbox").context("cannot create a file for the probe")?;
    std::fs::write(tried.workspace.join("beside"), "for the sandbox").context("cannot create a file for the probe")?;
    let session = SessionId::new("doctor")?;
    let mut request = tried.request(Language::Python, PROBE);
    request.session = Some(session);
    request.vars.insert("host_file".to_owned(), host_file.to_string_lossy().into());
    request.vars.insert("beside".to_owned(), "/workspace/beside".into());
    let execution = tried.engine.execute(request).await;
    let enforced = execution.limits.enforced.clone();
    let probe: Probe = serde_json::from_value(value(execution)?).context("cannot read the result of the probe")?;
    // The interpreter of the session is still alive, so a used sandbox can be inspected.
    let launcher = backend.launcher_pid().await;
    let outside = launcher.zip(probe.pid_namespace()).and_then(|(pid, namespace)| look_from_outside(pid, namespace));
    let small = Limits { memory_mb: SMALL_MEMORY_MB, ..Limits::default() };
    let memory = tried.taking_memory(HOLD_OVER_LIMIT_SECONDS, &small).await;
    let control = tried.taking_memory(HOLD_WITHIN_LIMIT_SECONDS, &Limits::default()).await;
    let processes = tried.limited(TAKE_PROCESSES, &Limits { processes: FEW_PROCESSES, ..Limits::default() }).await;
    let bash = tried.engine.execute(tried.request(Language::Bash, "echo \"$BASH_VERSION\"")).await;
    let typescript = tried.engine.execute(tried.request(Language::TypeScript, "const n: number = 6; n * 7")).await;

    let mut checks =
        vec![checks::python(report, &probe), checks::bash(&bash, machine), checks::typescript(&typescript)];
    checks.extend(checks::isolation(&probe, outside.as_ref(), report, machine));
    checks.push(checks::memory(held(&memory, &control), enforced.as_ref(), report, machine));
    let started = processes.result.as_ref().and_then(serde_json::Value::as_u64);
    checks.push(checks::processes(started, FEW_PROCESSES, enforced.as_ref()));
    checks.push(checks::open_files(&probe, Limits::default().open_files));
    checks.push(checks::packages(&probe, tried.has_environment));
    let start = StartTimes { warm_ms: tried.warm(backend).await?, cold_ms: cold(&tried.workspace).await };
    Ok(Tier { name: NAME.to_owned(), verdict: Verdict::of(&checks), checks, start: Some(start) })
}

/// Finds the process in the PID namespace that the probe reported.
fn look_from_outside(launcher: u32, pid_namespace: &str) -> Option<Outside> {
    let number = |pid, name, radix| u64::from_str_radix(status(pid, name)?.split_whitespace().next()?, radix).ok();
    let is_there = |pid: &u32| {
        let link = std::fs::read_link(format!("/proc/{pid}/ns/pid"));
        link.is_ok_and(|link| link.as_os_str() == pid_namespace)
    };
    let pid = descendants(launcher).into_iter().find(is_there)?;
    Some(Outside {
        uid: number(pid, "Uid", 10)?,
        capabilities: number(pid, "CapEff", 16)?,
        filters: number(pid, "Seccomp", 10)?,
    })
}

/// Engine and folder for the checks.
struct Tried {
    engine: Engine,
    workspace: std::path::PathBuf,
    /// Whether there is an environment of `coracle env`.
    has_environment: bool,
}

impl Tried {
    fn request(&self, language: Language, code: &str) -> Request {
        let mut request = Request::new(UserId::local(), language, code);
        request.workspace = Some(self.workspace.clone());
        request.limits.wall_ms = PROBE_WALL_MS;
        request
    }

    async fn limited(&self, code: &str, limits: &Limits) -> Execution {
        self.engine.execute(self.limited_request(code, limits)).await
    }

    async fn taking_memory(&self, seconds: f64, limits: &Limits) -> Execution {
        let mut request = self.limited_request(TAKE_MEMORY, limits);
        request.vars.insert("seconds".to_owned(), seconds.into());
        self.engine.execute(request).await
    }

    fn limited_request(&self, code: &str, limits: &Limits) -> Request {
        let mut request = self.request(Language::Python, code);
        request.limits = Limits { wall_ms: PROBE_WALL_MS, ..limits.clone() };
        request
    }

    /// Median time of a few runs in prepared sandboxes.
    async fn warm(&self, backend: &NativeBackend) -> anyhow::Result<f64> {
        let mut times = Vec::new();
        for _ in 0..WARM_RUNS {
            refilled(backend, POOL, REFILL_WITHIN).await;
            let (time, execution) = timed(self.engine.execute(self.request(Language::Python, "pass"))).await;
            value(execution)?;
            times.push(time);
        }
        Ok(median(&mut times))
    }
}

/// Median time of a few complete runs of `coracle exec`; `None` if they fail, which other checks explain.
async fn cold(workspace: &Path) -> Option<f64> {
    let workspace = workspace.to_owned();
    let measured = tokio::task::spawn_blocking(move || {
        let mut times = Vec::new();
        for _ in 0..COLD_RUNS {
            let mut command = cold_command(&workspace, "pass").ok()?;
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let begun = std::time::Instant::now();
            command.status().ok().filter(std::process::ExitStatus::success)?;
            times.push(milliseconds(begun.elapsed()));
        }
        Some(median(&mut times))
    });
    measured.await.ok().flatten()
}

/// Returns a field of `/proc/<pid>/status`.
fn status(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
}

/// Returns the result of an execution that must succeed.
fn value(execution: Execution) -> anyhow::Result<serde_json::Value> {
    match execution.failure {
        None => Ok(execution.result.unwrap_or_default()),
        Some(failure) => {
            let trace = failure.traceback.as_deref().and_then(|text| text.lines().last()).unwrap_or_default();
            anyhow::bail!("{} {trace}", failure.error)
        }
    }
}
