//! The web page: its document at `/`, and the files that it loads. They contain no data of users, so they need no
//! authentication; the page gets everything else from the public API, as the user who is signed in.

use super::App;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coracle_page::{Asset, PageState};

/// What the page may do: run its own scripts, and talk to this server. Svelte is the only one that makes HTML from text,
/// from its own templates. `coracle-worker` names the script of the worker that reads PDF files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      connect-src 'self'; font-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types svelte-trusted-html coracle-worker";
/// Names of files contain a hash of their content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// The document has always the same name.
const ASK_AGAIN: &str = "no-cache";

pub(super) fn router() -> Router<App> {
    Router::new().route("/assets/{name}", get(file))
}

/// The document of the page; `None` if this program was built without it.
pub(super) fn document(asked: &HeaderMap) -> Option<Response> {
    coracle_page::index().map(|asset| send(asset, ASK_AGAIN, asked))
}

/// Why this program was built without the page.
pub(super) fn missing() -> Option<&'static str> {
    match coracle_page::state() {
        PageState::Built => None,
        PageState::Missing(reason) => Some(reason),
    }
}

async fn file(Path(name): Path<String>, asked: HeaderMap) -> Response {
    match coracle_page::asset(&format!("assets/{name}")) {
        Some(asset) => send(asset, FOR_EVER, &asked),
        None => (StatusCode::NOT_FOUND, "there is no such file of the page: load the page again\n").into_response(),
    }
}

fn send(asset: &'static Asset, caching: &'static str, asked: &HeaderMap) -> Response {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, asset.mime),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // `no-referrer` would also hide from this server that requests come from its own page.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, caching),
        (header::ETAG, asset.etag),
        (header::VARY, "accept, accept-encoding"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if lists(asked, header::IF_NONE_MATCH, |tag| tag.trim_start_matches("W/") == asset.etag) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    // A weight of zero means that the browser does not want it.
    let accepts_gzip = lists(asked, header::ACCEPT_ENCODING, |coding| match coding.split_once(';') {
        None => coding == "gzip",
        Some((name, weight)) => {
            let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
            name.trim() == "gzip" && weight.is_ok_and(|weight| weight > 0.0)
        }
    });
    let bytes = if accepts_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        asset.gzip
    } else {
        asset.bytes
    };
    (headers, Body::from(Bytes::from_static(bytes))).into_response()
}

/// Whether a header has an entry of this kind.
fn lists(headers: &HeaderMap, name: HeaderName, is_wanted: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| is_wanted(entry.trim()))
}
