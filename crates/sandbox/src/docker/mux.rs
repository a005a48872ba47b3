//! Many byte streams over the standard input and output of a container's agent. `mux.py` of the guest is the other side.
//!
//! A frame is a big-endian header (number of the sandbox, kind, length of the payload) and the payload. A stream may be
//! ahead of its reader by [`WINDOW`] bytes, so no stream waits for another. Trust boundary: what the agent sends is
//! bounded and checked, and an error ends the container.

use super::streams::{Slot, Streams};
use crate::Cause;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};

/// The maximum number of bytes of a stream that its reader has not taken yet.
pub(super) const WINDOW: usize = 256 * 1024;

const HEADER: usize = 9;
/// The maximum length of the agent's standard error that is kept for a message.
const MOST_COMPLAINTS: usize = 4096;

/// Kinds of frames to the agent.
pub(super) const START: u8 = 1;
const OPEN: u8 = 2;
const BYTES: u8 = 3;
const CLOSE: u8 = 4;
const KILL: u8 = 5;
const FORGET: u8 = 6;
const TAKEN: u8 = 7;

/// Kinds of frames from the agent. Data of stream N has the kind `DATA + N`.
const HELLO: u8 = 65;
const DATA: u8 = 66;
const DATA_END: u8 = DATA + 2;
const ENDED: u8 = 69;
const EXITED: u8 = 70;
const CAUSE: u8 = 71;
const ROOM: u8 = 72;
const NAMELESS: u8 = 73;
const FAILED: u8 = 74;

/// The agent's first frame.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(super) struct Hello {
    pub(super) version: [u32; 3],
    /// Bit N is set if the N-th module could not be imported in advance.
    pub(super) failed: u64,
    /// Whether the container keeps several sandboxes apart, and otherwise why not.
    pub(super) apart: bool,
    pub(super) why: String,
    /// The inode of the workspace as the agent sees it.
    pub(super) workspace: u64,
}

#[derive(serde::Deserialize)]
struct Failed {
    reason: String,
}

#[derive(serde::Deserialize)]
struct Exited {
    status: i32,
}

#[derive(serde::Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
enum Told {
    Memory { used: u64 },
    Processes,
}

#[derive(serde::Deserialize)]
struct Nameless {
    bytes: u64,
}

/// Why the agent cannot be talked to any more.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("a frame of {0} bytes")]
    Length(usize),
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    #[error("a malformed frame: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("more than the {WINDOW} bytes that it may send")]
    Window,
    #[error("a frame that is too short")]
    Short,
}

/// The state of the connection: not yet, ready, or lost with a reason.
pub(super) type State = Option<Result<Hello, String>>;

/// The connection to the agent of one container.
#[derive(Debug)]
pub(super) struct Mux {
    out: mpsc::UnboundedSender<Bytes>,
    slots: Mutex<HashMap<u32, Arc<Slot>>>,
    next: AtomicU32,
    state: watch::Sender<State>,
    complaints: Mutex<String>,
}

impl Mux {
    /// Creates a connection. What is to be sent comes out of the receiver.
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Bytes>) {
        let (out, sent) = mpsc::unbounded_channel();
        let (slots, complaints) = (Mutex::default(), Mutex::default());
        let mux = Self { out, slots, next: AtomicU32::new(1), state: watch::Sender::new(None), complaints };
        (Arc::new(mux), sent)
    }

    /// Waits until the agent is ready or gone.
    pub(super) async fn hello(&self) -> Result<Hello, String> {
        let mut state = self.state.subscribe();
        match state.wait_for(Option::is_some).await {
            Ok(state) => state.clone().unwrap_or_else(|| Err("it is not ready".to_owned())),
            Err(_) => Err("it is gone".to_owned()),
        }
    }

    /// Whether the agent is gone.
    pub(super) fn is_lost(&self) -> bool {
        matches!(*self.state.borrow(), Some(Err(_)))
    }

    /// Sends a frame of JSON.
    pub(super) fn tell(&self, slot: u32, kind: u8, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.send(slot, kind, &serde_json::to_vec(value)?);
        Ok(())
    }

    fn send(&self, slot: u32, kind: u8, payload: &[u8]) {
        let mut frame = BytesMut::with_capacity(HEADER + payload.len());
        frame.put_u32(slot);
        frame.put_u8(kind);
        frame.put_u32(payload.len() as u32);
        frame.put_slice(payload);
        // If the agent is gone, every stream has ended already.
        let _ = self.out.send(frame.freeze());
    }

    /// The number of the next sandbox.
    pub(super) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks for a sandbox.
    pub(super) fn open(self: &Arc<Self>, number: u32, limits: &impl Serialize) -> Result<Streams, serde_json::Error> {
        let slot = Arc::new(Slot::new());
        self.slots().insert(number, Arc::clone(&slot));
        self.tell(number, OPEN, limits)?;
        // Between the two, the agent may have been lost.
        if let Some(Err(reason)) = &*self.state.borrow() {
            slot.lose(reason);
        }
        Ok(Streams::new(Arc::clone(self), number, slot))
    }

    /// Sends bytes to the guest. The caller keeps to the window.
    pub(super) fn bytes(&self, slot: u32, bytes: &[u8]) {
        self.send(slot, BYTES, bytes);
    }

    /// Closes the stream to the guest.
    pub(super) fn close(&self, slot: u32) {
        self.send(slot, CLOSE, &[]);
    }

    pub(super) fn kill(&self, slot: u32) {
        self.send(slot, KILL, &[]);
    }

    /// Kills a sandbox whose streams no one reads any more.
    pub(super) fn forget(&self, slot: u32) {
        self.send(slot, FORGET, &[]);
    }

    /// Lets the agent send more of a stream.
    pub(super) fn taken(&self, slot: u32, stream: u8, count: u32) {
        let mut payload = [stream, 0, 0, 0, 0];
        payload[1..].copy_from_slice(&count.to_be_bytes());
        self.send(slot, TAKEN, &payload);
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u32, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the agent's standard error, of which the end is part of messages.
    pub(super) fn complain(&self, bytes: &[u8]) {
        let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.push_str(&String::from_utf8_lossy(bytes));
        if complaints.len() > MOST_COMPLAINTS {
            let last: String =
                complaints.lines().last().unwrap_or_default().chars().take(MOST_COMPLAINTS / 4).collect();
            *complaints = last;
        }
    }

    fn last_complaint(&self) -> Option<String> {
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }

    /// The agent is gone. Ends all sandboxes. Only the first reason counts.
    pub(super) fn lose(&self, reason: &str) {
        let reason = match self.last_complaint() {
            Some(complaint) => format!("{reason}: {complaint}"),
            None => reason.to_owned(),
        };
        self.state.send_if_modified(|state| {
            let first = !matches!(state, Some(Err(_)));
            if first {
                *state = Some(Err(reason.clone()));
            }
            first
        });
        for slot in self.slots().drain().map(|(_, slot)| slot) {
            slot.lose(&reason);
        }
    }

    /// Handles what the agent has sent. `buffer` keeps what is not complete. If that is invalid, the agent is lost.
    pub(super) fn hear(&self, buffer: &mut BytesMut, bytes: &[u8]) {
        buffer.extend_from_slice(bytes);
        loop {
            match take_frame(buffer).and_then(|frame| frame.map(|frame| self.handle(frame)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => return,
                Err(error) => {
                    self.lose(&format!("the agent of the container sent {error}"));
                    buffer.clear();
                    return;
                }
            }
        }
    }

    fn handle(&self, (number, kind, payload): (u32, u8, Bytes)) -> Result<(), Broken> {
        if kind == HELLO {
            let hello = parse(&payload)?;
            self.state.send_if_modified(|state| {
                let first = state.is_none();
                if first {
                    *state = Some(Ok(hello));
                }
                first
            });
            return Ok(());
        }
        if kind == FAILED && number == 0 {
            let Failed { reason } = parse(&payload)?;
            self.lose(&reason);
            return Ok(());
        }
        // One that was forgotten meanwhile.
        let Some(slot) = self.slots().get(&number).cloned() else { return Ok(()) };
        match kind {
            DATA..=DATA_END => {
                if !slot.push(usize::from(kind - DATA), payload) {
                    return Err(Broken::Window);
                }
            }
            ENDED => slot.end(usize::from(*payload.first().ok_or(Broken::Short)?)),
            ROOM => slot.add_room((&payload[..]).try_get_u32().map_err(|_| Broken::Short)? as usize),
            CAUSE => slot.note(match parse::<Told>(&payload)? {
                Told::Memory { used } => Cause::Memory { used: Some(used) },
                Told::Processes => Cause::Processes,
            }),
            NAMELESS => slot.set_nameless(parse::<Nameless>(&payload)?.bytes),
            EXITED => slot.exit(parse::<Exited>(&payload)?.status),
            FAILED => {
                slot.fail(&parse::<Failed>(&payload)?.reason);
                self.slots().remove(&number);
            }
            other => return Err(Broken::Kind(other)),
        }
        if slot.is_over() {
            self.slots().remove(&number);
        }
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Broken> {
    Ok(serde_json::from_slice(payload)?)
}

/// Takes the next frame, if it is complete.
fn take_frame(buffer: &mut BytesMut) -> Result<Option<(u32, u8, Bytes)>, Broken> {
    let Some(mut header) = buffer.get(..HEADER) else { return Ok(None) };
    let (number, kind, length) = (header.get_u32(), header.get_u8(), header.get_u32() as usize);
    if length > WINDOW {
        return Err(Broken::Length(length));
    }
    if buffer.len() < HEADER + length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    Ok(Some((number, kind, buffer.split_to(length).freeze())))
}

#[cfg(test)]
mod tests {
    use super::{DATA, ENDED, EXITED, HELLO, Mux, WINDOW};
    use crate::Cause;
    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    fn frame(number: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.put_u32(number);
        frame.put_u8(kind);
        frame.put_u32(payload.len() as u32);
        frame.put_slice(payload);
        frame
    }

    const READY: &[u8] = br#"{"version":[3,11,2],"failed":0,"apart":true,"why":"","workspace":7}"#;

    #[tokio::test]
    async fn frames_may_arrive_byte_by_byte() {
        let (mux, _sent) = Mux::new();
        let mut buffer = BytesMut::new();
        for byte in frame(0, HELLO, READY) {
            mux.hear(&mut buffer, &[byte]);
        }
        assert_eq!(mux.hello().await.unwrap().version, [3, 11, 2]);
        let number = mux.number();
        let mut streams = mux.open(number, &()).unwrap();
        for bytes in [frame(number, DATA + 1, b"words"), frame(number, ENDED, &[1]), frame(99, DATA, b"of no one")] {
            mux.hear(&mut buffer, &bytes);
        }
        let mut text = String::new();
        streams.stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "words");
        mux.hear(&mut buffer, &frame(number, EXITED, br#"{"status":9}"#));
        assert_eq!(streams.life.exited().await.status, 9);
        assert!(!mux.is_lost());
    }

    #[tokio::test]
    async fn what_is_invalid_ends_all_sandboxes_and_not_this_process() {
        let too_long = [&[0, 0, 0, 1, DATA][..], &u32::MAX.to_be_bytes()].concat();
        let flood: Vec<u8> = (0..3).flat_map(|_| frame(1, DATA, &vec![b'x'; WINDOW / 2])).collect();
        for bytes in [too_long, flood, frame(1, 200, b""), frame(1, ENDED, b""), frame(1, EXITED, b"no JSON")] {
            let (mux, _sent) = Mux::new();
            let streams = mux.open(mux.number(), &()).unwrap();
            mux.hear(&mut BytesMut::new(), &bytes);
            assert!(mux.is_lost());
            let exited = streams.life.exited().await;
            assert!(matches!(exited.causes.as_slice(), [Cause::Lost(_)]), "{exited:?}");
        }
        // Control: as much as the window allows.
        let (mux, _sent) = Mux::new();
        let _streams = mux.open(mux.number(), &()).unwrap();
        for _ in 0..2 {
            mux.hear(&mut BytesMut::new(), &frame(1, DATA, &vec![b'x'; WINDOW / 2]));
        }
        assert!(!mux.is_lost());
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(pieces: Vec<Vec<u8>>, number in 0_u32..3, kind in 60_u8..80, payload: Vec<u8>) {
            let (mux, _sent) = Mux::new();
            let _streams = mux.open(mux.number(), &()).unwrap();
            let mut buffer = BytesMut::new();
            mux.hear(&mut buffer, &frame(number, kind, &payload));
            for piece in pieces {
                mux.hear(&mut buffer, &piece);
            }
        }
    }
}
