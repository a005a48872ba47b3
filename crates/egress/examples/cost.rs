//! Cost of a request through the proxy beside a direct one: `cargo run --release -p coracle-egress --example cost`.
//!
//! All requests go to a server on loopback. A row is the time of one request with its answer, over a connection that is kept
//! and over a new one.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use coracle_egress::{
    Attempt, Credentials, Decide, Decision, Gate, Grant, Host, Limits, Outcome, PrivateAddresses, Proxy, Refusal,
    Resolver, Rules,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

type Outcomes<T> = Result<T, Box<dyn Error>>;
type Stream = Box<dyn Both>;

const NAME: &str = "host.test";
const ROUNDS: usize = 300;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

trait Both: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Both for T {}

#[derive(Debug)]
struct Loopback;

#[async_trait]
impl Resolver for Loopback {
    async fn resolve(&self, _: &Host) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

#[derive(Debug)]
struct Everything;

#[async_trait]
impl Decide for Everything {
    async fn decide(&self, _: &Attempt) -> Decision {
        Decision::Allow
    }

    fn finished(&self, _: &Attempt, _: &Outcome) {}

    fn refused(&self, refusal: &Refusal) {
        eprintln!("{refusal}");
    }
}

/// One way to the server.
#[derive(Clone, Copy)]
enum Way {
    Direct,
    DirectTls,
    Forward,
    Unread,
    Read,
}

/// Where everything is.
struct Place {
    plain: SocketAddr,
    tls: SocketAddr,
    proxy: SocketAddr,
    reading: SocketAddr,
    outside: Arc<ClientConfig>,
    inside: Arc<ClientConfig>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcomes<()> {
    let place = prepare().await?;
    println!("{:<28} {:>12} {:>12} {:>12} {:>12}", "microseconds", "kept p50", "kept p95", "new p50", "new p95");
    for (name, way) in [
        ("direct, HTTP", Way::Direct),
        ("proxy, HTTP", Way::Forward),
        ("direct, HTTPS", Way::DirectTls),
        ("proxy, HTTPS, not read", Way::Unread),
        ("proxy, HTTPS, read", Way::Read),
    ] {
        let (kept, new) = (kept(&place, way).await?, new(&place, way).await?);
        let [a, b, c, d] = [at(&kept, 50), at(&kept, 95), at(&new, 50), at(&new, 95)];
        println!("{name:<28} {a:>12} {b:>12} {c:>12} {d:>12}");
    }
    Ok(())
}

fn at(sorted: &[Duration], percent: usize) -> u128 {
    sorted.get(sorted.len() * percent / 100).map_or(0, Duration::as_micros)
}

async fn kept(place: &Place, way: Way) -> Outcomes<Vec<Duration>> {
    let mut stream = open(place, way).await?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        ask(place, way, &mut stream).await?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times)
}

async fn new(place: &Place, way: Way) -> Outcomes<Vec<Duration>> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut stream = open(place, way).await?;
        ask(place, way, &mut stream).await?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times)
}

async fn open(place: &Place, way: Way) -> Outcomes<Stream> {
    Ok(match way {
        Way::Direct => Box::new(connect(place.plain).await?),
        Way::Forward => Box::new(connect(place.proxy).await?),
        Way::DirectTls => secured(&place.outside, connect(place.tls).await?).await?,
        Way::Unread => secured(&place.outside, tunnel(place.proxy, place.tls.port()).await?).await?,
        Way::Read => secured(&place.inside, tunnel(place.reading, place.tls.port()).await?).await?,
    })
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn tunnel(proxy: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let mut stream = connect(proxy).await?;
    stream.write_all(format!("CONNECT {NAME}:{port} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n").as_bytes()).await?;
    until(&mut stream, b"\r\n\r\n").await?;
    Ok(stream)
}

async fn secured(config: &Arc<ClientConfig>, stream: TcpStream) -> Outcomes<Stream> {
    Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(ServerName::try_from(NAME)?, stream).await?))
}

async fn ask(place: &Place, way: Way, stream: &mut Stream) -> io::Result<()> {
    let (plain, tls) = (place.plain.port(), place.tls.port());
    let (target, port) = match way {
        Way::Direct => ("/".to_owned(), plain),
        Way::Forward => (format!("http://{NAME}:{plain}/"), plain),
        Way::DirectTls | Way::Unread | Way::Read => ("/".to_owned(), tls),
    };
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n").as_bytes()).await?;
    stream.flush().await?;
    until(stream, b"hello").await
}

async fn until(stream: &mut (impl AsyncRead + Unpin), end: &[u8]) -> io::Result<()> {
    let mut read = Vec::with_capacity(1024);
    while !read.ends_with(end) {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::Error::other(String::from_utf8_lossy(&read).into_owned()));
        }
    }
    Ok(())
}

async fn prepare() -> Outcomes<Place> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.signed_by(&key, &issuer)?.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let plain = serve(None).await?;
    let tls = serve(Some(TlsAcceptor::from(Arc::new(server)))).await?;

    let outside = trusting(issuer.der().clone())?;
    let proxy = Proxy::with(Limits::default(), Arc::new(Loopback), outside.clone());
    let unread = gate(&proxy, &[format!("{NAME}:{}", plain.port()), format!("{NAME}:{}", tls.port())])?;
    let read = gate(&proxy, &[format!("GET {NAME}:{}", tls.port())])?;
    let pem = read.certificate_pem().ok_or("the gate that reads has no authority")?;
    Ok(Place {
        plain,
        tls,
        proxy: listen(unread).await?,
        reading: listen(read).await?,
        outside: Arc::new(outside),
        inside: Arc::new(trusting(CertificateDer::from_pem_slice(pem.as_bytes())?)?),
    })
}

fn gate(proxy: &Proxy, rules: &[String]) -> Outcomes<Gate> {
    let grant = Grant {
        rules: Rules::parse("network.allow", rules)?,
        private_addresses: PrivateAddresses::parse(["127.0.0.0/8"])?,
        credentials: Credentials::default(),
    };
    Ok(Gate::new(proxy, &proxy.share(), grant, Arc::new(Everything), CancellationToken::new())?)
}

async fn listen(gate: Gate) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { gate.listen(listener).await });
    Ok(address)
}

fn trusting(authority: CertificateDer<'static>) -> Outcomes<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// A server that answers whatever is asked.
async fn serve(tls: Option<TlsAcceptor>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let result = match tls {
                    None => answer(stream).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => answer(stream).await,
                        Err(error) => Err(error),
                    },
                };
                // Clients end their connections whenever they like.
                drop(result);
            });
        }
    });
    Ok(address)
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    while until(&mut stream, b"\r\n\r\n").await.is_ok() {
        stream.write_all(ANSWER).await?;
        stream.flush().await?;
    }
    Ok(())
}
