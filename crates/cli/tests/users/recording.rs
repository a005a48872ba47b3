//! A proxy that records what a server answers to its client.

use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The proxy. It serves until the test ends.
pub(crate) struct Recorder {
    address: SocketAddr,
    /// What was sent on each connection, once it is closed.
    connections: Arc<Mutex<Vec<Option<Bytes>>>>,
}

/// The bytes of one connection.
struct Bytes {
    asked: Vec<u8>,
    answered: Vec<u8>,
}

impl Recorder {
    /// Records what the server at this address answers.
    pub(crate) fn new(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<Mutex<Vec<Option<Bytes>>>>::default();
        let (kept, server) = (Arc::clone(&connections), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(None);
                    kept.len() - 1
                };
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let asking = thread::spawn(move || copy(from, to));
                    let answered = copy(server, client);
                    let bytes = Bytes { asked: asking.join().unwrap(), answered };
                    kept.lock().unwrap()[number] = Some(bytes);
                });
            }
        });
        Self { address, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests and answers, after the client has ended.
    pub(crate) fn answers(&self) -> Vec<Value> {
        eventually("all connections are closed", || self.connections.lock().unwrap().iter().all(Option::is_some));
        self.connections.lock().unwrap().iter().flatten().flat_map(exchanges).collect()
    }
}

/// Copies bytes until one side is closed.
fn copy(mut from: TcpStream, mut to: TcpStream) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), [0; 8192]);
    while let Ok(count @ 1..) = from.read(&mut part) {
        all.extend_from_slice(&part[..count]);
        if to.write_all(&part[..count]).is_err() {
            break;
        }
    }
    // The other side may be closed already.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
    all
}

fn exchanges(bytes: &Bytes) -> Vec<Value> {
    let (mut asked, mut answered) = (bytes.asked.as_slice(), bytes.answered.as_slice());
    let mut all = Vec::new();
    while let (Some(request), Some(answer)) = (message(&mut asked), message(&mut answered)) {
        let word = |head: &str, place: usize| head.split(' ').nth(place).unwrap_or_default().to_owned();
        let kind = header(&answer.0, "content-type").unwrap_or_default();
        all.push(json!({
            "method": word(&request.0, 0), "path": word(&request.0, 1), "status": word(&answer.0, 1).parse::<u16>().ok(),
            "type": kind, "body": String::from_utf8_lossy(&answer.1),
        }));
    }
    all
}

/// The next head and body of a connection.
fn message(bytes: &mut &[u8]) -> Option<(String, Vec<u8>)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut rest = &bytes[end + 4..];
    let mut body = Vec::new();
    if header(&head, "transfer-encoding").is_some() {
        loop {
            let line = rest.windows(2).position(|two| two == b"\r\n");
            let length = line.and_then(|end| {
                let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.trim(), 16).ok()?;
                rest = &rest[end + 2..];
                Some(length)
            });
            // A stream that the client left has no end.
            let Some(length) = length.filter(|length| rest.len() >= length + 2) else { break };
            body.extend_from_slice(&rest[..length]);
            rest = &rest[length + 2..];
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = header(&head, "content-length") {
        let length = length.parse::<usize>().unwrap().min(rest.len());
        body.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    *bytes = rest;
    Some((head, body))
}

fn header(head: &str, name: &str) -> Option<String> {
    let line = |line: &str| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    head.lines().skip(1).find_map(line)
}
