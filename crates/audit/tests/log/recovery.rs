use crate::given::{durable_log_at, entry, log_with};
use coracle_audit::AuditLog;
use std::fs::{self, OpenOptions};
use std::io::Write;

#[tokio::test]
async fn an_incomplete_record_after_the_end_is_removed_and_that_is_recorded() {
    let given = log_with(3, 1 << 20).await;
    let path = given.segments().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"{"seq":5,"time":"2026-"#).unwrap();
    let report = given.verified().await;
    assert_eq!((report.problem, report.records), (None, 4));
    assert!(report.notes[0].contains("22 bytes"), "{:?}", report.notes);
    given.log.append(entry(7)).await.unwrap();
    given.assert_intact(6).await;
    let records = given.log.last_records(coracle_audit::Filter::default(), 2).await.unwrap();
    assert_eq!(records[0].kind, "log.recovered");
    assert_eq!(records[0].fields["removed_bytes"], 22);
    assert_eq!(records[1].fields["number"], 7);
    assert!(fs::read(&path).unwrap().starts_with(&whole));
}

#[tokio::test]
async fn a_record_that_the_head_does_not_know_yet_is_kept() {
    let given = log_with(2, 1 << 20).await;
    let head = given.folder().join("head");
    let before = fs::read(&head).unwrap();
    given.log.append(entry(1)).await.unwrap();
    // As if the process had been killed between the record and the head.
    fs::write(&head, before).unwrap();
    given.assert_intact(4).await;
    given.fresh().append(entry(2)).await.unwrap();
    given.assert_intact(5).await;
    assert_eq!(given.verified().await.notes, [""; 0]);
}

#[tokio::test]
async fn records_are_on_the_disk_when_that_is_asked_for() {
    let given = log_with(0, 1 << 20).await;
    let log = durable_log_at(given.home.path(), &given.store);
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let log = log.clone();
            tokio::spawn(async move { log.append(entry(number)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    given.assert_intact(21).await;
    let head = fs::read_to_string(given.folder().join("head")).unwrap();
    assert!(head.contains(r#""synced":{"seq":21,"#), "{head}");
}
