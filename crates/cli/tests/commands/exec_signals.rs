//! `coracle exec` while it runs: streamed output, Ctrl-C, and readers that disappear.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{assert_nothing_left, left_in_run};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(30);

/// Prints a line at once, and then waits.
const WAITS: &str = "import time\nprint('started', flush=True)\ntime.sleep(99)";

fn start(coracle: &Coracle, arguments: &[&str]) -> Child {
    let mut command = coracle.command();
    command.arg("exec").args(arguments).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > WITHIN {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

each_user!(output_appears_while_the_code_runs_and_in_order);
fn output_appears_while_the_code_runs_and_in_order(who: As) {
    let coracle = Coracle::new(who);
    let code = "import sys, time\nfor i in range(4):\n  print('out', i); time.sleep(0.15); print('err', i, file=sys.stderr); time.sleep(0.15)";
    let mut command = coracle.command();
    // Both streams into one pipe, as on a terminal.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    command.args(["exec", "-c", code]).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(File::from(reader)).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "out 0");
    assert!(child.try_wait().unwrap().is_none(), "the first line is printed before the end");
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["err 0", "out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]);
    assert_eq!(wait(&mut child).code(), Some(0));
}

each_user!(a_signal_cancels_and_leaves_nothing);
fn a_signal_cancels_and_leaves_nothing(who: As) {
    let coracle = Coracle::new(who);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = start(&coracle, &["-c", WAITS]);
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
        kill_process(pid(&child), signal).unwrap();
        assert_eq!(wait(&mut child).code(), Some(130), "{signal:?} as {who:?}");
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, "error: the execution was cancelled\n", "{signal:?} as {who:?}");
        // Without waiting, because everything was cleaned up before the program ended.
        assert_eq!(left_in_run(&coracle.home()), Vec::<String>::new(), "{signal:?} as {who:?}");
        assert_nothing_left(&coracle, "a signal");
    }
    // Control: without a signal.
    assert_eq!(wait(&mut start(&coracle, &["-c", &WAITS.replace("99", "0.1")])).code(), Some(0));
}

each_user!(ctrl_c_at_a_terminal_still_prints_the_result);
/// A terminal sends Ctrl-C to the whole process group, including the launcher.
fn ctrl_c_at_a_terminal_still_prints_the_result(who: As) {
    let coracle = Coracle::new(who);
    let mut child = start(&coracle, &["--json", "-c", &WAITS.replace("print", "open('/workspace/up', 'w'); print")]);
    let up = coracle.home().join("workspaces/local/files/up");
    let begun = Instant::now();
    while !up.exists() {
        assert!(begun.elapsed() < WITHIN, "the code does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    kill_process_group(pid(&child), Signal::INT).unwrap();
    assert_eq!(wait(&mut child).code(), Some(130), "as {who:?}");
    let execution: serde_json::Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert_eq!((&execution["error_code"], &execution["stdout"]), (&"cancelled".into(), &"started\n".into()));
    assert_eq!(left_in_run(&coracle.home()), Vec::<String>::new(), "as {who:?}");
    assert_nothing_left(&coracle, "Ctrl-C");
}

each_user!(signals_at_any_moment_leave_nothing);
fn signals_at_any_moment_leave_nothing(who: As) {
    let coracle = Coracle::new(who);
    for step in 0..14 {
        let mut child = start(&coracle, &["-c", WAITS]);
        std::thread::sleep(Duration::from_millis(step * 9));
        kill_process_group(pid(&child), Signal::INT).unwrap();
        if step % 2 == 0 {
            // The program may be gone already.
            let _ = kill_process(pid(&child), Signal::INT);
        }
        let status = wait(&mut child);
        // Before the program listens, the signal has its default effect.
        let early = std::os::unix::process::ExitStatusExt::signal(&status) == Some(2);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(early || status.code() == Some(130), "after {} ms as {who:?}: {status:?} {stderr}", step * 9);
    }
    // The next start removes what an early signal left.
    assert_eq!(coracle.exec(&["-c", "6 * 7"]).stdout, b"42\n");
    assert_nothing_left(&coracle, "signals");
}

/// Ignores signals like background jobs of a shell, and `nohup`.
const IGNORING: &[&str] = &["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"];

each_user!(ignored_signals_stay_ignored);
/// Signals that the caller ignored must not end the program.
fn ignored_signals_stay_ignored(who: As) {
    let coracle = Coracle::behind(who, IGNORING);
    let code = "import os, time\nprint('started', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('whole')";
    let mut child = start(&coracle, &["--timeout", "80", "-c", code]);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
    for signal in [Signal::INT, Signal::HUP] {
        kill_process(pid(&child), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    fs::write(coracle.home().join("workspaces/local/files/go"), "").unwrap();
    assert_eq!(wait(&mut child).code(), Some(0), "as {who:?}");
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "\nwhole\n", "as {who:?}");
    // Control: a signal that was not ignored.
    let mut child = start(&coracle, &["-c", WAITS]);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(wait(&mut child).code(), Some(130), "as {who:?}");
    assert_nothing_left(&coracle, "ignored signals");
}

/// Changes everything that a process inherits, as far as an ordinary user can, for the following program.
const ODD: &str = "
import os, resource, signal, sys
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
os.umask(0o077)
os.nice(7)
soft = {'STACK': 2 << 20, 'CPU': 60, 'DATA': 3 << 30, 'FSIZE': 400 << 20, 'CORE': 0, 'MEMLOCK': 0, 'SIGPENDING': 50}
for name, value in soft.items():
    which = getattr(resource, 'RLIMIT_' + name)
    resource.setrlimit(which, (value, resource.getrlimit(which)[1]))
os.environ.update(LANG='tr_TR.UTF-8', LC_ALL='C', PYTHONHOME='/nowhere', PYTHONPATH='/nowhere', TERM='xterm', TZ='Asia/Tokyo',
    LD_LIBRARY_PATH='/nowhere', BASH_ENV='/nowhere', ENV='/nowhere', TMPDIR='/nowhere', IFS='x')
os.environ['TMPDIR'] = '/tmp'
os.open('/etc/passwd', os.O_RDONLY); os.dup2(3, 40)
os.execvp(sys.argv[1], sys.argv[1:])";

/// Everything that code can find out about its environment.
const LOOK: &str = "
import locale, os, resource, signal, subprocess, sys, time
def attempt(act):
    try: return act()
    except OSError as error: return error.errno
limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith('RLIMIT_')}
open('made', 'w').close(); mode = os.stat('made').st_mode; os.remove('made')
{
    'signals': [str(signal.getsignal(number)) for number in range(1, 65)],
    'mask': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    'umask': os.umask(0o022), 'mode': mode, 'nice': os.nice(0), 'policy': os.sched_getscheduler(0), 'limits': limits,
    'locale': [locale.setlocale(locale.LC_ALL, ''), sys.getfilesystemencoding()], 'zone': time.tzname,
    'environment': sorted(os.environ.items()), 'input': sys.stdin.read(), 'terminal': attempt(lambda: os.open('/dev/tty', os.O_RDWR)),
    'leads': os.getsid(0) == os.getpid(), 'path': sys.path, 'folder': os.getcwd(),
    'descriptors': [number for number in range(64) if attempt(lambda: os.fstat(number).st_mode) != 9],
    'readable': [os.access(path, os.R_OK) for path in ('/etc/passwd', '/usr/bin', '/coracle', '/tmp', '/etc/fonts')],
    'of a program': subprocess.run(['bash', '-c', 'trap; umask; ulimit -a; ulimit -aH; env | sort; tty'], capture_output=True, text=True).stdout,
}";

/// Findings of code, and the effect of a signal that it sends itself.
fn found(coracle: &Coracle, more: &[&str]) -> serde_json::Value {
    let mut look = coracle.run("python", LOOK, more);
    assert_eq!(look["success"], true, "as {:?}: {look:#}", coracle.who);
    let interrupted =
        coracle.run("python", "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nprint('went on')", more);
    assert_eq!((&interrupted["success"], &interrupted["stdout"]), (&false.into(), &"".into()), "{interrupted:#}");
    let bash = coracle.run("bash", "(kill -INT $BASHPID; echo went on) ; echo $?", more);
    assert_eq!(bash["stdout"], "130\n", "as {:?}: {bash:#}", coracle.who);
    look["result"].take()
}

each_user!(inherited_state_has_no_effect_inside);
fn inherited_state_has_no_effect_inside(who: As) {
    let (plain, odd) = (Coracle::new(who), Coracle::behind(who, &["/usr/bin/python3", "-c", ODD]));
    // With a zygote, if the program can be asked for one.
    let ways: &[&[&str]] = if who == As::Root { &[&[], &["--require-full-isolation"]] } else { &[&[]] };
    for way in ways {
        let (expected, mut seen) = (found(&plain, way), found(&odd, way));
        if who == As::Ordinary {
            // An ordinary user cannot lower the nice value again, neither that of this test nor the higher one.
            let own = rustix::process::getpriority_process(None).unwrap();
            let higher = (own + 7).min(19);
            assert_eq!((&expected["nice"], &seen["nice"]), (&own.into(), &higher.into()));
            seen["nice"] = expected["nice"].clone();
            let (own, higher) = (format!("(-e) {own}\n"), format!("(-e) {higher}\n"));
            seen["of a program"] = seen["of a program"].as_str().unwrap().replace(&higher, &own).into();
        }
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&seen[name], value, "{name} as {who:?} with {way:?}");
        }
        assert_eq!(expected["mask"], serde_json::json!([]), "as {who:?}");
        assert_eq!((&expected["umask"], &expected["leads"]), (&0o022.into(), &true.into()), "as {who:?}");
    }
}

each_user!(a_closed_pipe_is_not_an_error);
fn a_closed_pipe_is_not_an_error(who: As) {
    let coracle = Coracle::new(who);
    let mut child = start(&coracle, &["--timeout", "20", "-l", "bash", "-c", "yes | head -c 3000000"]);
    let mut first = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "y\n");
    let status = wait(&mut child);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "as {who:?}");
    assert_nothing_left(&coracle, "a closed pipe");
}

each_user!(a_program_without_standard_streams_works);
fn a_program_without_standard_streams_works(who: As) {
    let coracle = Coracle::new(who);
    let words = |command: &std::process::Command| -> Vec<String> {
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect()
    };
    let mut command = coracle.command();
    command.args(["exec", "-c", "open(\"made\", \"w\").write(\"x\")"]);
    let script = format!("{} <&- >&- 2>&-", words(&command).join(" "));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env("CORACLE_HOME", coracle.home()).current_dir("/");
    let mut child = shell.spawn().unwrap();
    let status = wait(&mut child);
    assert!(coracle.home().join("workspaces/local/files/made").exists(), "as {who:?}: {status:?}");
    assert_nothing_left(&coracle, "no streams");
}

/// Processes with this word in their command line.
fn with_word(word: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(word)).collect()
}

each_user!(an_unused_launcher_leaves_nothing);
/// The launcher and the start of a sandbox exist before the command knows its purpose.
fn an_unused_launcher_leaves_nothing(who: As) {
    let coracle = Coracle::new(who);
    let word = format!("word-{}-{}", std::process::id(), fastrand::u64(..));
    for round in 0..40 {
        let mut child = match round % 4 {
            0 => start(&coracle, &["--no-such-option", &word]),
            1 => start(&coracle, &["--help", &word]),
            _ => start(&coracle, &["-c", &format!("# {word}\nimport time; time.sleep(99)")]),
        };
        if round % 4 > 1 {
            // The launcher exists before it is gone.
            let begun = Instant::now();
            while with_word(&word).is_empty() {
                assert!(begun.elapsed() < WITHIN, "round {round} as {who:?}: it does not start");
            }
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..15_000)));
            kill_process(pid(&child), Signal::KILL).unwrap();
        }
        wait(&mut child);
        let begun = Instant::now();
        while !with_word(&word).is_empty() {
            assert!(begun.elapsed() < WITHIN, "round {round} as {who:?}: {:?}", with_word(&word));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // The next start removes what a killed one created.
    assert_eq!(coracle.python("6 * 7"), serde_json::json!(42));
    assert_nothing_left(&coracle, "beginnings");
}
