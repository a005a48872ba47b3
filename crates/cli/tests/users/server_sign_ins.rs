//! Sign-ins to MCP servers, in the browsers of users.

use crate::site::{Client, Site};
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// An MCP server that requires a sign-in.
pub(crate) struct Guarded {
    process: Child,
    port: String,
}

impl Guarded {
    pub(crate) fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/oauth_server.py");
        let mut command = Command::new("/usr/bin/python3");
        let mut process = command.args(["-I", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, port: port.trim().to_owned() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    fn site(&self, scope: &str) -> Site {
        let server = json!({"guarded": {"url": self.url(), "scope": scope}});
        Site::with_settings(As::current(), &["ann", "bob"], &format!("mcpServers: {server}\n"))
    }

    /// Opens the address as a browser does, and returns where it is redirected to, without this server's origin.
    fn authorized(&self, site: &Site, url: &str) -> String {
        let path = url.strip_prefix(&format!("http://127.0.0.1:{}", self.port)).unwrap();
        let stranger = Client::new(&format!("127.0.0.1:{}", self.port), "");
        let (status, head) = stranger.answer("GET", path, "", b"");
        assert_eq!(status, 302, "{head}");
        let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap().trim();
        location.strip_prefix(&format!("http://{}", site.address())).unwrap().to_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn begin(client: &Client) -> Value {
    let begun = client.post("/api/servers/guarded/sign-in", &json!({}));
    assert_eq!(begun.status, 200, "{}", begun.text());
    begun.json()["url"].clone()
}

/// Calls the tool of the server; the token that it got, if the user is signed in.
fn token(client: &Client) -> Option<String> {
    let called = client.post("/api/tools/guarded/whoami/call", &json!({"arguments": {}}));
    let text = called.text();
    let at = text.find("token-").filter(|_| called.status == 200)?;
    Some(text[at..at + "token-0123456789abcdef".len()].to_owned())
}

#[test]
fn users_sign_in_to_servers_for_themselves() {
    let guarded = Guarded::start();
    let site = guarded.site("user");
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let tested = ann.post("/api/servers/guarded/test", &json!({})).json();
    assert_eq!(tested["ok"], false, "{tested}");
    assert_eq!(ann.get("/api/servers/guarded").json()["can_sign_in"], true);

    let callback = guarded.authorized(&site, begin(&ann).as_str().unwrap());
    assert!(callback.starts_with("/api/oauth/callback?"), "{callback}");
    // Somebody else, who followed the link, cannot complete it, and nobody without a session can.
    let stolen = bob.get(&callback);
    assert!(stolen.status == 409 && stolen.text().contains("begun by somebody else"), "{}", stolen.text());
    assert_eq!(Client::new(site.address(), "").get(&callback).status, 401);
    assert_eq!((token(&ann), token(&bob)), (None, None));
    let done = ann.get(&callback);
    assert!(done.status == 200 && done.text().contains("signed in to guarded"), "{}", done.text());
    let own = token(&ann).unwrap();
    assert_eq!((token(&bob), ann.get(&callback).status), (None, 409), "the callback works once");

    let theirs = bob.get(&guarded.authorized(&site, begin(&bob).as_str().unwrap()));
    assert_eq!(theirs.status, 200, "{}", theirs.text());
    assert_eq!(token(&ann).unwrap(), own);
    assert_ne!(token(&bob).unwrap(), own);
    assert_eq!(ann.ask("DELETE", "/api/servers/guarded/sign-in", "", b"").unwrap().status, 204);
    assert_eq!((token(&ann), token(&bob).is_some()), (None, true));
}

#[test]
fn sign_ins_that_are_refused_or_impossible_say_so() {
    let guarded = Guarded::start();
    let site = guarded.site("user");
    let ann = site.client("ann");
    let callback = guarded.authorized(&site, begin(&ann).as_str().unwrap());
    let (_, state) = callback.split_once("state=").unwrap();
    let refused = ann.get(&format!("/api/oauth/callback?error=access_denied&state={state}"));
    assert!(refused.status == 409 && refused.text().contains("access_denied"), "{}", refused.text());
    let forged = ann.get(&format!("{}x", guarded.authorized(&site, begin(&ann).as_str().unwrap())));
    assert_eq!(forged.status, 409, "{}", forged.text());
    assert_eq!(token(&ann), None);
    assert_eq!(ann.post("/api/servers/nobody/sign-in", &json!({})).status, 404);
    drop(guarded);
    let silent = ann.post("/api/servers/guarded/sign-in", &json!({}));
    assert_eq!((silent.status, &silent.json()["code"]), (502, &json!("no_sign_in")), "{}", silent.text());
}

#[test]
fn only_admins_sign_in_to_servers_that_all_share() {
    let guarded = Guarded::start();
    let site = guarded.site("shared");
    let refused = site.client("ann").post("/api/servers/guarded/sign-in", &json!({}));
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("admins_only")), "{}", refused.text());
    site.run(&["users", "add", "boss", "--admin"]);
    let boss = site.client_scoped("boss", "api,admin");
    let done = boss.get(&guarded.authorized(&site, begin(&boss).as_str().unwrap()));
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(token(&site.client("ann")), token(&site.client("bob")));
    assert!(token(&boss).is_some());
}
