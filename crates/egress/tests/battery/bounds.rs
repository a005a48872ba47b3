//! Limits, and which sandbox a connection is from.

use std::sync::Arc;
use std::time::Duration;

use coracle_egress::{Limits, RefusalKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::guest::{head, request, status, talk};
use crate::lab::{Lab, Sandbox, UNDECIDED};
use crate::server::{Seen, Server, echo, response};

const SHORT: Duration = Duration::from_millis(300);

/// A listener that only one sandbox can reach.
async fn listen(sandbox: &Sandbox) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, gate) = (listener.local_addr().unwrap(), sandbox.gate.clone());
    tokio::spawn(async move { gate.listen(listener).await });
    address
}

fn get(host: &str, port: u16, path: &str) -> String {
    request("GET", &format!("http://{host}:{port}{path}"), &format!("{host}:{port}"), "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_are_served_a_few_at_a_time() {
    // More than places, and fewer than the descriptors that a process usually may have.
    const AT_ONCE: usize = 300;
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let sandbox = lab.sandbox(&[format!("a.test:{}", server.port())]);
    let proxy = listen(&sandbox).await;
    let (sent, turns) = (get("a.test", server.port(), "/"), Arc::new(Semaphore::new(AT_ONCE)));
    let mut guests = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (sent, turns) = (sent.clone(), Arc::clone(&turns));
        guests.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let mut stream = TcpStream::connect(proxy).await.unwrap();
            status(&talk(&mut stream, sent).await).to_owned()
        });
    }
    let answers = guests.join_all().await;
    assert_eq!(answers.iter().filter(|status| *status == "200").count(), 1000);
    let most = *sandbox.caller.most.lock().unwrap();
    assert!((1..=64).contains(&most), "{most} at the same time");
}

#[tokio::test]
async fn idle_connections_make_way() {
    let lab = Lab::with(Limits { connections_per_sandbox: 3, ..Limits::default() });
    let server = Server::plain(echo).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let lasting = get("a.test", port, "/").replace("Connection: close\r\n", "");
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = sandbox.dial();
        stream.write_all(lasting.as_bytes()).await.unwrap();
        let answer = head(&mut stream).await;
        assert!(status(&answer) == "200" && !answer.contains("connection: close"), "{answer}");
        idle.push(stream);
    }
    let mut busy = sandbox.dial();
    busy.write_all(get("a.test", port, UNDECIDED).as_bytes()).await.unwrap();
    sandbox.caller.until(|caller| (caller.asked.lock().unwrap().len() == 3).then_some(())).await;
    // No place is left, and yet the next one does not wait for the idle time.
    assert_eq!(status(&sandbox.get("a.test", port, "/").await), "200");
}

#[tokio::test]
async fn one_user_gets_a_quarter_of_all_connections() {
    let mut lab = Lab::with(Limits { connections: 8, wait: Duration::from_secs(1), ..Limits::default() });
    let server = Server::plain(echo).await;
    let port = server.port();
    let rules = [format!("a.test:{port}")];
    let (one, two) = (lab.sandbox(&rules), lab.sandbox(&rules));
    let mut held = Vec::new();
    for sandbox in [&one, &two] {
        let mut stream = sandbox.dial();
        stream.write_all(get("a.test", port, UNDECIDED).as_bytes()).await.unwrap();
        sandbox.caller.until(|caller| (!caller.asked.lock().unwrap().is_empty()).then_some(())).await;
        held.push(stream);
    }
    let answer = one.get("a.test", port, "/").await;
    assert_eq!(status(&answer), "503", "{answer}");
    assert_eq!(one.caller.kinds(), [RefusalKind::Limit]);
    lab.share = lab.proxy.share();
    assert_eq!(status(&lab.sandbox(&rules).get("a.test", port, "/").await), "200");
    one.cancel.cancel();
    // The place of a connection that ends is free again.
    assert_eq!(status(&two.get("a.test", port, "/").await), "200");
}

#[tokio::test]
async fn heads_are_bounded() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let with = |fields: &str| request("GET", &format!("http://a.test:{port}/"), &format!("a.test:{port}"), fields);
    for fields in [format!("X: {}\r\n", "y".repeat(40_000)), "X: y\r\n".repeat(101)] {
        assert_eq!(status(&sandbox.send(with(&fields)).await), "400");
    }
    // Without an end, too.
    assert_eq!(status(&sandbox.send("GET ".to_owned() + &"a".repeat(40_000)).await), "400");
    assert_eq!(server.accepted(), 0);
    for fields in [format!("X: {}\r\n", "y".repeat(20_000)), "X: y\r\n".repeat(90)] {
        assert_eq!(status(&sandbox.send(with(&fields)).await), "200");
    }
}

fn slow(seen: &Seen) -> Vec<Vec<u8>> {
    match seen.line().split(' ').nth(1) {
        Some("/never") => Vec::new(),
        Some("/half") => vec![b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec()],
        Some("/large") => vec![response("200 OK", "", &vec![b'x'; 4 << 20])],
        _ => vec![response("200 OK", "", b"in time")],
    }
}

#[tokio::test]
async fn slow_servers_are_given_up() {
    let lab = Lab::with(Limits { idle_time: SHORT, ..Limits::default() });
    let server = Server::plain(slow).await;
    let sandbox = lab.sandbox(&[format!("a.test:{}", server.port())]);
    let answer = sandbox.get("a.test", server.port(), "/never").await;
    assert_eq!(status(&answer), "502");
    assert!(answer.contains("got no response in time"), "{answer}");
    let answer = sandbox.get("a.test", server.port(), "/half").await;
    assert!(answer.contains("content-length: 10") && answer.ends_with("half"), "{answer}");
    let outcomes: Vec<_> = sandbox.caller.finished.lock().unwrap().iter().map(|(_, outcome)| outcome.clone()).collect();
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[1].error.as_deref(), Some("the host stopped sending the response"));
    assert_eq!((outcomes[1].status, outcomes[1].bytes_down), (Some(200), 4));
    assert!(sandbox.get("a.test", server.port(), "/").await.ends_with("in time"));
}

#[tokio::test]
async fn slow_guests_are_given_up() {
    let lab = Lab::with(Limits { idle_time: SHORT, head_time: SHORT, ..Limits::default() });
    let server = Server::plain(slow).await;
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    // A head that does not end, a body that does not end, a SOCKS and a TLS handshake that do not go on.
    assert_eq!(status(&sandbox.send("GET http://a.test/ HTTP/1.1\r\nHost:").await), "503");
    let fields = "Content-Length: 10\r\n";
    let post = request("POST", &format!("http://a.test:{port}/never"), &format!("a.test:{port}"), fields);
    // The host gives no answer either, and may be given up first.
    let answer = sandbox.send(post + "half").await;
    assert!(["400", "502"].contains(&status(&answer)), "{answer}");
    assert_eq!(sandbox.send([5u8, 1]).await, "");
    let (_, mut stream) = sandbox.tunnel("a.test", port).await;
    talk(&mut stream, [0x16u8, 3, 1]).await;
    // Without a byte at all.
    assert_eq!(sandbox.send("").await, "");
    // A guest that takes nothing.
    let mut stream = sandbox.dial();
    stream.write_all(get("a.test", port, "/large").as_bytes()).await.unwrap();
    let error = sandbox.caller.until(|caller| {
        let finished = caller.finished.lock().unwrap();
        finished.iter().find(|(attempt, _)| attempt.path == "/large").map(|(_, outcome)| outcome.error.clone())
    });
    assert!(error.await.unwrap().contains("the sandbox does not take the response"));

    let answer = sandbox.get("a.test", port, "/large").await;
    assert!(answer.len() > 4 << 20, "{}", answer.len());
}

#[tokio::test]
async fn everything_ends_with_the_sandbox() {
    let (lab, server) = (Lab::new(), Server::plain(slow).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let proxy = listen(&sandbox).await;
    let mut waiting = TcpStream::connect(proxy).await.unwrap();
    waiting.write_all(get("a.test", port, "/never").as_bytes()).await.unwrap();
    let mut undecided = sandbox.dial();
    undecided.write_all(get("a.test", port, UNDECIDED).as_bytes()).await.unwrap();
    sandbox.caller.until(|caller| (caller.asked.lock().unwrap().len() == 2).then_some(())).await;
    sandbox.cancel.cancel();
    assert_eq!(waiting.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(undecided.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(sandbox.caller.first_outcome().await.error.as_deref(), Some("cancelled"));
    // Only what was allowed is finished.
    assert_eq!(sandbox.caller.finished.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_sandbox_is_known_by_its_listener() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let (one, other) = (lab.sandbox(&[format!("a.test:{port}")]), lab.sandbox(&[format!("b.test:{port}")]));
    let (for_one, for_other) = (listen(&one).await, listen(&other).await);
    for (proxy, host, expected) in
        [(for_one, "a.test", "200"), (for_one, "b.test", "403"), (for_other, "b.test", "200")]
    {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        // Whatever it says about itself.
        let fields = format!("X-Forwarded-For: {for_other}\r\nProxy-Authorization: Basic b3RoZXI=\r\n");
        let sent = request("GET", &format!("http://{host}:{port}/"), &format!("{host}:{port}"), &fields);
        assert_eq!(status(&talk(&mut stream, sent).await), expected, "{host}");
    }
}

#[tokio::test]
async fn one_sandbox_does_not_reach_the_proxy_of_another() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let other = lab.sandbox(&[format!("b.test:{}", server.port())]);
    let proxy = listen(&other).await;
    let rules = [format!("*:{}", proxy.port())];
    let closed = lab.sandbox_with(&rules, &[], Vec::new());
    assert_eq!(status(&closed.get("a.test", proxy.port(), "/").await), "403");
    assert_eq!(closed.caller.kinds(), [RefusalKind::Address]);
    // Where loopback is granted, the other proxy answers: it gets a request that is not for a proxy.
    let open = lab.sandbox(&rules);
    assert_eq!(status(&open.get("a.test", proxy.port(), "/").await), "400");
    assert_eq!(other.caller.kinds(), [RefusalKind::Protocol]);
}
