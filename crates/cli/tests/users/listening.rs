//! Addresses and parts of `coracle up`.

use crate::site::{Client, Site};
use coracle_testing::harness::{As, Coracle};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Addresses that a server has printed.
fn addresses(site: &Site) -> Vec<String> {
    let said = site.said_until("  try ");
    let first = site.address().to_owned();
    let also = said.lines().filter_map(|line| line.trim_start().strip_prefix("also      http://")).map(str::to_owned);
    std::iter::once(first).chain(also).collect()
}

fn status(address: &str, path: &str) -> u16 {
    Client::new(address, "").get(path).status
}

#[test]
fn several_addresses_are_served() {
    let by_flags = |command: &mut Command| {
        command.args(["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"]);
    };
    let one = "server:\n  listen: 127.0.0.1:0\n";
    let list = "server:\n  listen: ['127.0.0.1:0', '127.0.0.2:0', '0']\n";
    for (site, expected) in [
        (Site::start_with(As::current(), "", by_flags), 2),
        (Site::start_with(As::current(), one, |_| {}), 1),
        (Site::start_with(As::current(), list, |_| {}), 3),
    ] {
        let addresses = addresses(&site);
        assert_eq!(addresses.len(), expected, "{addresses:?}");
        for address in &addresses {
            // Only the names of the loopback interface are accepted as hosts.
            let expected = if address.starts_with("127.0.0.1") { 200 } else { 403 };
            assert_eq!(status(address, "/api/executions"), expected, "{address}");
            assert_eq!(status(address, "/health"), 200, "{address}");
        }
    }
}

#[test]
fn flags_for_one_address_replace_a_list() {
    let list = "server:\n  listen: ['127.0.0.1:0', '127.0.0.2:0']\n";
    let site = Site::start_with(As::current(), list, |command| {
        command.args(["--port", "0"]);
    });
    assert_eq!(addresses(&site).len(), 1);
}

#[test]
fn nothing_is_served_if_an_address_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    // Found by binding and releasing it.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let coracle = Coracle::new(As::current());
    let up = |addresses: &[&str]| {
        let mut command = coracle.command();
        command.arg("up").stdin(Stdio::null());
        for address in addresses {
            command.args(["--listen", address]);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = up(&[&free, &taken]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(&format!("cannot listen on {taken}")) && !said.contains("serves"), "{said}");
    let (code, said) = up(&["127.0.0.1:0", "example.com:80"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("server.listen: \"example.com:80\" is not an IP address"), "{said}");
    let (code, said) = up(&["127.0.0.1:0", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("0.0.0.0 is reachable from other machines, but there are no users"), "{said}");
}

#[test]
fn only_the_chosen_parts_are_served() {
    for (part, served) in [("mcp", "/mcp"), ("api", "/api/executions"), ("page", "/sign-in")] {
        let site = Site::start_with(As::current(), "", |command| {
            command.args(["--port", "0", "--only", part]);
        });
        for path in ["/mcp", "/api/executions", "/sign-in"] {
            assert_eq!(status(site.address(), path) != 404, path == served, "{path} with --only {part}");
        }
        assert_eq!(status(site.address(), "/metrics"), 200);
    }
    let coracle = Coracle::new(As::current());
    let wrong = coracle.command().args(["up", "--only", "pages"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("use mcp, api or page"));
}

#[test]
fn wrong_origins_are_reported_at_the_start() {
    let coracle = Coracle::new(As::current());
    let mut command = coracle.command();
    let wrong = command.args(["up", "--port", "0"]).env("CORACLE_SERVER_CORS_ORIGINS", "app.example").output().unwrap();
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("server.cors_origins: \"app.example\" is not an origin"), "{said}");
}
