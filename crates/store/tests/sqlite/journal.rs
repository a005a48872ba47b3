//! The log of sessions when processes die. The test program starts itself to write the log.

use crate::{open, raw};
use coracle_store::{Home, Journal, NewTask, TaskEnd, TaskState};
use coracle_types::{ExecutionId, Language, SessionId, UserId};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

const HOME: &str = "STORE_TEST_JOURNAL";

fn task(number: u64) -> NewTask {
    NewTask {
        execution_id: ExecutionId::new(format!("e{number}")).unwrap(),
        description: None,
        language: Language::Python,
        code: "x".repeat(5_000),
        vars: None,
        started_at: SystemTime::now(),
    }
}

fn done(number: u64) -> TaskEnd {
    TaskEnd { ended_at: SystemTime::now(), state: TaskState::Done, outcome: json!(number), recording: None }
}

#[tokio::test]
#[ignore = "the part of the processes that other tests start"]
async fn part_of_another_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let store = open(&Home::new(home)).await;
    let ann = UserId::new("ann").unwrap();
    let session =
        store.open_session(&ann, &SessionId::from_random(1), Some("log"), SystemTime::now()).await.unwrap().id;
    loop {
        let number = store.begin_task(&ann, &session, &task(0)).await.unwrap();
        println!("begun {number}");
        store.finish_task(&ann, &session, number, &done(number)).await.unwrap();
        println!("done {number}");
        std::io::stdout().flush().unwrap();
    }
}

fn start(home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::part_of_another_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn acknowledged_tasks_survive_and_running_ones_are_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (ann, session) = (UserId::new("ann").unwrap(), SessionId::from_random(1));
    let (mut all, mut interrupted) = (0, 0);
    // Until a kill has hit a running task: on a slow disk, most of the time passes between two tasks.
    while all < 8 || (interrupted == 0 && all < 200) {
        let mut child = start(folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        for line in lines.by_ref() {
            if let Some((_, number)) = line.rsplit_once("done ") {
                said.push(number.parse::<u64>().unwrap());
            }
            if said.len() >= 3 {
                break;
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(0..12_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        said.extend(lines.filter_map(|line| line.strip_prefix("done ").map(|number| number.parse::<u64>().unwrap())));

        let check: String =
            sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut raw(&home).await).await.unwrap();
        assert_eq!(check, "ok");
        let store = open(&home).await;
        // A task of this process is not lost with the other process.
        let own = store.begin_task(&ann, &session, &task(1)).await.unwrap();
        let lost = store.interrupt_lost().await.unwrap();
        assert!(lost.len() <= 1, "{lost:?}");
        interrupted += lost.len();
        assert_eq!(store.interrupt_lost().await.unwrap(), []);
        let tasks = store.tasks(&ann, &session, 100, None).await.unwrap();
        let state = |number: u64| tasks.iter().find(|task| task.number == number).map(|task| task.state);
        for number in said {
            assert_eq!(state(number), Some(TaskState::Done), "{number} was reported as done");
        }
        for task in lost {
            assert_eq!((task.user, task.session), (ann.clone(), session.clone()));
            assert_eq!(state(task.number), Some(TaskState::Interrupted));
        }
        assert_eq!(state(own), Some(TaskState::Running));
        store.finish_task(&ann, &session, own, &done(own)).await.unwrap();
        all += 1;
    }
    println!("{interrupted} of {all} were interrupted in the middle of a task");
    assert!(interrupted > 0, "no kill hit a task");
}

/// A process without tasks holds no lock, and a process that ends leaves no file.
#[tokio::test]
async fn the_file_of_a_process_is_removed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let live = || std::fs::read_dir(folder.path().join("store/live")).map_or(0, Iterator::count);
    let store = open(&home).await;
    assert_eq!(live(), 0);
    let ann = UserId::new("ann").unwrap();
    let session = store.open_session(&ann, &SessionId::from_random(1), None, SystemTime::now()).await.unwrap();
    store.begin_task(&ann, &session.id, &task(1)).await.unwrap();
    assert_eq!(live(), 1);
    // A second store in the same process counts separately.
    let other = open(&home).await;
    other.begin_task(&ann, &session.id, &task(2)).await.unwrap();
    assert_eq!((live(), other.interrupt_lost().await.unwrap().len()), (2, 0));
    drop(store);
    assert_eq!((live(), other.interrupt_lost().await.unwrap().len()), (1, 1));
}
