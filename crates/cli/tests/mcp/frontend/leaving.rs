//! Progress during a run, cancelled calls, and clients that disconnect.

use super::driver::{GENERATIONS, Plan, Sdk, Up, assert_nothing_left, call, code, first, start, stdio, steps};
use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// Reports that it has started, and writes the time until it is ended.
const LIVES: &str = "
import time
print('begun', flush=True)
with open('/workspace/alive', 'w', buffering=1) as alive:
    while True:
        print(time.time(), file=alive)
        time.sleep(0.002)
";

/// Time for code to end after a cancellation, on a busy machine. The measured time is printed.
const SOON: Duration = Duration::from_secs(2);

fn last_sign(coracle: &Coracle) -> f64 {
    let text = fs::read_to_string(coracle.workspace().join("alive")).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|line| line.parse().ok()).fold(0.0, f64::max)
}

/// Waits until the code has stopped, and returns when it did.
fn silent(coracle: &Coracle) -> f64 {
    let path = coracle.workspace().join("alive");
    eventually("the code has stopped", || {
        let before = fs::metadata(&path).unwrap().len();
        std::thread::sleep(Duration::from_millis(300));
        fs::metadata(&path).unwrap().len() == before
    });
    last_sign(coracle)
}

/// Both transports, on the workspace of the test.
fn serve(coracle: &Coracle) -> (Up, [(&'static str, Value); 2]) {
    let workspace = coracle.workspace();
    let arguments = ["--workspace", workspace.to_str().unwrap()];
    let up = Up::start(coracle, &arguments);
    let servers = [("HTTP", up.server()), ("stdio", stdio(coracle, &arguments))];
    (up, servers)
}

#[test]
fn progress_is_reported_while_code_runs() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    let program = "import time\nfor n in range(5):\n    print('part', n, flush=True)\n    time.sleep(0.2)";
    for server in [up.server(), stdio(&coracle, &[])] {
        for mode in GENERATIONS {
            let outcomes = steps(server.clone(), mode, &[code(program)]);
            assert_eq!(outcomes[0]["progress"], json!(["part 0", "part 1", "part 2", "part 3", "part 4"]), "{mode}");
        }
    }
}

#[test]
fn tool_calls_are_reported_as_progress() {
    let bridge = Bridge::new(first());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let up = Up::start(&bridge.coracle, &[]);
    // Notifications have a minimum interval, and only the last event in it is reported.
    let program = "import time\nfrom servers.plain import crowd\ncrowd(ms=1500)\ntime.sleep(1.5)";
    for mode in GENERATIONS {
        let outcomes = steps(up.server(), mode, &[code(program)]);
        let progress = outcomes[0]["progress"].to_string();
        assert!(progress.contains("calling plain.crowd"), "{mode}: {progress}");
        assert!(progress.contains("plain.crowd answered after "), "{mode}: {progress}");
    }
}

each_user!(cancelling_a_call_ends_its_code_and_frees_the_sandbox);
fn cancelling_a_call_ends_its_code_and_frees_the_sandbox(who: As) {
    let coracle = Coracle::new(who);
    let (up, servers) = serve(&coracle);
    for (name, server) in servers {
        for mode in GENERATIONS {
            let abandon = json!({ "do": "abandon", "name": "execute_code", "arguments": { "code": LIVES } });
            // The connection can still be used.
            let outcomes = steps(server.clone(), mode, &[abandon, code("6 * 7")]);
            assert_eq!(outcomes[1]["value"]["structuredContent"]["result"], 42, "{name} {mode}: {outcomes:?}");
            let abandoned = outcomes[0]["value"].as_f64().unwrap();
            let after = (silent(&coracle) - abandoned) * 1e3;
            println!("as {who:?}, {name}, {mode}: code ends {after:.0} ms after it was cancelled");
            assert!(after < SOON.as_secs_f64() * 1e3, "{name} {mode}");
        }
    }
    eventually("no execution is under way", || up.figure("coracle_executions_under_way") == 0);
}

each_user!(a_disconnected_client_leaves_nothing_running);
fn a_disconnected_client_leaves_nothing_running(who: As) {
    let coracle = Coracle::new(who);
    let (up, servers) = serve(&coracle);
    for (name, server) in servers {
        for mode in GENERATIONS {
            fs::remove_file(coracle.workspace().join("alive")).unwrap_or_default();
            let steps = [call("execute_code", &json!({ "code": LIVES, "timeout_seconds": 120 }))];
            let mut client = start(Sdk::Python, &Plan { server: server.clone(), mode, answers: &[], steps: &steps });
            eventually("the code runs", || last_sign(&coracle) > 0.0);
            client.kill().unwrap();
            client.wait().unwrap();
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
            let after = (silent(&coracle) - now) * 1e3;
            println!("as {who:?}, {name}, {mode}: code ends {after:.0} ms after its client has vanished");
            assert!(after < SOON.as_secs_f64() * 1e3, "{name} {mode}: {after}");
        }
    }
    eventually("no execution is under way", || up.figure("coracle_executions_under_way") == 0);
    drop(up);
    assert_nothing_left(&coracle);
}

each_user!(ctrl_c_lets_running_code_finish_and_leaves_nothing);
fn ctrl_c_lets_running_code_finish_and_leaves_nothing(who: As) {
    let coracle = Coracle::new(who);
    let mut up = Up::start(&coracle, &[]);
    let program = "import time\nprint('begun', flush=True)\ntime.sleep(1)\n'finished'";
    // Lists tools first, because clients validate results against the listed schemas.
    let steps = [json!({ "do": "tools" }), code(program)];
    let mut client = start(Sdk::Python, &Plan { server: up.server(), mode: "2026-07-28", answers: &[], steps: &steps });
    eventually("the code runs", || up.figure("coracle_executions_under_way") == 1);
    up.interrupt();
    let line = BufReader::new(client.stdout.take().unwrap()).lines().nth(1).unwrap().unwrap();
    client.wait().unwrap();
    let outcome: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(outcome["value"]["structuredContent"]["result"], "finished", "{outcome:#}");
    assert_eq!(up.wait().code(), Some(0));
    assert_nothing_left(&coracle);
}

#[test]
fn ctrl_c_does_not_wait_for_code_that_never_ends() {
    let coracle = Coracle::new(As::Ordinary);
    let mut up = Up::start(&coracle, &[]);
    let steps = [call("execute_code", &json!({ "code": "while True: pass", "timeout_seconds": 600 }))];
    let mut client = start(Sdk::Python, &Plan { server: up.server(), mode: "legacy", answers: &[], steps: &steps });
    eventually("the code runs", || up.figure("coracle_executions_under_way") == 1);
    let begun = Instant::now();
    up.interrupt();
    assert_eq!(up.wait().code(), Some(0));
    println!("drained in {:.1} s", begun.elapsed().as_secs_f64());
    client.kill().unwrap();
    client.wait().unwrap();
    assert_nothing_left(&coracle);
}
