//! `/api/approvals`: questions whether a tool may be called.

use crate::approvals::{AnswerError, Answered, PersonsAnswer};
use crate::http::App;
use crate::http::extract::{Asked, At, Body, listed};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::Reader;
use crate::identity::Identity;
use crate::views::ApprovalView;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle_privacy::Item;
use coracle_store::KeyScope;
use futures::stream;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Time without a change after which a comment is sent, so that proxies keep the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time after which a stream ends, so that credentials are checked again.
const STREAM_TIME: Duration = Duration::from_mins(15);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(watch_open)).routes(routes!(show, answer))
}

/// State of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum QuestionState {
    /// Waits for an answer.
    Open,
    /// Answered, or timed out.
    Ended,
}

/// Query parameters for listing approvals.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only list questions in this state: `open` or `ended`
    #[param(inline)]
    state: Option<QuestionState>,
    /// Maximum number of ended questions to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// List of questions
#[derive(Debug, Serialize, ToSchema)]
struct Approvals {
    /// Open questions, oldest first, followed by ended ones, newest first
    approvals: Vec<ApprovalView>,
}

impl Approvals {
    async fn open(app: &App, reader: &Reader) -> Result<Self, ApiError> {
        let mut approvals = Vec::new();
        for open in app.questions.open(&reader.user) {
            approvals.push(shown_to(app, reader, ApprovalView::of(&open, &reader.user)).await?);
        }
        Ok(Self { approvals })
    }
}

/// The question as this reader may see it.
async fn shown_to(app: &App, reader: &Reader, mut view: ApprovalView) -> Result<ApprovalView, ApiError> {
    reader.protect_arguments(app, view.arguments()).await?;
    let mut texts: Vec<Item<'_>> = view.texts().map(Item::Text).collect();
    reader.protect(app, &mut texts).await?;
    Ok(view)
}

/// List questions whether a tool may be called
///
/// Returns the open questions about calls of the current user, and about calls of others that the user may approve as a
/// member of a group, oldest first, and then those that were answered or timed out, newest first. Where personal data is
/// hidden from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/approvals", operation_id = "list_approvals", tag = "approvals", params(Which),
    responses(
        (status = 200, body = Approvals, description = "Open and ended questions"),
        Refusals
    )
)]
async fn list(State(app): State<App>, reader: Reader, Asked(which): Asked<Which>) -> Result<Json<Approvals>, ApiError> {
    let limit = listed(which.limit)?;
    let mut all = Approvals { approvals: Vec::new() };
    if which.state != Some(QuestionState::Ended) {
        all = Approvals::open(&app, &reader).await?;
    }
    if which.state != Some(QuestionState::Open) {
        for ended in app.auth.people.store().approvals(&reader.user, limit).await? {
            all.approvals.push(shown_to(&app, &reader, ended.into()).await?);
        }
    }
    Ok(Json(all))
}

/// Watch the open questions
///
/// Server-sent events: one with the open questions that the current user can see, and another one whenever they change,
/// for example because a member of a group has approved. Each is an
/// object like that of `GET /api/approvals?state=open`. The stream ends after 15 minutes: connect again.
#[utoipa::path(
    get, path = "/api/approvals/events", operation_id = "watch_approvals", tag = "approvals",
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Stream of open questions"),
        Refusals
    )
)]
async fn watch_open(State(app): State<App>, reader: Reader) -> Response {
    // Subscribed before the first list is read, so that no change is missed.
    let mut changes = app.questions.changes(&reader.user);
    changes.mark_changed();
    let watching = Watching { changes, app, reader, end: Instant::now() + STREAM_TIME };
    let body = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<Bytes, Infallible>(event), watching))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, axum::body::Body::from_stream(body)).into_response()
}

/// A stream of open questions.
struct Watching {
    changes: watch::Receiver<()>,
    app: App,
    reader: Reader,
    end: Instant,
}

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            () = self.app.stop.cancelled() => None,
            () = tokio::time::sleep_until(self.end) => None,
            changed = self.changes.changed() => {
                changed.ok()?;
                let open = Approvals::open(&self.app, &self.reader).await.ok()?;
                let open = serde_json::to_string(&open).ok()?;
                Some(format!("data: {open}\n\n").into())
            }
            () = tokio::time::sleep(KEEP_ALIVE) => Some(Bytes::from_static(b": keep-alive\n\n")),
        }
    }
}

/// Get a question
#[utoipa::path(
    get, path = "/api/approvals/{id}", operation_id = "show_approval", tag = "approvals",
    params(("id" = String, Path, description = "Question ID")),
    responses((status = 200, body = ApprovalView, description = "Question and its answer"), Refusals)
)]
async fn show(State(app): State<App>, reader: Reader, At(id): At<String>) -> Result<Json<ApprovalView>, ApiError> {
    let open = app.questions.open(&reader.user).into_iter().find(|open| open.question.id.as_str() == id);
    let view = match open {
        Some(open) => ApprovalView::of(&open, &reader.user),
        None => app.auth.people.store().approval(&reader.user, &id).await?.ok_or_else(missing)?.into(),
    };
    shown_to(&app, &reader, view).await.map(Json)
}

fn missing() -> ApiError {
    ApiError::missing("there is no such question, or its call was withdrawn")
}

/// Decision about a tool call.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decided {
    /// Make this call.
    Once,
    /// Make this call, and further calls of the tool until the session ends.
    Session,
    /// Make this call, and further calls with the same arguments until the session ends.
    SessionSameArguments,
    /// Make this call, and all further calls of the tool as it is defined now.
    Always,
    /// Make this call, and all further calls with the same arguments.
    AlwaysSameArguments,
    /// Refuse this call.
    Refuse,
}

impl From<Decided> for PersonsAnswer {
    fn from(decided: Decided) -> Self {
        match decided {
            Decided::Once => Self::Once,
            Decided::Session => Self::Session,
            Decided::SessionSameArguments => Self::SessionSameArguments,
            Decided::Always => Self::Always,
            Decided::AlwaysSameArguments => Self::AlwaysSameArguments,
            Decided::Refuse => Self::Refuse,
        }
    }
}

/// Answer to a question
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GivenAnswer {
    /// Decision: `once`, `session` (until the session ends, or the execution if there is no session), `always` or
    /// `refuse`. `session_same_arguments` and `always_same_arguments` apply only to calls with the same arguments.
    #[schema(
        value_type = String,
        pattern = "^(once|session|session_same_arguments|always|always_same_arguments|refuse)$"
    )]
    decision: Decided,
}

/// Answer a question
///
/// An API key needs the scope `approve` in addition to `api`, and access tokens cannot answer. Where a group has to approve,
/// its members answer with `once` or `refuse`. The question stays open until enough of them have approved or one has
/// refused. The user whose code makes the call can refuse it, too.
#[utoipa::path(
    post, path = "/api/approvals/{id}", operation_id = "answer_approval", tag = "approvals",
    params(("id" = String, Path, description = "Question ID")),
    request_body = GivenAnswer,
    responses(
        (status = 200, body = ApprovalView, description = "Answered question, or one that needs more approvals"),
        (status = 409, body = Problem, description = "Question already answered, or withdrawn"),
        (status = 503, body = Problem, description = "Answer not stored, and call refused"),
        Refusals
    )
)]
async fn answer(
    State(app): State<App>,
    caller: Identity,
    reader: Reader,
    At(id): At<String>,
    Body(body): Body<GivenAnswer>,
) -> Result<Json<ApprovalView>, ApiError> {
    if !caller.may(KeyScope::Approve) {
        let message = "answering requires a person: a browser session, or an API key with the scope approve";
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    let answered = app.questions.answer(&caller.user, &id, body.decision.into(), &caller.credential()).await;
    match answered {
        Ok(Answered::Ended(record)) => shown_to(&app, &reader, (*record).into()).await.map(Json),
        Ok(Answered::Open(open)) => shown_to(&app, &reader, ApprovalView::of(&open, &caller.user)).await.map(Json),
        Err(error @ AnswerError::NotAnApprover { .. }) => {
            Err(ApiError::forbidden("not_an_approver", error.to_string()))
        }
        Err(error @ AnswerError::OnlyOnce) => Err(ApiError::new(StatusCode::CONFLICT, "only_once", error.to_string())),
        Err(error @ AnswerError::NotRecorded(_)) => {
            tracing::error!(%error, user = %caller.user, "cannot record an approval");
            let message = "the approval could not be recorded, and does not count: see the server's log";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_recorded", message))
        }
        Err(AnswerError::NotOpen) => match app.auth.people.store().approval(&caller.user, &id).await? {
            Some(_) => Err(ApiError::new(StatusCode::CONFLICT, "already_answered", "the question has already ended")),
            None => Err(missing()),
        },
        Err(error @ AnswerError::Withdrawn) => Err(ApiError::new(StatusCode::CONFLICT, "withdrawn", error.to_string())),
        Err(error @ AnswerError::Store(_)) => {
            tracing::error!(%error, user = %caller.user, "cannot store an answer");
            let message = "the answer could not be stored, so the call was refused: see the server's log";
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_stored", message))
        }
    }
}
