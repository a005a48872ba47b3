//! Hostile peers get a clear error, memory does not grow, and other clients are served.

use super::driver::{Up, code, first, resident, steps};
use super::wire::{CALL, CALL_HEADERS, USUAL, connect, exchange, post, post_as, status};
use coracle_testing::harness::Coracle;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

/// Limit for the growth of memory in MiB.
const MARGIN: u64 = 64;

/// Asserts that the server serves, with everything loaded that serving needs.
fn assert_warm(up: &Up) {
    let outcomes = steps(up.server(), "legacy", &[code("6 * 7")]);
    assert_eq!(outcomes[0]["value"]["structuredContent"]["result"], 42);
    assert_served(up);
}

fn assert_served(up: &Up) {
    let answer = post(&up.address, &format!("{USUAL}{CALL_HEADERS}"), CALL);
    assert!(status(&answer) == 200 && answer.contains("execute_code"), "{answer}");
}

#[test]
fn malformed_and_oversized_requests_get_clear_errors() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    assert_warm(&up);
    let before = resident(up.id());
    let address = up.address.as_str();
    let full = format!("{USUAL}{CALL_HEADERS}");
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let deep_params = CALL.replace("\"_meta\"", &format!("\"x\":{}{},\"_meta\"", "[".repeat(5000), "]".repeat(5000)));
    let huge = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(32 << 20));
    let other = "content-type: text/plain\r\naccept: application/json, text/event-stream\r\n";
    let wanting = "content-type: application/json\r\naccept: text/html\r\n";
    let cases: Vec<(&str, String)> = vec![
        ("no JSON", post(address, &full, "{not json")),
        ("an empty body", post(address, &full, "")),
        ("no JSON-RPC", post(address, &full, "[1, 2, 3]")),
        ("no method", post(address, &full, "{\"jsonrpc\":\"2.0\",\"id\":1}")),
        ("another JSON-RPC", post(address, &full, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}")),
        ("deep nesting", post(address, &full, &deep)),
        ("deep parameters", post(address, &full, &deep_params)),
        ("32 MiB", post(address, &full, &huge)),
        (
            "invalid UTF-8",
            exchange(
                address,
                &[
                    format!(
                        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 4\r\n{full}\r\n"
                    )
                    .as_bytes(),
                    &[0xff, 0xfe, 0x00, 0x80],
                ]
                .concat(),
            ),
        ),
        ("another content type", post(address, &format!("{other}{CALL_HEADERS}"), CALL)),
        ("no content type", post(address, CALL_HEADERS, CALL)),
        ("another accepted type", post(address, &format!("{wanting}{CALL_HEADERS}"), CALL)),
        (
            "another method in the header",
            post(address, &format!("{USUAL}mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n"), CALL),
        ),
        (
            "another revision in the header",
            post(address, &format!("{USUAL}mcp-protocol-version: 2025-06-18\r\nmcp-method: tools/list\r\n"), CALL),
        ),
        ("a revision that is none", post(address, &format!("{USUAL}mcp-protocol-version: 1999-01-01\r\n"), CALL)),
        (
            "a session that is none",
            post(
                address,
                &format!("{USUAL}mcp-session-id: nope\r\n"),
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
            ),
        ),
        ("two lengths", post(address, &format!("content-length: 5\r\n{full}"), CALL)),
        ("a length and chunks", post(address, &format!("transfer-encoding: chunked, identity\r\n{full}"), CALL)),
        (
            "a head without end",
            exchange(address, format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).as_bytes()),
        ),
        ("no HTTP", exchange(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")),
        (
            "another method",
            exchange(
                address,
                format!("PUT /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                    .as_bytes(),
            ),
        ),
        (
            "nothing there",
            exchange(address, format!("GET /nope HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes()),
        ),
    ];
    for (what, answer) in &cases {
        let short: String = answer.chars().take(300).collect();
        let refused = (400..500).contains(&status(answer)) || answer.contains("\"error\"");
        println!("{what}: {}", short.lines().next().unwrap_or("closed"));
        assert!(refused, "{what}: {short}");
        assert!(status(answer) != 415 || what.ends_with("content type"), "{what}: {short}");
        assert!(!answer.contains("execute_code"), "{what} was served: {short}");
    }
    assert_served(&up);
    let after = resident(up.id());
    println!("resident before {before} MiB, after {after} MiB");
    assert!(after < before + MARGIN, "{before} MiB, then {after} MiB");
}

#[test]
fn other_hosts_and_origins_are_rejected() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    let address = up.address.as_str();
    let full = format!("{USUAL}{CALL_HEADERS}");
    let port = address.rsplit(':').next().unwrap();
    for host in [format!("evil.example:{port}"), "evil.example".to_owned(), format!("127.0.0.1.evil.example:{port}")] {
        let answer = post_as(address, &host, &full, CALL);
        assert!(status(&answer) == 403 && answer.contains("server.allowed_hosts"), "{host}: {answer}");
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert_eq!(status(&exchange(address, request("/metrics").as_bytes())), 403, "{host}");
        // A probe may use any host, and learns nothing.
        assert_eq!(status(&exchange(address, request("/livez").as_bytes())), 200, "{host}");
    }
    for origin in ["http://evil.example", "null", "http://localhost:1", &format!("https://127.0.0.1:{port}")] {
        let answer = post(address, &format!("origin: {origin}\r\n{full}"), CALL);
        assert!(status(&answer) == 403 && answer.contains("server.allowed_origins"), "{origin}: {answer}");
    }
    // Control: valid hosts and origins.
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        assert_eq!(status(&post_as(address, &host, &format!("origin: http://{host}\r\n{full}"), CALL)), 200, "{host}");
    }
    let other = Coracle::new(first());
    let outside = other.command().args(["up", "--host", "0.0.0.0", "--port", "0"]).output().unwrap();
    assert_eq!(outside.status.code(), Some(2), "{outside:?}");
    assert!(String::from_utf8_lossy(&outside.stderr).contains("coracle users add"), "{outside:?}");
}

#[test]
fn a_thousand_half_open_connections_do_not_block_others() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    assert_warm(&up);
    let before = resident(up.id());
    let mut open = Vec::new();
    for n in 0..1000 {
        let mut stream = connect(&up.address);
        // Some send nothing, some a part of a head, some announce a body.
        let begun = match n % 3 {
            0 => String::new(),
            1 => "POST /mcp HTTP/1.1\r\nhost: local".to_owned(),
            _ => format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: 1000000\r\n{USUAL}\r\n{{", up.address),
        };
        stream.write_all(begun.as_bytes()).unwrap();
        open.push(stream);
    }
    assert_warm(&up);
    let after = resident(up.id());
    println!("1,000 half-open connections: resident {before} MiB before, {after} MiB with them");
    assert!(after < before + MARGIN, "{before} MiB, then {after} MiB");
    // Half-open connections are closed after a while.
    let mut byte = [0; 512];
    let mut slow = open.into_iter().nth(1).unwrap();
    eventually("a head that does not come is given up", || matches!(slow.read(&mut byte), Ok(0)));
}

#[test]
fn a_flood_of_unused_sessions_does_not_evict_others() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let knock = || {
        let answer = post(&up.address, USUAL, hello);
        assert_eq!(status(&answer), 200, "{answer}");
        let head = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        head.trim().to_owned()
    };
    let mine = format!("{USUAL}mcp-session-id: {}\r\n", knock());
    assert_eq!(status(&post(&up.address, &mine, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)), 202);
    for _ in 0..1_000 {
        knock();
    }
    let full = resident(up.id());
    for _ in 0..1_000 {
        knock();
    }
    let after = resident(up.id());
    println!("1,000 clients that only knock: {full} MiB, 2,000: {after} MiB");
    assert!(after < full + MARGIN / 2, "{full} MiB, then {after} MiB");
    let listed = post(&up.address, &mine, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert!(status(&listed) == 200 && listed.contains("execute_code"), "{listed}");
}

#[test]
fn garbage_on_stdin_does_not_end_the_connection() {
    let coracle = Coracle::new(first());
    let mut command = coracle.command();
    command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |line: &[u8]| {
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    };
    let mut until = |id: u64| -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the server ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    ask(hello.to_string().as_bytes());
    assert_eq!(until(1)["result"]["serverInfo"]["name"], "coracle");
    ask(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let list = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }).to_string();
    let run = json!({ "name": "execute_code", "arguments": { "code": "6 * 7" } });
    ask(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": run }).to_string().as_bytes());
    assert_eq!(until(2)["result"]["structuredContent"]["result"], 42);
    let deep = "[".repeat(2_000_000);
    let long = vec![b'x'; 64 << 20];
    let garbage: [&[u8]; 8] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe\x00",
        br#"{"jsonrpc":"2.0","id":{},"method":5}"#,
        deep.as_bytes(),
        &long,
    ];
    let mut all = |from: u64| {
        for (at, line) in (from..).zip(garbage) {
            ask(line);
            ask(list(at).as_bytes());
            assert!(until(at)["result"]["tools"].is_array(), "after line {at}");
        }
    };
    // Buffers have reached their size from here on.
    all(10);
    let before = resident(child.id());
    all(20);
    all(30);
    let after = resident(child.id());
    println!("garbage on standard input: resident {before} MiB before, {after} MiB after");
    assert!(after < before + MARGIN, "{before} MiB, then {after} MiB");
    drop(input);
    assert!(child.wait().unwrap().success());
    super::driver::assert_nothing_left(&coracle);
}
