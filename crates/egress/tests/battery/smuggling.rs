//! Requests that two programs could read in different ways.

use coracle_egress::RefusalKind;
use tokio::io::AsyncWriteExt as _;

use crate::guest::{head, request, status, talk, tls};
use crate::lab::Lab;
use crate::server::{Server, echo};

/// A hidden request, which no rule allows.
const HIDDEN: &str = "GET http://b.test/hidden HTTP/1.1\r\nHost: b.test\r\n\r\n";

#[tokio::test]
async fn ambiguous_requests_are_refused_and_never_sent() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let start = format!("POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n");
    let rests = [
        format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("Content-Length: 0\r\nContent-Length: 4\r\n\r\n{HIDDEN}"),
        format!("Content-Length: 0, 4\r\n\r\n{HIDDEN}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"),
        format!("Host: b.test\r\n\r\n{HIDDEN}"),
    ];
    for rest in &rests {
        let answer = sandbox.send(format!("{start}{rest}")).await;
        assert_eq!(status(&answer), "400", "{rest:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{rest:?}: {answer}");
    }
    assert_eq!(sandbox.caller.kinds(), vec![RefusalKind::Protocol; rests.len()]);
    assert_eq!(server.accepted(), 0);

    for rest in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
        let answer = sandbox.send(format!("{start}Connection: close\r\n{rest}")).await;
        assert_eq!(status(&answer), "200", "{rest:?}: {answer}");
        assert!(answer.contains("hello"), "{answer}");
    }
}

#[tokio::test]
async fn wrong_chunks_end_the_request_without_a_complete_body() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let start =
        format!("POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n");
    for body in [
        "5;x=y\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\nhello0\r\n\r\n",
        "0\r\nHost: b.test\r\n\r\n",
        "fffffffffffffffff\r\n",
    ] {
        let answer = sandbox.send(format!("{start}{body}")).await;
        assert_eq!(status(&answer), "400", "{body:?}: {answer}");
    }
    // The server got heads at most: it counts a request when it is complete.
    assert_eq!(server.seen().len(), 0);
    let answer = sandbox
        .send(format!(
            "{start}5\r\nhello\r\n0\r\n\r\n{}",
            request("GET", &format!("http://a.test:{port}/2"), &format!("a.test:{port}"), "")
        ))
        .await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
}

#[tokio::test]
async fn each_request_of_a_connection_is_decided() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let one =
        |host: &str, path: &str| format!("GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    let last = request("GET", &format!("http://a.test:{port}/3"), &format!("a.test:{port}"), "");
    let answer = sandbox.send(format!("{}{}{last}", one("a.test", "/1"), one("b.test", "/2"))).await;
    let statuses: Vec<&str> = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).map(status).collect();
    assert_eq!(statuses, ["200", "403", "200"], "{answer}");
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line().to_owned()).collect();
    assert_eq!(lines, ["GET /1 HTTP/1.1", "GET /3 HTTP/1.1"]);
    // The second allowed request went over the connection of the first.
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_body_is_not_a_request() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let fields = format!("Content-Length: {}\r\n", HIDDEN.len());
    let post = request("POST", &format!("http://a.test:{port}/"), &format!("a.test:{port}"), &fields);
    let answer = sandbox.send(format!("{post}{HIDDEN}")).await;
    assert_eq!(status(&answer), "200");
    assert_eq!(server.seen().len(), 1);
    assert_eq!(server.seen()[0].body, HIDDEN.as_bytes());
    // The same bytes behind a refused request whose body was not read are not taken for a request either.
    let refused = request("POST", &format!("http://b.test:{port}/"), &format!("b.test:{port}"), &fields);
    let answer = sandbox.send(format!("{refused}{HIDDEN}")).await;
    assert_eq!(answer.matches("HTTP/1.1 403").count(), 1, "{answer}");
    assert_eq!(sandbox.caller.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn headers_between_neighbours_are_not_passed() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let fields = "Connection: X-Listed\r\nX-Listed: 1\r\nUpgrade: websocket\r\nProxy-Authorization: x\r\nTE: trailers\r\nX-Passed: 2\r\n";
    sandbox.send(request("GET", &format!("http://a.test:{port}/"), &format!("a.test:{port}"), fields)).await;
    let seen = &server.seen()[0];
    for name in ["x-listed", "upgrade", "proxy-authorization", "te", "connection"] {
        assert_eq!(seen.header(name), None, "{name}: {}", seen.head);
    }
    assert_eq!(seen.header("x-passed"), Some("2"));
}

#[tokio::test]
async fn requests_inside_of_tls_are_as_strict() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("GET,POST a.test:{port}")]);
    let both = format!(
        "POST / HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let good = request("POST", "/", &format!("a.test:{port}"), "Content-Length: 2\r\n") + "hi";
    let connect = format!("CONNECT b.test:{port} HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n");
    for (sent, expected) in [(both, "400"), (connect, "400"), (good, "200")] {
        let (_, stream) = sandbox.tunnel("a.test", port).await;
        let mut stream = tls(sandbox.trusting(), "a.test", stream).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let answer = head(&mut stream).await;
        assert_eq!(status(&answer), expected, "{sent:?}: {answer}");
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_connect_with_a_body_is_refused() {
    let lab = Lab::new();
    let sandbox = lab.sandbox(&["a.test:443".to_owned()]);
    let answer =
        talk(&mut sandbox.dial(), "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nContent-Length: 4\r\n\r\nGET ")
            .await;
    assert_eq!(status(&answer), "400");
    assert_eq!(status(&sandbox.tunnel("a.test", 443).await.0), "200");
}
