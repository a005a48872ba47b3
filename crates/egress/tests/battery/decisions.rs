//! What the caller is asked and told, and what the guest reads.

use coracle_egress::{Outcome, RefusalKind, Rules, Scheme};

use crate::guest::{request, status};
use crate::lab::{DENIED, Lab};
use crate::server::{Server, echo};

#[tokio::test]
async fn a_refusal_names_the_line_that_would_allow_it() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let closed = lab.sandbox(&[]);
    let answer = closed.get("a.test", port, "/x?secret=1").await;
    let expected = format!(
        "network access refused: GET a.test:{port}/x is not allowed by any rule of network.allow\nhint: network.allow: [\"GET a.test:{port}\"]\n"
    );
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\n"), "{answer}");
    assert!(answer.ends_with(&expected), "{answer}");
    // The port of the scheme is not shown where it goes without saying.
    let answer = closed.send(request("GET", "http://a.test/x", "a.test", "")).await;
    assert!(answer.contains("GET a.test/x is not allowed") && answer.contains("[\"GET a.test:80\"]"), "{answer}");
    assert_eq!(closed.caller.kinds(), [RefusalKind::Rule; 2]);
    assert_eq!(closed.caller.asked.lock().unwrap().len(), 0);

    let open = lab.sandbox(&[format!("GET a.test:{port}")]);
    assert_eq!(status(&open.get("a.test", port, "/x").await), "200");
}

#[tokio::test]
async fn the_caller_decides_about_each_request() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let answer = sandbox.get("a.test", port, DENIED).await;
    assert!(
        answer.ends_with(&format!("network access refused: GET a.test:{port}/denied was declined\nhint: ask again\n")),
        "{answer}"
    );
    assert_eq!(status(&sandbox.tunnel("a.test", port).await.0), "200");
    assert_eq!(server.accepted(), 0);

    let post =
        request("POST", &format!("http://a.test:{port}/x?y=z"), &format!("a.test:{port}"), "Content-Length: 5\r\n");
    assert_eq!(status(&sandbox.send(post + "hello").await), "200");
    let asked = sandbox.caller.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!((asked.method.as_str(), asked.host.as_str(), asked.port), ("POST", "a.test", port));
    assert_eq!((asked.path.as_str(), asked.query.as_deref(), asked.body_bytes), ("/x", Some("y=z"), Some(5)));
    assert_eq!(asked.scheme, Scheme::Http);
    let outcome = sandbox.caller.until(|caller| {
        let finished = caller.finished.lock().unwrap();
        finished.iter().find(|(attempt, _)| attempt.id == asked.id).map(|(_, outcome)| outcome.clone())
    });
    let Outcome { status, bytes_up, bytes_down, error } = outcome.await;
    assert_eq!((status, bytes_up, error), (Some(200), 5, None));
    assert!(bytes_down > 5);
}

#[tokio::test]
async fn a_refused_head_request_has_no_body() {
    let lab = Lab::new();
    let sandbox = lab.sandbox(&[]);
    let answer = sandbox.send(request("HEAD", "http://a.test/", "a.test", "")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.ends_with("\r\n\r\n"), "{answer}");
    let server = Server::plain(echo).await;
    let open = lab.sandbox(&[format!("HEAD a.test:{}", server.port())]);
    let url = format!("http://a.test:{}/", server.port());
    let answer = open.send(request("HEAD", &url, &format!("a.test:{}", server.port()), "")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn https_addresses_and_paths_are_explained() {
    let lab = Lab::new();
    let sandbox = lab.sandbox(&["*".to_owned()]);
    for target in ["https://a.test/", "/"] {
        let answer = sandbox.send(request("GET", target, "a.test", "")).await;
        assert_eq!(status(&answer), "400");
        assert!(
            answer.contains("hint: send requests with their full http:// address, and https:// by CONNECT"),
            "{answer}"
        );
    }
    let server = Server::plain(echo).await;
    let open = lab.sandbox(&[format!("a.test:{}", server.port())]);
    assert_eq!(status(&open.get("a.test", server.port(), "/").await), "200");
}

#[test]
fn a_wrong_rule_is_named_with_its_place() {
    let error = Rules::parse("network.allow", ["example.org", "https://example.org/"]).unwrap_err();
    assert_eq!(error.to_string(), "network.allow[1]: \"https://example.org/\" is a URL, and rules have no scheme");
    assert!(error.hint().contains("example.org:443"));
}

#[tokio::test]
async fn old_clients_get_their_body_until_the_end() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let answer = sandbox.send(format!("GET http://a.test:{port}/old HTTP/1.0\r\n\r\n")).await;
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("GET /old HTTP/1.1") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_client_that_waits_is_told_to_go_on() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let (open, closed) = (lab.sandbox(&[format!("a.test:{port}")]), lab.sandbox(&[]));
    let fields = "Expect: 100-continue\r\nContent-Length: 5\r\n";
    let post = request("POST", &format!("http://a.test:{port}/"), &format!("a.test:{port}"), fields) + "hello";
    let answer = open.send(&post).await;
    assert!(answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(status(&closed.send(&post).await), "403");
    assert_eq!(server.seen().len(), 1);
}
