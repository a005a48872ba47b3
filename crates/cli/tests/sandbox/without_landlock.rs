//! `coracle doctor` says why Landlock is not available.

use coracle_testing::each_user;
use coracle_testing::filtered::{ENOSYS, LANDLOCK_CREATE_RULESET, NO_CALL, prefix};
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};

each_user!(doctor_reports_the_reason);
fn doctor_reports_the_reason(who: As) {
    let landlock = |call: &str| {
        let output = Coracle::behind(who, &prefix(call, ENOSYS)).command().args(["doctor", "--json"]).output().unwrap();
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
