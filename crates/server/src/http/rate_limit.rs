//! The rate limit (`server.requests_per_minute`). It applies to each API key, and to each user who is authenticated in
//! another way. Requests that were not made within the last minute can be made at once.

use super::problem::ApiError;
use crate::identity::{How, Identity};
use crate::metrics::Metrics;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_mins(1);
/// Number of callers from which on those that have not made a request for a minute are forgotten.
const MANY_CALLERS: usize = 1_024;

/// The rate limit of a server, if it has one. Cheap to clone.
#[derive(Clone)]
pub(super) struct RateLimit(Option<Arc<Limiter>>);

struct Limiter {
    per_minute: u32,
    /// When each caller has its whole minute again.
    whole_at: Mutex<HashMap<String, Instant>>,
    metrics: Arc<Metrics>,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admission {
    /// Requests that can be made at once after this one.
    remaining: u32,
    /// Time until the caller has its whole minute again.
    reset: Duration,
    /// Time to wait, if the request is refused.
    wait: Option<Duration>,
}

impl RateLimit {
    pub(super) fn new(per_minute: Option<u32>, metrics: &Arc<Metrics>) -> Self {
        Self(per_minute.filter(|most| *most > 0).map(|per_minute| {
            Arc::new(Limiter { per_minute, whole_at: Mutex::default(), metrics: Arc::clone(metrics) })
        }))
    }
}

impl Limiter {
    fn admit(&self, caller: String, now: Instant) -> Admission {
        let interval = MINUTE / self.per_minute;
        let mut callers = self.whole_at.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= MANY_CALLERS {
            callers.retain(|_, whole_at| *whole_at > now);
        }
        let whole_at = callers.get(&caller).copied().unwrap_or(now).max(now);
        let after = whole_at + interval;
        let used = after.duration_since(now);
        // The interval is rounded down, so that a whole minute of intervals is never longer than a minute.
        let most = interval * self.per_minute;
        let wait = used.saturating_sub(most);
        if !wait.is_zero() {
            return Admission { remaining: 0, reset: whole_at.duration_since(now), wait: Some(wait) };
        }
        callers.insert(caller, after);
        let left = most.saturating_sub(used).as_nanos() / interval.as_nanos().max(1);
        Admission { remaining: u32::try_from(left).unwrap_or(u32::MAX), reset: used, wait: None }
    }

    fn headers(&self, admission: Admission) -> HeaderMap {
        let name = HeaderName::from_static;
        let mut headers = HeaderMap::new();
        headers.insert(name("x-ratelimit-limit-requests"), HeaderValue::from(self.per_minute));
        headers.insert(name("x-ratelimit-remaining-requests"), HeaderValue::from(admission.remaining));
        let reset = HeaderValue::from_str(&format!("{:.3}s", admission.reset.as_secs_f64()));
        headers.extend(reset.map(|reset| (name("x-ratelimit-reset-requests"), reset)));
        headers
    }
}

/// Who is counted: a key for itself, everybody else by user.
fn caller(identity: &Identity) -> String {
    match &identity.how {
        How::Key { id, .. } => format!("key {id}"),
        How::Local | How::Session { .. } | How::Bearer { .. } | How::Proxy => format!("user {}", identity.user),
    }
}

/// Middleware that limits all requests. Must run after authentication.
pub(super) async fn limit_all(State(limit): State<RateLimit>, request: Request, next: Next) -> Response {
    let Some(limiter) = &limit.0 else { return next.run(request).await };
    // Requests without an identity were rejected before.
    let Some(identity) = request.extensions().get::<Identity>() else {
        return ApiError::not_signed_in().into_response();
    };
    let admission = limiter.admit(caller(identity), Instant::now());
    let mut response = match admission.wait {
        None => next.run(request).await,
        Some(wait) => {
            tracing::info!(user = %identity.user, "a request is refused by the rate limit");
            limiter.metrics.limited();
            let most = limiter.per_minute;
            let message = format!(
                "too many requests: {most} per minute are allowed (server.requests_per_minute); wait {} seconds",
                wait.as_secs() + 1
            );
            let refused = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
            ApiError { retry: Some(wait), ..refused }.into_response()
        }
    };
    response.headers_mut().extend(limiter.headers(admission));
    response
}

/// The same for requests that change something.
pub(super) async fn limit_writes(limit: State<RateLimit>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    limit_all(limit, request, next).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_minute: u32) -> Limiter {
        Limiter { per_minute, whole_at: Mutex::default(), metrics: Arc::default() }
    }

    #[test]
    fn a_caller_has_a_number_of_requests_per_minute() {
        let limiter = limiter(3);
        let begin = Instant::now();
        let admit = |caller: &str, second: u64| limiter.admit(caller.to_owned(), begin + Duration::from_secs(second));
        assert_eq!([admit("a", 0), admit("a", 0), admit("a", 0)].map(|admission| admission.remaining), [2, 1, 0]);
        let refused = admit("a", 5);
        assert_eq!((refused.wait, refused.remaining), (Some(Duration::from_secs(15)), 0));
        assert_eq!(refused.reset, Duration::from_secs(55));
        // Refused requests do not count, and others have their own.
        assert_eq!((admit("a", 20).wait, admit("b", 20).remaining), (None, 2));
        assert!(admit("a", 20).wait.is_some());
        assert_eq!(admit("a", 1_000), Admission { remaining: 2, reset: Duration::from_secs(20), wait: None });
    }

    #[test]
    fn any_limit_can_be_used_up_and_callers_are_forgotten() {
        for most in [1, 7, 1_000, 1_000_000] {
            let limiter = limiter(most);
            let now = Instant::now();
            let admitted = (0..most.min(2_000)).filter(|_| limiter.admit("a".to_owned(), now).wait.is_none()).count();
            assert_eq!(admitted, most.min(2_000) as usize, "{most}");
            assert_eq!(limiter.admit("a".to_owned(), now).wait.is_some(), most <= 2_000, "{most}");
        }
        let limiter = limiter(1);
        let now = Instant::now();
        for number in 0..MANY_CALLERS {
            limiter.admit(number.to_string(), now);
        }
        limiter.admit("later".to_owned(), now + MINUTE);
        assert_eq!(limiter.whole_at.lock().unwrap().len(), 1);
    }
}
