//! A backend in memory. Each sandbox is a task in which a script plays the guest.

use async_trait::async_trait;
use coracle_protocol::{FrameBuffer, ToGuest, read_frame};
use coracle_sandbox::{Backend, Cause, Control, Exit, Sandbox, SandboxError, Spec};
use coracle_types::{Enforced, Mechanism};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Capacity of a stream, the same as that of a pipe.
const STREAM_BYTES: usize = 64 << 10;

/// Exit status of a sandbox that was killed.
const KILLED: i32 = 137;

/// Plays a guest, and returns the exit status of its process.
pub(crate) type Script = Box<dyn FnOnce(Guest) -> Pin<Box<dyn Future<Output = i32> + Send>> + Send>;

/// Creates a script from an async closure.
pub(crate) fn script<F, T>(play: F) -> Script
where
    F: FnOnce(Guest) -> T + Send + 'static,
    T: Future<Output = i32> + Send + 'static,
{
    Box::new(move |guest| Box::pin(play(guest)))
}

/// The guest's ends of a sandbox's streams.
pub(crate) struct Guest {
    pub(crate) channel: DuplexStream,
    pub(crate) stdout: DuplexStream,
    pub(crate) stderr: DuplexStream,
    buffer: FrameBuffer,
}

impl Guest {
    /// Returns the next frame of the host. If there is none, waits to be killed, like a real guest.
    pub(crate) async fn hear(&mut self) -> ToGuest {
        match read_frame(&mut self.channel, &mut self.buffer).await {
            Ok(Some(frame)) => frame,
            _ => std::future::pending().await,
        }
    }

    /// Waits until the host has begun to write a frame, and leaves the rest of the frame in the channel.
    pub(crate) async fn hear_beginning(&mut self) {
        let mut byte = [0];
        match self.channel.read_exact(&mut byte).await {
            Ok(_) => self.buffer.push(&byte),
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits for the host to request a run, and returns the id of the run.
    pub(crate) async fn run(&mut self) -> u64 {
        match self.hear().await {
            ToGuest::Run { id, .. } => id,
            ToGuest::Reply(reply) => panic!("a reply where a run was due: {reply:?}"),
        }
    }

    /// Sends a frame. Ignores errors, because the host may have closed the channel.
    pub(crate) async fn say(&mut self, frame: Value) {
        self.say_text(frame.to_string().as_bytes()).await;
    }

    /// Sends a body as a frame with the right length.
    pub(crate) async fn say_text(&mut self, body: &[u8]) {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        self.raw(&bytes).await;
    }

    /// Sends bytes that need not be a valid frame.
    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        let _ = self.channel.write_all(bytes).await;
    }

    /// Writes to standard output.
    pub(crate) async fn print(&mut self, text: &[u8]) {
        let _ = self.stdout.write_all(text).await;
    }

    /// Reads and discards everything that the host sends.
    pub(crate) async fn ignore(&mut self) {
        let mut bytes = vec![0; 4096];
        while self.channel.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
    }

    /// Runs until it is killed.
    pub(crate) async fn live_on(self) -> i32 {
        std::future::pending().await
    }
}

pub(crate) fn done(id: u64) -> Value {
    json!({ "type": "done", "id": id, "ok": true, "result": "fine", "exit_code": 0 })
}

pub(crate) fn call(id: u64, method: &str) -> Value {
    json!({ "type": "call", "id": id, "method": method, "params": { "n": id } })
}

/// Plays a correct guest, which answers every run.
pub(crate) async fn well_behaved(mut guest: Guest) -> i32 {
    loop {
        let id = guest.run().await;
        guest.print(b"hello\n").await;
        guest.say(done(id)).await;
    }
}

/// State of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    kill: CancellationToken,
    ended: watch::Receiver<Option<i32>>,
}

impl Life {
    pub(crate) fn was_killed(&self) -> bool {
        self.kill.is_cancelled()
    }

    pub(crate) async fn status(&self) -> i32 {
        self.ended.clone().wait_for(Option::is_some).await.unwrap().unwrap()
    }
}

/// A backend whose sandboxes play the scripts in the given order. Further sandboxes are well-behaved.
pub(crate) struct FakeBackend {
    folder: TempDir,
    scripts: Mutex<VecDeque<Script>>,
    lives: Mutex<Vec<Life>>,
}

impl fmt::Debug for FakeBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeBackend").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl FakeBackend {
    pub(crate) fn new(scripts: Vec<Script>) -> Arc<Self> {
        let (scripts, lives) = (Mutex::new(scripts.into()), Mutex::default());
        Arc::new(Self { folder: TempDir::new().unwrap(), scripts, lives })
    }

    /// Returns the folder for artifacts of the sandbox with this number, from 1.
    pub(crate) fn artifacts(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    /// Returns all sandboxes that were opened.
    pub(crate) fn lives(&self) -> Vec<Life> {
        self.lives.lock().unwrap().clone()
    }
}

#[async_trait]
impl Backend for FakeBackend {
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
        if !spec.workspace.is_dir() {
            return Err(SandboxError::Workspace { path: spec.workspace, reason: "is not a folder".to_owned() });
        }
        let play = self.scripts.lock().unwrap().pop_front().unwrap_or_else(|| script(well_behaved));
        let kill = CancellationToken::new();
        let (ending, ended) = watch::channel(None);
        let life = Life { kill: kill.clone(), ended };
        let number = {
            let mut lives = self.lives.lock().unwrap();
            lives.push(life.clone());
            lives.len()
        };
        let artifacts = self.artifacts(number);
        std::fs::create_dir(&artifacts).unwrap();
        let (channel, guest_channel) = duplex(STREAM_BYTES);
        let (stdout, guest_stdout) = duplex(STREAM_BYTES);
        let (stderr, guest_stderr) = duplex(STREAM_BYTES);
        let buffer = FrameBuffer::default();
        let guest = Guest { channel: guest_channel, stdout: guest_stdout, stderr: guest_stderr, buffer };
        tokio::spawn(async move {
            let status = tokio::select! {
                biased;
                () = kill.cancelled() => KILLED,
                status = play(guest) => status,
            };
            ending.send_replace(Some(status));
        });
        let (from_guest, to_guest) = tokio::io::split(channel);
        Ok(Sandbox {
            to_guest: Box::new(to_guest),
            from_guest: Box::new(from_guest),
            buffer: FrameBuffer::default(),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            connections: None,
            artifacts,
            enforced: Enforced {
                wall: Mechanism::Host,
                memory: Mechanism::None,
                processes: Mechanism::None,
                open_files: Mechanism::None,
                file: Mechanism::None,
                workspace: Mechanism::None,
                tmp: Mechanism::None,
                output: Mechanism::Host,
            },
            tier: "fake".to_owned(),
            control: Box::new(FakeControl(life)),
        })
    }

    async fn shutdown(&self) {
        for life in self.lives() {
            life.kill.cancel();
            life.status().await;
        }
    }
}

struct FakeControl(Life);

#[async_trait]
impl Control for FakeControl {
    fn kill(&self) {
        self.0.kill.cancel();
    }

    async fn exit(&mut self) -> Exit {
        Exit { status: self.0.status().await, causes: Vec::new() }
    }

    async fn causes(&mut self) -> Vec<Cause> {
        Vec::new()
    }
}

impl Drop for FakeControl {
    fn drop(&mut self) {
        self.0.kill.cancel();
    }
}

/// The fake must fulfil the contract of backends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fake_fulfils_the_contract() {
    let folder = TempDir::new().unwrap();
    coracle_testing::backend_contract::holds(FakeBackend::new(Vec::new()).as_ref(), folder.path(), false).await;
}
