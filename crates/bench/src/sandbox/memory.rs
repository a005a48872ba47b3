//! Memory of prepared sandboxes and live sessions: the PSS of the whole process tree divided by their number.

use super::Scale;
use super::coracle::Server;
use super::report::Report;
use crate::process_tree::{descendants, pss_kib};
use crate::setup::Setup;
use anyhow::Context;
use coracle_types::SessionId;
use indicatif::ProgressBar;
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::time::{Duration, Instant};

/// Descriptors per sandbox: channel, two outputs, process handle.
const DESCRIPTORS_EACH: u64 = 4;
/// Other open descriptors.
const DESCRIPTORS_BESIDE: u64 = 200;

/// Time without growth after which a pool is considered stalled.
const STALLED: Duration = Duration::from_secs(5);

/// Program of each session: a few imports that are already loaded, and some data.
const SMALL_PROGRAM: &str = "import json, math\n\
    rows = [{'number': number, 'root': math.sqrt(number)} for number in range(1000)]\n\
    len(json.dumps(rows))";

pub(super) async fn measure(setup: &Setup, folder: &Path, scale: &Scale, progress: &ProgressBar, report: &mut Report) {
    let weigh = scale.prepared.iter().chain(scale.sessions).sum::<usize>();
    progress.reset();
    progress.set_length(weigh as u64);
    for count in scale.prepared {
        progress.set_message(format!("{count} prepared"));
        let name = format!("prepared_{count}");
        match prepared(setup, folder, *count, progress).await {
            Ok(mib) => drop(report.pss_mib.insert(name, mib)),
            Err(error) => report.skip(&name, &error),
        }
    }
    for count in scale.sessions {
        progress.set_message(format!("{count} sessions"));
        let name = format!("session_{count}");
        match sessions(setup, folder, *count, progress).await {
            Ok(mib) => drop(report.pss_mib.insert(name, mib)),
            Err(error) => report.skip(&name, &error),
        }
    }
}

async fn prepared(setup: &Setup, folder: &Path, count: usize, progress: &ProgressBar) -> anyhow::Result<f64> {
    room_for(count)?;
    let server = Server::boot(setup, folder, count).await?;
    let weighed = async {
        let (mut before, mut grown) = (0, Instant::now());
        loop {
            let now = server.backend.prepared().await;
            if now >= count {
                break;
            }
            if now > before {
                progress.inc((now - before) as u64);
                (before, grown) = (now, Instant::now());
            }
            anyhow::ensure!(grown.elapsed() < STALLED, "only {now} of {count} sandboxes could be prepared");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        progress.inc((count - before) as u64);
        weigh(&server, count).await
    };
    let weighed = weighed.await;
    server.engine.shutdown().await;
    weighed
}

async fn sessions(setup: &Setup, folder: &Path, count: usize, progress: &ProgressBar) -> anyhow::Result<f64> {
    room_for(count)?;
    let server = Server::start(setup, folder, 0).await?;
    let weighed = async {
        for number in 0..count {
            let session = SessionId::new(format!("bench-{number}"))?;
            server.run(Some(&session), SMALL_PROGRAM).await?;
            progress.inc(1);
        }
        anyhow::ensure!(server.engine.live_sessions() == count, "not all sessions are alive");
        weigh(&server, count).await
    };
    let weighed = weighed.await;
    server.engine.shutdown().await;
    weighed
}

/// Memory of the launcher, the zygote and all processes below, in MiB per sandbox.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 KiB")]
async fn weigh(server: &Server, count: usize) -> anyhow::Result<f64> {
    let launcher = server.backend.launcher_pid().await.context("the launcher is gone")?;
    let tree = descendants(launcher);
    anyhow::ensure!(tree.len() > count, "{} processes for {count} sandboxes", tree.len());
    let summed = tokio::task::spawn_blocking(move || {
        let mut total = 0;
        for pid in tree {
            total += pss_kib(pid).with_context(|| format!("cannot measure process {pid}"))?;
        }
        anyhow::Ok(total)
    });
    Ok(summed.await?? as f64 / 1024.0 / count as f64)
}

/// Checks limits first, because exceeding them fails less clearly.
fn room_for(count: usize) -> anyhow::Result<()> {
    let count = count as u64;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let needed = count * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE;
    anyhow::ensure!(
        files >= needed,
        "the limit on open files is {files}, but {needed} are needed: raise it (ulimit -Hn)"
    );
    let processes = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    anyhow::ensure!(
        processes > count,
        "the limit on processes is {processes}, but more than {count} are needed: raise it (ulimit -u)"
    );
    for setting in ["kernel/pid_max", "user/max_user_namespaces", "user/max_mnt_namespaces", "user/max_pid_namespaces"]
    {
        let text = std::fs::read_to_string(format!("/proc/sys/{setting}")).unwrap_or_default();
        let Ok(value) = text.trim().parse::<u64>() else { continue };
        let name = setting.replace('/', ".");
        anyhow::ensure!(value > count, "{name} is {value}, but more than {count} are needed: raise it with sysctl");
    }
    Ok(())
}
