//! Servers are started while the code that uses them is still being written.

use crate::{demo, upstream};
use coracle_engine::{CallCaps, Toolbox, ToolboxConfig};
use coracle_policy::Rules;
use coracle_store::MemoryStore;
use coracle_testing::wait::eventually;
use coracle_types::{Scope, UserId};
use coracle_upstream::ServerState;
use std::collections::HashSet;
use std::sync::Arc;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_started_as_soon_as_code_names_it() {
    let folder = TempDir::new().unwrap();
    let (cache, caps) = (folder.path().to_owned(), CallCaps::default());
    let config = ToolboxConfig { cache, registry: None, embedder: None, caps, unusable: Vec::new() };
    let servers = upstream(Scope::User, "good");
    let toolbox = Toolbox::new(config, servers, Arc::new(MemoryStore::new()), Rules::default());
    let user = UserId::local();
    let is_idle = || {
        let status = toolbox.upstream().status(&user);
        status.iter().all(|status| matches!(status.state, ServerState::Idle))
    };
    let mut begun = HashSet::new();
    let code = r#"{"code": "from servers.demo import echo\nfrom servers.demo import x"#;
    let mut length = 0;
    for (part, expected) in [(26, 0), (27, 0), (28, 1), (code.len(), 1)] {
        toolbox.anticipate(&user, &code[..part], part - length, &mut begun);
        assert_eq!(begun.len(), expected, "{}", &code[..part]);
        if expected == 0 {
            assert!(is_idle());
        }
        length = part;
    }
    assert!(begun.contains(&demo()));
    eventually("the server is started", || !is_idle());
    toolbox.upstream().shutdown().await;
}
