//! Remote embedders: their requests, the checks on their answers, and searches with and without them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod peer;

use coracle_agent::{EmbedderError, EmbedderSettings, RemoteEmbedder};
use coracle_catalog::Level;
use coracle_engine::{
    CallCaps, Embedder, EmbedderConfig, Handler, InProcess, Inventory, Listing, ToolSearch, Toolbox, ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_store::MemoryStore;
use coracle_types::{Secret, ServerName, Tool, ToolHints, ToolResult, UserId};
use peer::{MEANT, Mode, NAMED, Peer, Seen, vector};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const KEY: &str = "c4n4ry-0f-th3-3mb3dd3r";

const TOOLS: [(&str, &str); 6] = [
    (NAMED, "Does it to a gadget"),
    ("paint", "Colours a board"),
    ("weigh", "Says how heavy a thing is"),
    ("sort", "Puts nails in order"),
    ("clean", "Sweeps the floor"),
    ("hammer", "Drives nails into a board"),
];

fn settings(peer: &Peer) -> EmbedderSettings {
    EmbedderSettings {
        url: format!("{}/v1", peer.address),
        model: "small".to_owned(),
        api_key: Some(Secret::new(KEY)),
        ..EmbedderSettings::default()
    }
}

fn embedder(peer: &Peer) -> RemoteEmbedder {
    RemoteEmbedder::new(&settings(peer)).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn workshop(tools: &[(&str, &str)]) -> InProcess {
    let server = ServerName::new("workshop").unwrap();
    let tool = |(name, description): &(&str, &str)| {
        let definition = Tool {
            server: server.clone(),
            name: (*name).to_owned(),
            title: None,
            description: (*description).to_owned(),
            input_schema: coracle_types::Schema::default(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        };
        let handler: Handler = Box::new(|_| ToolResult { content: vec![], is_error: false, structured: None });
        (definition, handler)
    };
    InProcess::new(server.clone(), tools.iter().map(tool))
}

/// The state of a process at its start.
struct Start {
    toolbox: Arc<Toolbox>,
    inventory: Arc<Inventory>,
}

impl Start {
    async fn new(home: &Path, embedder: Option<RemoteEmbedder>, tools: &[(&str, &str)]) -> Self {
        let embedder =
            embedder.map(|embedder| EmbedderConfig { embedder: Arc::new(embedder), cache: home.join("embeddings") });
        let config = ToolboxConfig {
            cache: home.join("servers"),
            registry: None,
            embedder,
            caps: CallCaps::default(),
            unusable: Vec::new(),
        };
        let store = Arc::new(MemoryStore::new());
        let toolbox = Toolbox::new(config, workshop(tools), store, Rules::new(vec![]).unwrap());
        let inventory = toolbox.inventory(&UserId::local(), Listing::All).await;
        toolbox.begin_reading(&inventory).await;
        Self { toolbox, inventory }
    }

    async fn found(&self, query: &str) -> Vec<String> {
        let search =
            ToolSearch { query: query.to_owned(), server: None, category: None, level: Level::Name, limit: 10 };
        let found = self.toolbox.search(&UserId::local(), &self.inventory, search).await.unwrap();
        found.into_iter().map(|tool| tool.text.replace("workshop.", "")).collect()
    }

    async fn read(self) -> Self {
        self.toolbox.finish_reading(&self.inventory).await;
        self
    }
}

fn file(home: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(home.join("embeddings")).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "bin")).unwrap()
}

#[tokio::test]
async fn a_tool_without_a_common_word_is_found() {
    let (peer, home) = (Peer::start().await, TempDir::new().unwrap());
    let without = Start::new(home.path(), None, &TOOLS).await.read().await;
    assert!(without.found(MEANT).await.is_empty(), "the table knows nothing of that");
    assert!(peer.seen().is_empty());
    let with = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    assert_eq!(with.found(MEANT).await, [NAMED]);
    assert_eq!(with.found("nails").await[..2].len(), 2, "words count as before");
    assert_eq!(with.found("").await.len(), TOOLS.len());
    peer.seen();
    let task = format!("paint the old board red, then {MEANT} these three rusty gears");
    assert_eq!(with.found(&task).await[..2].iter().filter(|name| [NAMED, "paint"].contains(&name.as_str())).count(), 2);
    assert_eq!(peer.texts().len(), 3, "the task and its parts");
}

/// The first searches do not wait for the vectors of tools.
#[tokio::test]
async fn searches_get_better() {
    let (peer, home) = (Peer::start().await, TempDir::new().unwrap());
    peer.set(Mode::Slow);
    let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
    assert_eq!(start.found("gadget").await.first().unwrap(), NAMED);
    assert!(start.found(MEANT).await.is_empty());
    peer.set(Mode::Good);
    let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
    while start.found(MEANT).await != [NAMED] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn known_vectors_are_not_requested_again() {
    let (peer, home) = (Peer::start().await, TempDir::new().unwrap());
    Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    let all = peer.texts();
    assert_eq!(all.len(), TOOLS.len());
    let again = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
    assert_eq!(again.found(MEANT).await, [NAMED], "from disk, without waiting");
    assert_eq!(peer.texts(), [MEANT], "nothing but the query");

    let mut changed = TOOLS;
    changed[1].1 = "Colours a board in red";
    let changed = Start::new(home.path(), Some(embedder(&peer)), &changed).await.read().await;
    assert_eq!(peer.texts(), ["workshop: paint\nColours a board in red\nParameters: "], "the one that is new");
    assert_eq!(changed.found(MEANT).await, [NAMED]);
    peer.seen();

    let other = EmbedderSettings { model: "large".to_owned(), ..settings(&peer) };
    Start::new(home.path(), Some(RemoteEmbedder::new(&other).unwrap()), &TOOLS).await.read().await;
    assert_eq!(peer.texts(), all, "another model has read none of it");
}

#[tokio::test]
async fn a_damaged_file_is_rebuilt() {
    let (peer, home) = (Peer::start().await, TempDir::new().unwrap());
    Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    let all = peer.texts();
    let mut bytes = std::fs::read(file(home.path())).unwrap();
    bytes[100] ^= 1;
    std::fs::write(file(home.path()), bytes).unwrap();
    let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    assert_eq!(peer.texts(), all);
    assert_eq!(start.found(MEANT).await, [NAMED]);
    peer.seen();
    Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    assert!(peer.seen().is_empty());
}

/// However the server fails, tools are found with the built-in model.
#[tokio::test]
async fn failures_fall_back_to_the_built_in_model() {
    let (peer, home) = (Peer::start().await, TempDir::new().unwrap());
    Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
    peer.seen();
    for mode in [
        Mode::Status(401),
        Mode::Status(429),
        Mode::Status(500),
        Mode::Garbage,
        Mode::TooFew,
        Mode::NotANumber,
        Mode::Infinite,
        Mode::Slow,
    ] {
        peer.set(mode.clone());
        let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
        assert!(start.found(MEANT).await.is_empty(), "{mode:?}");
        assert_eq!(peer.texts(), [MEANT], "{mode:?}: it was asked");
        assert_eq!(start.found("gadget").await.first().unwrap(), NAMED, "{mode:?}");
        assert!(peer.seen().is_empty(), "{mode:?}: it is left alone for a while");

        if !matches!(mode, Mode::Slow) {
            let empty = TempDir::new().unwrap();
            let start = Start::new(empty.path(), Some(embedder(&peer)), &TOOLS).await.read().await;
            assert_eq!(peer.texts().len(), TOOLS.len(), "{mode:?}: it was asked once");
            assert_eq!(start.found("gadget").await.first().unwrap(), NAMED, "{mode:?}");
            assert!(!empty.path().join("embeddings").exists(), "{mode:?}: nothing of that is kept");
        }
    }
    peer.set(Mode::Good);
    let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
    assert_eq!(start.found(MEANT).await, [NAMED]);
}

#[tokio::test]
async fn answers_are_checked_and_put_in_order() {
    let peer = Peer::start().await;
    let many: Vec<String> = (0..130).map(|number| format!("{} {number}", ["a", "b", "c"][number % 3])).collect();
    let vectors = embedder(&peer).embed(&many).await.unwrap();
    assert_eq!(vectors, many.iter().map(|text| vector(text)).collect::<Vec<_>>());
    assert_eq!(peer.seen().iter().map(|seen| seen.texts().len()).collect::<Vec<_>>(), [64, 64, 2]);
    assert_eq!(embedder(&peer).embed(&[]).await.unwrap(), Vec::<Vec<f32>>::new());
    assert!(peer.seen().is_empty());

    let short = EmbedderSettings { dimensions: Some(8), ..settings(&peer) };
    let error = RemoteEmbedder::new(&short).unwrap().embed(&texts(&["a"])).await.unwrap_err();
    assert_eq!(error.code(), "embedder_useless", "not the length that was asked for");
    assert_eq!(peer.seen()[0].body["dimensions"], 8);
    let right = EmbedderSettings { dimensions: Some(16), ..settings(&peer) };
    assert!(RemoteEmbedder::new(&right).unwrap().embed(&texts(&["a"])).await.is_ok());
}

/// Only the peer sees the key: it is not in errors or printed values, and does not follow a redirect.
#[tokio::test]
async fn the_key_is_sent_only_to_its_address() {
    let (peer, elsewhere, home) = (Peer::start().await, Peer::start().await, TempDir::new().unwrap());
    let modes = [
        (Mode::Status(401), "embedder_refused"),
        (Mode::Status(500), "embedder_refused"),
        (Mode::Redirect(format!("{}/v1/embeddings", elsewhere.address)), "embedder_refused"),
        (Mode::Garbage, "embedder_useless"),
        (Mode::TooFew, "embedder_useless"),
        (Mode::SamePlace, "embedder_useless"),
        (Mode::Lengths, "embedder_useless"),
        (Mode::NotANumber, "embedder_useless"),
        (Mode::Infinite, "embedder_useless"),
        (Mode::Flood, "embedder_useless"),
    ];
    for (mode, code) in modes {
        peer.set(mode.clone());
        let error = embedder(&peer).embed(&texts(&["a", "b"])).await.unwrap_err();
        assert_eq!(error.code(), code, "{mode:?}");
        let printed = format!("{error} {error:?}");
        assert!(!printed.contains(KEY) && !printed.contains("127.0.0.1"), "{printed}");
        assert_eq!(peer.seen()[0].authorization.as_deref(), Some(format!("Bearer {KEY}").as_str()), "{mode:?}");
    }
    assert!(elsewhere.seen().is_empty());
    let closed = EmbedderSettings { url: "http://127.0.0.1:1/v1".to_owned(), ..settings(&peer) };
    let error = RemoteEmbedder::new(&closed).unwrap().embed(&texts(&["a"])).await.unwrap_err();
    assert_eq!(error.code(), "embedder_silent");
    let start = Start::new(home.path(), Some(embedder(&peer)), &TOOLS).await;
    let with_query = EmbedderSettings { url: format!("{}/v1?code={KEY}", peer.address), ..settings(&peer) };
    let with_query = RemoteEmbedder::new(&with_query).unwrap();
    let printed = format!(
        "{error} {error:?} {:?} {:?} {:?} {with_query:?} {}",
        start.toolbox,
        settings(&peer),
        embedder(&peer),
        with_query.identity()
    );
    assert!(!printed.contains(KEY), "{printed}");
}

async fn asked(peer: &Peer, settings: EmbedderSettings) -> Seen {
    let embedder = RemoteEmbedder::new(&settings).unwrap();
    assert_eq!(embedder.embed(&texts(&["a"])).await.unwrap(), [vector("a")]);
    peer.seen().remove(0)
}

#[tokio::test]
async fn urls_of_openai_and_azure_are_recognised() {
    let peer = Peer::start().await;
    for path in ["/v1", "/v1/", "/v1/embeddings", "/v1/embeddings/"] {
        let seen = asked(&peer, EmbedderSettings { url: format!("{}{path}", peer.address), ..settings(&peer) }).await;
        assert_eq!(seen.address, "/v1/embeddings", "{path}");
        assert_eq!((seen.api_key, seen.authorization), (None, Some(format!("Bearer {KEY}"))));
        assert_eq!(seen.body["model"], "small");
    }
    let azure = EmbedderSettings {
        url: peer.address.clone(),
        model: "my deployment".to_owned(),
        api_version: Some("2024-02-01".to_owned()),
        ..settings(&peer)
    };
    let seen = asked(&peer, azure.clone()).await;
    assert_eq!(seen.address, "/openai/deployments/my%20deployment/embeddings?api-version=2024-02-01");
    assert_eq!((seen.api_key.as_deref(), seen.authorization), (Some(KEY), None));
    let whole = format!("{}/openai/deployments/d/embeddings?api-version=1", peer.address);
    let seen = asked(&peer, EmbedderSettings { url: whole, ..azure }).await;
    assert_eq!(seen.address, "/openai/deployments/d/embeddings?api-version=1");
    let no_key = EmbedderSettings { api_key: None, ..settings(&peer) };
    let seen = asked(&peer, no_key).await;
    assert_eq!((seen.api_key, seen.authorization), (None, None));

    let identity = |url: &str| {
        let settings = EmbedderSettings { url: url.to_owned(), ..settings(&peer) };
        RemoteEmbedder::new(&settings).unwrap().identity()
    };
    let azure = "https://x.openai.azure.com/openai/deployments/small/embeddings small";
    assert_eq!(identity("https://x.openai.azure.com/"), azure);
    assert_eq!(
        identity("https://x.openai.azure.com/openai/v1/"),
        "https://x.openai.azure.com/openai/v1/embeddings small"
    );
}

#[test]
fn invalid_settings_are_rejected() {
    let refused = |url: &str, model: &str, key: &str| {
        let settings = EmbedderSettings {
            url: url.to_owned(),
            model: model.to_owned(),
            api_key: Some(Secret::new(key)),
            ..EmbedderSettings::default()
        };
        RemoteEmbedder::new(&settings).err()
    };
    assert_eq!(refused("https://x/v1", "m", KEY), None);
    for url in ["", "x", "file:///x", "data:text/plain,x", "https://"] {
        assert_eq!(refused(url, "m", KEY), Some(EmbedderError::Address), "{url}");
    }
    assert_eq!(refused("https://u:p@x/v1", "m", KEY), Some(EmbedderError::UserInAddress));
    assert_eq!(refused("https://x/v1", " ", KEY), Some(EmbedderError::NoModel));
    assert_eq!(refused("https://x/v1", "m", "a\nb"), Some(EmbedderError::Key));
}
