//! Commands share the servers of a running `coracle up`, but only identical ones, and nothing else.

use super::terminal::Window;
use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle, as_ordinary};
use coracle_testing::outcome::is_alive;
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Returns the process ID of the server.
const WHO: &str = "from servers.plain import process\nprocess()['pid']";

/// `coracle up`, stopped when dropped.
struct Up(Child);

impl Up {
    fn start(coracle: &Coracle, arguments: &[&str]) -> Self {
        let mut command = coracle.command();
        command.args(["up", "--port", "0"]).args(arguments);
        Self::of(&mut command)
    }

    /// Waits until it serves.
    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("serves MCP at") {
            assert!(said.read_line(&mut text).unwrap() > 0, "it does not serve: {text}");
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap(), signal).unwrap();
    }

    fn wait(&mut self) {
        eventually("`coracle up` ends", || self.0.try_wait().unwrap().is_some());
    }

    /// Stops it like Ctrl-C.
    fn end(mut self) {
        self.signal(Signal::INT);
        self.wait();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal(Signal::INT);
            self.wait();
        }
    }
}

fn plain(who: As) -> Bridge {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    bridge
}

fn socket(bridge: &Bridge) -> PathBuf {
    bridge.coracle.home().join("store/servers.sock")
}

/// Runs Python code that must succeed; servers may be left running.
fn python(bridge: &Bridge, code: &str, more: &[&str]) -> Value {
    let execution = bridge.coracle.run("python", code, more);
    assert_eq!(execution["success"], true, "as {:?}: {execution:#}", bridge.coracle.who);
    execution["result"].clone()
}

/// Runs the same from another folder and environment.
fn process_by(command: &mut Command) -> Value {
    let output = command.args(["exec", "--json", "-c", WHO]).output().unwrap();
    let execution: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(execution["success"], true, "{execution:#}");
    execution["result"].clone()
}

each_user!(commands_share_the_servers_of_a_running_up);
fn commands_share_the_servers_of_a_running_up(who: As) {
    let bridge = plain(who);
    // Control: without `coracle up`, each command starts its own server.
    let first = python(&bridge, WHO, &[]);
    assert_ne!(python(&bridge, WHO, &[]), first);
    assert_eq!(bridge.starts("plain"), 2);
    assert!(!socket(&bridge).exists());

    let up = Up::start(&bridge.coracle, &[]);
    let found = fs::symlink_metadata(socket(&bridge)).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(socket(&bridge).parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    // For the first command, `coracle up` starts the server; the next one finds it.
    let lent = python(&bridge, WHO, &[]);
    assert_eq!(bridge.starts("plain"), 3, "as {who:?}");
    assert_eq!(python(&bridge, WHO, &[]), lent);
    let said = bridge.coracle.run("bash", "tool plain process", &[]);
    assert!(said["stdout"].as_str().unwrap().contains(&lent.to_string()), "{said:#}");
    assert_eq!(bridge.starts("plain"), 3, "as {who:?}");
    // With --own-servers a command starts its own, as does `servers test`.
    assert_ne!(python(&bridge, WHO, &["--own-servers"]), lent);
    assert_eq!(bridge.starts("plain"), 4);
    assert!(bridge.coracle.command().args(["servers", "test"]).output().unwrap().status.success());
    assert_eq!(bridge.starts("plain"), 5);
    assert_eq!(python(&bridge, WHO, &[]), lent);
    assert!(is_alive(&lent.to_string()));
    up.end();
    assert!(!socket(&bridge).exists());
    assert_ne!(python(&bridge, WHO, &[]), lent);
    bridge.assert_no_servers();
}

#[test]
fn a_running_up_lists_the_tools_of_a_new_server() {
    let bridge = plain(As::current());
    let up = Up::start(&bridge.coracle, &[]);
    let listed = || bridge.coracle.command().args(["tools", "list"]).output().unwrap();
    // `coracle up` lists tools that are not known yet.
    let lines = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap().lines().count();
    eventually("the tools are known", || bridge.starts("plain") == 1);
    assert!(lines(&listed()) > 5);
    assert_eq!(bridge.starts("plain"), 1);
    up.end();
}

#[test]
fn a_command_starts_servers_that_differ() {
    let bridge = plain(As::current());
    let up = Up::start(&bridge.coracle, &[]);
    let lent = python(&bridge, WHO, &[]);
    let mut starts = bridge.starts("plain");
    let mut is_own = |pid: &Value, what: &str| {
        assert_ne!(*pid, lent, "{what}");
        starts += 1;
        assert_eq!(bridge.starts("plain"), starts, "{what}");
    };
    // Another entry.
    let entry = bridge.plain("plain");
    let mut changed = entry.clone();
    changed["env"]["SECRET"] = "canary".into();
    bridge.servers(&json!({ "plain": changed }));
    is_own(&python(&bridge, WHO, &[]), "another variable");
    let mut changed = entry.clone();
    changed["args"].as_array_mut().unwrap().push("more".into());
    bridge.servers(&json!({ "plain": changed }));
    is_own(&python(&bridge, WHO, &[]), "another argument");
    let mut changed = entry.clone();
    changed["cwd"] = "/tmp".into();
    bridge.servers(&json!({ "plain": changed }));
    is_own(&python(&bridge, WHO, &[]), "another folder in its entry");
    bridge.servers(&json!({ "plain": entry }));
    assert_eq!(python(&bridge, WHO, &[]), lent, "control: the original entry");
    // Another inherited environment.
    is_own(&process_by(bridge.coracle.command().env("LANG", "tlh")), "another environment");
    is_own(&process_by(bridge.coracle.command().current_dir("/tmp")), "another folder");
    assert_eq!(process_by(&mut bridge.coracle.command()), lent, "control: no difference");
    // Variables that are not inherited, and the terminal, make no difference.
    assert_eq!(process_by(bridge.coracle.command().env("OTHER", "1").env("TERM", "vt52")), lent);
    up.end();
}

#[test]
fn the_policy_of_the_command_applies() {
    let bridge = plain(As::current());
    let with = |decision: &str| {
        let policy = json!({ "tools": { "plain.note": decision } });
        bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "policy": policy }));
    };
    let code = "from coracle import ToolError\nfrom servers.plain import note, process\npid = process()['pid']\n\
                try:\n  said = note(text='x')\nexcept ToolError as error:\n  said = error.code\n[pid, said]";
    for (up_says, own, said, notes) in
        [("allow", "deny", "denied_by_policy", 0), ("deny", "allow", "done", 1), ("allow", "allow", "done", 2)]
    {
        with(up_says);
        let up = Up::start(&bridge.coracle, &[]);
        let lent = python(&bridge, WHO, &[]);
        let starts = bridge.starts("plain");
        with(own);
        assert_eq!(python(&bridge, code, &[]), json!([lent, said]), "{up_says} {own}");
        assert_eq!(bridge.lines("plain").len(), notes, "{up_says} {own}");
        assert_eq!(bridge.starts("plain"), starts);
        up.end();
    }
}

#[test]
fn the_command_asks_the_user() {
    let bridge = plain(As::current());
    let up = Up::start(&bridge.coracle, &[]);
    let lent = python(&bridge, WHO, &[]);
    let code = "from coracle import ToolError\nfrom servers.plain import process, wipe\n\
                try:\n  said = wipe(what='the disk')\nexcept ToolError as error:\n  said = error.code\n[process()['pid'], said]";
    for (key, said, notes) in [("n", "denied_by_person", 0), ("y", "done", 1)] {
        let window = Window::exec(&bridge, code, &[]);
        assert!(window.question(1).contains("plain.wipe?"));
        assert_eq!(bridge.lines("plain").len(), 0);
        window.answer(key);
        assert_eq!(window.outcome()["result"], json!([lent, said]), "{key}");
        assert_eq!(bridge.lines("plain").len(), notes, "{key}");
    }
    up.end();
    bridge.assert_no_servers();
}

/// Code cannot answer questions of a server: the command says so, whatever clients `coracle up` has.
#[test]
fn questions_of_a_server_are_answered_by_the_command() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "rogue": bridge.rogue("asks") }));
    let code = "from servers.rogue import act\nact()";
    // Control: with its own server, the answers have the same meaning.
    let alone = python(&bridge, code, &[]);
    assert_eq!(alone["s1"], "no call is in progress whose caller can be asked");
    let starts = bridge.starts("asks");
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    let answers = python(&bridge, code, &[]);
    assert_eq!(answers["s0"], "sampling/createMessage is not supported for this call");
    assert_eq!(answers["s1"], "elicitation/create is not supported for this call");
    assert_eq!(answers["s3"], "ok");
    assert_eq!(bridge.starts("asks"), starts + 1);
    up.end();
}

each_user!(commands_work_after_up_is_killed_and_share_the_next_one);
fn commands_work_after_up_is_killed_and_share_the_next_one(who: As) {
    let bridge = plain(who);
    let mut up = Up::start(&bridge.coracle, &[]);
    let lent = python(&bridge, WHO, &[]);
    up.signal(Signal::KILL);
    up.wait();
    assert!(socket(&bridge).exists(), "control: nothing was cleaned up");
    let starts = bridge.starts("plain");
    assert_ne!(python(&bridge, WHO, &[]), lent);
    assert_eq!(bridge.starts("plain"), starts + 1);
    let up = Up::start(&bridge.coracle, &[]);
    let lent = python(&bridge, WHO, &[]);
    assert_eq!(python(&bridge, WHO, &[]), lent, "as {who:?}");
    assert_eq!(bridge.starts("plain"), starts + 2);
    up.end();
    assert!(!socket(&bridge).exists());
}

/// The error of a call whose server ended with `coracle up`; the next call starts the server.
#[test]
fn an_up_that_ends_during_a_call_is_named_in_the_error() {
    for signal in [Signal::INT, Signal::KILL] {
        let bridge = plain(As::current());
        let mut up = Up::start(&bridge.coracle, &[]);
        let code = "from coracle import ToolError\nfrom servers.plain import echo, wait\ntry:\n  wait(path='/never')\n\
                    except ToolError as error:\n  said = str(error)\n[said, echo(text='again')]";
        let (said, starts) = std::thread::scope(|scope| {
            let running = scope.spawn(|| python(&bridge, code, &[]));
            eventually("the call is under way", || bridge.lines("plain.log").iter().any(|line| line == "wait"));
            let starts = bridge.starts("plain");
            up.signal(signal);
            up.wait();
            (running.join().unwrap(), starts)
        });
        let why = said[0].as_str().unwrap();
        assert!(why.contains("plain") && why.contains("coracle up"), "{signal:?}: {why}");
        assert_eq!(said[1], "again");
        assert_eq!(bridge.starts("plain"), starts + 1);
        bridge.assert_no_servers();
    }
}

#[test]
fn ctrl_c_cancels_the_call_and_keeps_the_server() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "rogue": bridge.rogue("hang") }));
    let up = Up::start(&bridge.coracle, &[]);
    let mut command = bridge.coracle.command();
    command.args(["exec", "-c", "from servers.rogue import act\nact()"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let logged = |what: &str| bridge.lines("hang.log").iter().any(|line| line == what);
    eventually("the call is under way", || logged("tools/call"));
    assert!(!logged("notifications/cancelled"));
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    eventually("the server is told", || logged("notifications/cancelled"));
    assert_eq!(python(&bridge, "from servers.rogue import echo\necho()", &[]), json!({}));
    assert_eq!(bridge.starts("hang"), 1);
    up.end();
}

/// Listener in place of `coracle up`.
fn fake(bridge: &Bridge, mode: u32, owner: Option<u32>) -> UnixListener {
    let path = socket(bridge);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    bridge.coracle.own(&path);
    if let Some(owner) = owner {
        chown(&path, Some(owner), None).unwrap();
    }
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    listener
}

fn assert_no_connection(listener: &UnixListener) {
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

each_user!(sockets_that_others_could_have_created_are_not_used);
fn sockets_that_others_could_have_created_are_not_used(who: As) {
    let bridge = plain(who);
    let pid = python(&bridge, WHO, &[]);
    let listener = fake(&bridge, 0o666, None);
    assert_ne!(python(&bridge, WHO, &[]), pid, "as {who:?}");
    assert_no_connection(&listener);
    if rustix::process::geteuid().is_root() {
        let other = if who == As::Root { 54_322 } else { 0 };
        let listener = fake(&bridge, 0o600, Some(other));
        assert_ne!(python(&bridge, WHO, &[]), pid, "as {who:?}");
        assert_no_connection(&listener);
    } else {
        coracle_testing::skip::skip("a socket of another user: the tests do not run as root");
    }
    // A file in its place, and a link to elsewhere.
    fs::remove_file(socket(&bridge)).unwrap();
    bridge.write("home/store/servers.sock", "no socket");
    assert_ne!(python(&bridge, WHO, &[]), pid, "as {who:?}");
    fs::remove_file(socket(&bridge)).unwrap();
    let elsewhere = UnixListener::bind(bridge.path("elsewhere")).unwrap();
    bridge.coracle.own(&bridge.path("elsewhere"));
    fs::set_permissions(bridge.path("elsewhere"), Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(bridge.path("elsewhere"), socket(&bridge)).unwrap();
    assert_ne!(python(&bridge, WHO, &[]), pid, "as {who:?}");
    assert_no_connection(&elsewhere);
    bridge.assert_no_servers();
}

/// The socket belongs to the user, but the listener is another user's.
#[test]
fn a_listener_of_another_user_gets_no_data() {
    if !rustix::process::geteuid().is_root() {
        coracle_testing::skip::skip("another user: the tests do not run as root");
        return;
    }
    let bridge = plain(As::Ordinary);
    python(&bridge, WHO, &[]);
    let listener = fake(&bridge, 0o600, None);
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        heard
    });
    python(&bridge, WHO, &[]);
    assert_eq!(heard.join().unwrap(), Vec::<u8>::new());
    assert_eq!(bridge.starts("plain"), 2);
}

#[test]
fn silent_or_lying_peers_do_not_block_a_command() {
    let bridge = plain(As::current());
    python(&bridge, WHO, &[]);
    let answers: [&[u8]; 7] = [
        b"",
        b"{\"answer\":\"refused\",\"reason\":\"no\"}\n",
        b"{\"answer\":\"yes\"}\n",
        b"no json\n",
        b"{\"answer\":\"lent\"}\nno message\n",
        b"{\"answer\":\"lent\"}\n{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n",
        &[b'x'; 10_000],
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let listener = fake(&bridge, 0o600, None);
        let starts = bridge.starts("plain");
        let heard = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream);
            let mut wish = String::new();
            lines.read_line(&mut wish).unwrap();
            // The command may disconnect before it has read everything.
            let _ = (&stream).write_all(answer);
            // Until the command gives up.
            let _ = lines.read_to_end(&mut Vec::new());
            wish
        });
        python(&bridge, WHO, &[]);
        let wish = heard.join().unwrap();
        assert!(wish.contains("\"plain\""), "{wish}");
        // No settings are revealed.
        assert!(!wish.contains("plain.py") && !wish.contains("PLAIN_LOG") && wish.len() < 500, "{wish}");
        assert_eq!(bridge.starts("plain"), starts + 1, "answer {number}");
    }
    bridge.assert_no_servers();
}

/// Client that any user could run.
const CLIENT: &str = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                      s.sendall(b'{\"version\":1,\"server\":\"plain\",\"settings\":{\"entry\":\"\",\"environment\":\"\",\"place\":\"\"}}\\n')\n\
                      sys.stdout.write(s.makefile().readline())";

#[test]
fn another_user_is_refused() {
    let words = as_ordinary();
    let Some((setpriv, arguments)) = words.split_first() else {
        coracle_testing::skip::skip("another user: the tests do not run as root");
        return;
    };
    let bridge = plain(As::Root);
    let up = Up::start(&bridge.coracle, &[]);
    let path = socket(&bridge);
    let client = |command: &mut Command| {
        let output = command.arg("-c").arg(CLIENT).arg(&path).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let other = || {
        let mut command = Command::new(setpriv);
        command.args(arguments).args(["/usr/bin/python3", "-I"]);
        command
    };
    let (succeeded, _, stderr) = client(&mut other());
    assert!(!succeeded && stderr.contains("PermissionError"), "{stderr}");
    // Even if the permissions are opened.
    for (path, mode) in
        [(path.parent().unwrap().parent().unwrap(), 0o755), (path.parent().unwrap(), 0o755), (&path, 0o666)]
    {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let (succeeded, said, stderr) = client(&mut other());
    assert!(said.is_empty(), "{said}");
    assert!(succeeded || stderr.contains("ConnectionResetError") || stderr.contains("BrokenPipeError"), "{stderr}");
    // Control: the owner gets an answer.
    let (_, said, stderr) = client(Command::new("/usr/bin/python3").arg("-I"));
    assert!(said.contains("its entry in the settings differs"), "{said} {stderr}");
    up.end();
}

each_user!(sandboxed_code_cannot_reach_the_socket);
/// Sharing is for commands: sandboxed code always goes through the broker.
fn sandboxed_code_cannot_reach_the_socket(who: As) {
    let bridge = plain(who);
    let up = Up::start(&bridge.coracle, &[]);
    let path = socket(&bridge).to_str().unwrap().to_owned();
    let code = format!(
        "import socket\ntry:\n  socket.socket(socket.AF_UNIX).connect({path:?})\n  said = 'connected'\n\
             except OSError as error:\n  said = type(error).__name__\n"
    );
    assert_eq!(python(&bridge, &format!("{code}said"), &[]), "PermissionError", "as {who:?}");
    // Control: the same user outside a sandbox.
    let mut words = if who == As::Ordinary { as_ordinary() } else { Vec::new() };
    words.extend(["/usr/bin/python3", "-I", "-c", &format!("{code}print(said)")].map(str::to_owned));
    let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "connected\n", "as {who:?}: {output:?}");
    up.end();
}

#[test]
fn the_data_folder_can_have_a_long_path() {
    let bridge = plain(As::current());
    let home = bridge.path(&"x".repeat(150));
    fs::create_dir(&home).unwrap();
    bridge.coracle.own(&home);
    fs::copy(bridge.coracle.home().join("coracle.yaml"), home.join("coracle.yaml")).unwrap();
    bridge.coracle.own(&home.join("coracle.yaml"));
    let command = |home: &Path| {
        let mut command = bridge.coracle.command();
        command.env("CORACLE_HOME", home);
        command
    };
    let up = Up::of(command(&home).args(["up", "--port", "0"]));
    let lent = process_by(&mut command(&home));
    assert_eq!(process_by(&mut command(&home)), lent);
    let starts = bridge.starts("plain");
    // Control: another data folder is another Coracle.
    assert_ne!(process_by(&mut command(&bridge.coracle.home())), lent);
    assert_eq!(bridge.starts("plain"), starts + 1);
    up.end();
    assert!(!home.join("store/servers.sock").exists());
}

/// A server that is stopped, as with Ctrl-Z.
#[test]
fn commands_work_while_up_is_suspended() {
    let bridge = plain(As::current());
    let entry = bridge.plain("plain");
    bridge.servers(&json!({ "plain": entry, "second": bridge.plain("second") }));
    let up = Up::start(&bridge.coracle, &[]);
    eventually("both are known", || bridge.starts("plain") == 1 && bridge.starts("second") == 1);
    up.signal(Signal::STOP);
    python(&bridge, "from servers import plain, second\n[plain.process(), second.process()]", &[]);
    assert_eq!((bridge.starts("plain"), bridge.starts("second")), (2, 2));
    up.signal(Signal::CONT);
    python(&bridge, "from servers import plain, second\n[plain.process(), second.process()]", &[]);
    assert_eq!((bridge.starts("plain"), bridge.starts("second")), (2, 2));
    up.end();
}
