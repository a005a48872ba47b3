//! Without Landlock, the tier is partial and says so, full isolation is refused, and mounts and filters still confine
//! code.

use crate::escape::battery::{facts, inside};
use crate::lab::{place, run};
use coracle_testing::each_user;
use coracle_testing::filtered::{ENOSYS, EOPNOTSUPP, LANDLOCK_CREATE_RULESET, NO_CALL, prefix};
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

fn filtered(who: As, call: &str, errno: &str) -> Coracle {
    place(who).with_prefix(&prefix(call, errno))
}

fn tier(coracle: &Coracle, more: &[&str]) -> (Value, Value) {
    let execution = run(coracle, "python", "6 * 7", more);
    assert_eq!((&execution["ok"], &execution["result"]), (&json!(true), &json!(42)), "{execution:#}");
    let mut enforced = execution["enforced"].clone();
    // This depends on the machine.
    enforced["memory"].take();
    (execution["tier"].clone(), enforced)
}

each_user!(the_tier_is_partial_and_full_isolation_is_refused);
fn the_tier_is_partial_and_full_isolation_is_refused(who: As) {
    let with = filtered(who, NO_CALL, ENOSYS);
    let full = tier(&with, &[]);
    for (errno, reason) in [(ENOSYS, "a filter around Coracle hides it"), (EOPNOTSUPP, "is disabled")] {
        let without = filtered(who, LANDLOCK_CREATE_RULESET, errno);
        let (named, enforced) = tier(&without, &[]);
        assert_eq!(named, "native-partial", "{who:?}");
        assert_eq!(enforced, full.1, "{who:?}: limits do not hang on Landlock");
        let refused = run(&without, "python", "6 * 7", &["--full"]);
        assert_eq!(refused["ok"], false, "{who:?}: {refused:#}");
        let words = refused["refused"].as_str().unwrap();
        assert!(words.contains("Landlock") && words.contains(reason), "{who:?}: {words}");
    }
    if full.0 == "native" {
        tier(&with, &["--full"]);
    } else {
        // For example, an ordinary user on a machine with cgroup v1.
        let refused = run(&with, "python", "6 * 7", &["--full"]);
        let words = refused["refused"].as_str().unwrap();
        assert!(!words.contains("Landlock"), "{who:?}: Landlock is there: {words}");
    }
}

each_user!(mounts_alone_protect_host_files);
fn mounts_alone_protect_host_files(who: As) {
    let probes = include_str!("escape/files.py");
    let coracle = filtered(who, LANDLOCK_CREATE_RULESET, ENOSYS);
    let (folder, canary) = coracle.beside();
    symlink(&canary, coracle.workspace().join("planted")).unwrap();
    let told = facts(&[("CANARY", &canary), ("OUTSIDE", &folder)]);
    // The escape tests show that these succeed outside.
    inside(&coracle, &told, probes).demand(80, &format!("{who:?} without Landlock"));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["canary"], "{who:?}: something came out");
    assert_eq!(fs::read_to_string(&canary).unwrap(), "CANARY-OF-THE-HOST");
}
