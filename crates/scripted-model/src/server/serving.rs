//! Listening, and its end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::ScriptedModel;
use crate::control;

impl ScriptedModel {
    /// Serves on a free port of the loopback interface.
    pub async fn start(&self) -> io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = serve(listener, self.clone(), async move { drop(stopped.await) });
        Ok(Server { address, model: self.clone(), task: tokio::spawn(serving), _stop: stop })
    }
}

/// Serves a model until `shutdown` is done. Answers that are not complete are then broken off.
pub async fn serve(
    listener: TcpListener,
    model: ScriptedModel,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = model.router();
    serve_router(listener, router, model, shutdown).await
}

/// Serves a model like [`serve`], with routes by which tests in other processes open gates and read the requests.
pub async fn serve_with_control(
    listener: TcpListener,
    model: ScriptedModel,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = model.router().merge(control::router(model.gates().clone(), model.requests().clone()));
    serve_router(listener, router, model, shutdown).await
}

async fn serve_router(
    listener: TcpListener,
    router: Router,
    model: ScriptedModel,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Without this, the small pieces of a stream wait for each other.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let stopped = async move {
        shutdown.await;
        model.inner.stop.send_replace(true);
    };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    model: ScriptedModel,
    task: tokio::task::JoinHandle<io::Result<()>>,
    /// Dropping it stops the server.
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients of OpenAI, such as `http://127.0.0.1:1234/v1`. Those of Anthropic leave `/v1` out.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The model, with its gates and requests.
    pub fn model(&self) -> &ScriptedModel {
        &self.model
    }

    /// Stops the server, and waits until all connections are closed.
    pub async fn stop(self) -> io::Result<()> {
        let Self { task, _stop: stop, .. } = self;
        drop(stop);
        task.await.map_err(io::Error::other)?
    }
}
