use crate::given::{entry, log_with};
use coracle_audit::{AuditLog, FileLog, FileLogConfig};
use coracle_store::Home;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn old_segments_are_deleted_and_the_rest_is_still_intact() {
    let given = log_with(20, 700).await;
    let before = given.segments();
    assert!(before.len() > 4);
    given.assert_intact(21).await;
    // Everything is older than this.
    let keep = Some(Duration::ZERO);
    let config = FileLogConfig::new(Home::new(given.home.path()), Arc::clone(&given.store));
    let log = FileLog::new(FileLogConfig { segment_bytes: 700, keep, ..config });
    log.append(entry(1)).await.unwrap();
    let after = given.segments();
    assert!(after.len() < before.len() && !after.contains(&before[0]), "{after:?}");
    let report = given.verified().await;
    assert_eq!(report.problem, None);
    assert!(report.first > 1 && report.last.unwrap().seq() == report.first + report.records - 1, "{report:?}");
    let kinds: Vec<_> = log
        .last_records(coracle_audit::Filter::default(), 100)
        .await
        .unwrap()
        .into_iter()
        .map(|record| record.kind)
        .collect();
    assert!(kinds.contains(&"log.pruned".to_owned()), "{kinds:?}");
    // Deleting more than that is still found.
    let whole = fs::read(&after[0]).unwrap();
    fs::remove_file(&after[0]).unwrap();
    assert!(given.problem().await.is_some());
    fs::write(&after[0], whole).unwrap();
    assert_eq!(given.problem().await, None);
}

#[tokio::test]
async fn nothing_is_deleted_before_its_time() {
    let given = log_with(20, 700).await;
    let config = FileLogConfig::new(Home::new(given.home.path()), Arc::clone(&given.store));
    let keep = Some(Duration::from_hours(24));
    let log = FileLog::new(FileLogConfig { segment_bytes: 700, keep, ..config });
    for number in 0..10 {
        log.append(entry(number)).await.unwrap();
    }
    given.assert_intact(31).await;
}
