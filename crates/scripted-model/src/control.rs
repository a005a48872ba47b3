//! Routes by which tests in other processes open gates and read the requests.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::gates::Gates;
use crate::records::Records;

pub(crate) fn router(gates: Gates, records: Records) -> Router {
    let gates = Router::new().route("/scripted/gates/{name}", post(open).delete(close)).with_state(gates);
    Router::new().route("/scripted/requests", get(requests)).with_state(records).merge(gates)
}

async fn open(State(gates): State<Gates>, Path(name): Path<String>) -> StatusCode {
    gates.open(&name);
    StatusCode::NO_CONTENT
}

async fn close(State(gates): State<Gates>, Path(name): Path<String>) -> StatusCode {
    gates.close(&name);
    StatusCode::NO_CONTENT
}

async fn requests(State(records): State<Records>) -> Json<Value> {
    let requests: Vec<Value> = records
        .all()
        .into_iter()
        .map(|recorded| {
            let played = recorded.played.map(|played| json!({"script": played.script, "turn": played.turn}));
            json!({"number": recorded.number, "body": recorded.body, "played": played})
        })
        .collect();
    Json(json!({"count": records.count(), "abandoned": records.abandoned_count(), "requests": requests}))
}
