//! Two users of one engine: what is shared, and what is not.

use crate::lab::Bridge;
use coracle_engine::{CallCaps, Engine, EngineConfig, Request, Toolbox, ToolboxConfig};
use coracle_policy::Rules;
use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_store::{Home, KeySource, SqliteStore};
use coracle_types::{Language, Limits, Scope, ServerSpec, UserId};
use coracle_upstream::{Options, Upstream};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

fn spec(bridge: &Bridge, name: &str, scope: Scope) -> ServerSpec {
    let log = bridge.text(&format!("data/{name}.log"));
    coracle_testing::servers::python(name, scope, &[&bridge.text("plain.py")], &[("PLAIN_LOG", &log)])
}

async fn run(engine: &Engine, user: &str, code: &str) -> Value {
    let execution = engine.execute(Request::new(UserId::new(user).unwrap(), Language::Python, code)).await;
    assert!(execution.success, "{user}: {execution:#?}");
    execution.result.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_learned_types_belong_to_a_user_unless_shared() {
    let bridge = Bridge::new(coracle_testing::harness::As::current());
    let home = bridge.path("engine");
    let backend = NativeBackend::new(NativeConfig {
        home: home.clone(),
        launcher: env!("CARGO_BIN_EXE_coracle").into(),
        python: None,
        pool: 1,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    });
    let store = Arc::new(SqliteStore::open(&Home::new(home.clone()), KeySource::File).await.unwrap());
    let specs = vec![spec(&bridge, "own", Scope::User), spec(&bridge, "common", Scope::Shared)];
    let toolbox = Toolbox::new(
        ToolboxConfig {
            cache: home.join("modules"),
            registry: None,
            embedder: None,
            caps: CallCaps::default(),
            unusable: Vec::new(),
        },
        Upstream::new(specs, Options::default()),
        Arc::clone(&store) as _,
        Rules::new(Vec::new()).unwrap(),
    );
    let config = EngineConfig { workspaces: home.join("workspaces"), session_idle: Duration::from_mins(1) };
    let engine = Engine::new(config, Arc::new(backend), store, Some(Arc::clone(&toolbox)));
    let processes = "from servers import own, common\n[own.process()['pid'], common.process()['pid']]";
    let (ada, bob) = tokio::join!(run(&engine, "ada", processes), run(&engine, "bob", processes));
    assert_ne!(ada[0], bob[0]);
    assert_eq!(ada[1], bob[1]);
    assert_eq!(run(&engine, "ada", processes).await, ada);

    // Only ada has seen its results.
    run(&engine, "ada", "from servers import own, common\nown.people()\ncommon.people()\nNone").await;
    let learned = "['age:' in open(f'/coracle/servers/{server}/people.py').read() for server in ('own', 'common')]";
    assert_eq!(run(&engine, "ada", learned).await, serde_json::json!([true, true]));
    assert_eq!(run(&engine, "bob", learned).await, serde_json::json!([false, true]));
    engine.shutdown().await;
    toolbox.upstream().shutdown().await;
    bridge.assert_no_servers();
}
