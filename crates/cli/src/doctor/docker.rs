//! Checks the Docker tier, if the settings ask for it, by running code in a container.

use super::report::{Check, Outcome, StartTimes, Tier, Verdict};
use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, docker};
use crate::settings::load_for_servers;
use crate::wiring::engine;
use anyhow::Context;
use coracle_bench::{median, timed};
use coracle_config::Settings;
use coracle_engine::{Engine, Request};
use coracle_sandbox::Packages;
use coracle_store::MemoryStore;
use coracle_types::{ErrorCode, Execution, Language, Limits, UserId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "docker";

/// What code must not be able to do, each beside something similar that it can. Answers with pairs.
const PROBE: &str = include_str!("docker_probe.py");

const RUNS: usize = 5;
/// Time limit of a probe. It includes the start of a container.
const WALL_MS: u64 = 120_000;
const SMALL_MEMORY_MB: u64 = 96;
const TAKE_MEMORY: &str = "import time\nblock = b'x' * 192_000_000\ntime.sleep(seconds)\nlen(block)";

/// Starts and checks the tier, if it is configured. Failures are part of the result.
pub(super) async fn examine(config: Option<&Path>) -> Option<Tier> {
    let loaded = load_for_servers(config, Vec::new()).ok()?;
    let containers = Containers::wanted(&loaded.settings)?;
    Some(match boot(&containers).await {
        Ok(tier) => tier,
        Err(error) => Tier {
            name: NAME.to_owned(),
            verdict: Verdict::Unavailable,
            checks: vec![Check::new("container", Outcome::Failed, format!("{error:#}"))],
            start: None,
        },
    })
}

async fn boot(containers: &Containers) -> anyhow::Result<Tier> {
    let sandboxes = Sandboxes {
        pool: 0,
        preload: false,
        require_full_isolation: false,
        limits: Limits::default(),
        python: None,
        folders: Vec::new(),
        packages: Packages { environment: crate::python_environment::current()?, ..Packages::default() },
        containers: Some(containers.clone()),
    };
    let backend = docker(&sandboxes, containers)?;
    let report = backend.report().await?;
    let folder =
        tempfile::Builder::new().prefix("coracle-doctor-").tempdir().context("cannot create a temporary workspace")?;
    let settings = Settings::default();
    let engine = engine(&settings, Audit::off().log(), backend, Arc::new(MemoryStore::new()), None)?;
    let tried = Tried { engine, workspace: folder.path().to_owned() };
    let checks = tried.checks().await;
    let start = tried.warm().await;
    tried.engine.shutdown().await;
    let told = format!("{}, runtime {}", report.engine, report.runtime);
    let mut all = vec![Check::new("engine", Outcome::Ok, told)];
    all.extend(checks);
    let start = start.map(|warm_ms| StartTimes { warm_ms, cold_ms: None });
    Ok(Tier { name: report.tier, verdict: Verdict::of(&all), checks: all, start })
}

struct Tried {
    engine: Engine,
    workspace: PathBuf,
}

impl Tried {
    async fn run(&self, code: &str, limits: Limits, seconds: f64) -> Execution {
        let mut request = Request::new(UserId::local(), Language::Python, code);
        request.workspace = Some(self.workspace.clone());
        request.limits = Limits { wall_ms: WALL_MS, ..limits };
        request.vars.insert("seconds".to_owned(), seconds.into());
        self.engine.execute(request).await
    }

    async fn checks(&self) -> Vec<Check> {
        let probe = self.run(PROBE, Limits::default(), 0.0).await;
        let Some(found) = probe.result.as_ref().and_then(serde_json::Value::as_object).filter(|_| probe.success) else {
            let reason = probe.failure.map(|failure| failure.error).unwrap_or_default();
            return vec![Check::new("code", Outcome::Failed, format!("a program in a container failed: {reason}"))];
        };
        let mut checks = Vec::new();
        for (name, what) in [
            ("user", "code is an ordinary user, and cannot become root"),
            ("files", "only the workspace, /artifacts and /tmp can be written"),
            ("network", "there is no network"),
            ("processes", "only the sandbox's own processes can be signalled"),
        ] {
            let holds = found.get(name).and_then(serde_json::Value::as_bool) == Some(true);
            let detail = if holds { what.to_owned() } else { format!("NOT true: {what}") };
            checks.push(Check::new(name, Outcome::must(holds), detail));
        }
        let small = || Limits { memory_mb: SMALL_MEMORY_MB, ..Limits::default() };
        let over = self.run(TAKE_MEMORY, small(), 10.0).await;
        let within = self.run(TAKE_MEMORY, Limits::default(), 0.2).await;
        let ended = over.failure.as_ref().map(|failure| failure.error_code) == Some(ErrorCode::Memory);
        let outcome = match (ended, within.success) {
            // Measured again and again, so that it can be exceeded for a moment.
            (true, true) => Outcome::Weak,
            _ => Outcome::Failed,
        };
        let detail = if outcome == Outcome::Weak {
            "of a call: measured, and the sandbox is killed when it is over; of a container: by the engine"
        } else {
            "a program over its limit was not killed for it, or one within was"
        };
        checks.push(Check::new("memory", outcome, detail));
        checks
    }

    /// Median time of a few runs in a running container.
    async fn warm(&self) -> Option<f64> {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let (time, execution) = timed(self.run("pass", Limits::default(), 0.0)).await;
            execution.success.then_some(())?;
            times.push(time);
        }
        Some(median(&mut times))
    }
}
