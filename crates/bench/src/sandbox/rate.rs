//! Executions per second, including refilling the pool, compared with the floor.

use super::coracle::{Bench, Server};
use super::floor::Floor;
use super::report::Report;
use super::{FLOOR_AT_ONCE, Scale};
use crate::timing;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time before the measurement in which the prepared sandboxes are used up.
const DRAINING: Duration = Duration::from_millis(250);

pub(super) async fn measure(bench: &Bench, scale: &Scale, progress: &ProgressBar, report: &mut Report) {
    let turns = scale.rate_rounds * (scale.at_once.len() + 1);
    progress.reset();
    progress.set_length(turns as u64);
    let (mut ours, mut floors): (BTreeMap<usize, Vec<f64>>, Vec<f64>) = Default::default();
    let mut floor = Floor::start(&bench.interpreter);
    for _ in 0..scale.rate_rounds {
        for at_once in scale.at_once {
            progress.set_message(format!("{at_once} at once"));
            match rate(&bench.pooled, *at_once, scale.rate_window).await {
                Ok(rate) => ours.entry(*at_once).or_default().push(rate),
                Err(error) => report.skip(&format!("per_second {at_once}"), &error),
            }
            progress.inc(1);
            if *at_once == FLOOR_AT_ONCE {
                // Measured right after, because the speed of a machine changes within seconds.
                progress.set_message(format!("the floor, {FLOOR_AT_ONCE} at once"));
                if let Ok(running) = &mut floor {
                    match running.rate(FLOOR_AT_ONCE, scale.rate_window).await {
                        Ok(rate) => floors.push(rate),
                        Err(error) => floor = Err(error),
                    }
                }
                progress.inc(1);
            }
        }
    }
    if let Err(error) = floor {
        report.skip("floor_per_second", &error);
    }
    report.per_second = ours.into_iter().map(|(at_once, mut rates)| (at_once, timing::median(&mut rates))).collect();
    if !floors.is_empty() {
        report.floor_per_second.insert(FLOOR_AT_ONCE, timing::median(&mut floors));
    }
}

/// Number of executions that end within the window, divided by its length.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
async fn rate(server: &Server, at_once: usize, window: Duration) -> anyhow::Result<f64> {
    server.settle().await;
    let begin = Instant::now() + DRAINING;
    let end = begin + window;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let server = server.clone();
        workers.spawn(async move {
            let mut count = 0_u64;
            while Instant::now() < end {
                server.run(None, "pass").await?;
                let ended = Instant::now();
                count += u64::from(ended >= begin && ended < end);
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0;
    while let Some(count) = workers.join_next().await {
        total += count??;
    }
    Ok(total as f64 / window.as_secs_f64())
}
