//! Answers by rule, on every wire.

use coracle_scripted_model::{Library, Wire};
use serde_json::{Value, json};

use crate::client::{Call, Entry, Result, User, WIRES, answer, calls, request, start, text, with_tools};

fn weather() -> Value {
    json!({"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]})
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_quoted() {
    let server = start(Library::default()).await;
    for wire in WIRES {
        let question = "What's the weather in San Francisco?";
        let ask = |history: &[Entry]| with_tools(wire, request(wire, history), &[("get_weather", weather())]);
        let first = answer(&server, wire, &ask(&[User(question)])).await;
        assert_eq!(calls(wire, &first), [("get_weather".to_owned(), json!({"location": "San Francisco"}))]);
        let history = [User(question), Call("c1", "get_weather"), Result("c1", "fog")];
        assert_eq!(text(wire, &answer(&server, wire, &ask(&history)).await), "The tool returned: fog");
        assert_eq!(text(wire, &answer(&server, wire, &request(wire, &[User("2+2?")])).await), "2 + 2 = 4");
    }
}

#[tokio::test]
async fn a_fenced_block_is_executed() {
    let server = start(Library::default()).await;
    let schema = json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]});
    for wire in WIRES {
        let history = [User("Run\n```python\nprint(1)\n```")];
        let ask = with_tools(wire, request(wire, &history), &[("execute_code", schema.clone())]);
        let expected = ("execute_code".to_owned(), json!({"code": "print(1)\n"}));
        assert_eq!(calls(wire, &answer(&server, wire, &ask).await), [expected]);
    }
}

#[tokio::test]
async fn a_schema_is_satisfied() {
    let server = start(Library::default()).await;
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"type": "integer"}, "words": {"type": "array", "items": {"type": "string"}}},
        "required": ["answer", "words"],
    });
    for wire in WIRES {
        let mut ask = request(wire, &[User("Count to 3")]);
        let format = json!({"type": "json_schema", "name": "n", "schema": schema});
        match wire {
            Wire::Chat => ask["response_format"] = json!({"type": "json_schema", "json_schema": format}),
            Wire::Responses => ask["text"] = json!({"format": format}),
            Wire::Messages => ask["output_config"] = json!({"format": format}),
        }
        let object: Value = serde_json::from_str(&text(wire, &answer(&server, wire, &ask).await)).unwrap();
        assert_eq!(object, json!({"answer": 3, "words": ["example"]}));
    }
}
