//! Receives the redirect of the browser: a minimal HTTP server on the loopback interface, for a few minutes.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
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
    #[error("the sign-in was refused: {0}")]
    Refused(String),
    #[error("cannot listen on the loopback interface: {0}")]
    Io(#[from] io::Error),
}

/// Waits for the redirect.
pub(super) struct Redirect {
    listener: TcpListener,
    base: Url,
}

impl Redirect {
    pub(super) async fn listen() -> Result<Self, RedirectError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let text = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        let base = Url::parse(&text).map_err(io::Error::other)?;
        Ok(Self { listener, base })
    }

    pub(super) fn address(&self) -> &str {
        self.base.as_str()
    }

    /// The URL that the browser was redirected to. Requests without the right `state` get a 404 and are ignored.
    pub(super) async fn wait(&self, state: &str) -> Result<String, RedirectError> {
        tokio::time::timeout(PATIENCE, self.visitors(state)).await.unwrap_or(Err(RedirectError::TimedOut))
    }

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
            if let Some(error) = parameter(&url, "error") {
                answer(&mut stream, "200 OK", "The sign-in was refused. You can close this page.").await;
                let text =
                    parameter(&url, "error_description").map_or(error.clone(), |text| format!("{error}: {text}"));
                return Err(RedirectError::Refused(crate::scrub::shortened(&text, SHOWN)));
            }
            answer(&mut stream, "200 OK", "You are signed in. You can close this page.").await;
            return Ok(url.into());
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
