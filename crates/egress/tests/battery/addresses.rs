//! What names lead to.

use coracle_egress::RefusalKind;

use crate::guest::{status, tls};
use crate::lab::Lab;
use crate::server::{Seen, Server, echo, response};

#[tokio::test]
async fn a_refused_name_is_never_looked_up() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    assert_eq!(status(&sandbox.get("c2VjcmV0.evil.test", port, "/").await), "403");
    assert_eq!(status(&sandbox.tunnel("c2VjcmV0.evil.test", port).await.0), "403");
    assert_eq!(sandbox.socks(b"c2VjcmV0.evil.test", port).await.0, 2);
    // What a person declines is not looked up either.
    assert_eq!(status(&sandbox.get("a.test", port, crate::lab::DENIED).await), "403");
    assert_eq!(lab.names.asked(), Vec::<String>::new());

    assert_eq!(status(&sandbox.get("a.test", port, "/").await), "200");
    assert_eq!(lab.names.asked(), ["a.test"]);
}

#[tokio::test]
async fn private_addresses_are_refused_unless_granted() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let port = server.port();
    let rules = [format!("*:{port}")];
    let addresses = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ];
    for address in addresses {
        lab.names.set("a.test", &[&[address]]);
        let sandbox = lab.sandbox_with(&rules, &[], Vec::new());
        let answer = sandbox.get("a.test", port, "/").await;
        assert_eq!(status(&answer), "403", "{address}: {answer}");
        assert!(answer.contains("leads only to addresses that are not public"), "{answer}");
        let (answer, _) = sandbox.tunnel("a.test", port).await;
        assert_eq!(status(&answer), "403", "{address}: {answer}");
        assert_eq!(sandbox.caller.kinds(), [RefusalKind::Address; 2]);
    }
    assert_eq!(server.accepted(), 0);
    lab.names.set("a.test", &[&["127.0.0.1"]]);
    for private in ["127.0.0.0/8", "a.test"] {
        let sandbox = lab.sandbox_with(&rules, &[private], Vec::new());
        assert_eq!(status(&sandbox.get("a.test", port, "/").await), "200", "{private}");
    }
}

#[tokio::test]
async fn a_mapped_address_is_the_address_in_it() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    lab.names.set("a.test", &[&["::ffff:127.0.0.1"]]);
    let rules = [format!("a.test:{}", server.port())];
    let refused = lab.sandbox_with(&rules, &["10.0.0.0/8"], Vec::new());
    assert_eq!(status(&refused.get("a.test", server.port(), "/").await), "403");
    let granted = lab.sandbox_with(&rules, &["127.0.0.0/8"], Vec::new());
    assert_eq!(status(&granted.get("a.test", server.port(), "/").await), "200");
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let lab = Lab::new();
    let server = Server::tls(&lab.trust, "a.test", echo).await;
    let port = server.port();
    // The second look-up would give an address that is allowed nowhere.
    lab.names.set("a.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let sandbox = lab.sandbox(&[format!("a.test:{port}")]);
    let (answer, stream) = sandbox.tunnel("a.test", port).await;
    assert_eq!(status(&answer), "200");
    assert!(tls(lab.trust.client(), "a.test", stream).await.is_ok());
    assert_eq!(lab.names.asked().len(), 1);
    // The next connection looks it up again, and is refused.
    assert_eq!(status(&sandbox.tunnel("a.test", port).await.0), "403");
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Address]);
}

#[tokio::test]
async fn addresses_that_are_not_allowed_are_left_out() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    lab.names.set("a.test", &[&["169.254.169.254", "10.0.0.1", "127.0.0.1"]]);
    let sandbox = lab.sandbox(&[format!("a.test:{}", server.port())]);
    assert_eq!(status(&sandbox.get("a.test", server.port(), "/").await), "200");
}

fn to_metadata(seen: &Seen) -> Vec<Vec<u8>> {
    if seen.line().starts_with("GET /here") {
        return vec![response("200 OK", "", b"arrived")];
    }
    let to = if seen.line().contains("/by-name") { "metadata.test" } else { "169.254.169.254" };
    let to = if seen.line().contains("/allowed") { "a.test" } else { to };
    let port = seen.header("host").and_then(|host| host.split(':').nth(1)).unwrap_or("80");
    vec![response("302 Found", &format!("Location: http://{to}:{port}/here\r\n"), b"")]
}

#[tokio::test]
async fn a_redirect_to_metadata_is_refused_when_it_is_followed() {
    let (lab, server) = (Lab::new(), Server::plain(to_metadata).await);
    let port = server.port();
    lab.names.set("metadata.test", &[&["169.254.169.254"]]);
    let sandbox = lab.sandbox(&[format!("*:{port}")]);
    for (path, expected) in [("/by-address", "403"), ("/by-name", "403"), ("/allowed", "200")] {
        let answer = sandbox.get("a.test", port, path).await;
        assert_eq!(status(&answer), "302", "{answer}");
        let location = answer.lines().find_map(|line| line.strip_prefix("location: http://")).unwrap();
        let host = location.split(':').next().unwrap();
        assert_eq!(status(&sandbox.get(host, port, "/here").await), expected, "{path}");
    }
    assert_eq!(sandbox.caller.kinds(), [RefusalKind::Host, RefusalKind::Address]);
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_an_error_of_the_network() {
    let (lab, server) = (Lab::new(), Server::plain(echo).await);
    let sandbox = lab.sandbox(&[format!("*.test:{}", server.port())]);
    let answer = sandbox.get("missing.test", server.port(), "/").await;
    assert_eq!(status(&answer), "502");
    assert!(answer.contains("network request failed: GET missing.test"), "{answer}");
    assert_eq!(status(&sandbox.get("a.test", server.port(), "/").await), "200");
}
