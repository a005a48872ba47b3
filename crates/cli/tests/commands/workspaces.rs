//! `coracle workspaces` for operators. Deletion is tested in the engine, where time can be simulated.

use coracle_testing::place::Place;
use serde_json::Value;

#[test]
fn workspaces_are_listed_and_used_ones_are_kept() {
    let place = Place::new();
    let none = place.run(&["workspaces", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("there are no workspaces yet"), "{none:?}");

    let code = "open('/workspace/kept.txt', 'w').write('x' * 50_000)\nopen('/artifacts/a.txt', 'w').write('a')";
    let wrote = place.run(&["exec", "-c", code]);
    assert_eq!(wrote.code, Some(0), "{wrote:?}");
    let list = place.run(&["workspaces", "list"]);
    assert!(list.stdout.starts_with("local ") && list.stdout.contains("used within the hour"), "{list:?}");
    let told = place.run(&["workspaces", "list", "--json"]);
    let all: Value = serde_json::from_str(&told.stdout).unwrap();
    let one = &all[0];
    assert_eq!(one["user"], "local", "{told:?}");
    assert!(one["bytes"].as_u64().unwrap() >= 50_000 && one["files"].as_u64().unwrap() >= 1, "{told:?}");
    assert!(one["artifact_bytes"].as_u64().unwrap() > 0, "{told:?}");

    for arguments in [&["workspaces", "clean"][..], &["workspaces", "clean", "--yes", "--after-days", "1"]] {
        let cleaned = place.run(arguments);
        assert_eq!((cleaned.code, cleaned.stdout.as_str()), (Some(0), ""), "{cleaned:?}");
        assert!(cleaned.stderr.contains("every workspace was used within"), "{cleaned:?}");
    }
    let kept = place.run(&["exec", "-c", "print(len(open('/workspace/kept.txt').read()))"]);
    assert_eq!(kept.stdout, "50000\n", "{kept:?}");

    for wrong in [&["workspaces", "clean", "--yes", "--dry-run"][..], &["workspaces", "clean", "--after-days", "0"]] {
        assert_eq!(place.run(wrong).code, Some(2), "{wrong:?}");
    }
}
