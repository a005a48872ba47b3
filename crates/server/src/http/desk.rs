//! Where people sign in: what all requests share about it.

use super::guard;
use super::provider::Provider;
use crate::accounts::{AccountError, People};
use crate::identity::Identity;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use coracle_config::Oidc;
use coracle_store::MemoryStore;
use coracle_types::Secret;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// Whether there are users by now is looked up once in so long.
const LOOKED_EACH: Duration = Duration::from_secs(1);

/// How people sign in.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// Who may.
    pub people: People,
    /// Everybody has to, from the start; else as soon as there is a user.
    pub required: bool,
    /// The address under which people know this server.
    pub public_url: Option<Url>,
    /// Proxies that may say where a request comes from.
    pub trusted_proxies: Vec<IpNet>,
    /// Proxies that may also say who asks.
    pub user_id_proxies: Vec<IpNet>,
    /// How long a browser stays signed in.
    pub session: Duration,
    /// Sign-in by an OpenID provider.
    pub oidc: Oidc,
}

impl AuthOptions {
    /// There are no users, and none can be kept: the one user of this machine.
    pub(crate) fn nobody() -> Self {
        Self {
            people: People::new(Arc::new(MemoryStore::new())),
            required: false,
            public_url: None,
            trusted_proxies: Vec::new(),
            user_id_proxies: Vec::new(),
            session: Duration::from_hours(1),
            oidc: Oidc::default(),
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

pub(crate) struct Desk {
    pub(crate) people: People,
    pub(crate) session: Duration,
    pub(crate) provider: Option<Provider>,
    public_url: Option<Url>,
    proxies: Vec<IpNet>,
    user_id_proxies: Vec<IpNet>,
    required: AtomicBool,
    looked: Mutex<Option<Instant>>,
}

impl Desk {
    pub(crate) fn new(options: &AuthOptions) -> Self {
        Self {
            people: options.people.clone(),
            session: options.session,
            provider: Provider::new(&options.oidc),
            public_url: options.public_url.clone(),
            proxies: options.trusted_proxies.clone(),
            user_id_proxies: options.user_id_proxies.clone(),
            required: AtomicBool::new(options.required),
            looked: Mutex::default(),
        }
    }

    /// Whether whoever asks must have signed in. Once there was a user, that stays so.
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

    /// Addresses that stand for many clients: both kinds of proxies.
    pub(crate) fn proxies(&self) -> Vec<IpNet> {
        [self.proxies.as_slice(), &self.user_id_proxies].concat()
    }

    /// Whether this address may say where a request comes from.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        is_in(&self.proxies, address) || self.names_users(address)
    }

    /// Whether this address may say who asks.
    pub(crate) fn names_users(&self, address: IpAddr) -> bool {
        is_in(&self.user_id_proxies, address)
    }

    /// Who is at the other end: behind proxies that are trusted, whom the last of them saw.
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

    /// The address of this server, as whoever asks knows it: without a slash at its end.
    pub(crate) fn base(&self, uri: &Uri, headers: &HeaderMap) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", guard::authority(uri, headers).unwrap_or_else(|| "localhost".to_owned())),
        }
    }

    /// Whether browsers reach this server by https.
    fn is_secure(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }

    /// With this beginning of its name a browser takes a cookie from this very host only, and by https only.
    fn cookie_name(&self) -> &'static str {
        if self.is_secure() { "__Host-coracle" } else { "coracle_session" }
    }

    /// The token in the cookie of a request; none if there are several.
    pub(crate) fn cookie(&self, headers: &HeaderMap) -> Option<Secret> {
        named_cookie(headers, self.cookie_name())
    }

    /// Makes a browser keep a token, or forget it.
    pub(crate) fn set_cookie(&self, token: Option<&Secret>) -> Option<HeaderValue> {
        match token {
            Some(token) => self.other_cookie(self.cookie_name(), "/", token, self.session),
            None => self.other_cookie(self.cookie_name(), "/", &Secret::default(), Duration::ZERO),
        }
    }

    /// A cookie that no script can read and no other site can send along with what changes something.
    pub(crate) fn other_cookie(&self, name: &str, path: &str, value: &Secret, age: Duration) -> Option<HeaderValue> {
        let (value, age) = (value.expose(), age.as_secs());
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={age}{secure}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether a request that changes something may come from a page of ours. Programs that are no browsers say neither.
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

fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// The value of a cookie; none if there are several of this name.
pub(crate) fn named_cookie(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(its, _)| *its == name).map(|(_, value)| value);
    match (ours.next(), ours.next()) {
        (Some(token), None) => Some(Secret::new(token)),
        _ => None,
    }
}

/// What only a page that somebody is signed in to can know: the forms on it carry this.
pub(crate) fn form_token(session: &Secret) -> String {
    coracle_store::TokenDigest::of(&format!("coracle form\n{}", session.expose())).as_str().to_owned()
}

/// The session of a caller that has one.
pub(crate) fn session_of(caller: &Identity) -> Option<&Secret> {
    match &caller.how {
        crate::identity::How::Session { token, .. } => Some(token),
        _ => None,
    }
}

/// Where to go after signing in: a path here, and nothing that a browser could take for an address elsewhere.
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
    fn only_paths_of_this_server_are_gone_to() {
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
