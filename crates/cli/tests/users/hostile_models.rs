//! Models that send anything: each wire, each way to ask, each kind of nonsense. Every request ends with an answer or an
//! error in the form of its API, and the server goes on.

use crate::playing::{Playing, events, key_of};
use crate::site::{Answer, Client, Site};
use coracle_scripted_model::{
    Arrangement, Call, CallGroup, Disconnect, Library, Raw, Repeat, Script, Status, Step, StreamError, Text, Then,
};
use coracle_testing::harness::As;
use serde_json::{Value, json};

/// How much more memory the server may need at its peak, in MiB. The longest event that is accepted has 16 MiB, and a few
/// copies of it exist at once.
const MAX_GROWTH_MIB: u64 = 256;

/// What a client gets.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// An answer that contains this text.
    Answers(&'static str),
    /// An error with this code.
    Fails(&'static str),
    /// An answer that says that it was stopped, or a response that is incomplete for this reason.
    Stops(&'static str, &'static str),
}

use Ends::{Answers, Fails, Stops};

struct Case {
    name: &'static str,
    turns: Vec<Vec<Step>>,
    then: Then,
    /// How it ends with Chat Completions, Responses and Messages.
    ends: [Ends; 3],
    asks: &'static [Ask],
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Chat,
    ChatStream,
    Response,
    ResponseStream,
}

const ALL: &[Ask] = &[Ask::Chat, Ask::ChatStream, Ask::Response, Ask::ResponseStream];

fn case(name: &'static str, turns: Vec<Vec<Step>>, ends: Ends) -> Case {
    Case { name, turns, then: Then::Refuse, ends: [ends; 3], asks: ALL }
}

fn code(result: &str) -> Call {
    Call::new("execute_code", json!({ "code": format!("result = '{result}'") }))
}

fn endless(text: &str) -> Step {
    Step::Raw(Raw { endless: Some(text.to_owned()), ..Raw::default() })
}

/// As many deltas with one letter each.
fn deltas(times: u64) -> Step {
    let repeat = Some(Repeat { piece: "x".to_owned(), times });
    Step::Text(Text { repeat, ..Text::default() })
}

/// A delta with some text, as the wire has it.
fn delta(wire: &str) -> String {
    let text = "x".repeat(1000);
    let (name, data) = match wire {
        "chat" => ("", json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})),
        "responses" => {
            let data = json!({
                "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
                "delta": text,
            });
            ("event: response.output_text.delta\n", data)
        }
        _ => {
            let delta = json!({"type": "text_delta", "text": text});
            ("event: content_block_delta\n", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
        }
    };
    format!("{name}data: {data}\n\n")
}

/// The cases for one wire.
fn cases(wire: &str) -> Vec<Case> {
    let answer = || vec![Step::text("It is {{result}}.")];
    let group = |arrangement, pieces| {
        let calls = ["one", "two"].map(|result| Call { pieces, ..code(result) }).into();
        vec![Step::Calls(CallGroup { calls, arrangement })]
    };
    let broken = |more: Step| vec![Step::text("It begins"), more];
    let refused = |status: Status| vec![Step::Status(status), Step::text("At last.")];
    let raw = Raw { endless: Some("no ".to_owned()), ..Raw::default() };
    vec![
        case(
            "huge-index",
            vec![vec![Step::Call(Call { index: Some(u32::MAX), ..code("one") })], answer()],
            Answers("It is one"),
        ),
        case("two-calls-in-one-chunk", vec![group(Arrangement::OneChunk, 1), answer()], Answers("It is two")),
        case("interleaved-arguments", vec![group(Arrangement::Interleaved, 5), answer()], Answers("It is two")),
        case(
            "malformed-arguments",
            vec![vec![Step::call("execute_code", json!("{\"code\": "))], answer()],
            Answers("not valid JSON"),
        ),
        Case {
            then: Then::Repeat,
            ..case("loop", vec![vec![Step::Call(code("one"))]], Stops("repeated the same call", "loop"))
        },
        // Clients of the first wire do not depend on the end mark, because many servers forget it.
        Case {
            ends: [Answers("It begins"), Fails("model_interrupted"), Fails("model_interrupted")],
            ..case("no-end-mark", vec![broken(Step::NoEnd)], Fails("model_interrupted"))
        },
        case("closed-early", vec![broken(Step::Close)], Fails("model_interrupted")),
        case("disconnect", vec![broken(Step::Disconnect(Disconnect::default()))], Fails("model_interrupted")),
        case(
            "one-disconnect",
            vec![vec![Step::Disconnect(Disconnect { times: Some(1) }), Step::text("At last.")]],
            Answers("At last."),
        ),
        case("error-in-200", vec![broken(Step::Error(StreamError::default()))], Fails("model_failed")),
        case(
            "one-rate-limit",
            vec![refused(Status { retry_after: Some("0".to_owned()), times: Some(1), ..Status::new(429) })],
            Answers("At last."),
        ),
        case(
            "long-rate-limit",
            vec![refused(Status { retry_after: Some("3600".to_owned()), ..Status::new(429) })],
            Fails("model_rate_limited"),
        ),
        case(
            "error-body-without-end",
            vec![refused(Status { body: Some(raw), ..Status::new(400) })],
            Fails("model_rejected_request"),
        ),
        case("line-without-end", vec![vec![endless("x")]], Fails("model_answer_too_large")),
        case("text-without-end", vec![broken(endless(&delta(wire)))], Fails("model_answer_too_large")),
        Case {
            asks: &[Ask::Response],
            ..case("comments-without-end", vec![vec![endless(": nothing\n\n")]], Fails("model_answer_too_large"))
        },
        Case { asks: &[Ask::ChatStream], ..case("many-deltas", vec![vec![deltas(20_000)]], Answers("xxxx")) },
    ]
}

impl Ask {
    fn send(self, client: &Client, script: &str) -> Answer {
        let text = format!("[script:{script}]");
        let streams = matches!(self, Self::ChatStream | Self::ResponseStream);
        match self {
            Self::Chat | Self::ChatStream => {
                let body = json!({"stream": streams, "messages": [{"role": "user", "content": text}]});
                client.post("/v1/chat/completions", &body)
            }
            Self::Response | Self::ResponseStream => {
                client.post("/v1/responses", &json!({"stream": streams, "input": text}))
            }
        }
    }

    /// The text of an answer, or the code of its error. Checks the form of either.
    fn read(self, answer: &Answer) -> Result<String, String> {
        if answer.status != 200 {
            return Err(error_code(&answer.json()));
        }
        match self {
            Self::Chat => Ok(answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()),
            Self::ChatStream => chunks(&answer.text()),
            Self::Response => response(&answer.json()),
            Self::ResponseStream => {
                let events = events(&answer.text());
                let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
                let read = response(&last["response"]);
                let status = last["response"]["status"].as_str().unwrap();
                assert_eq!(last["type"], format!("response.{status}"), "{last}");
                read
            }
        }
    }
}

fn error_code(body: &Value) -> String {
    let error = &body["error"];
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()) && error["type"].is_string(), "{body}");
    error["code"].as_str().unwrap_or_default().to_owned()
}

fn chunks(text: &str) -> Result<String, String> {
    let mut events = events(text);
    assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{:?}", events.last());
    let chunks: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let last = chunks.last().unwrap();
    if last.get("error").is_some() {
        return Err(error_code(last));
    }
    assert!(last["choices"][0]["finish_reason"].is_string(), "{last}");
    Ok(chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect())
}

fn response(response: &Value) -> Result<String, String> {
    let ended = response["coracle"]["ended"].as_str().unwrap_or_default().to_owned();
    match response["status"].as_str().unwrap() {
        "completed" => {
            let items = response["output"].as_array().unwrap().iter();
            Ok(items.filter_map(|item| item["content"][0]["text"].as_str()).collect())
        }
        "failed" => {
            assert!(response["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{response}");
            Err(ended)
        }
        "incomplete" => {
            assert!(response["incomplete_details"]["reason"].is_string(), "{response}");
            Err(ended)
        }
        other => panic!("{other}: {response}"),
    }
}

/// Peak memory of the server in MiB.
fn peak(site: &Site) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", site.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

fn play(wire: &str, place: usize, cases: &[Case]) {
    let mut library = Library::default().with("fine", Script::new([vec![Step::text("Fine.")]]));
    for case in cases {
        // Faults that happen once are counted per script.
        for ask in case.asks {
            let script = Script::new(case.turns.clone()).then(case.then);
            library = library.with(&format!("{}-{ask:?}", case.name), script);
        }
    }
    let model = Playing::new(library);
    let site = Site::with_settings(As::current(), &[], &model.settings(wire));
    let client = site.client_with(&key_of(&site));
    assert_eq!(Ask::Chat.read(&Ask::Chat.send(&client, "fine")), Ok("Fine.".to_owned()));
    let before = peak(&site);
    for case in cases {
        for ask in case.asks {
            let begun = std::time::Instant::now();
            let answer = ask.send(&client, &format!("{}-{ask:?}", case.name));
            let read = ask.read(&answer);
            let shown = read.as_ref().map(|text| text.chars().take(2000).collect::<String>());
            let is_expected = match (case.ends[place], &read) {
                (Answers(text), Ok(read)) => read.contains(text),
                (Fails(code), Err(read)) => read == code,
                (Stops(note, _), Ok(read)) => matches!(ask, Ask::Chat | Ask::ChatStream) && read.contains(note),
                (Stops(_, reason), Err(read)) => matches!(ask, Ask::Response | Ask::ResponseStream) && read == reason,
                _ => false,
            };
            let text = answer.text();
            let end = &text[text.floor_char_boundary(text.len().saturating_sub(2000))..];
            assert!(is_expected, "{wire}, {}, {ask:?}: {:?} instead of {shown:?}: {end}", case.name, case.ends[place]);
            // The control.
            assert_eq!(Ask::Chat.read(&Ask::Chat.send(&client, "fine")), Ok("Fine.".to_owned()), "{}", case.name);
            println!("{wire}, {}, {ask:?}: {:.1?}, peak {} MiB", case.name, begun.elapsed(), peak(&site));
        }
    }
    let after = peak(&site);
    assert!(after < before + MAX_GROWTH_MIB, "{wire}: {before} MiB before, {after} MiB at the peak");
}

#[test]
fn any_answer_on_the_chat_wire_ends_well() {
    play("chat", 0, &cases("chat"));
}

#[test]
fn any_answer_on_the_responses_wire_ends_well() {
    play("responses", 1, &cases("responses"));
}

#[test]
fn any_answer_on_the_messages_wire_ends_well() {
    play("messages", 2, &cases("messages"));
}

/// Each delta is small, but all together are more than an answer may have.
#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_a_million_deltas_end_well() {
    for (place, wire) in ["chat", "responses", "messages"].into_iter().enumerate() {
        let million = case("a-million-deltas", vec![vec![deltas(1_000_000)]], Fails("model_answer_too_large"));
        play(wire, place, &[Case { asks: &[Ask::ChatStream, Ask::ResponseStream], ..million }]);
    }
}
