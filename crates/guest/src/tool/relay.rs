//! Calls the agent from a program that may have been started by anything below a shell. See `relay.py`, the other side.

use coracle_protocol::{CallFailure, MAX_FRAME};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::{Errno, read, write};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The environment variable with the folder of the relay.
const VARIABLE: &str = "CORACLE_DOOR";

const CHUNK: usize = 64 << 10;

/// The host's answer to a call.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    ok: bool,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    error: Option<CallFailure>,
}

impl Answer {
    pub(super) fn into_value(self) -> Result<Value, CallFailure> {
        match self.error {
            None if self.ok => Ok(self.value),
            Some(error) if !self.ok => Err(error),
            _ => Err(CallFailure {
                code: "internal".to_owned(),
                message: "the answer is not valid".to_owned(),
                retryable: false,
            }),
        }
    }
}

/// Calls the host, and waits for the answer.
pub(super) fn call(request: &Value) -> io::Result<Answer> {
    let nobody = || io::Error::other("cannot reach the host: `tool` works only in bash runs");
    let folder = PathBuf::from(std::env::var_os(VARIABLE).ok_or_else(nobody)?);
    let data = request.to_string();
    if data.len() > MAX_FRAME {
        return Err(io::Error::other(format!("the arguments are longer than {MAX_FRAME} bytes")));
    }
    let name = format!("{:x}-{:016x}", std::process::id(), getrandom::u64().map_err(io::Error::other)?);
    let asking = Asking { ask: folder.join(format!("{name}.ask")), answer: folder.join(format!("{name}.answer")) };
    fs::write(&asking.ask, data)?;
    mknodat(CWD, &asking.answer, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // Before the request is announced, because the answer needs a reader.
    let answer = open(&asking.answer, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    ring(&folder.join("bell"), &name).map_err(|error| if is_absence(&error) { nobody() } else { error })?;
    let data = hear(&answer)?;
    if data.is_empty() {
        return Err(io::Error::other("the run ended before there was an answer"));
    }
    serde_json::from_slice(&data).map_err(|error| io::Error::other(format!("the answer cannot be read: {error}")))
}

fn is_absence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

fn ring(bell: &Path, name: &str) -> io::Result<()> {
    let bell = open(bell, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    loop {
        // Such a short message is written completely or not at all.
        match write(&bell, format!("{name}\n").as_bytes()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(&bell, PollFlags::OUT)?,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads everything up to the end, once there is a writer.
fn hear(answer: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        wait(answer, PollFlags::IN)?;
        match read(answer, &mut chunk) {
            Ok(0) => return Ok(data),
            Ok(length) => data.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn wait(fd: &impl AsFd, event: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(fd, event)], None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The files of one request, which are removed on drop.
struct Asking {
    ask: PathBuf,
    answer: PathBuf,
}

impl Drop for Asking {
    fn drop(&mut self) {
        // Usually the agent has already removed them.
        let _ = fs::remove_file(&self.ask);
        let _ = fs::remove_file(&self.answer);
    }
}
