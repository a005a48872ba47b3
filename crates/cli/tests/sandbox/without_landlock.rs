//! Without Landlock, the tier is partial and says so, full isolation is refused, and mounts and filters still confine
//! code.

use crate::escape::battery::{beside, facts, inside};
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// Executes its arguments with a seccomp filter: this system call returns this error.
const FILTERED: &str = "
import ctypes, os, struct, sys
number, errno = int(sys.argv[1]), int(sys.argv[2])
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(lines), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[3], sys.argv[3:])
";

/// The number is the same on all architectures.
const LANDLOCK_CREATE_RULESET: &str = "444";
const ENOSYS: &str = "38";
/// Error of a kernel with Landlock that is disabled.
const EOPNOTSUPP: &str = "95";
/// Unused number: the same filter without an effect.
const NO_CALL: &str = "9999";

fn filtered(who: As, call: &str, errno: &str) -> Coracle {
    let python = if fs::exists("/usr/bin/python3").unwrap() { "/usr/bin/python3" } else { "/usr/local/bin/python3" };
    Coracle::behind(who, &[python, "-I", "-c", FILTERED, call, errno])
}

fn tier(coracle: &Coracle, more: &[&str]) -> (Value, Value) {
    let execution = coracle.run("python", "6 * 7", more);
    assert_eq!((&execution["success"], &execution["result"]), (&json!(true), &json!(42)), "{execution:#}");
    let mut enforced = execution["limits"]["enforced"].clone();
    // This depends on the machine.
    enforced["memory"].take();
    (execution["limits"]["tier"].clone(), enforced)
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
        let refused = without.run("python", "6 * 7", &["--require-full-isolation"]);
        assert_eq!(refused["error_code"], "sandbox_unavailable", "{who:?}: {refused:#}");
        let words = refused["error"].as_str().unwrap();
        assert!(words.contains("Landlock") && words.contains(reason), "{who:?}: {words}");
    }
    if full.0 == "native" {
        tier(&with, &["--require-full-isolation"]);
    } else {
        // For example, an ordinary user on a machine with cgroup v1.
        let refused = with.run("python", "6 * 7", &["--require-full-isolation"]);
        let words = refused["error"].as_str().unwrap();
        assert!(!words.contains("Landlock"), "{who:?}: Landlock is there: {words}");
    }
}

each_user!(mounts_alone_protect_host_files);
fn mounts_alone_protect_host_files(who: As) {
    let probes = include_str!("escape/files.py");
    let coracle = filtered(who, LANDLOCK_CREATE_RULESET, ENOSYS);
    let (folder, canary) = beside(&coracle);
    symlink(&canary, coracle.workspace().join("planted")).unwrap();
    let told = facts(&[("CANARY", &canary), ("OUTSIDE", &folder)]);
    // The escape tests show that these succeed outside.
    inside(&coracle, &told, probes).demand(80, &format!("{who:?} without Landlock"));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["canary"], "{who:?}: something came out");
    assert_eq!(fs::read_to_string(&canary).unwrap(), "CANARY-OF-THE-HOST");
}

each_user!(doctor_reports_the_reason);
fn doctor_reports_the_reason(who: As) {
    let landlock = |call: &str| {
        let output = filtered(who, call, ENOSYS).command().args(["doctor", "--json"]).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let checks = found["tiers"][0]["checks"].as_array().unwrap().clone();
        let check = checks.into_iter().find(|check| check["name"] == "landlock").unwrap();
        (output.status.code(), found["tiers"][0]["verdict"].clone(), check)
    };
    let (code, verdict, check) = landlock(LANDLOCK_CREATE_RULESET);
    assert_eq!((code, &verdict), (Some(0), &json!("partial")), "{who:?}: {check:#}");
    let detail = check["detail"].as_str().unwrap();
    assert!(detail.contains("a filter around Coracle hides it"), "{who:?}: {detail}");
    assert!(!check["fix"].as_array().unwrap().is_empty(), "{who:?}: {check:#}");
    let (_, _, check) = landlock(NO_CALL);
    assert_eq!(check["outcome"], "ok", "{who:?}: {check:#}");
}
