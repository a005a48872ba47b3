//! No secret of the configuration appears in an error, a log line or `Debug` output.

use crate::lab::{call, rogue, said, server, spec, stdio, upstream, user};
use coracle_types::{Secret, Transport};
use coracle_upstream::Upstream;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

const CANARY: &str = "canary-7f3a9b2c";

/// Collects the log of this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(log.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn canaries() -> Upstream {
    let headers = || BTreeMap::from([("authorization".to_owned(), Secret::new(format!("Bearer {CANARY}")))]);
    let url = || Secret::new(format!("http://user:{CANARY}@127.0.0.1:1/mcp?key={CANARY}"));
    let environment = |mode: &str| {
        let mut spec = rogue(mode, &[mode]);
        if let Transport::Stdio { env, args, .. } = &mut spec.transport {
            env.insert("CANARY".to_owned(), Secret::new(CANARY));
            args.push(Secret::new(format!("--token={CANARY}")));
        }
        spec
    };
    upstream(vec![
        environment("die-start"),
        environment("env"),
        stdio("argument", "/usr/bin/python3", &["-c", "import sys; sys.exit(sys.argv[1])", CANARY]),
        spec("http", Transport::Http { url: url(), headers: headers() }),
        spec("sse", Transport::Sse { url: url(), headers: headers() }),
        spec("nonsense", Transport::Http { url: Secret::new(format!("no address {CANARY}")), headers: headers() }),
    ])
}

#[tokio::test]
async fn errors_logs_and_debug_output_have_no_secrets() {
    let (log, guard) = Log::start();
    let upstream = canaries();
    let mut texts = vec![format!("{upstream:?}")];
    for name in ["die-start", "argument", "http", "sse", "nonsense"] {
        let error = call(&upstream, name, "act", json!({})).await.unwrap_err();
        assert_eq!(error.code(), "unavailable", "{error}");
        texts.push(format!("{error} {error:?} {:?}", error.hint()));
        // The second error is the remembered one.
        let error = call(&upstream, name, "act", json!({})).await.unwrap_err();
        texts.push(format!("{error} {error:?}"));
    }
    texts.push(format!("{:?}", upstream.status(&user("ada"))));
    upstream.tools(&user("ada"), &server("env")).await.unwrap();
    upstream.shutdown().await;
    drop(guard);
    let logged = log.text();
    assert!(logged.contains("cannot start a server"), "the log is captured: {logged}");
    texts.push(logged);
    for text in &texts {
        assert!(!text.contains(CANARY), "{text}");
    }
    assert!(texts.iter().any(|text| text.contains("cannot start: the key [hidden] is wrong")), "{texts:?}");
}

#[tokio::test]
async fn servers_do_get_their_secrets() {
    let upstream = canaries();
    let result = call(&upstream, "env", "act", json!({})).await.unwrap();
    assert!(said(&result).contains(CANARY));
    upstream.shutdown().await;
}
