//! Names: of the address, of the tunnel, of TLS and of the request.

use coracle_egress::RefusalKind;

use crate::guest::{request, status, talk, tls};
use crate::lab::Lab;
use crate::server::{Server, echo};

#[tokio::test]
async fn names_that_are_none_are_refused_without_a_look_up() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("*:{port}")]);
    let hosts = [
        "a.test%00.evil.test",
        "u@a.test",
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "１２７.0.0.1",
        "a..test",
    ];
    for host in hosts {
        let answer = sandbox.get(host, port, "/").await;
        assert_eq!(status(&answer), "403", "{host}: {answer}");
        let (answer, _) = sandbox.tunnel(host, port).await;
        assert_eq!(status(&answer), "403", "{host}: {answer}");
    }
    assert_eq!(lab.names.asked(), Vec::<String>::new());
    assert_eq!(server.accepted(), 0);
    assert!(sandbox.caller.kinds().iter().all(|kind| *kind == RefusalKind::Host));

    assert_eq!(status(&sandbox.get("a.test", port, "/").await), "200");
    assert_eq!(lab.names.asked(), ["a.test"]);
}

#[tokio::test]
async fn a_name_with_nul_is_refused_by_http_and_socks() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let answer = sandbox.send(format!("GET http://evil.test\0.a.test:{port}/ HTTP/1.1\r\nHost: a.test\r\n\r\n")).await;
    assert_eq!(status(&answer), "400");
    let (code, _) = sandbox.socks(b"evil.test\0.a.test", port).await;
    assert_eq!(code, 2);
    assert_eq!(lab.names.asked(), Vec::<String>::new());

    let (code, mut stream) = sandbox.socks(b"a.test", port).await;
    assert_eq!(code, 0);
    let answer = talk(&mut stream, request("GET", "/x", &format!("a.test:{port}"), "")).await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn unicode_names_are_compared_and_sent_as_ascii() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("bücher.test:{port}")]);
    for host in ["bücher.test", "BÜCHER.test.", "xn--bcher-kva.test"] {
        assert_eq!(status(&sandbox.get(host, port, "/").await), "200", "{host}");
    }
    let expected = format!("xn--bcher-kva.test:{port}");
    assert!(server.seen().iter().all(|seen| seen.header("host") == Some(expected.as_str())));
    // A letter that only looks the same.
    assert_eq!(status(&sandbox.get("bücһer.test", port, "/").await), "403");
}

#[tokio::test]
async fn addresses_are_refused_by_socks() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let sandbox = lab.sandbox(&[format!("*:{}", server.port())]);
    let (code, _) = sandbox.socks_to(&[1, 127, 0, 0, 1], server.port()).await;
    assert_eq!(code, 8);
    let mut v6 = vec![4];
    v6.extend_from_slice(&std::net::Ipv6Addr::LOCALHOST.octets());
    assert_eq!(sandbox.socks_to(&v6, server.port()).await.0, 8);
    assert_eq!(sandbox.socks(b"127.0.0.1", server.port()).await.0, 2);
    assert_eq!(server.accepted(), 0);
    assert_eq!(sandbox.socks(b"a.test", server.port()).await.0, 0);
}

#[tokio::test]
async fn the_host_header_is_that_of_the_address() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let url = format!("http://a.test:{port}/");
    for host in ["b.test".to_owned(), format!("b.test:{port}"), "a.test".to_owned(), "a.test:1".to_owned()] {
        let answer = sandbox.send(request("GET", &url, &host, "")).await;
        assert_eq!(status(&answer), "403", "{host}: {answer}");
    }
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Names; 4]);
    assert_eq!(server.accepted(), 0);
    assert_eq!(status(&sandbox.send(request("GET", &url, &format!("A.test:{port}"), "")).await), "200");
}

#[tokio::test]
async fn the_tls_name_is_that_of_the_tunnel() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}"), format!("b.test:{port}")]);

    // The tunnel is to one allowed host, the handshake to another.
    let (answer, stream) = sandbox.tunnel("b.test", port).await;
    assert_eq!(status(&answer), "200");
    assert!(tls(lab.trust.client(), "a.test", stream).await.is_err());
    // The handshake has no name.
    let mut nameless = lab.trust.client();
    nameless.enable_sni = false;
    let (answer, stream) = sandbox.tunnel("a.test", port).await;
    assert_eq!(status(&answer), "200");
    assert!(tls(nameless, "a.test", stream).await.is_err());
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Names; 2]);
    assert_eq!(server.accepted(), 0);

    let (_, stream) = sandbox.tunnel("a.test", port).await;
    let mut stream = tls(lab.trust.client(), "a.test", stream).await.unwrap();
    let answer = talk(&mut stream, request("GET", "/x", "a.test", "")).await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn the_host_of_a_request_in_a_tunnel_is_that_of_the_tunnel() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("GET a.test:{port}"), format!("GET b.test:{port}")]);
    let (_, stream) = sandbox.tunnel("a.test", port).await;
    let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
    let answer = talk(&mut stream, request("GET", "/", &format!("b.test:{port}"), "")).await;
    assert_eq!(status(&answer), "403", "{answer}");
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Names]);
    assert_eq!(server.accepted(), 0);

    let (_, stream) = sandbox.tunnel("a.test", port).await;
    let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
    let answer = talk(&mut stream, request("GET", "/", &format!("a.test:{port}"), "")).await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn names_of_an_intercepted_tunnel_are_compared_too() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let sandbox = lab.sandbox(&[format!("GET *:{}", server.port())]);
    let (_, stream) = sandbox.tunnel("a.test", server.port()).await;
    assert!(tls(sandbox.trusting(), "b.test", stream).await.is_err());
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Names]);
    let (_, stream) = sandbox.tunnel("a.test", server.port()).await;
    assert!(tls(sandbox.trusting(), "a.test", stream).await.is_ok());
}
