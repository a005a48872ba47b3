//! One round: a busy server, one kill at a random moment, and a check for leftovers.

use crate::server::{Server, next, place};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::kills::{GONE_WITHIN, TARGETS, Target, all_gone, rounds, run, victims};
use coracle_testing::traces::{Process, instances, nothing_within, tree};
use fastrand::Rng;
use std::time::Duration;

/// Round with a busy server.
fn server_round(seed: u64, who: As) {
    let mut rng = Rng::with_seed(seed);
    let target = TARGETS[(seed % TARGETS.len() as u64) as usize];
    let coracle = place(who);
    let mut server = Server::start(&coracle);
    // Sometimes during the start.
    let early = matches!(target, Target::Server | Target::ServerAndLauncher) && rng.u8(..3) == 0;
    if !early {
        server.says("started", 1, 0);
    }
    std::thread::sleep(Duration::from_millis(rng.u64(..700)));
    let (before, ids) = (tree(server.child.id()), instances(&coracle.home()));
    let from = server.lines();
    let odd: Vec<String> =
        server.since(0).into_iter().skip_while(|line| line != "started").skip(1).filter(|line| !usual(line)).collect();
    assert!(odd.is_empty(), "seed {seed}, {who:?}, before the kill: {odd:#?}");
    let killed = victims(&mut rng, target, &before, 3);
    killed.iter().for_each(Process::kill);
    let what = format!("seed {seed}, {who:?}, {target:?}{}", if early { " early" } else { "" });
    match target {
        Target::Server | Target::ServerAndLauncher => {
            server.child.wait().unwrap();
            let by_itself = target == Target::Server && !early;
            all_gone(&coracle, &what, &before, &ids, by_itself, || next(&coracle, &what));
        }
        Target::Launcher | Target::Zygote | Target::Sandbox => {
            // The server continues, and reports the loss to running executions.
            server.says("ok", 8, from);
            let odd: Vec<String> = server.since(from).into_iter().filter(|line| !expected(line, target)).collect();
            assert!(odd.is_empty(), "{what}: {odd:#?}");
            nothing_within(GONE_WITHIN, &what, || {
                killed.iter().filter(|process| process.is_alive()).map(|process| format!("{process:?}")).collect()
            });
            if target == Target::Launcher {
                let old: Vec<Process> = before.iter().filter(|process| process.depth > 0).copied().collect();
                nothing_within(GONE_WITHIN, &what, || {
                    old.iter().filter(|process| process.is_alive()).map(Process::command_line).collect()
                });
            }
            let (before, mut all) = (tree(server.child.id()), ids);
            all.extend(instances(&coracle.home()));
            assert!(server.end().success(), "{what}");
            all_gone(&coracle, &what, &before, &all, true, || ());
        }
    }
}

/// Output of a server without faults.
fn usual(line: &str) -> bool {
    line == "ok" || line == "dropped" || line.starts_with("timeout worker 1")
}

/// Output of a server around a kill of one of its parts: the usual time-out, and a clear error for lost sandboxes.
fn expected(line: &str, target: Target) -> bool {
    let lost = match target {
        Target::Sandbox => &["ended worker", "refused worker"][..],
        _ => &["lost worker", "refused worker"],
    };
    usual(line) || lost.iter().any(|start| line.starts_with(start))
}

each_user!(a_busy_server_and_its_parts_killed_at_random_leave_nothing);
fn a_busy_server_and_its_parts_killed_at_random_leave_nothing(who: As) {
    run(who, 0, rounds(), server_round);
}

each_user!(
    #[ignore = "minutes: cargo xtask soak"]
    soak_a_hundred_kills_from_a_new_seed
);
fn soak_a_hundred_kills_from_a_new_seed(who: As) {
    let first = u64::from(Rng::new().u16(..)) * 1000;
    println!("seed {first}");
    run(who, first, 50, server_round);
}
