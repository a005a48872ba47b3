//! Raw HTTP, for requests that no client would send.

use coracle_testing::wait::PATIENCE;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Headers of every client.
pub(crate) const USUAL: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

/// Request in a revision without sessions.
pub(crate) const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Headers of that request.
pub(crate) const CALL_HEADERS: &str = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n";

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a raw request, and reads until the server closes. Closing early is not an error.
pub(crate) fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = connect(address);
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn get(address: &str, path: &str) -> String {
    exchange(address, format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())
}

/// Sends a POST to `/mcp` with these headers and this body.
pub(crate) fn post(address: &str, headers: &str, body: &str) -> String {
    post_as(address, address, headers, body)
}

/// Sends a POST with this Host.
pub(crate) fn post_as(address: &str, host: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head =
        format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    exchange(address, &[head.as_bytes(), body.as_bytes()].concat())
}

/// Status code of a response; 0 if there is none.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
