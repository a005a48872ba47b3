//! Credentials: added outside, never seen inside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_egress::{Credential, Scheme};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

use crate::guest::{request, status, talk, tls};
use crate::lab::{Lab, Sandbox};
use crate::server::{Seen, Server, echo, response};

const SECRET: &str = "s3cret-Tok/en+0123456789";

fn credential(port: u16, methods: &[&str]) -> Credential {
    Credential {
        id: "example".to_owned(),
        host: "api.test".to_owned(),
        port,
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        header: "Authorization".to_owned(),
        value: format!("Bearer {SECRET}").into(),
    }
}

fn bound(lab: &Lab, port: u16, methods: &[&str]) -> Sandbox {
    lab.sandbox_with(&[format!("api.test:{port}")], &["127.0.0.0/8"], vec![credential(port, methods)])
}

#[tokio::test]
async fn a_plain_request_is_raised_and_gets_the_credential() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", echo).await;
    let port = server.port();
    let sandbox = bound(&lab, port, &[]);
    let own = "Authorization: Bearer of-the-guest\r\nRange: bytes=0-3\r\nAccept-Encoding: gzip\r\n";
    let answer = sandbox.send(request("GET", "http://api.test/x?y", "api.test", own)).await;
    assert_eq!(status(&answer), "200", "{answer}");
    let seen = &server.seen()[0];
    assert_eq!(seen.line(), "GET /x?y HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    assert_eq!(seen.head.matches("authorization").count(), 1);
    assert_eq!(seen.header("range"), None);
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    // The server sends back what it got.
    assert!(answer.contains("authorization: [redacted]") && !answer.contains("s3cret"), "{answer}");
    let asked = sandbox.caller.asked.lock().unwrap()[0].clone();
    assert_eq!((asked.credentials, asked.scheme, asked.port), (vec!["example".to_owned()], Scheme::Https, port));
}

#[tokio::test]
async fn requests_inside_of_tls_get_the_credential() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", echo).await;
    let port = server.port();
    let sandbox = bound(&lab, port, &[]);
    let (_, stream) = sandbox.tunnel("api.test", port).await;
    let mut stream = tls(sandbox.trusting(), "api.test", stream).await.unwrap();
    let answer = talk(&mut stream, request("GET", "/x", &format!("api.test:{port}"), "")).await;
    assert!(answer.contains("authorization: [redacted]"), "{answer}");
    assert_eq!(server.seen()[0].header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
}

#[tokio::test]
async fn other_methods_and_hosts_get_none() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", echo).await;
    let port = server.port();
    let own = "Authorization: Bearer of-the-guest\r\nContent-Length: 0\r\n";
    let post = request("POST", "http://api.test/", "api.test", own);
    // By default, only GET and HEAD. What the guest sends in the header is removed all the same.
    let sandbox = bound(&lab, port, &[]);
    assert_eq!(status(&sandbox.send(&post).await), "200");
    assert_eq!(server.seen()[0].header("authorization"), None);
    assert_eq!(sandbox.caller.asked.lock().unwrap()[0].credentials, Vec::<String>::new());
    let sandbox = bound(&lab, port, &["POST"]);
    assert_eq!(status(&sandbox.send(&post).await), "200");
    assert_eq!(server.seen()[1].header("authorization"), Some(format!("Bearer {SECRET}").as_str()));

    let plain = Server::plain(echo).await;
    let rules = [format!("*:{}", plain.port())];
    let sandbox = lab.sandbox_with(&rules, &["127.0.0.0/8"], vec![credential(port, &[])]);
    for host in ["a.test", "api.test"] {
        let url = format!("http://{host}:{}/", plain.port());
        let answer = sandbox.send(request("GET", &url, &format!("{host}:{}", plain.port()), "")).await;
        assert_eq!(status(&answer), "200", "{host}: {answer}");
    }
    assert!(plain.seen().iter().all(|seen| seen.header("authorization").is_none()));
}

#[tokio::test]
async fn a_credential_does_not_allow_its_host() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", echo).await;
    let rules = [format!("a.test:{}", server.port())];
    let sandbox = lab.sandbox_with(&rules, &["127.0.0.0/8"], vec![credential(server.port(), &[])]);
    let get = request("GET", "http://api.test/", "api.test", "");
    assert_eq!(status(&sandbox.send(&get).await), "403");
    assert_eq!(server.accepted(), 0);
    assert_eq!(status(&bound(&lab, server.port(), &[]).send(&get).await), "200");
}

/// Sends the token back in the way that the path says.
fn reveal(seen: &Seen) -> Vec<Vec<u8>> {
    let token = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("none");
    let body = format!("<{token}>");
    match seen.line().split(' ').nth(1).unwrap_or_default() {
        "/pieces" => {
            let mut pieces = vec![b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()];
            pieces.extend(body.bytes().map(|byte| format!("1\r\n{}\r\n", char::from(byte)).into_bytes()));
            pieces.push(b"0\r\n\r\n".to_vec());
            pieces
        }
        "/gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body.as_bytes()).unwrap();
            vec![response("200 OK", "Content-Encoding: gzip\r\n", &encoder.finish().unwrap())]
        }
        "/brotli" => vec![response("200 OK", "Content-Encoding: br\r\n", b"whatever")],
        "/base64" => vec![response("200 OK", "", STANDARD.encode(format!("token={token};")).as_bytes())],
        "/url" => vec![response("200 OK", "", token.replace('/', "%2F").replace('+', "%2b").as_bytes())],
        "/header" => vec![response("302 Found", &format!("Location: /?token={token}\r\nX-Token: {token}\r\n"), b"")],
        "/end" => vec![
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                .into_bytes(),
        ],
        _ => vec![response("200 OK", "", body.as_bytes())],
    }
}

#[tokio::test]
async fn the_secret_is_removed_from_whatever_comes_back() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", reveal).await;
    let sandbox = bound(&lab, server.port(), &[]);
    for path in ["/plain", "/pieces", "/gzip", "/base64", "/url", "/header", "/end"] {
        let answer = sandbox.send(request("GET", &format!("http://api.test{path}"), "api.test", "")).await;
        assert!(["200", "302"].contains(&status(&answer)), "{path}: {answer}");
        assert!(answer.contains("[redacted]"), "{path}: {answer}");
        for secret in ["s3cret", "0123456789", &STANDARD.encode(SECRET)[..12], "content-encoding"] {
            assert!(!answer.contains(secret), "{path}: {answer}");
        }
    }
    // What cannot be searched is not passed on.
    let answer = sandbox.send(request("GET", "http://api.test/brotli", "api.test", "")).await;
    assert_eq!(status(&answer), "502", "{answer}");

    // Without a credential for the host, the same responses arrive as they are.
    let plain = lab.sandbox(&[format!("GET api.test:{}", server.port())]);
    let (_, stream) = plain.tunnel("api.test", server.port()).await;
    let mut stream = tls(plain.trusting(), "api.test", stream).await.unwrap();
    let fields = format!("Authorization: Bearer {SECRET}\r\n");
    let host = format!("api.test:{}", server.port());
    let answer = talk(&mut stream, request("GET", "/plain", &host, &fields)).await;
    assert!(answer.contains(&format!("<{SECRET}>")), "{answer}");
}

#[tokio::test]
async fn nothing_that_the_caller_hears_has_the_secret() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "api.test", reveal).await;
    let sandbox = bound(&lab, server.port(), &[]);
    for path in ["/plain", "/brotli"] {
        sandbox.send(request("GET", &format!("http://api.test{path}"), "api.test", "")).await;
    }
    sandbox.caller.until(|caller| (caller.finished.lock().unwrap().len() == 2).then_some(())).await;
    let heard = format!("{:?} {:?}", sandbox.caller, sandbox.gate);
    assert!(heard.contains("example") && !heard.contains("s3cret"), "{heard}");
}
