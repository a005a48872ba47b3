//! Gates, broken connections, HTTP errors and bytes that are no answer.

use coracle_scripted_model::{Disconnect, Library, Raw, Script, Status, Step, Wire};
use futures::StreamExt as _;
use serde_json::Value;

use crate::client::{User, WIRES, answer, events, request, send, start, streamed, streamed_text, text};

#[tokio::test]
async fn a_gate_holds_the_answer_until_a_test_opens_it() {
    let server = start(Library::single([[Step::text("before"), Step::gate("go"), Step::text(" after")]])).await;
    let gates = server.model().gates();
    for wire in WIRES {
        let mut body = send(&server, wire, &streamed(request(wire, &[User("Hi")]))).await.bytes_stream();
        gates.reached("go").await;
        let mut received = String::new();
        while !received.contains("before") {
            received.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
        }
        assert!(!received.contains("after"));
        gates.open("go");
        while let Some(piece) = body.next().await {
            received.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        }
        assert_eq!(streamed_text(wire, &events(&received)), "before after");
        gates.close("go");
    }
}

#[tokio::test]
async fn a_connection_breaks_as_often_as_the_script_says() {
    let broken = Step::Disconnect(Disconnect { times: Some(1) });
    for wire in WIRES {
        let server = start(Library::single([[Step::text("half"), broken.clone(), Step::text(" whole")]])).await;
        let request = streamed(request(wire, &[User("Hi")]));
        let mut body = send(&server, wire, &request).await.bytes_stream();
        let mut received = String::new();
        let error = loop {
            match body.next().await {
                Some(Ok(piece)) => received.push_str(std::str::from_utf8(&piece).unwrap()),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        assert!(error.is_some(), "{received}");
        assert_eq!(streamed_text(wire, &events(&received)), "half");
        let second = send(&server, wire, &request).await.text().await.unwrap();
        assert_eq!(streamed_text(wire, &events(&second)), "half whole");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_breaks_too() {
    let server = start(Library::single([[Step::Disconnect(Disconnect::default())]])).await;
    for wire in WIRES {
        assert!(send(&server, wire, &request(wire, &[User("Hi")])).await.bytes().await.is_err());
    }
}

#[tokio::test]
async fn http_errors_come_as_often_as_the_script_says() {
    let limit = Status { retry_after: Some("3".to_owned()), times: Some(2), ..Status::new(429) };
    for wire in WIRES {
        let server = start(Library::single([[Step::Status(limit.clone()), Step::text("ok")]])).await;
        for _ in 0..2 {
            let response = send(&server, wire, &request(wire, &[User("Hi")])).await;
            assert_eq!(response.status(), 429);
            assert_eq!(response.headers()["retry-after"], "3");
            let body: Value = response.json().await.unwrap();
            match wire {
                Wire::Messages => assert_eq!(body["error"]["type"], "rate_limit_error"),
                _ => assert_eq!(body["error"]["code"], "rate_limit_exceeded"),
            }
        }
        assert_eq!(text(wire, &answer(&server, wire, &request(wire, &[User("Hi")])).await), "ok");
    }
}

#[tokio::test]
async fn http_errors_have_the_shape_of_the_wire() {
    let context = Status { error: Some("context_length_exceeded".to_owned()), ..Status::new(400) };
    let library = Library::single([[Step::Status(context)]])
        .with("500", Script::new([[Step::Status(Status::new(500))]]))
        .with("401", Script::new([[Step::Status(Status::new(401))]]))
        .with("529", Script::new([[Step::Status(Status::new(529))]]));
    let server = start(library).await;
    let cases = [
        ("Hi", 400, "context_length_exceeded", "invalid_request_error"),
        ("[script:500]", 500, "", "api_error"),
        ("[script:401]", 401, "invalid_api_key", "authentication_error"),
        ("[script:529]", 529, "", "overloaded_error"),
    ];
    for (message, status, code, kind) in cases {
        for wire in WIRES {
            let response = send(&server, wire, &request(wire, &[User(message)])).await;
            assert_eq!(response.status(), status);
            let body: Value = response.json().await.unwrap();
            match wire {
                Wire::Messages => assert_eq!(body["error"]["type"], kind),
                _ => assert_eq!(body["error"]["code"].as_str().unwrap_or_default(), code),
            }
        }
    }
}

#[tokio::test]
async fn bodies_without_end_stop_when_the_client_leaves() {
    let raw = Raw { text: "data: ".to_owned(), endless: Some("x".to_owned()), ..Raw::default() };
    let error = Status { body: Some(raw.clone()), ..Status::new(500) };
    let library = Library::single([[Step::Raw(raw)]]).with("error", Script::new([[Step::Status(error)]]));
    let server = start(library).await;
    for (number, wire) in WIRES.into_iter().enumerate() {
        for request in [request(wire, &[User("Hi")]), streamed(request(wire, &[User("Hi")]))] {
            let mut body = send(&server, wire, &request).await.bytes_stream();
            let mut size = 0;
            while size < 300_000 {
                size += body.next().await.unwrap().unwrap().len();
            }
        }
        server.model().requests().abandoned(2 * (number as u64 + 1)).await;
        let mut body = send(&server, wire, &request(wire, &[User("[script:error]")])).await.bytes_stream();
        assert!(body.next().await.unwrap().unwrap().starts_with(b"data: "));
    }
}
