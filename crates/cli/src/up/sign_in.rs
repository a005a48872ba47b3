//! Authentication settings of `coracle up`, and the first user.

use crate::listening::reachable;
use crate::status::Mistake;
use crate::users::{link, told};
use coracle_accounts::{People, is_local_user, random_token, user_name};
use coracle_config::Loaded;
use coracle_server::{AuthOptions, CorsOrigins, HttpOptions, Part, Parts};
use coracle_store::{Role, User};
use coracle_types::Secret;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};
use url::Url;

/// Name of the first user.
const ADMIN: &str = "admin";

/// Credentials of the local user, on a server without users.
pub(super) struct LocalAccess {
    pub(super) key: Option<Secret>,
    pub(super) link: Option<Secret>,
}

/// Authentication settings.
pub(super) struct Auth {
    /// An address that other machines can reach, if the server listens on one.
    reachable: Option<IpAddr>,
    /// Whether `server.auth` is `required`.
    is_asked_for: bool,
    public_url: Option<Url>,
    proxies: Vec<ipnet::IpNet>,
    user_id_proxies: Vec<ipnet::IpNet>,
    oidc: coracle_config::Oidc,
    session: Duration,
    cors_origins: CorsOrigins,
}

impl Auth {
    pub(super) fn read(loaded: &Loaded, addresses: &[SocketAddr]) -> anyhow::Result<Self> {
        let server = &loaded.settings.server;
        let public_url = server.public_url.as_deref().map(public_url).transpose()?;
        let proxies = networks("server.trusted_proxies", &server.trusted_proxies)?;
        let user_id_proxies = networks("server.user_id_proxies", &server.user_id_proxies)?;
        if let Some(issuer) = &server.oidc.issuer
            && Url::parse(issuer).is_err()
        {
            let hint = Some("use an address such as https://id.example.com");
            return Err(Mistake::new(format!("server.oidc.issuer: {issuer:?} is not a URL"), hint).into());
        }
        let cors_origins = CorsOrigins::parse(&server.cors_origins).map_err(|error| {
            let hint = "use origins such as https://app.example, with nothing after the host and port, or * for all";
            Mistake::new(format!("server.cors_origins: {error}"), Some(hint))
        })?;
        Ok(Self {
            reachable: addresses.iter().map(SocketAddr::ip).find(|host| !host.is_loopback()),
            is_asked_for: server.auth == "required",
            public_url,
            proxies,
            user_id_proxies,
            oidc: server.oidc.clone(),
            session: Duration::from_hours(server.session_hours),
            cors_origins,
        })
    }

    /// Rejects configurations that would be open to others, before anything listens.
    pub(super) async fn check(&self, people: &People, one_workspace: bool) -> anyhow::Result<()> {
        let are_any = people.are_any().await.map_err(told)?;
        if one_workspace && (are_any || self.is_required()) {
            let hint = Some("omit it: each user has their own workspace");
            return Err(Mistake::new("--workspace would be one folder for all users", hint).into());
        }
        if let Some(host) = self.reachable.filter(|_| !are_any && !self.is_asked_for) {
            let message = format!("{host} is reachable from other machines, but there are no users");
            let hint = "add one with coracle users add NAME --admin, or set server.auth to required: the first start \
                        then adds one and prints a link to sign in with";
            return Err(Mistake::new(message, Some(hint)).into());
        }
        Ok(())
    }

    /// Adds the first user if authentication is required and there is none. Returns lines about signing in.
    pub(super) async fn welcome(&self, people: &People, address: SocketAddr) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        let users = people.all().await.map_err(told)?;
        if users.is_empty() && self.is_asked_for {
            let name = user_name(ADMIN).map_err(told)?;
            let admin = people.add(User::new(name, Role::Admin, SystemTime::now()), None).await.map_err(told)?;
            let token = people.link(&admin.id).await.map_err(told)?;
            lines.push(format!("sign in   {} (once, as {ADMIN}, within a day)", link(&self.base(address), &token)));
        }
        let was_here = |user: &User| user.password.is_some() || user.foreign.is_some() || user.last_seen.is_some();
        let mut admins = users.iter().filter(|user| user.role == Role::Admin && !user.disabled).peekable();
        if let Some(first) = admins.peek().map(|admin| admin.id.clone())
            && !admins.any(was_here)
        {
            lines.push(format!("sign in   no admin has signed in yet: coracle users link {first}"));
        }
        if let Some(user) = users.iter().find(|user| is_local_user(&user.id)) {
            let id = &user.id;
            lines.push(format!(
                "warning   user {id} cannot sign in, the name is reserved: coracle users rename {id} NAME"
            ));
        }
        let is_plain = self.public_url.as_ref().is_none_or(|url| url.scheme() != "https");
        if self.reachable.is_some() && is_plain {
            lines.push(
                "warning   passwords and keys are sent unencrypted: use a reverse proxy with TLS, and put its address \
                 into server.public_url"
                    .to_owned(),
            );
        }
        Ok(lines)
    }

    /// The link that signs in one browser as the local user, if there are no users and pages are served.
    pub(super) async fn local_link(&self, people: &People, parts: &Parts) -> anyhow::Result<Option<Secret>> {
        if self.is_required() || !parts.has(Part::Page) || people.are_any().await.map_err(told)? {
            return Ok(None);
        }
        random_token().map(Some).map_err(told)
    }

    /// Line with that link.
    pub(super) fn local_link_line(&self, token: &Secret, address: SocketAddr) -> String {
        format!("sign in   {} (once, within a day: this browser then needs no key)", link(&self.base(address), token))
    }

    /// Example request that works as printed.
    pub(super) async fn example(&self, people: &People, address: SocketAddr, parts: &Parts) -> anyhow::Result<String> {
        let base = self.base(address);
        if !parts.has(Part::Api) {
            return Ok(format!("curl {base}/health"));
        }
        let users = people.all().await.map_err(told)?;
        let body = r#"-H 'Content-Type: application/json' -d '{"code": "print(6 * 7)"}'"#;
        if !self.is_required() && users.is_empty() {
            return Ok(format!("curl {base}/api/executions {body}"));
        }
        let usable = users.iter().filter(|user| !user.disabled);
        match usable.min_by_key(|user| user.role != Role::Admin) {
            None => Ok(format!("curl {base}/health")),
            Some(user) => {
                let key = format!("$(coracle users keys add {} --name curl --expires 1h)", user.id);
                Ok(format!("curl {base}/api/executions -H \"Authorization: Bearer {key}\" {body}"))
            }
        }
    }

    /// Address of this server: the public URL, or else one for this machine.
    fn base(&self, address: SocketAddr) -> String {
        if let Some(url) = &self.public_url {
            return url.as_str().trim_end_matches('/').to_owned();
        }
        format!("http://{}", reachable(address))
    }

    /// Whether authentication is required from the start. Otherwise it is as soon as there is a user.
    fn is_required(&self) -> bool {
        let has_proxies = !self.proxies.is_empty() || !self.user_id_proxies.is_empty();
        self.is_asked_for || self.reachable.is_some() || has_proxies || self.oidc.issuer.is_some()
    }

    /// Whether pages of other origins may use the server.
    pub(super) fn has_cors(&self) -> bool {
        !self.cors_origins.is_empty()
    }

    pub(super) fn options(&self, loaded: &Loaded, people: People, local: LocalAccess) -> HttpOptions {
        let server = &loaded.settings.server;
        let (mut allowed_hosts, mut allowed_origins) = (server.allowed_hosts.clone(), server.allowed_origins.clone());
        if let Some(url) = &self.public_url {
            allowed_hosts.extend(url.host_str().map(|host| host.trim_matches(['[', ']']).to_owned()));
            allowed_origins.push(url.origin().ascii_serialization());
        }
        let auth = AuthOptions {
            people,
            required: self.is_required(),
            local_key: local.key,
            local_link: local.link,
            public_url: self.public_url.clone(),
            trusted_proxies: self.proxies.clone(),
            user_id_proxies: self.user_id_proxies.clone(),
            session: self.session,
            oidc: self.oidc.clone(),
        };
        let max_connections = usize::try_from(server.max_connections).ok();
        let cors_origins = self.cors_origins.clone();
        let auth = Some(auth);
        HttpOptions {
            allowed_hosts,
            allowed_origins,
            cors_origins,
            max_connections,
            requests_per_minute: server.requests_per_minute.and_then(|most| u32::try_from(most).ok()),
            auth,
            ..HttpOptions::default()
        }
    }
}

fn public_url(text: &str) -> anyhow::Result<Url> {
    let wrong = || {
        let hint = Some("use an address such as https://coracle.example, with nothing after the host");
        Mistake::new(format!("server.public_url: {text:?} is not the URL of a server"), hint)
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let is_http = matches!(url.scheme(), "http" | "https") && url.password().is_none() && url.has_host();
    if is_plain && is_http { Ok(url) } else { Err(wrong().into()) }
}

/// Parses addresses and networks.
fn networks(key: &str, texts: &[String]) -> anyhow::Result<Vec<ipnet::IpNet>> {
    let network = |text: &String| {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(ipnet::IpNet::from));
        network.map_err(|_| {
            let hint = Some("use addresses such as 10.0.0.7, or networks such as 10.0.0.0/8");
            Mistake::new(format!("{key}: {text:?} is neither an address nor a network"), hint).into()
        })
    };
    texts.iter().map(network).collect()
}
