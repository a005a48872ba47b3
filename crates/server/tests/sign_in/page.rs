//! The web page and its files.

use crate::lab::Lab;
use coracle_page::{PageState, asset, index, state};
use coracle_server::{Part, Parts};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, ETAG, IF_NONE_MATCH};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::net::TcpListener;

async fn lab(parts: Parts) -> Lab {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Lab::start_on_all(vec![listener], |auth| auth.required = true, |options| options.parts = parts)
}

async fn browse(request: RequestBuilder) -> Response {
    request.header(ACCEPT, "text/html,*/*;q=0.8").send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

/// The script that the page loads.
fn script() -> &'static str {
    let text = std::str::from_utf8(index().unwrap().bytes).unwrap();
    let from = text.find("assets/index-").unwrap();
    text[from..].split('"').next().unwrap()
}

#[tokio::test]
async fn browsers_get_the_page_with_a_strict_policy() {
    let lab = lab(Parts::default()).await;
    let page = browse(lab.get("/")).await;
    assert_eq!(page.status(), StatusCode::OK);
    if state() != PageState::Built {
        let text = page.text().await.unwrap();
        assert!(text.contains("built without its web page"), "{text}");
        return;
    }
    let policy = header(&page, "content-security-policy").to_owned();
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "require-trusted-types-for 'script'",
        "trusted-types svelte-trusted-html coracle-worker",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!((header(&page, "x-content-type-options"), header(&page, "cache-control")), ("nosniff", "no-cache"));
    let tag = header(&page, "etag").to_owned();
    assert!(page.text().await.unwrap().contains(script()));
    let again = browse(lab.get("/").header(IF_NONE_MATCH, &tag)).await;
    assert_eq!((again.status(), again.headers()[ETAG].to_str().unwrap()), (StatusCode::NOT_MODIFIED, tag.as_str()));
    // Programs get a description instead.
    let plain = lab.get("/").send().await.unwrap().text().await.unwrap();
    assert!(plain.contains("/api/openapi.json") && !plain.contains('<'), "{plain}");
}

#[tokio::test]
async fn files_can_be_kept_for_ever_and_come_compressed() {
    let lab = lab(Parts::default()).await;
    // A test of the crate makes a missing page an error where `CI` is set.
    if state() != PageState::Built {
        assert_eq!(lab.get("/assets/index.js").send().await.unwrap().status(), StatusCode::NOT_FOUND);
        return;
    }
    let path = format!("/{}", script());
    let whole = lab.get(&path).send().await.unwrap();
    assert_eq!(
        (whole.status(), header(&whole, "cache-control")),
        (StatusCode::OK, "public, max-age=31536000, immutable")
    );
    assert!(whole.headers().get("content-encoding").is_none());
    let known = asset(script()).unwrap();
    assert_eq!(whole.bytes().await.unwrap(), known.bytes);
    let packed = lab.get(&path).header(ACCEPT_ENCODING, "br, gzip").send().await.unwrap();
    assert_eq!(header(&packed, "content-encoding"), "gzip");
    assert_eq!(packed.bytes().await.unwrap(), known.gzip);
    let refused = lab.get(&path).header(ACCEPT_ENCODING, "gzip;q=0").send().await.unwrap();
    assert!(refused.headers().get("content-encoding").is_none());
    for other in ["/assets/none.js", "/assets/..%2findex.html", "/assets/index.html", "/index.html"] {
        assert_eq!(lab.get(other).send().await.unwrap().status(), StatusCode::NOT_FOUND, "{other}");
    }
}

#[tokio::test]
async fn a_server_without_the_api_describes_itself() {
    let lab = lab(Parts::only([Part::Page])).await;
    let page = browse(lab.get("/")).await.text().await.unwrap();
    assert!(page.contains("web page") && !page.contains("/assets/"), "{page}");
}
