//! A scripted model for a server under test.

use crate::site::{Client, Site};
use coracle_scripted_model::{Library, ScriptedModel, Step, serve_with_control};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A model server on a runtime of its own.
pub(crate) struct Playing {
    pub(crate) runtime: Runtime,
    pub(crate) model: ScriptedModel,
    url: String,
}

impl Playing {
    pub(crate) fn new(library: Library) -> Self {
        let runtime = Runtime::new().unwrap();
        let model = ScriptedModel::new(library).unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        runtime.spawn(serve_with_control(listener, model.clone(), std::future::pending()));
        Self { runtime, model, url }
    }

    /// Address of the model server, for scripts that open its gates.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_end_matches("/v1")
    }

    /// Settings with this model on one of the wires.
    pub(crate) fn settings(&self, api: &str) -> String {
        let url = &self.url;
        format!("agent:\n  default_model: lab/demo\n  providers:\n    lab: {{ url: '{url}', api: {api} }}\n")
    }
}

/// A model that runs code and then quotes its result.
pub(crate) fn computes() -> Library {
    let code = Step::call("execute_code", json!({"code": "print('working')\nresult = 6 * 7"}));
    Library::single([vec![Step::text("I compute it."), code], vec![Step::text("It is {{result}}.")]])
}

/// The key of a server without users.
pub(crate) fn key_of(site: &Site) -> String {
    std::fs::read_to_string(site.coracle.home().join("api_key")).unwrap().trim().to_owned()
}

/// A client with the key of a server without users.
pub(crate) fn local_key(site: &Site) -> Client {
    site.client_with(&key_of(site))
}

/// The data of the events in a streamed answer.
pub(crate) fn events(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}
