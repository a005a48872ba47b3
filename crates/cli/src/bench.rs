//! `coracle bench`: runs the benchmarks of `coracle-bench`, and prints their reports.

use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::{frontend, settings, tools, variables};
use anyhow::Context;
use coracle_bench::{BenchArguments, InputError, Setup};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) fn run(arguments: BenchArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let config: Option<PathBuf> = config.map(Path::to_owned);
    let setup = Setup {
        home: variables::home()?,
        python: variables::python(),
        pool: frontend::POOL,
        engine: variables::engine(),
    };
    let own_tools = Box::pin(async move {
        let loaded = settings::load(config.as_deref(), Vec::new())?;
        if loaded.servers.is_empty() {
            return Ok(None);
        }
        tools::inventory(&loaded).await.map(Some)
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        // Runs as a task, as in a server; this thread only waits.
        let mut work = tokio::spawn(coracle_bench::run(arguments, setup, own_tools));
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        tokio::select! {
            outcome = &mut work => outcome.context("the benchmark")?.map(Some),
            () = signals.next() => {
                work.abort();
                // Waits until everything is dropped. The error only says that the task was cancelled.
                let _ = work.await;
                Ok(None)
            }
        }
    });
    let Some(outcome) = outcome.map_err(told)? else { return Ok(Status::Cancelled) };
    std::io::stdout().write_all(outcome.text.as_bytes())?;
    Ok(if outcome.is_good { Status::Success } else { Status::Failed })
}

/// Tells mistakes of the user from other errors.
fn told(error: anyhow::Error) -> anyhow::Error {
    if error.is::<InputError>() { Mistake::new(format!("{error:#}"), None::<&str>).into() } else { error }
}
