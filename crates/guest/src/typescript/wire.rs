//! Frames between this process and the agent that started it, over the socket that is standard input.
//!
//! The format is the same as between guest and host: a 32-bit big-endian length and a JSON object. Nothing here blocks
//! unless requested, so that neither side can block the other.

use super::fetch::Network;
use coracle_protocol::{CallFailure, MAX_FRAME, RunFailure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const HEADER: usize = 4;
const CHUNK: usize = 64 << 10;

/// A message of the agent.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming {
    /// `run` or `reply`.
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) code: String,
    #[serde(default)]
    pub(super) vars: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    pub(super) result_bytes: usize,
    /// The session's working directory.
    #[serde(default)]
    pub(super) directory: String,
    /// The network of a run, if there is one.
    #[serde(default)]
    pub(super) network: Option<Network>,
    #[serde(default)]
    pub(super) ok: bool,
    #[serde(default)]
    pub(super) value: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) error: Option<CallFailure>,
}

/// A message of this process.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Outgoing {
    Call {
        id: u64,
        method: String,
        params: Value,
    },
    Done {
        ok: bool,
        exit_code: i32,
        #[serde(skip_serializing_if = "Value::is_null")]
        result: Value,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        result_truncated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RunFailure>,
    },
}

/// This end of the socket.
#[derive(Debug, Default)]
pub(super) struct Wire {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Frames that arrived while waiting for another.
    kept: VecDeque<Incoming>,
}

/// The ID of calls that are made without the scripts of the runtime, whose IDs count from one.
const OWN_ID: u64 = 1 << 52;

impl Wire {
    /// Calls the host and waits for the answer. Other frames are kept.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> io::Result<Option<Box<RawValue>>> {
        self.send(&Outgoing::Call { id: OWN_ID, method: method.to_owned(), params })?;
        let mut others = VecDeque::new();
        let answer = loop {
            match self.next()? {
                Some(frame) if frame.r#type == "reply" && frame.id == OWN_ID => break frame,
                Some(frame) => others.push_back(frame),
                None => self.wait(None, None)?,
            }
        };
        self.kept = others;
        Ok(answer.value.filter(|_| answer.ok))
    }

    /// Sends a frame, or as much of it as possible without blocking; `flush` and `wait` send the rest.
    pub(super) fn send(&mut self, frame: &Outgoing) -> io::Result<()> {
        let payload = serde_json::to_vec(frame)?;
        if payload.len() > MAX_FRAME {
            return Err(io::Error::other(format!("the message has {} bytes, which is too long", payload.len())));
        }
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        self.outgoing.extend_from_slice(&length.to_be_bytes());
        self.outgoing.extend_from_slice(&payload);
        self.push()
    }

    /// Sends everything.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            self.wait(None, None)?;
        }
        Ok(())
    }

    /// Waits until there is something to read here or from `other`, for at most this time. Sends pending data meanwhile.
    pub(super) fn wait(&mut self, most: Option<Duration>, other: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if !self.kept.is_empty() {
            return Ok(());
        }
        let socket = io::stdin();
        let wanted = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let own = PollFd::from_borrowed_fd(socket.as_fd(), wanted);
        let other = other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = [own].into_iter().chain(other).collect();
        let timeout = most.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = polled.first().map_or(PollFlags::empty(), PollFd::revents);
        if found.contains(PollFlags::OUT) {
            self.push()?;
        }
        if found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.pull()?;
        }
        Ok(())
    }

    /// The next frame that has already arrived.
    pub(super) fn next(&mut self) -> io::Result<Option<Incoming>> {
        if let Some(frame) = self.kept.pop_front() {
            return Ok(Some(frame));
        }
        let Some(header) = self.incoming.first_chunk::<HEADER>() else { return Ok(None) };
        let length = u32::from_be_bytes(*header) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        let Some(payload) = self.incoming.get(HEADER..HEADER + length) else { return Ok(None) };
        let frame = serde_json::from_slice(payload)?;
        self.incoming.drain(..HEADER + length);
        Ok(Some(frame))
    }

    fn push(&mut self) -> io::Result<()> {
        let socket = io::stdin();
        let mut sent = 0;
        while let Some(rest) = self.outgoing.get(sent..).filter(|rest| !rest.is_empty()) {
            match send(socket.as_fd(), rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(length) => sent += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.outgoing.drain(..sent);
        Ok(())
    }

    fn pull(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        match recv(io::stdin().as_fd(), &mut chunk[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((length, _)) => {
                self.incoming.extend_from_slice(chunk.get(..length).unwrap_or_default());
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
