//! Servers that do not end by themselves, when the program is killed or cancelled.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::outcome::is_alive;
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Upper limit for ending at once on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(1_500);

/// Server that ignores the end of its input and SIGTERM, as does its child.
fn stubborn(bridge: &Bridge) -> Value {
    let mut server = bridge.plain("plain");
    server["env"]["PLAIN_STUBBORN"] = json!("1");
    server
}

fn started(bridge: &Bridge) -> Vec<String> {
    let lines = bridge.lines("plain.log");
    lines.iter().filter_map(|line| line.strip_prefix("start ").map(str::to_owned)).collect()
}

/// Starts the program in its own process group, like a shell.
fn start(bridge: &Bridge, arguments: &[&str]) -> Child {
    let mut command = bridge.coracle.command();
    command.args(arguments).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

each_user!(a_stubborn_server_ends_when_the_program_is_killed);
fn a_stubborn_server_ends_when_the_program_is_killed(who: As) {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": stubborn(&bridge) }));
    let code = format!("from servers.plain import wait\nwait(path={:?})", bridge.text("data/never"));
    let mut child = start(&bridge, &["exec", "-c", &code]);
    eventually("the call is made", || bridge.lines("plain.log").last().is_some_and(|line| line == "wait"));
    let servers = started(&bridge);
    assert_eq!(servers.len(), 2, "as {who:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Control: the server does not end by itself when its input ends.
    std::thread::sleep(Duration::from_millis(500));
    assert!(servers.iter().all(|pid| is_alive(pid)), "as {who:?}: the server should not have ended");
    bridge.assert_no_servers();
}

#[test]
fn a_stubborn_server_ends_with_the_program() {
    let bridge = Bridge::new(As::current());
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

each_user!(ctrl_c_ends_servers_test_at_once);
fn ctrl_c_ends_servers_test_at_once(who: As) {
    let bridge = Bridge::new(who);
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
    // Control: the same server passes the test once it may respond, and ends normally.
    bridge.write("data/never", "");
    let output = bridge.coracle.command().args(["servers", "test"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "as {who:?}: {output:?}");
    bridge.assert_no_servers();
}

#[test]
fn ctrl_c_ends_a_sign_in_at_once() {
    let bridge = Bridge::new(As::current());
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    bridge.servers(&json!({ "web": { "url": url } }));
    let child = start(&bridge, &["servers", "login", "web"]);
    let (_connection, _) = silent.accept().unwrap();
    let begun = Instant::now();
    send(&child, Signal::INT);
    ended(&bridge, child, begun);
}
