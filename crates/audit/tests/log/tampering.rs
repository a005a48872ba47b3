use crate::given::{entry, log_at, log_with};
use coracle_audit::{AuditError, AuditLog, Mark};
use coracle_store::{Home, KeySource, SqliteStore, Store};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

#[tokio::test]
async fn every_changed_bit_is_found() {
    let given = log_with(6, 700).await;
    given.assert_intact(7).await;
    let mut files = given.segments();
    assert!(files.len() > 1, "several segments are tested");
    files.push(given.folder().join("head"));
    let mut changes = 0;
    for path in files {
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1 << (place % 8);
            fs::write(&path, &changed).unwrap();
            let found = match given.fresh().verify(&[]).await {
                Ok(report) => report.problem.is_some(),
                Err(AuditError::WrongKey { .. }) => true,
                Err(error) => panic!("byte {place} of {path:?}: {error:?}"),
            };
            assert!(found, "byte {place} of {path:?}");
            changes += 1;
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(changes > 3_000);
    given.assert_intact(7).await;
}

#[tokio::test]
async fn an_end_that_is_missing_is_found_at_every_length() {
    let given = log_with(3, 1 << 20).await;
    let path = given.segments().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let found = given.problem().await;
        assert!(found.is_some(), "cut at {length} of {}", whole.len());
        if length % 50 == 0 {
            let refused = given.fresh().append(entry(0)).await.unwrap_err();
            assert!(matches!(refused, AuditError::Damaged { .. }), "{refused}");
            assert_eq!(fs::read(&path).unwrap().len(), length, "nothing is written to a damaged log");
        }
    }
    fs::write(&path, &whole).unwrap();
    given.assert_intact(4).await;
    given.fresh().append(entry(0)).await.unwrap();
    given.assert_intact(5).await;
}

#[tokio::test]
async fn a_head_that_is_cut_is_found() {
    let given = log_with(3, 1 << 20).await;
    let path = given.folder().join("head");
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(given.problem().await.is_some(), "cut at {length}");
    }
    let longer = [whole.as_slice(), b"x"].concat();
    fs::write(&path, longer).unwrap();
    assert!(given.problem().await.is_some());
    fs::write(&path, &whole).unwrap();
    given.assert_intact(4).await;
}

#[tokio::test]
#[expect(clippy::type_complexity, reason = "a list of changes")]
async fn records_that_are_moved_repeated_or_removed_are_found() {
    let given = log_with(5, 1 << 20).await;
    let path = given.segments().pop().unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let with = |change: &dyn Fn(&mut Vec<&str>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        fs::write(&path, lines.concat()).unwrap();
    };
    let changes: [&dyn Fn(&mut Vec<&str>); 4] =
        [&|lines| lines.swap(2, 3), &|lines| lines.insert(3, lines[2]), &|lines| _ = lines.remove(2), &|lines| {
            _ = lines.remove(0);
        }];
    for (number, change) in changes.into_iter().enumerate() {
        with(change);
        assert!(given.problem().await.is_some(), "change {number}");
    }
    with(&|_| {});
    given.assert_intact(6).await;
}

#[tokio::test]
async fn the_first_bad_record_is_named() {
    let given = log_with(5, 1 << 20).await;
    let path = given.segments().pop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"number\":2", "\"number\":9", 1)).unwrap();
    let report = given.verified().await;
    let problem = report.problem.unwrap();
    assert_eq!((problem.record, report.records), (Some(4), 3));
    assert!(problem.place.ends_with("line 4"), "{}", problem.place);
}

#[tokio::test]
async fn a_segment_that_is_missing_is_found() {
    let given = log_with(12, 700).await;
    let files = given.segments();
    assert!(files.len() > 3);
    for path in &files {
        let whole = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(given.problem().await.is_some(), "{path:?}");
        fs::write(path, whole).unwrap();
    }
    given.assert_intact(13).await;
    // The last segments, with the head as it was: an older log cannot be passed off as this one.
    fs::rename(&files[1], files[1].with_extension("jsonl.away")).unwrap();
    fs::rename(&files[2], &files[1]).unwrap();
    assert!(given.problem().await.is_some());
}

#[tokio::test]
async fn a_folder_that_is_missing_is_found_and_nothing_is_appended() {
    let given = log_with(3, 1 << 20).await;
    given.log.anchor().await.unwrap();
    let aside = given.home.path().join("aside");
    fs::rename(given.folder(), &aside).unwrap();
    let problem = given.problem().await.unwrap();
    assert!(problem.contains("at least 4 records"), "{problem}");
    let refused = given.fresh().append(entry(9)).await.unwrap_err();
    assert!(matches!(refused, AuditError::Missing { records: 4, .. }), "{refused}");
    assert!(refused.hint().contains("coracle audit restart"));
    // A process that has the files open notices it too.
    let refused = given.log.append(entry(9)).await.unwrap_err();
    assert!(matches!(refused, AuditError::Damaged { .. }), "{refused}");
    let refused = given.log.append(entry(9)).await.unwrap_err();
    assert!(matches!(refused, AuditError::Missing { records: 4, .. }), "{refused}");
    assert!(!given.folder().exists());
    fs::rename(&aside, given.folder()).unwrap();
    given.log.append(entry(9)).await.unwrap();
    given.assert_intact(5).await;
}

#[tokio::test]
async fn an_older_copy_of_the_log_is_found_with_a_mark_from_outside() {
    let given = log_with(2, 1 << 20).await;
    let copy: Vec<_> = fs::read_dir(given.folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    given.log.append(entry(5)).await.unwrap();
    let kept: Mark = given.fresh().head().await.unwrap().unwrap().to_string().parse().unwrap();
    assert_eq!(given.fresh().verify(&[kept]).await.unwrap().problem, None);
    for (path, content) in copy {
        fs::write(path, content).unwrap();
    }
    // Neither the files nor the store, which remembers the first record, can tell.
    given.assert_intact(3).await;
    let problem = given.fresh().verify(&[kept]).await.unwrap().problem.unwrap();
    assert!(problem.what.contains("records up to 4 are missing"), "{}", problem.what);
    let other: Mark = format!("2:{}", "0".repeat(64)).parse().unwrap();
    let problem = given.fresh().verify(&[other]).await.unwrap().problem.unwrap();
    assert_eq!(problem.record, Some(2));
}

#[tokio::test]
async fn another_master_key_is_an_error_and_changes_nothing() {
    let given = log_with(2, 1 << 20).await;
    let path = given.home.path().join("master.key");
    let right = fs::read(&path).unwrap();
    fs::write(&path, format!("{}\n", "ab".repeat(32))).unwrap();
    let refused = given.fresh().append(entry(1)).await.unwrap_err();
    assert!(matches!(refused, AuditError::WrongKey { .. }), "{refused}");
    fs::remove_file(&path).unwrap();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&Home::new(given.home.path()), KeySource::File).await.unwrap());
    let refused = log_at(given.home.path(), &store, 1 << 20).append(entry(1)).await.unwrap_err();
    assert!(matches!(refused, AuditError::Store(_)), "{refused}");
    assert!(!path.exists(), "no other key is created");
    fs::write(&path, right).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    given.fresh().append(entry(1)).await.unwrap();
    given.assert_intact(4).await;
}

#[tokio::test]
async fn a_log_that_is_set_aside_stays_and_a_new_one_begins() {
    let given = log_with(4, 1 << 20).await;
    given.log.anchor().await.unwrap();
    let path = given.segments().pop().unwrap();
    fs::write(&path, "nonsense").unwrap();
    given.log.append(entry(1)).await.unwrap_err();
    let aside = given.log.restart().await.unwrap().unwrap();
    assert_eq!(fs::read_to_string(aside.join(path.file_name().unwrap())).unwrap(), "nonsense");
    given.log.append(entry(1)).await.unwrap();
    given.assert_intact(2).await;
    let records = given.log.last_records(coracle_audit::Filter::default(), 10).await.unwrap();
    assert_eq!(records[0].kind, "log.restarted");
    assert!(records[0].fields["after"].as_str().unwrap().starts_with("5:"));
}

/// A server holds the lock for a moment whenever it writes.
#[tokio::test]
async fn the_log_is_verified_beside_a_process_that_writes() {
    let given = log_with(3, 1 << 20).await;
    let lock = fs::File::open(given.folder().join("lock")).unwrap();
    let (ended, was_taken) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let other = std::thread::spawn({
        let (ended, was_taken) = (Arc::clone(&ended), Arc::clone(&was_taken));
        move || {
            lock.lock().unwrap();
            was_taken.wait();
            while !ended.load(Ordering::Relaxed) {
                lock.unlock().unwrap();
                lock.lock().unwrap();
            }
        }
    });
    was_taken.wait();
    let mut reports = Vec::new();
    for _ in 0..50 {
        reports.push(given.fresh().verify(&[]).await);
    }
    ended.store(true, Ordering::Relaxed);
    other.join().unwrap();
    for report in reports {
        let report = report.unwrap();
        assert_eq!((report.problem, report.records), (None, 4));
    }
}
