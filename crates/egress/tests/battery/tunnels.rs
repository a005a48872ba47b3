//! Tunnels that are read, and tunnels that are not.

use coracle_egress::{RefusalKind, Scheme};
use tokio::io::AsyncWriteExt as _;

use crate::guest::{request, status, talk, tls};
use crate::lab::{DENIED, Lab};
use crate::server::{Server, echo};

#[tokio::test]
async fn a_tunnel_without_restrictions_is_not_read() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    assert_eq!(sandbox.gate.certificate_pem(), None);
    let (_, stream) = sandbox.tunnel("a.test", port).await;
    // The client sees the certificate of the server itself, and sends a host that nobody compares.
    let mut stream = tls(lab.trust.client(), "a.test", stream).await.unwrap();
    let answer = talk(&mut stream, request("GET", "/x", "anything", "")).await;
    assert_eq!(status(&answer), "200", "{answer}");
    drop(stream);
    let outcome = sandbox.caller.first_outcome().await;
    assert_eq!(outcome.status, None);
    assert!(outcome.bytes_up > 100 && outcome.bytes_down > 100, "{outcome:?}");
    let asked = sandbox.caller.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].scheme, asked[0].subject()), (Scheme::Tunnel, format!("CONNECT a.test:{port}")));
}

#[tokio::test]
async fn a_tunnel_to_another_host_or_port_is_refused() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let sandbox = lab.sandbox(&[format!("a.test:{}", server.port())]);
    let (answer, mut stream) = sandbox.tunnel("a.test", 22).await;
    assert_eq!(status(&answer), "403");
    let body = talk(&mut stream, "").await;
    assert_eq!(
        body,
        "network access refused: CONNECT a.test:22 is not allowed by any rule of network.allow\nhint: network.allow: [\"a.test:22\"]\n"
    );
    assert_eq!(status(&sandbox.tunnel("b.test", server.port()).await.0), "403");
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Rule; 2]);
    assert_eq!(status(&sandbox.tunnel("a.test", server.port()).await.0), "200");
}

#[tokio::test]
async fn methods_and_paths_are_enforced_inside_of_tls() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("GET a.test:{port}/v1/*")]);
    let cases = [
        ("GET", "/v1/x", "200"),
        ("POST", "/v1/x", "403"),
        ("GET", "/v2/x", "403"),
        ("GET", "/v1/../v2/x", "403"),
        ("GET", "/v1/%2e%2e/v2/x", "403"),
        ("GET", "/v1//x", "403"),
        ("TRACE", "/v1/x", "400"),
    ];
    for (method, path, expected) in cases {
        let (_, stream) = sandbox.tunnel("a.test", port).await;
        let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
        let answer = talk(&mut stream, request(method, path, &format!("a.test:{port}"), "")).await;
        assert_eq!(status(&answer), expected, "{method} {path}: {answer}");
    }
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line().to_owned()).collect();
    assert_eq!(lines, ["GET /v1/x HTTP/1.1"]);
}

#[tokio::test]
async fn an_intercepted_host_needs_the_authority_of_the_same_sandbox() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let rules = [format!("GET a.test:{}", server.port())];
    let (one, other) = (lab.sandbox(&rules), lab.sandbox(&rules));
    let (_, stream) = one.tunnel("a.test", server.port()).await;
    assert!(tls(other.trusting(), "a.test", stream).await.is_err());
    let (_, stream) = one.tunnel("a.test", server.port()).await;
    assert!(tls(one.trusting(), "a.test", stream).await.is_ok());
}

#[tokio::test]
async fn a_host_with_a_wrong_certificate_is_not_reached() {
    let lab = Lab::new();
    let stranger = crate::server::Trust::new();
    let (wrong, right) = (Server::tls(&stranger, "a.test", echo).await, Server::tls(&lab.trust, "a.test", echo).await);
    for (server, expected) in [(&wrong, "502"), (&right, "200")] {
        let sandbox = lab.sandbox(&[format!("GET a.test:{}", server.port())]);
        let (_, stream) = sandbox.tunnel("a.test", server.port()).await;
        let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
        let answer = talk(&mut stream, request("GET", "/", &format!("a.test:{}", server.port()), "")).await;
        assert_eq!(status(&answer), expected, "{answer}");
    }
    assert_eq!(wrong.seen().len(), 0);
}

#[tokio::test]
async fn other_protocols_are_not_tunneled() {
    let lab = Lab::new();
    let server = Server::plain(echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    for bytes in ["SSH-2.0-OpenSSH\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "\u{16}\u{3}\u{1}\0\u{4}junk"] {
        let (answer, mut stream) = sandbox.tunnel("a.test", port).await;
        assert_eq!(status(&answer), "200");
        let answer = talk(&mut stream, bytes).await;
        assert!(!answer.contains("HTTP"), "{answer}");
    }
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Protocol; 3]);
    // By SOCKS, what is not TLS must be HTTP, which is read.
    let (_, mut stream) = sandbox.socks(b"a.test", port).await;
    assert_eq!(status(&talk(&mut stream, "SSH-2.0-OpenSSH\r\n\r\n").await), "400");
    assert_eq!(server.accepted(), 0);
    let (_, mut stream) = sandbox.socks(b"a.test", port).await;
    let answer = talk(&mut stream, request("GET", "/x", &format!("a.test:{port}"), "")).await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn socks_tunnels_obey_the_same_rules() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    // Not read.
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    assert_eq!(sandbox.socks(b"b.test", port).await.0, 2);
    let (code, stream) = sandbox.socks(b"a.test", port).await;
    assert_eq!(code, 0);
    let mut stream = tls(lab.trust.client(), "a.test", stream).await.unwrap();
    assert_eq!(status(&talk(&mut stream, request("GET", "/1", "a.test", "")).await), "200");
    let (_, stream) = sandbox.socks(b"a.test", port).await;
    assert!(tls(lab.trust.client(), "b.test", stream).await.is_err());
    // Read.
    let sandbox = lab.sandbox(&[format!("GET a.test:{port}")]);
    for (method, expected) in [("POST", "403"), ("GET", "200")] {
        let (_, stream) = sandbox.socks(b"a.test", port).await;
        let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
        let answer = talk(&mut stream, request(method, "/2", &format!("a.test:{port}"), "")).await;
        assert_eq!(status(&answer), expected, "{answer}");
    }
    // HTTP without TLS, decided request by request.
    let plain = Server::plain(echo).await;
    let sandbox = lab.sandbox(&[format!("GET a.test:{}", plain.port())]);
    for (method, path, expected) in [("POST", "/", "403"), ("GET", DENIED, "403"), ("GET", "/", "200")] {
        let (_, mut stream) = sandbox.socks(b"a.test", plain.port()).await;
        let answer = talk(&mut stream, request(method, path, &format!("a.test:{}", plain.port()), "")).await;
        assert_eq!(status(&answer), expected, "{answer}");
    }
}

#[tokio::test]
async fn socks_commands_other_than_connect_are_refused() {
    let lab = Lab::new();
    let sandbox = lab.sandbox(&["a.test:443".to_owned()]);
    for command in [2, 3] {
        let mut stream = sandbox.dial();
        stream.write_all(&[5, 1, 0, 5, command, 0, 3, 6]).await.unwrap();
        let answer = talk(&mut stream, b"a.test\x01\xbb").await;
        assert_eq!(answer.as_bytes()[3], 7, "{answer:?}");
    }
    assert_eq!(sandbox.socks(b"a.test", 443).await.0, 0);
}
