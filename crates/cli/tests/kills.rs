//! `kill -9` of `coracle exec` or a part of it at any moment: nothing stays behind. The tests of the sandbox do the same
//! with a server.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::kills::{Target, all_gone, rounds, run, victims};
use coracle_testing::traces::{Process, instances, tree};
use fastrand::Rng;
use std::process::{Child, Stdio};
use std::time::Duration;

/// `coracle exec` has no zygote.
const TARGETS_OF_ONE: [Target; 4] = [Target::Server, Target::Launcher, Target::Sandbox, Target::ServerAndLauncher];

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
            all_gone(&coracle, &what, &before, &ids, by_itself, || next(&coracle, &what));
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
            all_gone(&coracle, &what, &before, &ids, true, || ());
        }
    }
    next(&coracle, &what);
}

fn next(coracle: &Coracle, what: &str) {
    let next = coracle.exec(&["-c", "print(6*7)"]);
    assert_eq!(next.stdout, b"42\n", "{what}: the next execution: {next:?}");
}

/// Whether the launcher's child is running.
fn is_up(process: &Process) -> bool {
    process.command_line().contains("coracle_guest")
}

each_user!(a_one_shot_and_its_parts_killed_at_random_leave_nothing);
fn a_one_shot_and_its_parts_killed_at_random_leave_nothing(who: As) {
    run(who, 100, rounds(), exec_round);
}

each_user!(
    #[ignore = "minutes: cargo xtask soak"]
    soak_a_hundred_kills_from_a_new_seed
);
fn soak_a_hundred_kills_from_a_new_seed(who: As) {
    let first = u64::from(Rng::new().u16(..)) * 1000;
    println!("seed {first}");
    run(who, first, 50, exec_round);
}
