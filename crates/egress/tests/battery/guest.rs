//! What code in a sandbox does.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::lab::Sandbox;
use crate::server::client;

const PIPE: usize = 64 * 1024;

impl Sandbox {
    /// A new connection to the proxy.
    pub(crate) fn dial(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(PIPE);
        let gate = self.gate.clone();
        tokio::spawn(async move { gate.serve(far).await });
        near
    }

    /// Sends bytes on a new connection, and reads until the proxy ends it.
    pub(crate) async fn send(&self, bytes: impl AsRef<[u8]>) -> String {
        talk(&mut self.dial(), bytes).await
    }

    /// A GET of an absolute address.
    pub(crate) async fn get(&self, host: &str, port: u16, path: &str) -> String {
        self.send(request("GET", &format!("http://{host}:{port}{path}"), &format!("{host}:{port}"), "")).await
    }

    /// A tunnel, and the head of the answer.
    pub(crate) async fn tunnel(&self, host: &str, port: u16) -> (String, DuplexStream) {
        let mut stream = self.dial();
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        (head(&mut stream).await, stream)
    }

    /// A client that trusts the authority of the sandbox.
    pub(crate) fn trusting(&self) -> ClientConfig {
        let pem = self.gate.certificate_pem().unwrap();
        client(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
    }

    /// A SOCKS request by name. Returns the code of the answer.
    pub(crate) async fn socks(&self, host: &[u8], port: u16) -> (u8, DuplexStream) {
        let mut address = vec![3, u8::try_from(host.len()).unwrap()];
        address.extend_from_slice(host);
        self.socks_to(&address, port).await
    }

    /// A SOCKS request with any address: its type, then its bytes.
    pub(crate) async fn socks_to(&self, address: &[u8], port: u16) -> (u8, DuplexStream) {
        let mut stream = self.dial();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await.unwrap();
        assert_eq!(chosen, [5, 0]);
        let mut request = vec![5, 1, 0];
        request.extend_from_slice(address);
        request.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).await.unwrap();
        (answer[1], stream)
    }
}

/// A request that ends its connection.
pub(crate) fn request(method: &str, target: &str, host: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n")
}

/// Writes, and reads until the end.
pub(crate) async fn talk(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), bytes: impl AsRef<[u8]>) -> String {
    // A proxy that has refused may close before it has read everything.
    let _ = stream.write_all(bytes.as_ref()).await;
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    // TLS peers that end without saying so make this an error; what came before counts.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The head of an answer.
pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// A TLS handshake as a client.
pub(crate) async fn tls(
    config: ClientConfig,
    name: &str,
    stream: DuplexStream,
) -> std::io::Result<TlsStream<DuplexStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}
