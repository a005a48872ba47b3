//! One round: a busy Coracle, one kill at a random moment, and a check for leftovers.

use crate::server::Server;
use crate::traces::{Process, files, instances, leftovers, nothing_within, tree};
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use fastrand::Rng;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Rounds as each user: all targets, and one more.
const SHORT: usize = 6;
const LONG: usize = 200;

/// Time limit for cleaning up on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(8);

/// Process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Server,
    Launcher,
    Zygote,
    Sandbox,
    ServerAndLauncher,
}

const TARGETS: [Target; 5] =
    [Target::Server, Target::Launcher, Target::Zygote, Target::Sandbox, Target::ServerAndLauncher];

/// `coracle exec` has no zygote.
const TARGETS_OF_ONE: [Target; 4] = [Target::Server, Target::Launcher, Target::Sandbox, Target::ServerAndLauncher];

fn rounds() -> usize {
    if std::env::var_os("CORACLE_SOAK").is_some() { LONG / 2 } else { SHORT }
}

/// Processes of a target in the tree; sandboxes are at this depth below the server.
fn victims(rng: &mut Rng, target: Target, tree: &[Process], sandboxes: usize) -> Vec<Process> {
    let launcher = tree.iter().find(|process| process.depth == 1);
    let at = |depth: usize| {
        let deep: Vec<Process> =
            tree.iter().filter(|process| launcher.is_some() && process.depth == depth).copied().collect();
        deep
    };
    match target {
        Target::Server => at(0).into_iter().chain(tree.first().copied()).take(1).collect(),
        Target::Launcher => launcher.into_iter().copied().collect(),
        Target::Zygote => at(2).into_iter().take(1).collect(),
        Target::Sandbox => rng.choice(at(sandboxes)).into_iter().collect(),
        // Both orders occur.
        Target::ServerAndLauncher => {
            let mut both: Vec<Process> = tree.first().into_iter().chain(launcher).copied().collect();
            rng.shuffle(&mut both);
            both
        }
    }
}

/// After the server is dead, processes, mounts and cgroups are gone at once, and so are files if a launcher could
/// remove them; otherwise they are removed at the next start.
fn all_gone(
    coracle: &Coracle,
    what: &str,
    seen: &[Process],
    ids: &std::collections::BTreeSet<String>,
    by_itself: bool,
) {
    let home = coracle.home();
    if by_itself {
        nothing_within(GONE_WITHIN, what, || [leftovers(&home, seen, ids), files(&home)].concat());
        return;
    }
    // Cgroups are removed at the next start; processes and mounts earlier.
    nothing_within(GONE_WITHIN, what, || leftovers(&home, seen, &std::collections::BTreeSet::new()));
    let next = coracle.exec(&["-c", "print(6*7)"]);
    assert_eq!(next.stdout, b"42\n", "{what}: the next start: {next:?}");
    nothing_within(GONE_WITHIN, &format!("{what}, after the next start"), || {
        [leftovers(&home, seen, ids), files(&home)].concat()
    });
}

/// Round with a busy server.
fn server_round(seed: u64, who: As) {
    let mut rng = Rng::with_seed(seed);
    let target = TARGETS[(seed % TARGETS.len() as u64) as usize];
    let coracle = Coracle::new(who);
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
            all_gone(&coracle, &what, &before, &ids, by_itself);
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
            all_gone(&coracle, &what, &before, &all, true);
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
        Target::Sandbox => &["exception worker", "sandbox_unavailable worker"][..],
        _ => &["internal worker", "sandbox_unavailable worker"],
    };
    usual(line) || lost.iter().any(|start| line.starts_with(start))
}

/// Round with `coracle exec`.
fn exec_round(seed: u64, who: As) {
    let mut rng = Rng::with_seed(seed);
    let target = TARGETS_OF_ONE[(seed % TARGETS_OF_ONE.len() as u64) as usize];
    let coracle = Coracle::new(who);
    let code = "trap '' TERM HUP; sleep 60 & (setsid sleep 60 &); (setsid nohup sleep 60 >/dev/null 2>&1 &)
        echo up > /artifacts/up; echo up; while :; do sleep 0.02; done";
    let mut command = coracle.command();
    command.args(["exec", "--json", "--timeout", "60", "--lang", "bash", "-c", code]);
    let child: Child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(rng.u64(..900)));
    let mut before = tree(child.id());
    let mut killed = victims(&mut rng, target, &before, 2);
    while killed.is_empty() {
        // Not started yet.
        std::thread::sleep(Duration::from_millis(5));
        before = tree(child.id());
        assert!(!before.is_empty(), "seed {seed}: it ended by itself: {:?}", child.wait_with_output());
        killed = victims(&mut rng, target, &before, 2);
    }
    let ids = instances(&coracle.home());
    // As root, a helper of the launcher is there first, which is not needed once it is done.
    let helper = target == Target::Sandbox && who == As::Root && !killed.iter().any(is_up);
    killed.iter().for_each(Process::kill);
    let what = format!("seed {seed}, {who:?}, {target:?} of {} processes", before.len());
    let output = child.wait_with_output().unwrap();
    match target {
        Target::Server | Target::ServerAndLauncher => {
            let by_itself =
                target == Target::Server && before.iter().any(|process| process.depth == 2 && is_up(process));
            all_gone(&coracle, &what, &before, &ids, by_itself);
        }
        Target::Launcher | Target::Zygote | Target::Sandbox => {
            let answer: serde_json::Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{what}: {error}: {output:?}"));
            let code = answer["error_code"].as_str().unwrap();
            let (lost, status) = if target == Target::Sandbox { ("exception", 1) } else { ("internal", 125) };
            let early = code == "sandbox_unavailable" && output.status.code() == Some(125);
            let missed_by_nobody = helper && code == "timeout";
            assert!(
                early || missed_by_nobody || code == lost && output.status.code() == Some(status),
                "{what}: {answer:#}"
            );
            all_gone(&coracle, &what, &before, &ids, true);
        }
    }
    let next = coracle.exec(&["-c", "print(6*7)"]);
    assert_eq!(next.stdout, b"42\n", "{what}: the next execution: {next:?}");
}

/// Whether the launcher's child is running.
fn is_up(process: &Process) -> bool {
    process.command_line().contains("coracle_guest")
}

/// Runs rounds. `CORACLE_TEST_SEED` repeats one of them.
fn run(who: As, first: u64, count: usize, round: fn(u64, As)) {
    let one = std::env::var("CORACLE_TEST_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(first..first + count as u64, |seed| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed} as {who:?}");
        round(seed, who);
    }
}

each_user!(a_busy_server_and_its_parts_killed_at_random_leave_nothing);
fn a_busy_server_and_its_parts_killed_at_random_leave_nothing(who: As) {
    run(who, 0, rounds(), server_round);
}

each_user!(a_one_shot_and_its_parts_killed_at_random_leave_nothing);
fn a_one_shot_and_its_parts_killed_at_random_leave_nothing(who: As) {
    run(who, 100, rounds(), exec_round);
}

each_user!(
    #[ignore = "minutes: cargo xtask soak"]
    soak_two_hundred_kills_from_a_new_seed
);
fn soak_two_hundred_kills_from_a_new_seed(who: As) {
    let first = u64::from(Rng::new().u16(..)) * 1000;
    println!("seed {first}");
    run(who, first, LONG / 4, server_round);
    run(who, first, LONG / 4, exec_round);
}
