//! Servers for clients: Coracle itself, and the protocol library alone, each over standard input and output and over HTTP.

use super::plan::{By, From, Plan};
use crate::bench::BASELINE;
use anyhow::Context;
use coracle_engine::Engine;
use coracle_server::baseline::Baseline;
use coracle_server::{Face, FaceOptions, HttpOptions};
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Debug)]
pub(super) struct Faces {
    /// Coracle over HTTP, and the library.
    ours: String,
    baseline: String,
    /// For those that clients start.
    home: PathBuf,
    _until: DropGuard,
}

impl Faces {
    pub(super) async fn start(folder: &Path, engine: Engine) -> anyhow::Result<Self> {
        let listen = || TcpListener::bind(("127.0.0.1", 0));
        let (ours, baseline) = (listen().await.context("listen")?, listen().await.context("listen")?);
        let address = |listener: &TcpListener| -> anyhow::Result<String> {
            Ok(format!("http://{}/mcp", listener.local_addr().context("find the address")?))
        };
        let addresses = (address(&ours)?, address(&baseline)?);
        let stop = CancellationToken::new();
        let face = Face::new(engine, FaceOptions::default()).map_err(|_| anyhow::anyhow!("make a face"))?;
        tokio::spawn(coracle_server::serve_http(face, ours, HttpOptions::default(), stop.clone()));
        tokio::spawn(stop.clone().run_until_cancelled_owned(Baseline.over_http(baseline)));
        let home = folder.join("face");
        std::fs::create_dir_all(&home).context("make a data folder")?;
        Ok(Self { ours: addresses.0, baseline: addresses.1, home, _until: stop.drop_guard() })
    }

    /// The address or the command line of a server.
    pub(super) fn server(&self, plan: &Plan) -> anyhow::Result<Vec<String>> {
        let words: &[&str] = match (plan.from, plan.by) {
            (From::Http, By::Client(_)) => return Ok(vec![self.ours.clone()]),
            (From::Http, _) => return Ok(vec![self.baseline.clone()]),
            (_, By::Client(_)) => &["mcp"],
            _ => &["bench", BASELINE],
        };
        let program = std::env::current_exe().context("find this program")?;
        let home = format!("CORACLE_HOME={}", self.home.display());
        let line = ["env".to_owned(), home, program.display().to_string()];
        Ok(line.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect())
    }
}
