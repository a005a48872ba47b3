//! Runs code in a sandbox with this crate alone: the program of its integration tests, which start it as root and as an
//! ordinary user. It is not part of any package.
//!
//! `sandboxed [--lang LANGUAGE] [--memory MB] [--workspace-mb MB] [--wall-ms MS] [--zygote] [--full] [--network]
//! [--certificates PEM] [-c CODE] WORKSPACE` runs code, from standard input unless it is an argument, and prints one JSON
//! object. With a network, every connection is answered with one HTTP response, and the first line of each request is in
//! the report. The data folder is `CORACLE_HOME`.
//!
//! `sandboxed [--read FOLDER] [--write FOLDER] [--zygote] WORKSPACE -- COMMAND…` runs a command with its standard streams
//! connected, and exits with its status.

use coracle_protocol::{CallFailure, FromGuest, Reply, RunNetwork, ToGuest, read_frame, write_frame};
use coracle_sandbox::{
    Access, Backend, Cause, Connections, NativeBackend, NativeConfig, Network, PROXY, Place, Program, Sandbox,
    SandboxError, Spec,
};
use coracle_types::Limits;
use serde_json::{Map, Value, json};
use std::error::Error;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Maximum size of each output stream.
const MAX_OUTPUT: u64 = 1 << 20;

/// Maximum size of a result.
const MAX_RESULT: u64 = 1 << 20;

/// Maximum time until the sockets of a sandbox that has ended are closed.
const SOCKETS_CLOSED_WITHIN: Duration = Duration::from_secs(10);

/// Maximum size of the body of a request that is answered.
const MAX_BODY: usize = 1 << 20;

type Failure = Box<dyn Error + Send + Sync>;

struct Arguments {
    workspace: PathBuf,
    language: String,
    code: Option<String>,
    limits: Limits,
    /// Starts the launcher as a server does, instead of forking it.
    zygote: bool,
    /// Requires full isolation.
    full: bool,
    network: Network,
    certificates: Option<String>,
    places: Vec<Place>,
    command: Vec<String>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, Failure> {
        let mut arguments = Self {
            workspace: PathBuf::new(),
            language: "python".to_owned(),
            code: None,
            limits: Limits::default(),
            zygote: false,
            full: false,
            network: Network::Off,
            certificates: None,
            places: Vec::new(),
            command: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().and_then(|value| value.into_string().ok()).ok_or("a value is missing");
            match word.to_str() {
                Some("--lang") => arguments.language = value()?,
                Some("--memory") => arguments.limits.memory_mb = value()?.parse()?,
                Some("--workspace-mb") => arguments.limits.workspace_mb = value()?.parse()?,
                Some("--wall-ms") => arguments.limits.wall_ms = value()?.parse()?,
                Some("-c") => arguments.code = Some(value()?),
                Some("--read") => arguments.places.push(Place { path: value()?.into(), access: Access::Read }),
                Some("--write") => arguments.places.push(Place { path: value()?.into(), access: Access::Write }),
                Some("--") => {
                    let rest = words.by_ref().map(|word| word.into_string().map_err(|_| "not UTF-8"));
                    arguments.command = rest.collect::<Result<_, _>>()?;
                }
                Some("--zygote") => arguments.zygote = true,
                Some("--full") => arguments.full = true,
                Some("--network") => arguments.network = Network::Proxy,
                Some("--certificates") => arguments.certificates = Some(value()?),
                _ => arguments.workspace = word.into(),
            }
        }
        Ok(arguments)
    }
}

fn main() -> ExitCode {
    // Before anything else: the launcher must be single-threaded.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == coracle_sandbox::LAUNCHER_ARGUMENT) {
        return coracle_sandbox::launcher_main();
    }
    if let Some(guest) = coracle_guest::guest_main() {
        return guest;
    }
    coracle_sandbox::reset_sigchld();
    match run() {
        Ok(Outcome::Status(status)) => ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)),
        Ok(Outcome::Report(report)) => match writeln!(std::io::stdout(), "{report}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Outcome {
    Report(Value),
    /// Of a command.
    Status(i32),
}

fn run() -> Result<Outcome, Failure> {
    let mut arguments = Arguments::parse(std::env::args_os().skip(1))?;
    let config = NativeConfig {
        home: std::env::var_os("CORACLE_HOME").ok_or("CORACLE_HOME is not set")?.into(),
        launcher: std::env::current_exe()?,
        python: None,
        pool: 0,
        preload: false,
        require_full_isolation: arguments.full,
        folders: Vec::new(),
        limits: arguments.limits.clone(),
    };
    let backend = if arguments.zygote {
        NativeBackend::new(config)
    } else {
        NativeBackend::with_launcher(config, coracle_sandbox::fork_launcher()?)
    };
    let backend = backend.with_places(std::mem::take(&mut arguments.places));
    let code = if let Some(code) = arguments.code.take() {
        code
    } else if !arguments.command.is_empty() {
        String::new()
    } else {
        let mut code = String::new();
        std::io::stdin().read_to_string(&mut code)?;
        code
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let wall = Duration::from_millis(arguments.limits.wall_ms);
        let Arguments { workspace, language, limits, network, certificates, command, .. } = arguments;
        if !command.is_empty() {
            let sandbox = backend.open(Spec { workspace, servers: None, skills: None, limits, network }).await?;
            let environment = [("OWN_VARIABLE".to_owned(), "own value".to_owned())].into();
            let program = Program { arguments: command, environment, directory: "/workspace".into() };
            let (input, output, errors) = (tokio::io::stdin(), tokio::io::stdout(), tokio::io::stderr());
            let ended = sandbox.run_program(&program, input, output, errors).await?;
            backend.shutdown().await;
            return Ok(Outcome::Status(ended.status));
        }
        let before = sockets();
        let mut report = match backend.open(Spec { workspace, servers: None, skills: None, limits, network }).await {
            Ok(sandbox) => {
                let has_network = sandbox.connections.is_some();
                let network = has_network.then(|| RunNetwork { proxy: PROXY.to_string(), certificates });
                let run = ToGuest::Run { id: 1, language, code, vars: Map::new(), result_bytes: MAX_RESULT, network };
                execute(sandbox, run, wall).await
            }
            Err(error) => refused(&error),
        };
        backend.shutdown().await;
        if network == Network::Proxy {
            report["sockets_left"] = sockets_beyond(before).await.into();
        }
        Ok(Outcome::Report(report))
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    outcome
}

fn refused(error: &SandboxError) -> Value {
    json!({ "ok": false, "refused": error.to_string() })
}

/// The number of sockets of this process.
fn sockets() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    links
        .filter_map(|link| std::fs::read_link(link.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Waits until the sockets of the sandbox are closed. Returns how many are left.
async fn sockets_beyond(before: usize) -> usize {
    let begun = Instant::now();
    loop {
        let left = sockets().saturating_sub(before);
        if left == 0 || begun.elapsed() > SOCKETS_CLOSED_WITHIN {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Answers every connection with one HTTP response. Returns the first line of each request, as they arrive.
fn respond(mut connections: Connections) -> Arc<Mutex<Vec<String>>> {
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        // Aborted with the sandbox: connections would keep its network namespace alive.
        let mut answers = JoinSet::new();
        while let Some(connection) = connections.accept().await {
            let seen = Arc::clone(&seen);
            answers.spawn(async move { answer_request(connection, &seen).await });
        }
    });
    requests
}

/// An error means that the code has closed the connection, as it may.
async fn answer_request(connection: TcpStream, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut request = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.starts_with("HOLD ") {
            // Until the sandbox ends, without reading what else it sends.
            std::future::pending::<()>().await;
        }
        if request.is_empty() {
            line.trim_end().clone_into(&mut request);
        } else if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; MAX_BODY.min(length)];
    connection.read_exact(&mut body).await?;
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let text = format!("{request}|{}", String::from_utf8_lossy(&body));
    let head = format!(
        "HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\nx-by: responder\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    connection.write_all(format!("{head}{text}").as_bytes()).await?;
    connection.shutdown().await
}

async fn execute(mut sandbox: Sandbox, run: ToGuest, wall: Duration) -> Value {
    let mut report = json!({ "ok": false, "tier": sandbox.tier, "enforced": sandbox.enforced });
    let requests = sandbox.connections.take().map(respond);
    sandbox.control.begin();
    let mut output = [Vec::new(), Vec::new()];
    let [out, err] = &mut output;
    let (mut stdout, mut stderr) = ((&mut sandbox.stdout).take(MAX_OUTPUT), (&mut sandbox.stderr).take(MAX_OUTPUT));
    let answered = {
        let answer = tokio::time::timeout(wall, async {
            write_frame(&mut sandbox.to_guest, &run).await.ok()?;
            answer(&mut sandbox.from_guest, &mut sandbox.to_guest, &mut sandbox.buffer).await
        });
        tokio::pin!(answer);
        let streams = async { tokio::join!(stdout.read_to_end(out), stderr.read_to_end(err)) };
        tokio::pin!(streams);
        // The streams stay open while the sandbox lives.
        tokio::select! {
            answered = &mut answer => answered,
            _ = &mut streams => answer.await,
        }
    };
    match answered {
        Ok(Some(done)) => merge(&mut report, done),
        Ok(None) => {}
        Err(_) => report["timed_out"] = true.into(),
    }
    let causes = sandbox.control.causes().await;
    sandbox.control.kill();
    let exit = sandbox.control.exit().await;
    // What was printed before the end.
    let _ = tokio::join!(stdout.read_to_end(out), stderr.read_to_end(err));
    let causes: Vec<String> = causes.iter().chain(&exit.causes).map(name).collect();
    merge(&mut report, json!({ "causes": causes, "status": exit.status }));
    if let Some(requests) = requests {
        merge(&mut report, json!({ "requests": *requests.lock().unwrap_or_else(PoisonError::into_inner) }));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    merge(&mut report, json!({ "stdout": text(&output[0]), "stderr": text(&output[1]) }));
    report
}

/// The answer of the guest, or `None` if it ended without one. Calls to the host are refused.
async fn answer(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    buffer: &mut coracle_protocol::FrameBuffer,
) -> Option<Value> {
    loop {
        match read_frame(from, buffer).await.ok().flatten()? {
            FromGuest::Done { ok, result, exit_code, error, .. } => {
                return Some(json!({ "ok": ok, "result": result, "exit_code": exit_code, "error": error }));
            }
            FromGuest::Call { id, .. } => {
                let (code, message) = ("unknown".to_owned(), "there is nothing to call".to_owned());
                let error = Some(CallFailure { code, message, retryable: false });
                write_frame(to, &ToGuest::Reply(Reply { id, ok: false, value: Value::Null, error })).await.ok()?;
            }
            FromGuest::Ready { .. } | FromGuest::Failed { .. } => return None,
        }
    }
}

fn name(cause: &Cause) -> String {
    match cause {
        Cause::Memory { .. } => "memory".to_owned(),
        Cause::Processes => "processes".to_owned(),
        Cause::Disk(text) => format!("disk: {text}"),
        Cause::Setup(text) => format!("setup: {text}"),
        Cause::Lost(text) => format!("lost: {text}"),
    }
}

fn merge(report: &mut Value, more: Value) {
    if let (Value::Object(report), Value::Object(more)) = (report, more) {
        report.extend(more);
    }
}
