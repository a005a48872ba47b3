//! The part of the contract about code: languages, sessions, calls, files, identity, cancellation.

use super::{PATIENCE, answer_to, open, within};
use coracle_protocol::{CallFailure, FromGuest, Reply, ToGuest, read_frame, write_frame};
use coracle_sandbox::{Backend, Sandbox, Spec};
use serde_json::{Value, json};
use std::path::Path;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Checks everything that needs real code.
pub(super) async fn runs(backend: &dyn Backend, spec: &impl Fn() -> Spec, folder: &Path) {
    runs_three_languages(open(backend, spec()).await).await;
    reports_errors(open(backend, spec()).await).await;
    keeps_the_state_of_a_session(backend, spec).await;
    carries_calls(open(backend, spec()).await).await;
    carries_much_output(open(backend, spec()).await).await;
    keeps_files_apart(backend, spec).await;
    shows_no_other_files(open(backend, spec()).await, folder).await;
    has_no_privileges(open(backend, spec()).await).await;
    keeps_processes_apart(backend, spec).await;
    kills_running_code(open(backend, spec()).await).await;
}

/// The outcome of code that must end by itself.
pub(super) async fn done(sandbox: &mut Sandbox, id: u64, language: &str, code: &str) -> (bool, Value, Option<String>) {
    let answer = answer_to(sandbox, id, language, code).await;
    let Some(FromGuest::Done { id: answered, ok, result, error, .. }) = answer else { panic!("{code}: {answer:?}") };
    assert_eq!(answered, id, "{code}");
    (ok, result, error.map(|error| format!("{}: {}", error.code, error.message)))
}

/// The value of Python code that must succeed.
pub(super) async fn python(sandbox: &mut Sandbox, id: u64, code: &str) -> Value {
    let (ok, value, error) = done(sandbox, id, "python", code).await;
    assert!(ok, "{code}: {error:?}");
    value
}

/// Reads as many bytes as text has, which must be that text.
async fn reads(stream: &mut (dyn AsyncRead + Send + Sync + Unpin), text: &str) {
    let mut read = vec![0; text.len()];
    within("output", stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), text);
}

async fn runs_three_languages(mut sandbox: Sandbox) {
    assert!(!sandbox.tier.is_empty());
    assert_eq!(python(&mut sandbox, 1, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7").await, 42);
    reads(sandbox.stdout.as_mut(), "out\n").await;
    reads(sandbox.stderr.as_mut(), "err\n").await;
    assert!(done(&mut sandbox, 2, "bash", "cd /workspace && echo $((6 * 7)) | cat; echo to >&2").await.0);
    reads(sandbox.stdout.as_mut(), "42\n").await;
    reads(sandbox.stderr.as_mut(), "to\n").await;
    let (ok, value, error) = done(&mut sandbox, 3, "typescript", "const n: number = 6; n * 7").await;
    assert!(ok && value == 42, "{value} {error:?}");
    // The interpreter of the sandbox is also that of the programs that code starts.
    let code = "import sys\nprint('%d.%d' % sys.version_info[:2])";
    python(&mut sandbox, 4, code).await;
    assert!(done(&mut sandbox, 5, "bash", &format!("python3 -c \"{code}\"")).await.0);
    let mut versions = [0; 10];
    within("output", sandbox.stdout.read_exact(&mut versions)).await.unwrap();
    assert_eq!(versions[..5], versions[5..]);
}

async fn reports_errors(mut sandbox: Sandbox) {
    for (id, (language, code, expected)) in (1..).zip([
        ("python", "1 / 0", "exception"),
        ("python", "1 +", "syntax"),
        ("bash", "exit 3", "exception"),
        ("bash", "if", "syntax"),
        ("typescript", "throw new Error('no')", "exception"),
        ("typescript", "const = 1", "syntax"),
    ]) {
        let (ok, _, error) = done(&mut sandbox, id, language, code).await;
        let error = error.unwrap_or_default();
        assert!(!ok && error.starts_with(&format!("{expected}: ")), "{code}: {error}");
    }
    assert_eq!(python(&mut sandbox, 7, "'it goes on'").await, "it goes on");
}

async fn keeps_the_state_of_a_session(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let mut session = open(backend, spec()).await;
    python(&mut session, 1, "kept = 41").await;
    assert!(done(&mut session, 2, "bash", "kept=of_bash").await.0);
    session.control.rest().await;
    session.control.begin();
    assert_eq!(python(&mut session, 3, "kept + 1").await, 42);
    assert!(done(&mut session, 4, "bash", "[ $kept = of_bash ]").await.0);
    let mut fresh = open(backend, spec()).await;
    assert_eq!(python(&mut fresh, 1, "'kept' in globals()").await, false);
}

/// Code calls the host, and gets its answers and errors.
async fn carries_calls(mut sandbox: Sandbox) {
    let code = "
from coracle_guest import calls
long = 'x' * 1_000_000
answers = [calls.call('double', {'number': number}) for number in range(20)]
same = calls.call('echo', {'text': long})['text'] == long
try:
    calls.call('fail', {})
    failed = ''
except calls.CallError as error:
    failed = error.code
[answers, same, failed]";
    let run = ToGuest::Run {
        id: 1,
        language: "python".to_owned(),
        code: code.to_owned(),
        vars: serde_json::Map::new(),
        result_bytes: 1 << 20,
    };
    let served = async {
        write_frame(&mut sandbox.to_guest, &run).await.unwrap();
        loop {
            let frame = read_frame(&mut sandbox.from_guest, &mut sandbox.buffer).await.unwrap();
            let (id, method, params) = match frame {
                Some(FromGuest::Call { id, method, params }) => (id, method, params),
                Some(FromGuest::Done { result, error, .. }) => break (result, error),
                other => panic!("{other:?}"),
            };
            let (value, error) = match method.as_str() {
                "double" => (json!(params["number"].as_u64().unwrap() * 2), None),
                "echo" => (json!({ "text": params["text"] }), None),
                _ => (Value::Null, Some(CallFailure { code: "no".into(), message: "no".into(), retryable: false })),
            };
            let reply = ToGuest::Reply(Reply { id, ok: error.is_none(), value, error });
            write_frame(&mut sandbox.to_guest, &reply).await.unwrap();
        }
    };
    let (result, error) = within("calls", served).await;
    let doubled: Vec<u64> = (0..20).map(|number| number * 2).collect();
    assert_eq!(result, json!([doubled, true, "no"]), "{error:?}");
}

/// Neither stream is cut or reordered, and everything that was printed before the answer can be read after it.
async fn carries_much_output(mut sandbox: Sandbox) {
    const LINES: usize = 20_000;
    let code = format!("import sys\nfor n in range({LINES}): print(f'{{n:09}}'); print(f'{{n:09}}', file=sys.stderr)");
    let run =
        ToGuest::Run { id: 1, language: "python".to_owned(), code, vars: serde_json::Map::new(), result_bytes: 1024 };
    write_frame(&mut sandbox.to_guest, &run).await.unwrap();
    let (mut out, mut err) = (vec![0; LINES * 10], vec![0; LINES * 10]);
    let Sandbox { stdout, stderr, from_guest, buffer, .. } = &mut sandbox;
    let (read_out, read_err, answer) = within("output", async {
        tokio::join!(
            stdout.read_exact(&mut out),
            stderr.read_exact(&mut err),
            read_frame::<FromGuest, _>(from_guest, buffer)
        )
    })
    .await;
    assert!(read_out.is_ok() && read_err.is_ok());
    assert!(matches!(answer, Ok(Some(FromGuest::Done { ok: true, .. }))), "{answer:?}");
    let expected: String = (0..LINES).map(|number| format!("{number:09}\n")).collect();
    assert!(out == expected.as_bytes() && err == expected.as_bytes());
}

/// The workspace is shared. `/tmp` and `/artifacts` belong to one sandbox.
async fn keeps_files_apart(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let (mut left, mut right) = (open(backend, spec()).await, open(backend, spec()).await);
    let write = "for folder in ('workspace', 'tmp', 'artifacts'):\n    open(f'/{folder}/mine', 'w').write('left')";
    python(&mut left, 1, write).await;
    let look = "import os; [os.path.exists(f'/{folder}/mine') for folder in ('workspace', 'tmp', 'artifacts')]";
    assert_eq!(python(&mut left, 2, look).await, json!([true, true, true]));
    assert_eq!(python(&mut right, 1, look).await, json!([true, false, false]));
    assert_eq!(std::fs::read(spec().workspace.join("mine")).unwrap(), b"left");
    assert_eq!(std::fs::read(left.artifacts.join("mine")).unwrap(), b"left");
    assert_eq!(std::fs::read_dir(&right.artifacts).unwrap().count(), 0);
    // Files of the host can be read and changed, whoever owns the folder.
    std::fs::write(spec().workspace.join("hers"), "host").unwrap();
    assert_eq!(python(&mut right, 2, "open('/workspace/hers').read()").await, "host");
    python(&mut right, 3, "import os; os.remove('/workspace/hers')").await;
    assert!(!spec().workspace.join("hers").exists());
}

/// Of the host's own files, only the workspace can be seen, and programs cannot be changed.
async fn shows_no_other_files(mut sandbox: Sandbox, folder: &Path) {
    let canary = folder.join("canary");
    std::fs::write(&canary, "not for code").unwrap();
    let code = format!(
        "
import os
def attempt(path, mode):
    try:
        with open(path, mode):
            return True
    except OSError:
        return False
inside = os.path.join('/workspace', 'canary')
open(inside, 'w').close()
[attempt({path:?}, 'r'), attempt('/workspace/../canary', 'r'), attempt(inside, 'r'), attempt('/usr/bin/canary', 'w'),
 attempt('/canary', 'w'), attempt('/coracle/canary', 'w'), attempt('/tmp/canary', 'w')]",
        path = canary.to_str().unwrap(),
    );
    let expected = json!([false, false, true, false, false, false, true]);
    assert_eq!(python(&mut sandbox, 1, &code).await, expected);
}

/// The code is not root, cannot become it, and has no network. Socket pairs, which need none, work.
async fn has_no_privileges(mut sandbox: Sandbox) {
    let code = "
import os, socket
open('own', 'w').close()
def attempt(act):
    try:
        act()
        return True
    except OSError:
        return False
[os.getuid() == 0, os.geteuid() == 0, attempt(lambda: os.setuid(0)), attempt(lambda: os.setgid(0)),
 attempt(lambda: os.setuid(os.getuid())), attempt(lambda: socket.create_server(('127.0.0.1', 0))),
 attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))),
 attempt(socket.socketpair), attempt(lambda: os.chown('/tmp', 0, 0)), attempt(lambda: os.chown('own', os.getuid(), -1))]";
    let expected = json!([false, false, false, false, true, false, false, true, false, true]);
    assert_eq!(python(&mut sandbox, 1, code).await, expected);
}

/// No process of another sandbox can be seen, signalled, traced or read.
async fn keeps_processes_apart(backend: &dyn Backend, spec: &impl Fn() -> Spec) {
    let (mut left, mut right) = (open(backend, spec()).await, open(backend, spec()).await);
    let start = "
import subprocess
child = subprocess.Popen(['sleep', '1000.0625'], env={'CANARY': 'of-the-left'})
child.pid";
    let victim = python(&mut left, 1, start).await;
    let search = "
import os
def read(path):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError:
        return b''
seen = [read(f'/proc/{name}/{part}') for name in os.listdir('/proc') if name.isdigit() for part in ('cmdline', 'environ')]
[any(b'1000.0625' in text for text in seen), any(b'of-the-left' in text for text in seen)]";
    assert_eq!(python(&mut left, 2, search).await, json!([true, true]), "control: its own child");
    assert_eq!(python(&mut right, 1, search).await, json!([false, false]));
    // A child of the right sandbox tries to kill everything that it may, and then the numbers that the left one uses.
    let attack = format!(
        "
import os, signal
child = os.fork()
if child == 0:
    for pid in (-1, *range(2, 200), {victim}):
        if pid not in (os.getpid(), os.getppid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    os._exit(0)
os.waitpid(child, 0)[1]"
    );
    // Its own first process may be among those that it killed.
    let _ = answer_to(&mut right, 2, "python", &attack).await;
    assert_eq!(python(&mut left, 3, "child.poll() is None").await, true);
    assert_eq!(python(&mut left, 4, "child.kill(); child.wait()").await, -9, "control: its own child");
}

/// A run that does not end can be ended from outside, also if it ignores signals.
async fn kills_running_code(mut sandbox: Sandbox) {
    let code = "
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
print('begun', flush=True)
while True: pass";
    let run = ToGuest::Run {
        id: 1,
        language: "python".to_owned(),
        code: code.to_owned(),
        vars: serde_json::Map::new(),
        result_bytes: 1024,
    };
    write_frame(&mut sandbox.to_guest, &run).await.unwrap();
    reads(sandbox.stdout.as_mut(), "begun\n").await;
    sandbox.control.kill();
    let exit = within("exit", sandbox.control.exit()).await;
    assert_eq!(exit.status, 128 + 9, "not within {PATIENCE:?}");
    // The streams end when all processes are gone, also those that have left the group.
    within("the end", sandbox.stdout.read_to_end(&mut Vec::new())).await.unwrap();
    within("the end", sandbox.stderr.read_to_end(&mut Vec::new())).await.unwrap();
}
