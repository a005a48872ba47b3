//! Answers that exceed the capacity of the channel, to guests that do not read them immediately.

use crate::fake::{FakeBackend, Guest, call, done, script};
use async_trait::async_trait;
use coracle_engine::{Engine, EngineConfig, HostCallError, HostCalls, Request};
use coracle_protocol::ToGuest;
use coracle_store::MemoryStore;
use coracle_types::{Execution, Language, SessionId, UserId};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Size of an answer: many times the capacity of the channel.
const LARGE: usize = 2 << 20;

/// Size of the output: many times the capacity of a pipe.
const PRINTED: usize = 1 << 20;

#[derive(Debug)]
struct Large;

#[async_trait]
impl HostCalls for Large {
    async fn call(&self, _: String, _: Map<String, Value>) -> Result<Value, HostCallError> {
        Ok("z".repeat(LARGE).into())
    }
}

fn engine(home: &TempDir, backend: Arc<FakeBackend>) -> Engine {
    Engine::new(
        EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(1) },
        backend,
        Arc::new(MemoryStore::new()),
        None,
    )
}

fn request() -> Request {
    let mut request = Request::new(UserId::local(), Language::Python, "the guest does what it wants");
    request.calls = Arc::new(Large);
    request
}

async fn large_reply(guest: &mut Guest) -> bool {
    matches!(guest.hear().await, ToGuest::Reply(reply) if reply.value.as_str().is_some_and(|text| text.len() == LARGE))
}

fn assert_fine(execution: &Execution) {
    assert!(execution.success, "{:?}", execution.failure);
}

/// The guest reads only after it has printed more than a pipe holds and has made another call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_and_calls_are_read_while_an_answer_is_written() {
    let home = TempDir::new().unwrap();
    let backend = FakeBackend::new(vec![script(async |mut guest: Guest| {
        let id = guest.run().await;
        guest.say(call(1, "large")).await;
        // The answer is partly written, and the channel is full.
        guest.hear_beginning().await;
        guest.print(&vec![b'.'; PRINTED]).await;
        let padding = "x".repeat(200_000);
        let more = serde_json::json!({ "type": "call", "id": 2, "method": "large", "params": { "text": padding } });
        guest.say(more).await;
        assert!(large_reply(&mut guest).await);
        assert!(large_reply(&mut guest).await);
        guest.say(done(id)).await;
        0
    })]);
    let execution = engine(&home, backend).execute(request()).await;
    assert_fine(&execution);
}

/// Without a session, the end of a run does not wait for an answer that is not read. In a session, an answer that was
/// begun is completed, so that the next run starts between two frames.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_may_end_in_the_middle_of_an_answer() {
    let home = TempDir::new().unwrap();
    let backend = FakeBackend::new(vec![script(async |mut guest: Guest| {
        let id = guest.run().await;
        guest.say(call(1, "large")).await;
        guest.hear_beginning().await;
        guest.say(done(id)).await;
        guest.live_on().await
    })]);
    assert_fine(&engine(&home, backend).execute(request()).await);

    let backend = FakeBackend::new(vec![script(async |mut guest: Guest| {
        let first = guest.run().await;
        for n in 1..4 {
            guest.say(call(n, "large")).await;
        }
        guest.hear_beginning().await;
        guest.say(done(first)).await;
        // Gives the host time to notice the end of the run before the guest continues to read.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut replies = 0;
        loop {
            match guest.hear().await {
                ToGuest::Reply(_) => replies += 1,
                ToGuest::Run { id, .. } => {
                    // Answers of which nothing was written are dropped.
                    assert_eq!(replies, 1);
                    guest.say(done(id)).await;
                }
            }
        }
    })]);
    let engine = engine(&home, backend.clone());
    for _ in 0..2 {
        let mut asked = request();
        asked.session = Some(SessionId::new("a").unwrap());
        let execution = engine.execute(asked).await;
        assert_fine(&execution);
        assert!(!execution.session_restarted);
    }
    assert_eq!(backend.lives().len(), 1);
}
