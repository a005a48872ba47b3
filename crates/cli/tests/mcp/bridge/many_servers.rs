//! Many servers with many tools: only used servers are started, and known tools cost little.

use crate::lab::Bridge;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Map, Value, json};
use std::fs;
use std::process::Stdio;
use std::time::Instant;

const SERVERS: usize = 40;

/// Extra tools per server, for a total of 500.
const EXTRA: [usize; 2] = [1, 2];
const TOOLS: usize = 500;

/// Promised limit for the memory of all our processes together, in bytes.
const MOST_MEMORY: u64 = 100_000_000;

fn crowd(bridge: &Bridge) -> Vec<String> {
    let names: Vec<String> = (0..SERVERS).map(|number| format!("server{number:02}")).collect();
    let mut servers = Map::new();
    for (number, name) in names.iter().enumerate() {
        let mut server = bridge.plain(name);
        server["env"]["PLAIN_EXTRA"] = json!(EXTRA[number % 2].to_string());
        servers.insert(name.clone(), server);
    }
    bridge.servers(&Value::Object(servers));
    names
}

#[test]
fn five_hundred_tools_cost_little() {
    let bridge = Bridge::new(As::current());
    let names = crowd(&bridge);
    let begun = Instant::now();
    let count = format!(
        "import servers\nfrom servers import {}\nsum(len(server.__all__) for server in [{}])",
        names.join(", "),
        names.join(", ")
    );
    assert_eq!(bridge.result("python", &count), TOOLS);
    println!("all {SERVERS} servers started and listed: {:?}", begun.elapsed());

    let begun = Instant::now();
    let answer = bridge.result("python", "from servers.server07 import extra_000\nextra_000(text='first')");
    println!("start to first answer of one of {TOOLS} known tools: {:?}", begun.elapsed());
    assert_eq!(answer, "first");
    assert_eq!(bridge.result("python", &count), TOOLS);
    let started: Vec<usize> = names.iter().map(|name| bridge.starts(name)).collect();
    let expected: Vec<usize> = (0..SERVERS).map(|number| if number == 7 { 2 } else { 1 }).collect();
    assert_eq!(started, expected);

    let path = bridge.text("data/go");
    let code = format!("from servers import server03\nserver03.wait(path={path:?})");
    let mut command = bridge.coracle.command();
    let child = command.args(["exec", "-c", &code]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the call is made", || bridge.lines("server03.log").last().is_some_and(|line| line == "wait"));
    let memory = proportional_memory(child.id());
    bridge.write("data/go", "");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    println!("memory of the program and its launcher: {} kB", memory / 1000);
    assert!(memory > 1_000_000 && memory < MOST_MEMORY, "{memory}");
}

/// Memory of the program and of its children that run the same program.
fn proportional_memory(program: u32) -> u64 {
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let tasks = format!("/proc/{program}/task/{program}/children");
    let children = fs::read_to_string(tasks).unwrap();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let same = children.filter(|pid| name(*pid) == name(program));
    std::iter::once(program).chain(same).map(of_one).sum()
}

fn of_one(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
