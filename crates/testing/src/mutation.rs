//! Valid frames, and mutations that target the structure of a frame.

use coracle_protocol::{CallFailure, FromGuest, MAX_FRAME, Reply, RunFailure, RunNetwork, ToGuest};
use fastrand::Rng;
use serde_json::{Map, Value};

/// Puts the length of a body before it.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn text(rng: &mut Rng) -> String {
    let length = rng.usize(..24);
    (0..length).map(|_| if rng.u8(..8) == 0 { rng.char(..) } else { rng.alphanumeric() }).collect()
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i64(..).into(),
        3 => (rng.f64() * 1e300).into(),
        4 => text(rng).into(),
        5 => (0..rng.usize(..5)).map(|_| value(rng, depth - 1)).collect(),
        _ => Value::Object(object(rng, depth - 1)),
    }
}

fn object(rng: &mut Rng, depth: usize) -> Map<String, Value> {
    (0..rng.usize(..5)).map(|_| (text(rng), value(rng, depth))).collect()
}

/// A valid frame from a guest.
pub fn from_guest(rng: &mut Rng) -> FromGuest {
    match rng.u8(..4) {
        0 => FromGuest::Ready { protocol: rng.u32(..), runtime: text(rng) },
        1 => FromGuest::Failed { step: text(rng), errno: rng.i32(..) },
        2 => FromGuest::Call { id: rng.u64(..), method: text(rng), params: object(rng, 3) },
        _ => {
            let error = rng.bool().then(|| RunFailure {
                code: text(rng),
                message: text(rng),
                traceback: text(rng),
                hint: rng.bool().then(|| text(rng)),
            });
            FromGuest::Done {
                id: rng.u64(..),
                ok: rng.bool(),
                result: value(rng, 3),
                result_truncated: rng.bool(),
                exit_code: rng.i32(..),
                restarted: rng.bool(),
                error,
            }
        }
    }
}

/// A valid frame from a host.
pub fn to_guest(rng: &mut Rng) -> ToGuest {
    if rng.bool() {
        let language = text(rng);
        let network = rng.bool().then(|| RunNetwork { proxy: text(rng), certificates: rng.bool().then(|| text(rng)) });
        let (id, result_bytes) = (rng.u64(..), rng.u64(..));
        ToGuest::Run { id, language, code: text(rng), vars: object(rng, 3), result_bytes, network }
    } else {
        let error = rng.bool().then(|| CallFailure { code: text(rng), message: text(rng), retryable: rng.bool() });
        ToGuest::Reply(Reply { id: rng.u64(..), ok: rng.bool(), value: value(rng, 3), error })
    }
}

const NASTY: [&[u8]; 16] = [
    b"\xff\xfe\x80",
    b"\xed\xa0\x80",
    b"\"\\ud800\"",
    b"1e999999",
    b"-0",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999999999999999",
    b"0.00000000000000000000000000000000000001e-999",
    b"NaN",
    b"null",
    b"\"type\":\"done\",",
    b"\"id\":1,\"id\":2,",
    b"\x00",
    b"{}[]",
    b"\"\\u0000\"",
    b",,,",
];

/// Mutates the body of a frame in one way.
fn spoil_body(rng: &mut Rng, body: &mut Vec<u8>, other: &[u8]) {
    let at = rng.usize(..=body.len());
    match rng.u8(..9) {
        0 => {
            for _ in 0..=rng.usize(..4) {
                if let Some(byte) = body.get_mut(rng.usize(..=at)) {
                    *byte ^= 1 << rng.u8(..8);
                }
            }
        }
        1 => body.truncate(at),
        2 => drop(body.drain(..at)),
        3 => drop(body.splice(at..at, rng.choice(NASTY).unwrap().iter().copied())),
        // A piece of another frame.
        4 => {
            let (from, to) = (rng.usize(..=other.len()), rng.usize(..=other.len()));
            let piece = other[from.min(to)..from.max(to)].to_vec();
            body.splice(at..at, piece);
        }
        // A piece of the same frame, which duplicates keys.
        5 => {
            let end = rng.usize(at..=body.len());
            let piece = body[at..end].to_vec();
            body.splice(at..at, piece);
        }
        6 => {
            let deep = rng.usize(1..400);
            let open: &[u8] = if rng.bool() { b"[" } else { b"{\"a\":" };
            body.splice(at..at, open.repeat(deep));
        }
        7 => {
            // The fields in another order, or with some missing.
            if let Ok(Value::Object(object)) = serde_json::from_slice(body) {
                let mut fields: Vec<_> = object.into_iter().collect();
                rng.shuffle(&mut fields);
                if rng.bool() {
                    fields.pop();
                }
                let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
                *body = format!("{{{}}}", fields.join(",")).into_bytes();
            }
        }
        _ => body.reverse(),
    }
}

/// Mutates a frame including its length.
pub fn mutated(rng: &mut Rng, frame: &[u8], other: &[u8]) -> Vec<u8> {
    let mut body = frame.get(4..).unwrap_or_default().to_vec();
    for _ in 0..rng.u8(..4) {
        spoil_body(rng, &mut body, other.get(4..).unwrap_or_default());
    }
    let mut bytes = framed(&body);
    match rng.u8(..8) {
        0 => {
            let lie = match rng.u8(..4) {
                0 => 0,
                1 => u32::MAX,
                2 => u32::try_from(MAX_FRAME).unwrap() + rng.u32(..3),
                _ => rng.u32(..4096),
            };
            bytes[..4].copy_from_slice(&lie.to_be_bytes());
        }
        1 => bytes.truncate(rng.usize(..=bytes.len())),
        2 => drop(bytes.drain(..rng.usize(..=bytes.len()))),
        _ => {}
    }
    bytes
}
