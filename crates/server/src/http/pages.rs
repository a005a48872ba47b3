//! The sign-in pages. They have no scripts and load nothing from elsewhere.

use super::parts::{Part, Parts};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::sync::LazyLock;

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{margin:0;min-height:100vh;display:grid;place-items:center}\
main{width:min(22rem,calc(100vw - 3rem));padding:1.5rem 0}\
h1{font-size:1.35rem;margin:0 0 1rem;font-weight:600}\
label{display:block;margin:.8rem 0;font-size:.9rem}\
input,button,a.button{display:block;box-sizing:border-box;width:100%;padding:.6rem .7rem;font:inherit;border-radius:.5rem;\
border:1px solid color-mix(in srgb,currentColor 35%,transparent);background:transparent;color:inherit}\
label input{margin-top:.25rem}\
button,a.button{margin-top:1rem;cursor:pointer;text-align:center;text-decoration:none;font-weight:600}\
button.first{background:light-dark(#14536b,#7cc4de);color:light-dark(#fff,#06202b);border-color:transparent}\
:focus-visible{outline:2px solid light-dark(#14536b,#7cc4de);outline-offset:2px}\
p{margin:.8rem 0}.problem{color:light-dark(#a3201d,#ff9d96)}";

/// Forbids loading, scripts, framing, and forms that submit elsewhere.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).ok()
});

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Sets headers that keep a response out of caches and its address out of the logs of others.
pub(crate) fn private(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // `no-referrer` would also hide from this server that its forms are its own.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn page(status: StatusCode, title: &str, problem: Option<&str>, body: &str) -> Response {
    let title = escaped(title);
    let problem = problem.map(|text| format!("<p class=problem role=alert>{}</p>", escaped(text))).unwrap_or_default();
    let text = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>{title} · Coracle</title><style>{STYLE}</style><main><h1>{title}</h1>{problem}{body}</main></html>"
    );
    let mut response = (status, Html(text)).into_response();
    private(response.headers_mut());
    response.headers_mut().extend(POLICY.clone().map(|policy| (header::CONTENT_SECURITY_POLICY, policy)));
    response
}

/// Sign-in page; `provider` is the address for signing in with an OpenID provider.
pub(crate) fn sign_in(status: StatusCode, problem: Option<&str>, next: &str, provider: Option<&str>) -> Response {
    let mut body = format!(
        "<form method=post action=/sign-in><input type=hidden name=next value=\"{}\">\
         <label>Name<input name=user autocomplete=username autocapitalize=none required autofocus></label>\
         <label>Password<input name=password type=password autocomplete=current-password required></label>\
         <button class=first>Sign in</button></form>",
        escaped(next)
    );
    if let Some(address) = provider {
        // Writing to a string cannot fail.
        let _ = write!(body, "<a class=button href=\"{}\">Sign in with your organisation</a>", escaped(address));
    }
    page(status, "Sign in", problem, &body)
}

/// Page of a sign-in link. It has a button because programs that preview links do not press buttons.
pub(crate) fn link(status: StatusCode, problem: Option<&str>) -> Response {
    let body = match problem {
        None => "<p>This link works once.</p><form method=post><button class=first>Sign in</button></form>",
        Some(_) => "<p><a href=/sign-in>Sign in with a password</a></p>",
    };
    page(status, "Sign in to Coracle", problem, body)
}

/// Page at `/` without the web page: describes the server, and says why there is no web page.
pub(crate) fn home(base: &str, parts: &Parts, is_local_browser: bool, missing: Option<&str>) -> Response {
    let base = escaped(base);
    let mcp = format!("<p>MCP clients connect to <b>{base}/mcp</b>.</p>");
    let api = "<p>Programs use the HTTP API: <a href=/api/openapi.json>/api/openapi.json</a> describes it.</p>";
    let mcp = Some(mcp).filter(|_| parts.has(Part::Mcp)).unwrap_or_default();
    let api = Some(api).filter(|_| parts.has(Part::Api)).unwrap_or_default();
    let sign_in = if is_local_browser {
        "<p>This browser is signed in as the local user.</p>\
         <form method=post action=/sign-in/out><button>Sign out</button></form>"
    } else {
        "<a class=button href=/sign-in>Sign in</a>"
    };
    let why = match missing {
        Some(reason) => format!("This program was built without its web page: {}.", escaped(reason)),
        None => "This server has no web page, because it serves no API.".to_owned(),
    };
    let body = format!(
        "<p>Coracle runs code that calls tools, in a sandbox. {why}</p>\
         {mcp}{api}<p>The state of the server is at <a href=/health>/health</a>.</p>{sign_in}"
    );
    page(StatusCode::OK, "Coracle", None, &body)
}

/// Page at `/` as plain text.
pub(crate) fn home_text(base: &str, parts: &Parts) -> String {
    let mcp = if parts.has(Part::Mcp) { format!("MCP clients  {base}/mcp\n") } else { String::new() };
    let api = if parts.has(Part::Api) { format!("HTTP API     {base}/api/openapi.json\n") } else { String::new() };
    format!(
        "Coracle runs code that calls tools, in a sandbox.\n\n\
         {mcp}{api}sign in      {base}/sign-in\n\
         state        {base}/health\n"
    )
}

/// Account page of a signed-in user.
pub(crate) fn account(user: &str, is_admin: bool, token: &str) -> Response {
    let admin = if is_admin { " (admin)" } else { "" };
    let body = format!(
        "<p>You are signed in as <b>{}</b>{admin}.</p>\
         <a class=button href=/>Open Coracle</a>\
         <a class=button href=/sign-in/password>Set a password</a>\
         <form method=post action=/sign-in/out><input type=hidden name=csrf value={token}>\
         <button>Sign out</button></form>",
        escaped(user)
    );
    page(StatusCode::OK, "Coracle", None, &body)
}

/// Page for setting a password.
pub(crate) fn password(status: StatusCode, problem: Option<&str>, user: &str, asks: bool, token: &str) -> Response {
    let current = if asks {
        "<label>Current password<input name=current type=password autocomplete=current-password required></label>"
    } else {
        ""
    };
    let least = coracle_accounts::MIN_PASSWORD_CHARS;
    let body = format!(
        "<form method=post action=/sign-in/password><input type=hidden name=csrf value={token}>\
         <input type=hidden name=user autocomplete=username value=\"{}\">{current}\
         <label>New password, at least {least} characters<input name=password type=password \
         autocomplete=new-password minlength={least} required autofocus></label>\
         <button class=first>Set password</button></form><p><a href=/sign-in>Not now</a></p>",
        escaped(user)
    );
    page(status, "Set a password", problem, &body)
}

/// Page in a window that was opened to sign in to an MCP server.
pub(crate) fn signed_in_to(server: &str) -> Response {
    let body = format!("<p>You are signed in to {}. You can close this window.</p>", escaped(server));
    page(StatusCode::OK, "Signed in", None, &body)
}

/// Page in a window that was opened to sign in to an MCP server, if that failed.
pub(crate) fn not_signed_in_to_server(problem: &str) -> Response {
    let body = "<p>You can close this window and begin again.</p>";
    page(StatusCode::CONFLICT, "Not signed in", Some(problem), body)
}

/// Page for a failed sign-in.
pub(crate) fn failed(status: StatusCode, problem: &str) -> Response {
    page(status, "Not signed in", Some(problem), "<p><a href=/sign-in>Try again</a></p>")
}
