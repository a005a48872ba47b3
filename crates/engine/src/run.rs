//! One run in one sandbox: frames, output, calls, limits, all at once.

use crate::capture::{Capture, TooMuchOutput};
use crate::clock::Clock;
use crate::host_calls::{ARRIVAL, HostCallError, HostCalls};
use crate::json;
use crate::outbox::Outbox;
use crate::request::Request;
use crate::verdict::{Ending, Known};
use coracle_protocol::{CallFailure, FrameError, FromGuest, Reply, RunNetwork, ToGuest, read_frame, write_frame};
use coracle_sandbox::{Cause, Sandbox, SandboxError};
use coracle_types::{Limits, OutputStream};
use serde_json::{Map, Value};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;

/// Maximum size of a result; a larger one is replaced by a summary of its shape.
const RESULT_BYTES: u64 = 1 << 20;

/// Maximum size of a result that the guest may send; a larger one violates the protocol. Twice the limit, because both
/// sides may format the same value differently.
const MAX_RESULT_BYTES: u64 = 2 << 20;

/// Maximum number of calls of one execution that are answered at once; the guest waits for the others.
const CALLS_AT_ONCE: usize = 32;

/// Total length of calls being answered above which no other is read: values take far more memory than text.
const CALL_BYTES_AT_ONCE: usize = 1 << 20;

/// Size of the output buffer. A larger one would be allocated and freed by the system with each run.
const CHUNK: usize = 16 << 10;

/// Maximum time to wait for output that is still in the pipes after the last frame of the guest.
const DRAIN_WITHIN: Duration = Duration::from_millis(200);

/// Time after the end of the channel at which a guest that is still alive is assumed to have closed it itself.
const DEAD_WITHIN: Duration = Duration::from_secs(1);

/// The outcome of a run, except its output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ending: Ending,
    pub(crate) result: Option<Value>,
    pub(crate) result_truncated: bool,
    /// The guest says that the interpreter had to be restarted.
    pub(crate) restarted: bool,
    /// The sandbox may serve the same session again.
    pub(crate) reusable: bool,
}

impl Ran {
    /// No code has run.
    pub(crate) fn not_at_all(ending: Ending) -> Self {
        Self { ending, result: None, result_truncated: false, restarted: false, reusable: false }
    }
}

/// The environment of a run.
#[derive(Debug)]
pub(crate) struct Context {
    /// Answers its calls.
    pub(crate) calls: Arc<dyn HostCalls>,
    /// Ends the run when the time is up.
    pub(crate) clock: Clock,
    /// Counts its calls.
    pub(crate) count: CallCount,
    /// The network that the code may use, if any.
    pub(crate) network: Option<RunNetwork>,
}

/// Number of calls and network requests of one execution. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallCount(Arc<AtomicU64>);

impl CallCount {
    /// Counts one more, unless there are `most` already.
    pub(crate) fn take(&self, most: u64) -> bool {
        let more = |count: u64| (count < most).then_some(count + 1);
        self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Runs the code. The sandbox is alive afterwards only if `reusable`; otherwise it has been killed.
pub(crate) async fn run(
    sandbox: &mut Sandbox,
    id: u64,
    request: &Request,
    capture: &mut Capture,
    context: Context,
) -> Ran {
    let has_network = context.network.is_some();
    let frame = ToGuest::Run {
        id,
        language: request.language.as_str().to_owned(),
        code: request.code.clone(),
        vars: request.vars.clone(),
        result_bytes: RESULT_BYTES,
        network: context.network,
    };
    sandbox.control.begin();
    let mut run = Run {
        id,
        limits: &request.limits,
        calls: context.calls,
        count: context.count,
        made: 0,
        answers: JoinSet::new(),
        under_way: 0,
        outbox: Outbox::default(),
        lives_on: request.session.is_some(),
        result: None,
        truncated: false,
        restarted: false,
    };
    let outcome = tokio::select! {
        biased;
        () = request.cancel.cancelled() => Err(Ending::Cancelled),
        () = context.clock.expired() => Err(Ending::timed_out(request.limits.wall_ms)),
        outcome = run.go(sandbox, &frame, capture) => outcome,
    };
    // Nothing in an answer with the wrong id is used.
    let answered = matches!(&outcome, Ok(Ending::Done { .. }));
    let ending = match outcome {
        Ok(Ending::Done { exit_code, error: None, known }) => match sandbox.control.passed().await {
            None => Ending::Done { exit_code, error: None, known },
            Some(cause) => Ending::Passed(cause),
        },
        Ok(Ending::Done { exit_code, error: Some(error), .. }) => {
            let known = Known { causes: sandbox.control.causes().await, stderr: capture.complaints(), has_network };
            Ending::Done { exit_code, error: Some(error), known }
        }
        Ok(Ending::Died(_)) => {
            if let Ok(exit) = tokio::time::timeout(DEAD_WITHIN, sandbox.control.exit()).await {
                Ending::Died(exit)
            } else {
                sandbox.control.kill();
                Ending::Protocol("it closed its channel and lived on".to_owned())
            }
        }
        Ok(ending) => ending,
        Err(Ending::NoSandbox(error)) => {
            sandbox.control.kill();
            drain(sandbox, capture).await;
            unconfined(sandbox, error).await
        }
        Err(ending) => {
            sandbox.control.kill();
            drain(sandbox, capture).await;
            match ending {
                Ending::TimedOut { wall_ms, .. } => Ending::TimedOut { wall_ms, stderr: capture.complaints() },
                ending => ending,
            }
        }
    };
    // After the kernel has killed a process for memory, the limit is met again. A disk that is too full stays too full.
    let reusable =
        answered && !matches!(&ending, Ending::Passed(cause) if !matches!(cause, Cause::Memory { used: None }));
    if answered && !reusable {
        sandbox.control.kill();
    }
    let (result, truncated) = if answered { (run.result, run.truncated) } else { (None, false) };
    Ran { ending, result, result_truncated: truncated, restarted: answered && run.restarted, reusable }
}

/// A guest says that it could not be confined. Only the launcher can confirm that, because code could say it as well.
async fn unconfined(sandbox: &mut Sandbox, error: SandboxError) -> Ending {
    let exit = sandbox.control.exit().await;
    if exit.causes.iter().any(|cause| matches!(cause, Cause::Setup(_))) {
        Ending::NoSandbox(error)
    } else {
        Ending::Protocol("a failed confinement, after code has run".to_owned())
    }
}

struct Run<'a> {
    id: u64,
    limits: &'a Limits,
    calls: Arc<dyn HostCalls>,
    count: CallCount,
    /// Number of calls that have arrived.
    made: u64,
    /// Calls that are being answered, each with the length of the call.
    answers: JoinSet<(usize, Reply)>,
    /// Total length of these calls.
    under_way: usize,
    /// Answers that are being written.
    outbox: Outbox,
    /// Whether another run may follow on the same channel, which must then be between two frames.
    lives_on: bool,
    result: Option<Value>,
    truncated: bool,
    restarted: bool,
}

impl Run<'_> {
    /// Runs until the guest is done or gone. `Err` means that the sandbox must be killed.
    async fn go(&mut self, sandbox: &mut Sandbox, frame: &ToGuest, capture: &mut Capture) -> Result<Ending, Ending> {
        let died = || Ending::Died(coracle_sandbox::Exit { status: 0, causes: Vec::new() });
        if self.id > 1 {
            self.hear_unasked(sandbox).await?;
        }
        if let Err(error) = write_frame(&mut sandbox.to_guest, frame).await {
            return match error {
                FrameError::Io(_) => Ok(died()),
                other => Err(Ending::Protocol(other.to_string())),
            };
        }
        let (mut out, mut err) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
        let (mut out_open, mut err_open) = (true, true);
        let mut last_word = None;
        loop {
            if let Some(ending) = last_word.take_if(|_| self.outbox.is_empty()) {
                drain_ready(sandbox, capture, &mut out).await.map_err(|TooMuchOutput| self.too_much())?;
                return Ok(ending);
            }
            tokio::select! {
                biased;
                read = sandbox.stdout.read_buf(&mut out), if out_open => {
                    out_open = self.output(capture, OutputStream::Stdout, &read, &mut out).await?;
                }
                read = sandbox.stderr.read_buf(&mut err), if err_open => {
                    err_open = self.output(capture, OutputStream::Stderr, &read, &mut err).await?;
                }
                () = self.outbox.write_some(&mut *sandbox.to_guest), if !self.outbox.is_empty() => {}
                Some(answer) = self.answers.join_next(), if self.may_answer() && last_word.is_none() => {
                    if let Ok((length, reply)) = answer {
                        self.under_way -= length;
                        self.outbox.push(reply);
                    }
                }
                frame = read_frame(&mut sandbox.from_guest, &mut sandbox.buffer),
                    if self.may_hear() && last_word.is_none() =>
                {
                    match frame {
                        Ok(Some(frame)) => {
                            last_word = self.hear(frame, sandbox.buffer.last_length())?;
                            if last_word.is_some() && self.lives_on {
                                self.outbox.forget_unbegun();
                            } else if last_word.is_some() {
                                self.outbox = Outbox::default();
                            }
                        }
                        Ok(None) | Err(FrameError::Io(_) | FrameError::Cut) => {
                            drain(sandbox, capture).await;
                            return Ok(died());
                        }
                        Err(error) => return Err(Ending::Protocol(error.to_string())),
                    }
                }
            }
        }
    }

    /// Reads frames that were sent before this run, in a session: threads of an earlier run may call, but get no answer.
    async fn hear_unasked(&mut self, sandbox: &mut Sandbox) -> Result<(), Ending> {
        while self.may_hear() {
            match sandbox.buffer.pop() {
                Ok(Some(frame)) => {
                    if self.hear(frame, sandbox.buffer.last_length())?.is_some() {
                        return Err(Ending::Protocol("an answer before the question".to_owned()));
                    }
                }
                Ok(None) => {
                    if read_now(&mut sandbox.from_guest, sandbox.buffer.room()).await == 0 {
                        break;
                    }
                }
                Err(error) => return Err(Ending::Protocol(error.to_string())),
            }
        }
        Ok(())
    }

    /// Whether there is room for one more call.
    fn may_hear(&self) -> bool {
        self.answers.len() + self.outbox.len() < CALLS_AT_ONCE
            && self.under_way <= CALL_BYTES_AT_ONCE
            && !self.outbox.is_full()
    }

    /// Whether there is an answer to wait for, and room for it.
    fn may_answer(&self) -> bool {
        !self.answers.is_empty() && !self.outbox.is_full()
    }

    fn too_much(&self) -> Ending {
        Ending::TooMuchOutput { most: self.limits.output_bytes }
    }

    /// Captures output that was read. Returns whether the stream is still open.
    async fn output(
        &self,
        capture: &mut Capture,
        stream: OutputStream,
        read: &std::io::Result<usize>,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, Ending> {
        capture.push(stream, bytes).await.map_err(|TooMuchOutput| self.too_much())?;
        bytes.clear();
        Ok(matches!(read, Ok(1..)))
    }

    /// Handles a frame of the guest. Returns the ending if it was the last.
    #[expect(clippy::result_large_err, reason = "an ending is made once a run")]
    fn hear(&mut self, frame: FromGuest, length: usize) -> Result<Option<Ending>, Ending> {
        match frame {
            FromGuest::Done { id, ok, result, result_truncated, exit_code, restarted, error } => {
                if id != self.id {
                    return Err(Ending::Protocol(format!("an answer to run {id}, which was not asked")));
                }
                if ok == error.is_some() || ok && exit_code != 0 {
                    return Err(Ending::Protocol("an answer that is both success and failure, or neither".to_owned()));
                }
                if json::is_longer(&result, MAX_RESULT_BYTES) {
                    return Err(Ending::Protocol(format!("a result of more than {RESULT_BYTES} bytes")));
                }
                self.result = (!result.is_null()).then_some(result);
                self.truncated = result_truncated;
                self.restarted = restarted;
                Ok(Some(Ending::Done { exit_code, error, known: Known::default() }))
            }
            FromGuest::Call { id, method, params } => {
                self.made += 1;
                if !self.count.take(self.limits.calls) {
                    return Err(Ending::TooManyCalls { most: self.limits.calls });
                }
                let calls = Arc::clone(&self.calls);
                self.under_way += length;
                let number = self.made;
                self.answers.spawn(
                    ARRIVAL.scope(number, async move { (length, answer(calls.as_ref(), id, method, params).await) }),
                );
                Ok(None)
            }
            FromGuest::Failed { .. } if self.id > 1 || self.made > 0 => {
                Err(Ending::Protocol("a failed confinement, after code has run".to_owned()))
            }
            FromGuest::Failed { step, errno } => {
                let cause = std::io::Error::from_raw_os_error(errno);
                let reason = format!("a step of the confinement failed: {step}: {cause}");
                Err(Ending::NoSandbox(SandboxError::Unavailable(reason)))
            }
            FromGuest::Ready { .. } => Err(Ending::Protocol("ready, for the second time".to_owned())),
        }
    }
}

async fn answer(calls: &dyn HostCalls, id: u64, method: String, params: Map<String, Value>) -> Reply {
    match calls.call(method, params).await {
        Ok(value) => Reply { id, ok: true, value, error: None },
        Err(HostCallError { code, message, retryable }) => {
            Reply { id, ok: false, value: Value::Null, error: Some(CallFailure { code, message, retryable }) }
        }
    }
}

/// Takes what is in the pipes now, without waiting: the guest wrote it before its last frame.
async fn drain_ready(sandbox: &mut Sandbox, capture: &mut Capture, bytes: &mut Vec<u8>) -> Result<(), TooMuchOutput> {
    for stream in [OutputStream::Stdout, OutputStream::Stderr] {
        let pipe = match stream {
            OutputStream::Stdout => &mut sandbox.stdout,
            OutputStream::Stderr => &mut sandbox.stderr,
        };
        while read_now(pipe, bytes).await > 0 {
            capture.push(stream, bytes).await?;
            bytes.clear();
        }
    }
    Ok(())
}

/// Takes what is left in the pipes of a sandbox that is gone or going.
async fn drain(sandbox: &mut Sandbox, capture: &mut Capture) {
    let all = async {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let pipe = match stream {
                OutputStream::Stdout => &mut sandbox.stdout,
                OutputStream::Stderr => &mut sandbox.stderr,
            };
            let mut bytes = Vec::with_capacity(CHUNK);
            while let Ok(1..) = pipe.read_buf(&mut bytes).await {
                if capture.push(stream, &bytes).await.is_err() {
                    return;
                }
                bytes.clear();
            }
        }
    };
    // No process outlives the sandbox, so nothing is written after that.
    let _ = tokio::time::timeout(DRAIN_WITHIN, all).await;
}

/// Reads what is there without waiting; returns zero if there is nothing.
async fn read_now(pipe: &mut (impl AsyncRead + Unpin), into: &mut Vec<u8>) -> usize {
    // Unconstrained: otherwise the read would be pending for a task that has used up its budget, to make it yield.
    let mut read = pin!(tokio::task::coop::unconstrained(pipe.read_buf(into)));
    let look = poll_fn(|context| match read.as_mut().poll(context) {
        Poll::Ready(Ok(length)) => Poll::Ready(length),
        Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(0),
    });
    look.await
}
