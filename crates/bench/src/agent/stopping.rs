//! How long it takes to stop a run: from the request until the run is final, which means that model, code and calls have
//! ended and the end is written.

use super::{Load, contains};
use crate::timing::{milliseconds, quantile};
use anyhow::{Context, ensure};
use coracle_scripted_model::{Library, Repeat, Script, Step, Text};
use futures::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use tokio::time::Instant;

/// A server whose tool never answers.
const SLOW_SERVER: &str = include_str!("slow_server.py");
const BUSY_LOOP: &str = "print('begun', flush=True)\nwhile True:\n    pass";
const SLOW_CALL: &str = "from servers.slow import wait\nwait()";

/// What a run does when it is stopped: name, script, and the event that shows that it has begun.
const MOMENTS: [(&str, &str, &str); 3] = [
    ("the model streams", "streams", "response.output_text.delta"),
    ("code runs in a busy loop", "computes", "response.coracle.output.delta"),
    ("code waits for a tool", "calls", "response.coracle.call.began"),
];

/// Times until a run was final.
#[derive(Debug, Serialize)]
pub(super) struct StopRow {
    pub(super) name: &'static str,
    pub(super) stops: u32,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Adds the scripts of the runs that are stopped.
pub(super) fn with_scripts(library: Library) -> Library {
    let endless = Repeat { piece: "word ".to_owned(), times: u64::MAX };
    let streams = Step::Text(Text { repeat: Some(endless), delay_ms: 5, ..Text::default() });
    let runs = |code: &str| Script::new([vec![Step::call("execute_code", json!({ "code": code }))]]);
    library
        .with("streams", Script::new([vec![streams]]))
        .with("computes", runs(BUSY_LOOP))
        .with("calls", runs(SLOW_CALL))
}

/// The settings of the slow server, whose program is written into the folder.
pub(super) fn slow_server(folder: &Path) -> anyhow::Result<Value> {
    let program = folder.join("slow_server.py");
    std::fs::write(&program, SLOW_SERVER).context("cannot write the slow server")?;
    Ok(json!({"slow": {"command": "python3", "args": ["-I", program]}}))
}

impl Load {
    /// Stops as many runs at each of the moments.
    pub(super) async fn stops(&self, count: u32) -> anyhow::Result<Vec<StopRow>> {
        let mut rows = Vec::new();
        for (name, script, sign) in MOMENTS {
            let mut times = Vec::new();
            // The first one starts the tool's server and fills caches.
            for number in 0..=count {
                let time = self.stop(script, sign).await.with_context(|| format!("cannot stop while {name}"))?;
                if number > 0 {
                    times.push(time);
                }
            }
            let [p50_ms, p99_ms] = [0.5, 0.99].map(|part| quantile(&mut times, part));
            rows.push(StopRow { name, stops: count, p50_ms, p99_ms });
        }
        Ok(rows)
    }

    /// Starts a run, waits for the sign and stops it; returns the time in milliseconds.
    async fn stop(&self, script: &str, sign: &str) -> anyhow::Result<f64> {
        let body = json!({
            "input": format!("[script:{script}]"), "background": true, "stream": true, "coracle": {"events": true},
        });
        let mut stream = self.post("/responses", &body).await?.bytes_stream();
        let mut seen = Vec::new();
        while !contains(&seen, format!("event: {sign}\n").as_bytes()) {
            let bytes = stream
                .next()
                .await
                .with_context(|| format!("the run ended too early: {}", String::from_utf8_lossy(&seen)))?;
            seen.extend_from_slice(&bytes?);
        }
        let seen = String::from_utf8_lossy(&seen);
        let first = seen.lines().find_map(|line| line.strip_prefix("data: ")).context("the stream has no event")?;
        let first: Value = serde_json::from_str(first)?;
        let id = first["response"]["id"].as_str().context("the response has no ID")?;
        let begun = Instant::now();
        let ended: Value = self.post(&format!("/responses/{id}/cancel"), &json!({})).await?.json().await?;
        let time = milliseconds(begun.elapsed());
        ensure!(ended["status"] == "cancelled", "the run is not stopped: {ended}");
        Ok(time)
    }
}
