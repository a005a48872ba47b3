//! `coracle bench sandbox`: the shape of what it prints. Times are for people to read, never for a test to judge.

#[cfg(test)]
#[expect(dead_code, unreachable_pub, reason = "each test file uses a part of the harness")]
#[path = "support/harness.rs"]
mod harness;

use harness::{Coracle, everybody};
use serde_json::Value;

const OWN_ROWS: [&str; 5] = ["fresh", "on_demand", "session", "cold", "floor"];

#[test]
fn a_quick_run_gives_all_its_numbers() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let output = coracle.command().args(["bench", "sandbox", "--quick", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "as {who:?}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let rows = report["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names[..OWN_ROWS.len()], OWN_ROWS, "as {who:?}: {report:#}");
        for row in rows {
            let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["name", "p50_ms", "p99_ms", "runs"], "{row:#}");
            assert!(
                row["p50_ms"].as_f64().unwrap() > 0.0 && row["p99_ms"].is_f64() && row["runs"].as_u64().unwrap() > 0,
                "{row:#}"
            );
        }
        for at_once in ["2", "8", "32"] {
            assert!(report["per_second"][at_once].as_f64().unwrap() > 0.0, "as {who:?}: {report:#}");
        }
        assert!(report["floor_per_second"]["8"].as_f64().unwrap() > 0.0, "{report:#}");
        let weighed: Vec<&String> = report["pss_mib"].as_object().unwrap().keys().collect();
        assert_eq!(weighed, ["prepared_4", "prepared_8", "session_2", "session_4"], "as {who:?}: {report:#}");
        // Every peer is there or says why it is not.
        for peer in ["bwrap", "docker_run", "docker_exec", "podman_run", "runsc"] {
            assert!(names.contains(&peer) != report["skipped"][peer].is_string(), "{peer} in {report:#}");
        }
        let left: Vec<_> =
            std::fs::read_dir(coracle.home().join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"], "as {who:?}");
    }
}

#[test]
fn a_part_alone_can_be_asked_for() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let output =
            coracle.command().args(["bench", "sandbox", "--quick", "--only", "session,floor"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("session") && text.contains("floor") && !text.contains("bwrap"), "as {who:?}: {text}");
        let unknown = coracle.command().args(["bench", "sandbox", "--only", "nothing"]).output().unwrap();
        assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    }
}

#[test]
fn without_a_sandbox_it_says_so() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let output = coracle
            .command()
            .env("CORACLE_PYTHON", "/nonexistent")
            .args(["bench", "sandbox", "--quick"])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && words.contains("/nonexistent"), "as {who:?}: {output:?}");
    }
}
