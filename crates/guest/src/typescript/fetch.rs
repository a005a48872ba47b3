//! The function `fetch`: HTTP over the proxy of a sandbox.
//!
//! QuickJS runs in one thread and must not block, so that timers and calls to the host go on. Requests are made by a
//! second thread, which lives as long as the run that began them.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Proxy, Url};
use rustix::event::{EventfdFlags, eventfd};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::error::Error;
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The maximum size of the body of a response.
const MAX_BODY: usize = 64 << 20;

/// The stack of the second thread.
const STACK_BYTES: usize = 2 << 20;

/// The message of a request without a network, for which `failure.rs` has a hint.
pub(super) const OFF: &str = "fetch failed: network is off in this sandbox";

/// The network of a run, as the agent describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Network {
    /// The URL of the proxy.
    proxy: String,
    /// The path of the certificates to trust.
    certificates: Option<String>,
}

/// A request, as `fetch.js` describes it.
#[derive(Debug, Deserialize)]
struct Request {
    url: String,
    method: String,
    headers: Vec<(String, String)>,
    /// In base64.
    body: Option<String>,
}

/// The head of a response, for `fetch.js`.
#[derive(Debug, Serialize)]
pub(super) struct Head {
    status: u16,
    status_text: &'static str,
    url: String,
    redirected: bool,
    headers: Vec<(String, String)>,
}

/// A response, or why there is none.
pub(super) type Outcome = Result<(Head, Vec<u8>), String>;

/// The requests of a run.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    network: Option<Network>,
    pending: HashSet<u64>,
    worker: Option<Worker>,
}

/// The second thread. It ends when this is dropped.
#[derive(Debug)]
struct Worker {
    requests: UnboundedSender<(u64, reqwest::Request)>,
    outcomes: Receiver<(u64, Outcome)>,
    /// Readable when there are outcomes.
    woken: Arc<OwnedFd>,
}

impl Fetches {
    /// Begins a run.
    pub(super) fn begin(&mut self, network: Option<Network>) {
        self.clear();
        self.network = network;
    }

    /// Cancels all requests.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.worker = None;
    }

    /// Whether the run has a network.
    pub(super) fn has_network(&self) -> bool {
        self.network.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// A descriptor that is readable when there are outcomes, while there are requests.
    pub(super) fn woken(&self) -> Option<Arc<OwnedFd>> {
        self.worker.as_ref().filter(|_| !self.is_empty()).map(|worker| Arc::clone(&worker.woken))
    }

    /// The next outcome that is there.
    pub(super) fn take(&mut self) -> Option<(u64, Outcome)> {
        let worker = self.worker.as_ref()?;
        // Clears the count, or has nothing to clear.
        let _ = rustix::io::read(&*worker.woken, &mut [0_u8; 8]);
        let (id, outcome) = worker.outcomes.try_recv().ok()?;
        self.pending.remove(&id);
        Some((id, outcome))
    }

    /// Begins a request, as `fetch.js` describes it in JSON.
    pub(super) fn start(&mut self, id: u64, request: &str) -> Result<(), String> {
        let Some(network) = &self.network else { return Err(OFF.to_owned()) };
        let request = prepared(request)?;
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(network).map_err(|reason| format!("fetch failed: {reason}"))?,
        };
        let sent = worker.requests.send((id, request));
        self.worker = Some(worker);
        sent.map_err(|_| "fetch failed: the thread for requests has ended".to_owned())?;
        self.pending.insert(id);
        Ok(())
    }
}

fn prepared(request: &str) -> Result<reqwest::Request, String> {
    fn wrong(what: impl Display) -> impl FnOnce(&dyn Display) -> String {
        move |why| format!("fetch: {what}: {why}")
    }
    let Request { url, method, headers, body } =
        serde_json::from_str(request).map_err(|error| wrong("the request is not valid")(&error))?;
    let address = Url::parse(&url).map_err(|error| wrong(format_args!("\"{url}\" is not a URL"))(&error))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(format!("fetch: \"{url}\" is neither an http nor an https URL"));
    }
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|error| wrong(format_args!("the method \"{method}\""))(&error))?;
    let mut prepared = reqwest::Request::new(method, address);
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let failed = |error: &dyn Display| format!("fetch: the header \"{name}\": {error}");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| failed(&error))?;
        all.append(key, HeaderValue::from_str(&value).map_err(|error| failed(&error))?);
    }
    *prepared.headers_mut() = all;
    if let Some(body) = body {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(body);
        *prepared.body_mut() = Some(bytes.map_err(|error| wrong("the body")(&error))?.into());
    }
    Ok(prepared)
}

impl Worker {
    fn start(network: &Network) -> Result<Self, String> {
        let client = client(network)?;
        let woken = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
        let woken = Arc::new(woken);
        let (requests, incoming) = unbounded_channel();
        let (outgoing, outcomes) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let bell = Arc::clone(&woken);
        std::thread::Builder::new()
            .name("fetch".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || runtime.block_on(work(client, incoming, outgoing, bell)))
            .map_err(|error| error.to_string())?;
        Ok(Self { requests, outcomes, woken })
    }
}

/// Makes requests until the run ends. What is under way then ends with the runtime.
async fn work(
    client: Client,
    mut incoming: UnboundedReceiver<(u64, reqwest::Request)>,
    outgoing: Sender<(u64, Outcome)>,
    bell: Arc<OwnedFd>,
) {
    while let Some((id, request)) = incoming.recv().await {
        let (client, outgoing, bell) = (client.clone(), outgoing.clone(), Arc::clone(&bell));
        tokio::spawn(async move {
            let outcome = ask(client, request).await;
            // An error means that the run has ended.
            if outgoing.send((id, outcome)).is_ok() {
                let _ = rustix::io::write(bell.as_fd(), &1_u64.to_ne_bytes());
            }
        });
    }
}

async fn ask(client: Client, request: reqwest::Request) -> Outcome {
    let wanted = request.url().clone();
    let mut response = client.execute(request).await.map_err(|error| told(&error))?;
    let status = response.status();
    let headers = response.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let head = Head {
        status: status.as_u16(),
        status_text: status.canonical_reason().unwrap_or_default(),
        url: response.url().to_string(),
        redirected: *response.url() != wanted,
        headers: headers.collect(),
    };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(format!("fetch failed: the body of the response has more than {MAX_BODY} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((head, body))
}

fn told(error: &reqwest::Error) -> String {
    let mut text = format!("fetch failed: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn client(network: &Network) -> Result<Client, String> {
    let proxy = Proxy::all(&network.proxy).map_err(|error| error.to_string())?;
    let pem = match &network.certificates {
        Some(path) => std::fs::read(path).map_err(|error| format!("cannot read the certificates {path}: {error}"))?,
        None => Vec::new(),
    };
    let mut roots = rustls::RootCertStore::empty();
    // Some of a system's certificates may be of a kind that is not supported here.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    let client = Client::builder().no_proxy().proxy(proxy).tls_backend_preconfigured(config);
    client.user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION"))).build().map_err(|error| error.to_string())
}

/// What to wait for besides the agent.
pub(super) fn borrowed(woken: Option<&Arc<OwnedFd>>) -> Option<BorrowedFd<'_>> {
    woken.map(|woken| woken.as_fd())
}

#[cfg(test)]
mod tests {
    use super::{Fetches, Network, OFF, prepared};
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    const REQUEST: &str = r#"{"url":"http://example.org/a","method":"post","headers":[["X-A","b"]],"body":"d29yZA=="}"#;

    #[test]
    fn a_request_goes_to_the_proxy_and_its_outcome_wakes_the_loop() {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = proxy.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = proxy.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            stream.write_all(b"HTTP/1.1 201 Created\r\nx-by: proxy\r\ncontent-length: 4\r\n\r\nword").unwrap();
            head
        });
        let mut fetches = Fetches::default();
        fetches.begin(Some(Network { proxy: format!("http://{address}"), certificates: None }));
        fetches.start(7, REQUEST).unwrap();
        let woken = fetches.woken().unwrap();
        let mut polled = [rustix::event::PollFd::new(&*woken, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).unwrap();
        let (id, outcome) = fetches.take().unwrap();
        let (head, body) = outcome.unwrap();
        assert_eq!((id, head.status, head.status_text, body.as_slice()), (7, 201, "Created", b"word".as_slice()));
        assert!(head.headers.contains(&("x-by".to_owned(), "proxy".to_owned())), "{head:?}");
        assert!(fetches.is_empty() && fetches.woken().is_none());
        let seen = answering.join().unwrap();
        assert_eq!(seen[0], "POST http://example.org/a HTTP/1.1");
        assert!(seen.contains(&"x-a: b".to_owned()), "{seen:?}");
    }

    #[test]
    fn nothing_is_requested_without_a_network() {
        let mut fetches = Fetches::default();
        assert_eq!(fetches.start(1, REQUEST), Err(OFF.to_owned()));
        assert!(fetches.is_empty() && fetches.worker.is_none());
    }

    #[test]
    fn wrong_requests_are_explained() {
        for (request, part) in [
            (r#"{"url":"/a","method":"GET","headers":[]}"#, "\"/a\" is not a URL"),
            (r#"{"url":"file:///etc/passwd","method":"GET","headers":[]}"#, "neither an http nor an https URL"),
            (r#"{"url":"http://a/","method":"A B","headers":[]}"#, "the method \"A B\""),
            (r#"{"url":"http://a/","method":"GET","headers":[["a","b\nc"]]}"#, "the header \"a\""),
        ] {
            let told = prepared(request).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
        assert!(prepared(REQUEST).is_ok());
    }
}
