//! State shared by all authentication code: accounts, cookies, origins and proxies.

use super::guard;
use super::local_browser::LocalBrowser;
use super::provider::Provider;
use crate::identity::Identity;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use coracle_accounts::{AccountError, People};
use coracle_config::Oidc;
use coracle_store::MemoryStore;
use coracle_types::Secret;
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// Interval between checks whether there are users.
const LOOKED_EACH: Duration = Duration::from_secs(1);

/// Authentication options.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// User accounts.
    pub people: People,
    /// Whether authentication is required from the start. Otherwise it is as soon as there is a user.
    pub required: bool,
    /// Key of a server without users, which requests of pages of other origins need.
    pub local_key: Option<Secret>,
    /// Token of the link that signs in one browser on a server without users.
    pub local_link: Option<Secret>,
    /// Public address of this server.
    pub public_url: Option<Url>,
    /// Proxies whose `x-forwarded-for` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Proxies whose `x-user-id` is also trusted.
    pub user_id_proxies: Vec<IpNet>,
    /// Lifetime of a browser session.
    pub session: Duration,
    /// Sign-in with an OpenID provider.
    pub oidc: Oidc,
}

impl AuthOptions {
    /// Options for a server without accounts, which serves only the local user.
    pub(crate) fn local_only() -> Self {
        Self {
            people: People::new(Arc::new(MemoryStore::new())),
            required: false,
            local_key: None,
            local_link: None,
            public_url: None,
            trusted_proxies: Vec::new(),
            user_id_proxies: Vec::new(),
            session: Duration::from_hours(1),
            oidc: Oidc::default(),
        }
    }
}

/// Remote address of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

pub(crate) struct AuthState {
    pub(crate) people: People,
    pub(crate) session: Duration,
    pub(crate) provider: Option<Provider>,
    public_url: Option<Url>,
    proxies: Vec<IpNet>,
    user_id_proxies: Vec<IpNet>,
    local_key: Option<Secret>,
    pub(crate) local_browser: LocalBrowser,
    required: AtomicBool,
    looked: Mutex<Option<Instant>>,
}

impl AuthState {
    pub(crate) fn new(options: &AuthOptions) -> Self {
        Self {
            people: options.people.clone(),
            session: options.session,
            provider: Provider::new(&options.oidc),
            public_url: options.public_url.clone(),
            proxies: options.trusted_proxies.clone(),
            user_id_proxies: options.user_id_proxies.clone(),
            local_key: options.local_key.clone(),
            local_browser: LocalBrowser::new(options.local_link.as_ref()),
            required: AtomicBool::new(options.required),
            looked: Mutex::default(),
        }
    }

    /// Whether requests must be authenticated. Once there has been a user, they always must.
    pub(crate) async fn is_required(&self) -> Result<bool, AccountError> {
        if self.required.load(Ordering::Acquire) {
            return Ok(true);
        }
        let is_fresh = {
            let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.is_some_and(|looked| looked.elapsed() < LOOKED_EACH)
        };
        if is_fresh {
            return Ok(false);
        }
        if self.people.are_any().await? {
            self.required.store(true, Ordering::Release);
            return Ok(true);
        }
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(false)
    }

    /// Whether a request has the key of a server without users.
    pub(crate) fn has_local_key(&self, headers: &HeaderMap) -> bool {
        has_key(self.local_key.as_ref(), headers)
    }

    /// Whether a request comes from the browser that was signed in on a server without users.
    pub(crate) async fn is_local_browser(&self, headers: &HeaderMap) -> Result<bool, AccountError> {
        let is_known = self.cookie(headers).is_some_and(|token| self.local_browser.knows(&token));
        Ok(is_known && !self.is_required().await?)
    }

    /// Addresses that many clients may share: both kinds of proxies.
    pub(crate) fn proxies(&self) -> Vec<IpNet> {
        [self.proxies.as_slice(), &self.user_id_proxies].concat()
    }

    /// Whether `x-forwarded-for` from this address is trusted.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        is_in(&self.proxies, address) || self.names_users(address)
    }

    /// Whether `x-user-id` from this address is trusted.
    pub(crate) fn names_users(&self, address: IpAddr) -> bool {
        is_in(&self.user_id_proxies, address)
    }

    /// Address of the client: the peer or, behind trusted proxies, the last address that is not a trusted proxy.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.is_proxy(peer) {
            return peer;
        }
        let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let mut seen: Vec<IpAddr> =
            forwarded.flat_map(|value| value.split(',')).filter_map(|text| text.trim().parse().ok()).collect();
        while let Some(address) = seen.pop() {
            if !self.is_proxy(address) {
                return address;
            }
        }
        peer
    }

    /// Address of this server as the client knows it, without a trailing slash.
    pub(crate) fn base(&self, uri: &Uri, headers: &HeaderMap) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", guard::authority(uri, headers).unwrap_or_else(|| "localhost".to_owned())),
        }
    }

    /// Whether browsers reach this server over https.
    fn is_secure(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }

    /// Browsers accept a cookie with the prefix `__Host-` only from this host and only over https.
    fn cookie_name(&self) -> &'static str {
        if self.is_secure() { "__Host-coracle" } else { "coracle_session" }
    }

    /// Token in the session cookie; `None` if there are several such cookies.
    pub(crate) fn cookie(&self, headers: &HeaderMap) -> Option<Secret> {
        named_cookie(headers, self.cookie_name())
    }

    /// Header that sets the session cookie, or deletes it.
    pub(crate) fn set_cookie(&self, token: Option<&Secret>) -> Option<HeaderValue> {
        match token {
            Some(token) => self.other_cookie(self.cookie_name(), "/", token, self.session),
            None => self.other_cookie(self.cookie_name(), "/", &Secret::default(), Duration::ZERO),
        }
    }

    /// Header that sets a cookie which scripts cannot read and other sites cannot send with a write.
    pub(crate) fn other_cookie(&self, name: &str, path: &str, value: &Secret, age: Duration) -> Option<HeaderValue> {
        let (value, age) = (value.expose(), age.as_secs());
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={age}{secure}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether a write may come from a page of this server. Clients that are not browsers send neither header.
    pub(crate) fn is_same_origin(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site");
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return false;
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return true };
        let Some(origin) = origin.to_str().ok().and_then(|origin| Url::parse(origin).ok()) else { return false };
        if let Some(url) = &self.public_url
            && url.origin() == origin.origin()
        {
            return true;
        }
        let own = Url::parse(&format!("http://{}", guard::authority(uri, headers).unwrap_or_default()));
        own.is_ok_and(|own| own.origin() == origin.origin())
    }
}

/// Whether a request has this key as its bearer token.
pub(crate) fn has_key(key: Option<&Secret>, headers: &HeaderMap) -> bool {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let sent = sent.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match (sent, key) {
        // Digests, so that the time of the comparison tells nothing about the key.
        (Some((_, sent)), Some(key)) => Sha256::digest(sent.trim()) == Sha256::digest(key.expose()),
        _ => false,
    }
}

fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// Value of a cookie; `None` if there are several of this name.
pub(crate) fn named_cookie(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(its, _)| *its == name).map(|(_, value)| value);
    match (ours.next(), ours.next()) {
        (Some(token), None) => Some(Secret::new(token)),
        _ => None,
    }
}

/// Token for the forms of a session, which only pages of that session know.
pub(crate) fn form_token(session: &Secret) -> String {
    coracle_store::TokenDigest::of(&format!("coracle form\n{}", session.expose())).as_str().to_owned()
}

/// Session token of a caller with a browser session.
pub(crate) fn session_of(caller: &Identity) -> Option<&Secret> {
    match &caller.how {
        crate::identity::How::Session { token, .. } => Some(token),
        _ => None,
    }
}

/// Returns the path to go to after signing in, unless a browser could take it for an address elsewhere.
pub(crate) fn local_path(text: &str) -> Option<&str> {
    const MAX_PATH: usize = 2048;
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>".contains(&byte);
    let is_local =
        text.starts_with('/') && !text.starts_with("//") && text.len() <= MAX_PATH && text.bytes().all(plain);
    is_local.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn only_local_paths_are_accepted() {
        for good in ["/", "/sign-in", "/a/b?c=d&e=%2F#f", "/@x", "/x//y"] {
            assert_eq!(local_path(good), Some(good));
        }
        for bad in [
            "",
            "x",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            " /x",
            "/x y",
            "javascript:alert(1)",
            "/é",
            "/\r\nset-cookie:x=y",
        ] {
            assert_eq!(local_path(bad), None, "{bad:?}");
        }
        assert_eq!(local_path(&format!("/{}", "x".repeat(3000))), None);
    }
}
