//! Runs one program in a sandbox, with its standard streams connected to those of the caller.

use crate::{Cause, Sandbox};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_protocol::{CallFailure, FrameBuffer, FromGuest, Reply, ToGuest, read_frame, write_frame};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy};

/// A program, as it is started inside a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program, by name or path, and its arguments.
    pub arguments: Vec<String>,
    /// Variables that are added to the environment of the sandbox.
    pub environment: BTreeMap<String, String>,
    /// The working directory inside.
    pub directory: PathBuf,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit status, as in shells.
    pub status: i32,
    /// The limits that it reached.
    pub causes: Vec<Cause>,
}

/// The method with which the guest asks for more of the input; see `hosted.py` of the guest.
const READ_INPUT: &str = "read_input";

/// The maximum size of one piece of the input.
const PIECE: usize = 64 << 10;

/// The code that runs the program. Its parameters are variables.
const CODE: &str = "from coracle_guest import hosted\nhosted.run(arguments, environment, directory)";

impl Sandbox {
    /// Runs a program to its end. The sandbox is then gone. If the future is dropped, the sandbox is killed.
    pub async fn run_program(
        mut self,
        program: &Program,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        errors: impl AsyncWrite + Unpin,
    ) -> io::Result<Ended> {
        let Program { arguments, environment, directory } = program;
        let vars = serde_json::json!({ "arguments": arguments, "environment": environment, "directory": directory });
        let Value::Object(vars) = vars else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (language, code) = ("python".to_owned(), CODE.to_owned());
        let run = ToGuest::Run { id: 1, language, code, vars, result_bytes: 1, network: None };
        write_frame(&mut self.to_guest, &run).await.map_err(io::Error::other)?;
        let Self { to_guest, from_guest, buffer, stdout, stderr, control, .. } = &mut self;
        let (mut output, mut errors) = (output, errors);
        let feeding = feed(from_guest.as_mut(), to_guest.as_mut(), buffer, input);
        // All three end with the sandbox. An error of our own output ends it.
        let passed = tokio::try_join!(
            async {
                feeding.await;
                control.kill();
                io::Result::Ok(())
            },
            async {
                copy(stdout, &mut output).await?;
                output.flush().await
            },
            async {
                copy(stderr, &mut errors).await?;
                errors.flush().await
            },
        );
        self.control.kill();
        let exit = self.control.exit().await;
        passed?;
        Ok(Ended { status: exit.status, causes: exit.causes })
    }
}

/// Answers the guest's requests for input until it ends.
async fn feed(
    from: &mut (dyn AsyncRead + Send + Sync + Unpin),
    to: &mut (dyn AsyncWrite + Send + Sync + Unpin),
    buffer: &mut FrameBuffer,
    mut input: impl AsyncRead + Unpin,
) {
    let mut waiting: Option<u64> = None;
    let mut piece = vec![0; PIECE];
    loop {
        let reply = tokio::select! {
            frame = read_frame::<FromGuest, _>(from, buffer) => match frame {
                Ok(Some(FromGuest::Call { id, method, .. })) if method == READ_INPUT && waiting.is_none() => {
                    waiting = Some(id);
                    continue;
                }
                Ok(Some(FromGuest::Call { id, .. })) => refusal(id),
                // Only the program and what it started run here, so this is its end or a violation of the protocol.
                _ => return,
            },
            read = input.read(&mut piece), if waiting.is_some() => {
                let Some(id) = waiting.take() else { continue };
                // Input that fails has ended.
                let text = STANDARD.encode(piece.get(..read.unwrap_or(0)).unwrap_or_default());
                Reply { id, ok: true, value: text.into(), error: None }
            }
        };
        if write_frame(to, &ToGuest::Reply(reply)).await.is_err() {
            return;
        }
    }
}

fn refusal(id: u64) -> Reply {
    let (code, message) = ("unknown_method".to_owned(), "this sandbox has no tools".to_owned());
    Reply { id, ok: false, value: Value::Null, error: Some(CallFailure { code, message, retryable: false }) }
}
