//! Servers for clients: Coracle and the bare protocol library, each over stdio and over HTTP.

use super::baseline::{BASELINE, Baseline};
use super::plan::{By, From, MANY_SERVERS, Plan};
use anyhow::Context;
use coracle_config::HOME_VARIABLE;
use coracle_engine::Engine;
use coracle_server::{Frontend, FrontendOptions, HttpOptions};
use serde_json::json;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Debug)]
pub(super) struct Frontends {
    /// Addresses of Coracle and of the library over HTTP.
    ours: String,
    baseline: String,
    /// Data folder of servers that clients start.
    home: PathBuf,
    _until: DropGuard,
}

impl Frontends {
    pub(super) async fn start(folder: &Path, engine: Engine) -> anyhow::Result<Self> {
        let listen = || TcpListener::bind(("127.0.0.1", 0));
        let (ours, baseline) = (listen().await.context("cannot listen")?, listen().await.context("cannot listen")?);
        let address = |listener: &TcpListener| -> anyhow::Result<String> {
            Ok(format!("http://{}/mcp", listener.local_addr().context("cannot find the address")?))
        };
        let addresses = (address(&ours)?, address(&baseline)?);
        let stop = CancellationToken::new();
        let frontend =
            Frontend::new(engine, FrontendOptions::default()).map_err(|_| anyhow::anyhow!("start a front end"))?;
        tokio::spawn(coracle_server::serve_http(frontend, vec![ours], HttpOptions::default(), stop.clone()));
        tokio::spawn(stop.clone().run_until_cancelled_owned(Baseline.over_http(baseline)));
        let home = folder.join("frontend");
        for many in [0, MANY_SERVERS] {
            let home = home_of(&home, many);
            std::fs::create_dir_all(&home).context("cannot create a data folder")?;
            // These servers are never started, because the code does not use them.
            let servers: serde_json::Map<_, _> =
                (0..many).map(|number| (format!("server{number}"), json!({ "command": "false" }))).collect();
            std::fs::write(home.join("coracle.yaml"), json!({ "mcpServers": servers }).to_string())
                .context("cannot write settings")?;
        }
        Ok(Self { ours: addresses.0, baseline: addresses.1, home, _until: stop.drop_guard() })
    }

    /// Address or command line of a server.
    pub(super) fn server(&self, plan: &Plan) -> anyhow::Result<Vec<String>> {
        let words: &[&str] = match (plan.from, plan.by) {
            (From::Http, By::Client(_) | By::Session(_)) => return Ok(vec![self.ours.clone()]),
            (From::Http, _) => return Ok(vec![self.baseline.clone()]),
            (_, By::Client(_) | By::First(_)) => &["mcp"],
            _ => &["bench", BASELINE],
        };
        let program = std::env::current_exe().context("cannot find this program")?;
        let many = if let By::First(many) = plan.by { many } else { 0 };
        let home = format!("{HOME_VARIABLE}={}", home_of(&self.home, many).display());
        let line = ["env".to_owned(), home, program.display().to_string()];
        Ok(line.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect())
    }
}

/// Data folder of a server with `many` servers in its settings.
fn home_of(home: &Path, many: usize) -> PathBuf {
    home.join(many.to_string())
}
