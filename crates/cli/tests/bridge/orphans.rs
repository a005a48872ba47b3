//! Servers that do not end by themselves, when the program is killed or somebody at the keyboard has had enough.

use crate::harness::everybody;
use crate::lab::{Bridge, eventually, is_alive};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Ending at once takes no longer, on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(1_500);

/// A server that ignores the end of its input and a request to end, and has a child that does so too.
fn stubborn(bridge: &Bridge) -> Value {
    let mut server = bridge.plain("plain");
    server["env"]["PLAIN_STUBBORN"] = json!("1");
    server
}

fn started(bridge: &Bridge) -> Vec<String> {
    let lines = bridge.lines("plain.log");
    lines.iter().filter_map(|line| line.strip_prefix("start ").map(str::to_owned)).collect()
}

/// In a group of its own, as a shell starts it.
fn start(bridge: &Bridge, arguments: &[&str]) -> Child {
    let mut command = bridge.coracle.command();
    command.args(arguments).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_server_that_ignores_everything_ends_when_the_program_is_killed() {
    for who in everybody() {
        let bridge = Bridge::new(*who);
        bridge.servers(&json!({ "plain": stubborn(&bridge) }));
        let code = format!("from servers.plain import wait\nwait(path={:?})", bridge.text("data/never"));
        let mut child = start(&bridge, &["exec", "-c", &code]);
        eventually("the call is made", || bridge.lines("plain.log").last().is_some_and(|line| line == "wait"));
        let servers = started(&bridge);
        assert_eq!(servers.len(), 2, "as {who:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        // The control: it has not ended by itself, although its input has.
        std::thread::sleep(Duration::from_millis(500));
        assert!(servers.iter().all(|pid| is_alive(pid)), "as {who:?}: it is not as stubborn as it should be");
        bridge.assert_no_servers();
    }
}

#[test]
fn a_server_that_ignores_everything_ends_with_a_program_that_ends() {
    let bridge = Bridge::new(everybody()[0]);
    bridge.servers(&json!({ "plain": stubborn(&bridge) }));
    assert_eq!(bridge.result("python", "from servers.plain import echo\necho(text='still')"), "still");
    assert_eq!(started(&bridge).len(), 2);
}

fn ended(bridge: &Bridge, child: Child, begun: Instant) -> Output {
    let output = child.wait_with_output().unwrap();
    let took = begun.elapsed();
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None), "{output:?}");
    assert!(took < AT_ONCE, "it took {took:?}");
    bridge.assert_no_servers();
    output
}

#[test]
fn a_test_of_servers_ends_at_once_from_the_keyboard() {
    for who in everybody() {
        let bridge = Bridge::new(*who);
        let mut hanging = stubborn(&bridge);
        hanging["env"]["PLAIN_WAIT"] = json!(bridge.text("data/never"));
        bridge.servers(&json!({ "plain": hanging }));
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let before = started(&bridge).len();
            let child = start(&bridge, &["servers", "test"]);
            eventually("the server is started", || started(&bridge).len() == before + 2);
            assert!(started(&bridge)[before..].iter().all(|pid| is_alive(pid)));
            let begun = Instant::now();
            send(&child, signal);
            let output = ended(&bridge, child, begun);
            assert!(output.stdout.is_empty(), "as {who:?}: {output:?}");
        }
        // The control: the same server, once it may speak, passes the test and is ended politely.
        bridge.write("data/never", "");
        let output = bridge.coracle.command().args(["servers", "test"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "as {who:?}: {output:?}");
        bridge.assert_no_servers();
    }
}

#[test]
fn a_sign_in_ends_at_once_from_the_keyboard() {
    let bridge = Bridge::new(everybody()[0]);
    // Takes connections and never says anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    bridge.servers(&json!({ "web": { "url": url } }));
    let child = start(&bridge, &["servers", "login", "web"]);
    let (_connection, _) = silent.accept().unwrap();
    let begun = Instant::now();
    send(&child, Signal::INT);
    ended(&bridge, child, begun);
}
