//! Rounds of tests that kill a process at a random moment and look for leftovers.

use crate::harness::{As, Coracle};
use crate::traces::{Process, files, leftovers, nothing_within};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::time::Duration;

/// Rounds as each user: all targets, and one more.
const SHORT: usize = 6;
const LONG: usize = 100;

/// Time limit for cleaning up on a busy machine.
pub const GONE_WITHIN: Duration = Duration::from_secs(8);

/// Process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The process that asks for sandboxes.
    Server,
    /// The process that creates them.
    Launcher,
    /// The warmed-up interpreter.
    Zygote,
    /// One of the sandboxes.
    Sandbox,
    /// Both at once, so that neither can clean up.
    ServerAndLauncher,
}

/// All targets.
pub const TARGETS: [Target; 5] =
    [Target::Server, Target::Launcher, Target::Zygote, Target::Sandbox, Target::ServerAndLauncher];

/// Number of rounds as each user: more if `CORACLE_SOAK` is set.
pub fn rounds() -> usize {
    if std::env::var_os("CORACLE_SOAK").is_some() { LONG } else { SHORT }
}

/// Processes of a target in the tree; sandboxes are at this depth below the server.
pub fn victims(rng: &mut Rng, target: Target, tree: &[Process], sandboxes: usize) -> Vec<Process> {
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
/// remove them (`by_itself`); otherwise they are removed by `next`, which starts another server.
pub fn all_gone(
    coracle: &Coracle,
    what: &str,
    seen: &[Process],
    ids: &BTreeSet<String>,
    by_itself: bool,
    next: impl FnOnce(),
) {
    let home = coracle.home();
    if by_itself {
        nothing_within(GONE_WITHIN, what, || [leftovers(&home, seen, ids), files(&home)].concat());
        return;
    }
    // Cgroups are removed at the next start; processes and mounts earlier.
    nothing_within(GONE_WITHIN, what, || leftovers(&home, seen, &BTreeSet::new()));
    next();
    nothing_within(GONE_WITHIN, &format!("{what}, after the next start"), || {
        [leftovers(&home, seen, ids), files(&home)].concat()
    });
}

/// Runs rounds with increasing seeds. `CORACLE_TEST_SEED` repeats one of them.
pub fn run(who: As, first: u64, count: usize, round: fn(u64, As)) {
    let one = std::env::var("CORACLE_TEST_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(first..first + count as u64, |seed| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed} as {who:?}");
        round(seed, who);
    }
}
