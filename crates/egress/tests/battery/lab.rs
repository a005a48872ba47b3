//! A proxy with a resolver of its own, and a caller that decides and remembers.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use coracle_egress::{
    Attempt, Credential, Credentials, Decide, Decision, Gate, Grant, Host, Limits, Outcome, PrivateAddresses, Proxy,
    Refusal, RefusalKind, Resolver, Rules, Share,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::server::Trust;

/// A path that the caller denies.
pub(crate) const DENIED: &str = "/denied";
/// A path about which the caller never decides.
pub(crate) const UNDECIDED: &str = "/undecided";

/// Names and what they lead to. Each look-up takes the next answer; the last one stays.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_string());
        let mut answers = self.answers.lock().unwrap();
        let answers = answers.get_mut(host.as_str()).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// The caller.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) asked: Mutex<Vec<Attempt>>,
    pub(crate) finished: Mutex<Vec<(Attempt, Outcome)>>,
    pub(crate) refused: Mutex<Vec<Refusal>>,
    /// Most attempts at the same time.
    pub(crate) most: Mutex<usize>,
    changed: Notify,
}

#[async_trait]
impl Decide for Caller {
    async fn decide(&self, attempt: &Attempt) -> Decision {
        self.asked.lock().unwrap().push(attempt.clone());
        self.changed.notify_waiters();
        match attempt.path.as_str() {
            DENIED => Decision::Deny { reason: "was declined".to_owned(), hint: Some("ask again".to_owned()) },
            UNDECIDED => std::future::pending().await,
            _ => {
                let mut most = self.most.lock().unwrap();
                let now = self.asked.lock().unwrap().len() - self.finished.lock().unwrap().len();
                *most = now.max(*most);
                Decision::Allow
            }
        }
    }

    fn finished(&self, attempt: &Attempt, outcome: &Outcome) {
        self.finished.lock().unwrap().push((attempt.clone(), outcome.clone()));
        self.changed.notify_waiters();
    }

    fn refused(&self, refusal: &Refusal) {
        self.refused.lock().unwrap().push(refusal.clone());
        self.changed.notify_waiters();
    }
}

impl Caller {
    /// Waits until something holds.
    pub(crate) async fn until<T>(&self, holds: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = holds(self) {
                return found;
            }
            changed.await;
        }
    }

    pub(crate) async fn first_outcome(&self) -> Outcome {
        self.until(|caller| caller.finished.lock().unwrap().first().map(|(_, outcome)| outcome.clone())).await
    }

    pub(crate) fn kinds(&self) -> Vec<RefusalKind> {
        self.refused.lock().unwrap().iter().map(|refusal| refusal.kind).collect()
    }
}

/// A proxy, and what it needs.
pub(crate) struct Lab {
    pub(crate) names: Arc<Names>,
    pub(crate) trust: Trust,
    pub(crate) proxy: Proxy,
    /// Of the user whose sandboxes are made.
    pub(crate) share: Share,
}

/// A sandbox as the proxy sees it.
pub(crate) struct Sandbox {
    pub(crate) gate: Gate,
    pub(crate) caller: Arc<Caller>,
    pub(crate) cancel: CancellationToken,
}

impl Lab {
    /// All names of tests lead to 127.0.0.1.
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let (names, trust) = (Arc::<Names>::default(), Trust::new());
        for name in ["a.test", "b.test", "api.test", "xn--bcher-kva.test"] {
            names.set(name, &[&["127.0.0.1"]]);
        }
        let proxy = Proxy::with(limits, Arc::clone(&names) as Arc<dyn Resolver>, trust.client());
        let share = proxy.share();
        Self { names, trust, proxy, share }
    }

    /// A sandbox with rules, which may reach loopback.
    pub(crate) fn sandbox(&self, rules: &[String]) -> Sandbox {
        self.sandbox_with(rules, &["127.0.0.0/8"], Vec::new())
    }

    pub(crate) fn sandbox_with(&self, rules: &[String], private: &[&str], credentials: Vec<Credential>) -> Sandbox {
        let (caller, cancel) = (Arc::<Caller>::default(), CancellationToken::new());
        let grant = Grant {
            rules: Rules::parse("network.allow", rules).unwrap(),
            private_addresses: PrivateAddresses::parse(private).unwrap(),
            credentials: Credentials::new(credentials).unwrap(),
        };
        let decide = Arc::clone(&caller) as Arc<dyn Decide>;
        let gate = Gate::new(&self.proxy, &self.share, grant, decide, cancel.clone()).unwrap();
        Sandbox { gate, caller, cancel }
    }
}
