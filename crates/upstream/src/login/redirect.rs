//! Receives the redirect of the browser, for a few minutes: at a minimal HTTP server on the loopback interface, or at an
//! address of the caller.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use url::Url;

/// Maximum time for a person to sign in.
const PATIENCE: Duration = Duration::from_mins(5);
/// Maximum time for a browser to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of the head of a request.
const MAX_HEAD: usize = 16 * 1024;
/// The maximum length of an authorization server's text in an error.
const SHOWN: usize = 200;
const PATH: &str = "/callback";

/// The redirect URI of a client that only refreshes tokens. No browser is redirected there.
pub(super) const ANYWHERE: &str = "http://127.0.0.1/callback";

/// Why the browser was not redirected back.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedirectError {
    #[error("no response from the browser within {PATIENCE:?}")]
    TimedOut,
    #[error("the sign-in was abandoned")]
    Abandoned,
    #[error("the sign-in was refused: {0}")]
    Refused(String),
    #[error("cannot listen on the loopback interface: {0}")]
    Io(#[from] io::Error),
}

/// Where a browser arrives after a person has signed in.
#[derive(Debug)]
pub enum SignInReturn {
    /// At a port that is opened for it on the loopback interface. The browser must be on this machine.
    Loopback,
    /// At an address that the caller serves.
    Address {
        /// The address, to which the browser is redirected.
        address: String,
        /// Gets the URL with which the browser arrives.
        arrived: oneshot::Receiver<String>,
    },
}

/// Waits for the redirect.
pub(super) enum Redirect {
    Loopback(Loopback),
    Address { address: String, arrived: oneshot::Receiver<String> },
}

impl Redirect {
    pub(super) async fn to(place: SignInReturn) -> Result<Self, RedirectError> {
        Ok(match place {
            SignInReturn::Loopback => Self::Loopback(Loopback::listen().await?),
            SignInReturn::Address { address, arrived } => Self::Address { address, arrived },
        })
    }

    pub(super) fn address(&self) -> &str {
        match self {
            Self::Loopback(loopback) => loopback.base.as_str(),
            Self::Address { address, .. } => address,
        }
    }

    /// The URL that the browser was redirected to.
    pub(super) async fn wait(self, state: &str) -> Result<String, RedirectError> {
        let arrival = async {
            match self {
                Self::Loopback(loopback) => loopback.visitors(state).await,
                Self::Address { arrived, .. } => {
                    let url = arrived.await.ok().and_then(|url| Url::parse(&url).ok());
                    let url = url.filter(|url| parameter(url, "state").as_deref() == Some(state));
                    checked(&url.ok_or(RedirectError::Abandoned)?)
                }
            }
        };
        tokio::time::timeout(PATIENCE, arrival).await.unwrap_or(Err(RedirectError::TimedOut))
    }
}

/// The URL of a browser that was redirected with the right `state`, unless the person or the server refused.
fn checked(url: &Url) -> Result<String, RedirectError> {
    let Some(error) = parameter(url, "error") else { return Ok(url.as_str().to_owned()) };
    let text = parameter(url, "error_description").map_or(error.clone(), |text| format!("{error}: {text}"));
    Err(RedirectError::Refused(crate::scrub::shortened(&text, SHOWN)))
}

/// A port on the loopback interface.
pub(super) struct Loopback {
    listener: TcpListener,
    base: Url,
}

impl Loopback {
    async fn listen() -> Result<Self, RedirectError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let text = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        let base = Url::parse(&text).map_err(io::Error::other)?;
        Ok(Self { listener, base })
    }

    /// The URL that the browser was redirected to. Requests without the right `state` get a 404 and are ignored.
    async fn visitors(&self, state: &str) -> Result<String, RedirectError> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let target = tokio::time::timeout(REQUEST_TIMEOUT, request_target(&mut stream)).await.ok().flatten();
            let url = target.and_then(|target| self.base.join(&target).ok());
            let url = url.filter(|url| url.origin() == self.base.origin() && url.path() == PATH);
            let Some(url) = url.filter(|url| parameter(url, "state").as_deref() == Some(state)) else {
                answer(&mut stream, "404 Not Found", "There is nothing here.").await;
                continue;
            };
            let checked = checked(&url);
            let text = match checked {
                Ok(_) => "You are signed in. You can close this page.",
                Err(_) => "The sign-in was refused. You can close this page.",
            };
            answer(&mut stream, "200 OK", text).await;
            return checked;
        }
    }
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The target of the request line, if it is a GET.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).await.ok().filter(|&count| count > 0)?;
        head.extend_from_slice(chunk.get(..count)?);
        if head.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned)).flatten()
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // The browser may have disconnected.
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, stream.write_all(response.as_bytes())).await;
    let _ = stream.shutdown().await;
}
