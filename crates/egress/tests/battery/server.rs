//! A server on loopback that says exactly what a test wants, and remembers what it got.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as the server got it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of a header, which hyper writes in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The pieces of a response. Without any, the server never answers.
pub(crate) type Answer = fn(&Seen) -> Vec<Vec<u8>>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepted: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A response with a body of known length.
pub(crate) fn response(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Answers with the request itself.
pub(crate) fn echo(seen: &Seen) -> Vec<Vec<u8>> {
    let mut body = seen.head.clone().into_bytes();
    body.extend_from_slice(&seen.body);
    vec![response("200 OK", "", &body)]
}

impl Server {
    pub(crate) async fn plain(answer: Answer) -> Self {
        Self::start(None, answer).await
    }

    pub(crate) async fn tls(trust: &Trust, name: &str, answer: Answer) -> Self {
        Self::start(Some(TlsAcceptor::from(trust.server(name))), answer).await
    }

    async fn start(tls: Option<TlsAcceptor>, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, accepted) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<Mutex<usize>>::default());
        let (record, count) = (Arc::clone(&seen), Arc::clone(&accepted));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (tls, record) = (tls.clone(), Arc::clone(&record));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, answer, &record).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, answer, &record).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen, accepted, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap()
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer, record: &Mutex<Vec<Seen>>) {
    let mut buffer = Vec::new();
    while let Some(seen) = request(&mut stream, &mut buffer).await {
        record.lock().unwrap().push(seen.clone());
        let pieces = answer(&seen);
        if pieces.is_empty() {
            // Until the other side goes.
            while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {}
            return;
        }
        for piece in pieces {
            if stream.write_all(&piece).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        // Only through a tunnel that is not read.
        if seen.head.contains("\r\nConnection: close\r\n") {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Reads one request.
async fn request(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = end_of(stream, buffer, b"\r\n\r\n").await?;
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let mut seen = Seen { head, body: Vec::new() };
    if seen.header("transfer-encoding").is_some() {
        let end = end_of(stream, buffer, b"0\r\n\r\n").await?;
        seen.body = buffer.drain(..end).collect();
    } else if let Some(length) = seen.header("content-length") {
        let length: usize = length.parse().unwrap();
        while buffer.len() < length {
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
        seen.body = buffer.drain(..length).collect();
    }
    Some(seen)
}

async fn end_of(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>, end: &[u8]) -> Option<usize> {
    loop {
        if let Some(at) = buffer.windows(end.len()).position(|window| window == end) {
            return Some(at + end.len());
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// The authority that the proxy trusts in tests.
pub(crate) struct Trust(CertifiedIssuer<'static, KeyPair>);

impl Trust {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn client(&self) -> ClientConfig {
        client(self.0.der().clone())
    }

    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Arc::new(config)
    }
}

/// A client that trusts one authority.
pub(crate) fn client(authority: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
