//! Random conversations that mix valid and invalid frames with output, pauses and sudden ends. Each execution must
//! return one answer in time.

use crate::fake::{FakeBackend, Guest, Life, call, done, script};
use coracle_engine::{Engine, EngineConfig, Request};
use coracle_store::MemoryStore;
use coracle_testing::mutation;
use coracle_types::{ErrorCode, Execution, Language, SessionId, UserId};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;

const SHORT: usize = 3_000;
const LONG: usize = 200_000;

/// Number of concurrent conversations; many of them only wait for their time-out.
const AT_ONCE: usize = 512;

const WALL: Duration = Duration::from_millis(150);

/// Additional time allowed on a busy machine with [`AT_ONCE`] conversations.
const SLACK: Duration = Duration::from_secs(10);

/// Plays a guest that does a few random things.
async fn play(mut guest: Guest, seed: u64) -> i32 {
    let mut rng = Rng::with_seed(seed);
    let mut last_run = 1;
    if rng.u8(..8) != 0 {
        last_run = guest.run().await;
    }
    for _ in 0..rng.usize(..12) {
        match rng.u8(..10) {
            0 => guest.say(done(last_run)).await,
            1 | 2 => guest.say(call(rng.u64(..4), "m")).await,
            3 => {
                let text = vec![rng.u8(..); rng.usize(..20_000)];
                guest.print(&text).await;
            }
            4 => tokio::time::sleep(Duration::from_micros(rng.u64(..5_000))).await,
            5 => return rng.i32(..200),
            6 => {
                let frame = mutation::from_guest(&mut rng);
                guest.say(serde_json::to_value(&frame).unwrap()).await;
            }
            7 => {
                let waited = tokio::time::timeout(Duration::from_millis(5), guest.hear()).await;
                if let Ok(coracle_protocol::ToGuest::Run { id, .. }) = waited {
                    last_run = id;
                }
            }
            _ => {
                let frame = match rng.u8(..8) {
                    0 => serde_json::to_vec(&mutation::to_guest(&mut rng)).unwrap(),
                    _ => serde_json::to_vec(&mutation::from_guest(&mut rng)).unwrap(),
                };
                let frame = mutation::framed(&frame);
                let own = mutation::framed(done(last_run).to_string().as_bytes());
                let spoilt = if rng.bool() {
                    mutation::mutated(&mut rng, &own, &frame)
                } else {
                    mutation::mutated(&mut rng, &frame, &own)
                };
                guest.raw(&spoilt).await;
            }
        }
    }
    if rng.bool() {
        guest.say(done(last_run)).await;
    }
    guest.live_on().await
}

fn request(session: Option<u64>) -> Request {
    let mut request = Request::new(UserId::local(), Language::Python, "pass");
    request.limits.wall_ms = WALL.as_millis() as u64;
    request.session = session.map(|seed| SessionId::new(format!("s{seed}")).unwrap());
    request
}

/// Runs two executions in a session, or a single one without a session, depending on the seed. Returns their outcomes.
async fn converse(engine: Engine, seed: u64) -> Vec<Execution> {
    let session = seed.is_multiple_of(3).then_some(seed);
    let mut all = Vec::new();
    for _ in 0..if session.is_some() { 2 } else { 1 } {
        let begun = Instant::now();
        let execution = engine.execute(request(session)).await;
        assert!(begun.elapsed() < WALL * 2 + SLACK, "seed {seed} took {:?}", begun.elapsed());
        assert_eq!(execution.success, execution.failure.is_none(), "seed {seed}");
        all.push(execution);
    }
    all
}

async fn fuzz(first: u64, most: usize) {
    let home = TempDir::new().unwrap();
    let mut codes = BTreeMap::<&str, usize>::new();
    let (mut heard, mut next) = (0, first);
    while heard < most {
        let mut running = JoinSet::new();
        let mut backends = Vec::new();
        for seed in next..next + AT_ONCE as u64 {
            let backend = FakeBackend::new(vec![script(move |guest| play(guest, seed))]);
            let config =
                EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(1) };
            let engine = Engine::new(config, backend.clone(), std::sync::Arc::new(MemoryStore::new()), None);
            backends.push((seed, engine.clone(), backend));
            running.spawn(converse(engine, seed));
        }
        next += AT_ONCE as u64;
        for execution in running.join_all().await.into_iter().flatten() {
            let code = execution.failure.map_or("success", |failure| failure.error_code.as_str());
            *codes.entry(code).or_default() += 1;
            heard += 1;
        }
        for (seed, engine, backend) in backends {
            // Only sandboxes of sessions may still be alive.
            let alive = backend.lives().iter().filter(|life| !life.was_killed()).count();
            assert!(alive <= engine.live_sessions(), "seed {seed}: {alive} live on");
            engine.shutdown().await;
            assert!(backend.lives().iter().all(Life::was_killed), "seed {seed}");
        }
    }
    println!("{heard} executions from seed {first}: {codes:?}");
    // All of these outcomes must occur, or the conversations test nothing. Apart from `claims`, no others are possible.
    let expected = [ErrorCode::Exception, ErrorCode::GuestProtocol, ErrorCode::Timeout];
    let names: Vec<&str> = expected.iter().map(|code| code.as_str()).chain(["success"]).collect();
    assert!(names.iter().all(|name| codes.contains_key(name)), "{codes:?}");
    let claims = ["syntax", "memory", "processes", "files", "disk", "output"];
    assert!(codes.keys().all(|code| names.contains(code) || claims.contains(code)), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_conversations_end_in_one_answer() {
    fuzz(1, if std::env::var_os("CORACLE_SOAK").is_some() { LONG } else { SHORT }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: cargo xtask soak"]
async fn soak_random_conversations_from_a_new_seed() {
    fuzz(u64::from(Rng::new().u32(..)), LONG).await;
}
