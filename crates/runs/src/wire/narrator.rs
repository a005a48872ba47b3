//! Tells a run as the events of the Responses API.

use super::items::{self, CitedFile, ImageRoom, Place, Shown, Status};
use super::response::{self, Parts, StoredOutcome};
use crate::feed::{Feed, ITEM_DONE};
use crate::item::{ItemIds, Kind, Positions};
use crate::open_call::OpenCall;
use crate::spec::RunSpec;
use coracle_agent::{CallUpdate, RunEvent, ToolOutput};
use coracle_models::{Call, CallResult, Item, ModelEvent};
use coracle_store::RunState;
use coracle_types::{OutputStream, RunId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum length of the live output of one call that is told, in bytes.
const MAX_LIVE_BYTES: usize = 64 << 10;

/// Tells one run.
#[derive(Debug)]
pub(crate) struct Narrator {
    feed: Arc<Feed>,
    id: RunId,
    spec: Arc<RunSpec>,
    created_at: SystemTime,
    container: String,
    functions: Vec<String>,
    ids: ItemIds,
    /// Finished items by index.
    output: BTreeMap<usize, Value>,
    /// The index of the next item.
    next_index: usize,
    step: u32,
    /// Counts the items of the answer that is being written.
    written: Positions,
    /// The item that is being written.
    open: Option<Open>,
    /// Items of the answer that were told while the model wrote them: index, and whether they are finished.
    told: BTreeMap<(Kind, usize), Told>,
    /// Calls of the agent's tools without a result.
    calls: BTreeMap<String, OwnCall>,
    /// Files that no message has cited.
    files: Vec<CitedFile>,
    /// Number of messages of the user during the run.
    steered: usize,
    /// The room for images in the items.
    images: ImageRoom,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    number: usize,
    id: String,
    index: usize,
    text: String,
}

#[derive(Debug)]
struct Told {
    id: String,
    index: usize,
}

#[derive(Debug)]
struct OwnCall {
    id: String,
    index: usize,
    call: Call,
    shown: Shown,
    live_bytes: usize,
}

impl Narrator {
    pub(crate) fn new(
        feed: Arc<Feed>,
        id: RunId,
        attempt: u32,
        spec: Arc<RunSpec>,
        created_at: SystemTime,
        container: String,
    ) -> Self {
        Self {
            ids: ItemIds::new(&id, attempt),
            functions: spec.functions(),
            feed,
            id,
            spec,
            created_at,
            container,
            output: BTreeMap::new(),
            next_index: 0,
            step: 0,
            written: Positions::default(),
            open: None,
            told: BTreeMap::new(),
            calls: BTreeMap::new(),
            files: Vec::new(),
            steered: 0,
            images: ImageRoom::default(),
        }
    }

    /// The beginning of a run, or of another attempt with the items that earlier ones have finished.
    pub(crate) fn began(&mut self, earlier: Vec<Value>, open: &[OpenCall]) {
        self.next_index = earlier.len();
        self.output = earlier.into_iter().enumerate().collect();
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response(RunState::Running, None, None);
            self.tell(kind, json!({"response": response}));
        }
        for open in open {
            self.own_call(open.id.clone(), open.call.clone());
        }
    }

    /// The end of the run. Returns the response object.
    pub(crate) fn ended(&mut self, state: RunState, at: SystemTime, outcome: &StoredOutcome) -> Value {
        self.close(Status::Incomplete);
        for call in std::mem::take(&mut self.calls).into_values() {
            self.finish_call(&call, None);
        }
        let response = self.response(state, Some(at), Some(outcome));
        let kind = match state {
            RunState::Failed => "response.failed",
            RunState::Incomplete | RunState::Cancelled => "response.incomplete",
            RunState::Completed | RunState::Running => "response.completed",
        };
        self.tell(kind, json!({"response": response}));
        self.feed.end();
        response
    }

    /// The response object as it is now.
    pub(crate) fn response(
        &self,
        state: RunState,
        ended_at: Option<SystemTime>,
        outcome: Option<&StoredOutcome>,
    ) -> Value {
        let output: Vec<Value> = self.output.values().cloned().collect();
        response::object(Parts {
            id: &self.id,
            spec: &self.spec,
            created_at: self.created_at,
            state,
            ended_at,
            outcome,
            output: &output,
        })
    }

    pub(crate) fn tell_event(&mut self, event: RunEvent) {
        match event {
            RunEvent::StepBegan { step } => {
                self.step = step;
                self.begin_answer();
            }
            RunEvent::Model(ModelEvent::Text(delta)) => self.delta(Kind::Message, &delta),
            RunEvent::Model(ModelEvent::Reasoning(delta)) => self.delta(Kind::Reasoning, &delta),
            // Calls are told when they are complete: only then is it known what they are.
            RunEvent::Model(ModelEvent::CallBegan { .. }) => self.settle(),
            RunEvent::Model(ModelEvent::CallArguments { .. }) => {}
            RunEvent::Repeated { .. } => {
                self.close(Status::Incomplete);
                self.begin_answer();
            }
            RunEvent::StepEnded { items, .. } => self.answered(&items),
            RunEvent::CallStarted { id } => self.call_started(&id),
            RunEvent::CallUpdate { id, update } => self.call_update(&id, update),
            RunEvent::CallEnded { id, output } => self.call_ended(&id, &output),
            RunEvent::Steered { parts } => {
                let id = self.ids.other(Kind::Message, self.steered);
                self.steered += 1;
                let content: Vec<Value> = parts.iter().map(items::input_part).collect();
                let item =
                    json!({"type": "message", "id": id, "role": "user", "status": "completed", "content": content});
                self.extension("response.coracle.steered", json!({"item": item}));
            }
            RunEvent::Compacted => self.extension("response.coracle.compacted", json!({})),
        }
    }

    fn place(&self) -> Place<'_> {
        Place { container: &self.container, functions: &self.functions, has_shell: self.spec.has_shell() }
    }

    fn begin_answer(&mut self) {
        self.settle();
        self.written = Positions::default();
        self.told.clear();
    }

    fn tell(&self, kind: &'static str, data: Value) {
        self.feed.publish(kind, false, data);
    }

    fn extension(&self, kind: &'static str, data: Value) {
        self.feed.publish(kind, true, data);
    }

    fn add(&mut self, item: &Value) -> usize {
        let index = self.next_index;
        self.next_index += 1;
        self.tell("response.output_item.added", json!({"output_index": index, "item": item}));
        index
    }

    fn done(&mut self, index: usize, item: Value, status: Status) {
        self.tell(ITEM_DONE, json!({"output_index": index, "item": item}));
        if status == Status::Completed {
            self.output.insert(index, item);
        }
    }

    /// More text of a message or of reasoning.
    fn delta(&mut self, kind: Kind, delta: &str) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.settle();
            let number = self.written.next(kind);
            let id = self.ids.output(kind, self.step, number);
            let index = self.open_text(kind, &id);
            self.open = Some(Open { kind, number, id, index, text: String::new() });
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(delta);
        let (id, index) = (open.id.clone(), open.index);
        if kind == Kind::Message {
            let data = json!({
                "item_id": id, "output_index": index, "content_index": 0, "delta": delta, "logprobs": [],
            });
            self.tell("response.output_text.delta", data);
        } else {
            let data = json!({"item_id": id, "output_index": index, "summary_index": 0, "delta": delta});
            self.tell("response.reasoning_summary_text.delta", data);
        }
    }

    /// Tells that a message or reasoning begins.
    fn open_text(&mut self, kind: Kind, id: &str) -> usize {
        if kind == Kind::Message {
            let mut item = items::message(id, "", &[], Status::InProgress);
            item["content"] = json!([]);
            let index = self.add(&item);
            let part = items::text_part("", &[]);
            let data = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
            self.tell("response.content_part.added", data);
            index
        } else {
            let empty = Item::Reasoning { text: String::new(), native: None };
            let index = self.add(&items::reasoning(id, &empty, Status::InProgress));
            let part = json!({"type": "summary_text", "text": ""});
            let data = json!({"item_id": id, "output_index": index, "summary_index": 0, "part": part});
            self.tell("response.reasoning_summary_part.added", data);
            index
        }
    }

    /// The item that is being written is complete, but its final form is not known before the end of the answer.
    fn settle(&mut self) {
        if let Some(open) = self.open.take() {
            self.told.insert((open.kind, open.number), Told { id: open.id, index: open.index });
        }
    }

    /// Gives up the item that is being written.
    fn close(&mut self, status: Status) {
        let Some(open) = self.open.take() else { return };
        let item = if open.kind == Kind::Message {
            items::message(&open.id, &open.text, &[], status)
        } else {
            items::reasoning(&open.id, &Item::Reasoning { text: open.text, native: None }, status)
        };
        self.done(open.index, item, status);
    }

    /// The whole answer of the model.
    fn answered(&mut self, answer: &[Item]) {
        self.settle();
        let mut positions = Positions::default();
        for item in answer {
            let kind = Kind::of(item);
            let number = positions.next(kind);
            let id = self.ids.output(kind, self.step, number);
            match item {
                Item::Assistant { text, .. } => self.message_done(number, id, text),
                Item::Reasoning { text, .. } => self.reasoning_done(number, id, item, text),
                Item::Call(call) => {
                    if self.place().is_own(call) {
                        self.own_call(id, call.clone());
                    } else {
                        self.function_call(&id, call);
                    }
                }
                Item::System { .. } | Item::User { .. } | Item::Result(_) => {}
            }
        }
        // Told while they were written, but not part of the answer.
        for ((kind, _), told) in std::mem::take(&mut self.told) {
            let item = if kind == Kind::Message {
                items::message(&told.id, "", &[], Status::Incomplete)
            } else {
                items::reasoning(&told.id, &Item::Reasoning { text: String::new(), native: None }, Status::Incomplete)
            };
            self.done(told.index, item, Status::Incomplete);
        }
    }

    fn message_done(&mut self, number: usize, id: String, text: &str) {
        let told = self.told.remove(&(Kind::Message, number));
        let Told { id, index } = told.unwrap_or_else(|| Told { index: self.open_text(Kind::Message, &id), id });
        let annotations = items::citations(text, &std::mem::take(&mut self.files), &self.container);
        for (place, annotation) in annotations.iter().enumerate() {
            let data = json!({
                "item_id": id, "output_index": index, "content_index": 0, "annotation_index": place,
                "annotation": annotation,
            });
            self.tell("response.output_text.annotation.added", data);
        }
        let data = json!({"item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": []});
        self.tell("response.output_text.done", data);
        let part = items::text_part(text, &annotations);
        let data = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.tell("response.content_part.done", data);
        self.done(index, items::message(&id, text, &annotations, Status::Completed), Status::Completed);
    }

    fn reasoning_done(&mut self, number: usize, id: String, item: &Item, text: &str) {
        let told = self.told.remove(&(Kind::Reasoning, number));
        let Told { id, index } = told.unwrap_or_else(|| Told { index: self.open_text(Kind::Reasoning, &id), id });
        let data = json!({"item_id": id, "output_index": index, "summary_index": 0, "text": text});
        self.tell("response.reasoning_summary_text.done", data);
        let part = json!({"type": "summary_text", "text": text});
        let data = json!({"item_id": id, "output_index": index, "summary_index": 0, "part": part});
        self.tell("response.reasoning_summary_part.done", data);
        self.done(index, items::reasoning(&id, item, Status::Completed), Status::Completed);
    }

    fn function_call(&mut self, id: &str, call: &Call) {
        let empty = Call { arguments: String::new(), ..call.clone() };
        let index = self.add(&items::function_call(id, &empty, Status::InProgress));
        let data = json!({"item_id": id, "output_index": index, "delta": call.arguments});
        self.tell("response.function_call_arguments.delta", data);
        let data = json!({"item_id": id, "output_index": index, "name": call.name, "arguments": call.arguments});
        self.tell("response.function_call_arguments.done", data);
        self.done(index, items::function_call(id, call, Status::Completed), Status::Completed);
    }

    /// A call of one of the agent's tools begins.
    fn own_call(&mut self, id: String, call: Call) {
        let place = Place { container: &self.container, functions: &self.functions, has_shell: self.spec.has_shell() };
        let shown = place.shown(&call);
        let item = items::own_call(&id, &call, None, Status::InProgress, &place, &mut self.images).swap_remove(0);
        let index = self.add(&item);
        let place = |more: Value| with(json!({"item_id": id, "output_index": index}), more);
        match shown {
            Shown::Code => {
                let code = items::code_of(&call);
                self.tell("response.code_interpreter_call.in_progress", place(json!({})));
                self.tell("response.code_interpreter_call_code.delta", place(json!({"delta": code})));
                self.tell("response.code_interpreter_call_code.done", place(json!({"code": code})));
            }
            Shown::Shell => {}
            Shown::Tool | Shown::Function => {
                self.tell("response.mcp_call.in_progress", place(json!({})));
                self.tell("response.mcp_call_arguments.delta", place(json!({"delta": call.arguments})));
                self.tell("response.mcp_call_arguments.done", place(json!({"arguments": call.arguments})));
            }
        }
        self.calls.insert(call.id.clone(), OwnCall { id, index, call, shown, live_bytes: 0 });
    }

    fn call_started(&mut self, id: &str) {
        let Some(own) = self.calls.get(id) else { return };
        if own.shown == Shown::Code {
            let data = json!({"item_id": own.id, "output_index": own.index});
            self.tell("response.code_interpreter_call.interpreting", data);
        }
    }

    fn call_update(&mut self, id: &str, update: CallUpdate) {
        let Some(own) = self.calls.get_mut(id) else { return };
        let place = json!({"item_id": own.id, "output_index": own.index});
        match update {
            CallUpdate::Output { stream, bytes } => {
                let room = MAX_LIVE_BYTES.saturating_sub(own.live_bytes);
                own.live_bytes = own.live_bytes.saturating_add(bytes.len());
                if room == 0 || bytes.is_empty() {
                    return;
                }
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(room)]).into_owned();
                let name = match stream {
                    OutputStream::Stdout => "stdout",
                    OutputStream::Stderr => "stderr",
                };
                let is_shell = own.shown == Shown::Shell;
                let mut data = place;
                if is_shell {
                    let mut shell = data.clone();
                    shell["command_index"] = 0.into();
                    shell["delta"] = json!({name: text});
                    self.extension("response.shell_call_output_content.delta", shell);
                }
                data["stream"] = name.into();
                data["delta"] = text.into();
                self.extension("response.coracle.output.delta", data);
            }
            CallUpdate::Sandbox(state) => {
                self.extension("response.coracle.sandbox", with(place, json!({"sandbox": state})));
            }
            CallUpdate::Waiting { servers } => {
                self.extension("response.coracle.waiting", with(place, json!({"servers": servers})));
            }
            CallUpdate::CallBegan { number, server, tool, arguments, began_ms } => {
                let call = json!({
                    "number": number, "server": server, "tool": tool, "arguments": arguments, "began_ms": began_ms,
                });
                self.extension("response.coracle.call.began", with(place, call));
            }
            CallUpdate::CallEnded { number, call } => {
                self.extension("response.coracle.call.ended", with(place, json!({"number": number, "call": call})));
            }
            CallUpdate::Asked { number, question, server, tool, why, arguments, .. } => {
                let asked = json!({
                    "number": number, "approval_id": question, "server": server, "tool": tool, "reason": why,
                });
                self.extension("response.coracle.asked", with(place, asked));
                if self.spec.may_ask {
                    let item = items::approval_request(&question, &server, &tool, &arguments);
                    let index = self.add(&item);
                    self.done(index, item, Status::Completed);
                }
            }
            CallUpdate::Answered { number, question, allowed } => {
                let answered = json!({"number": number, "approval_id": question, "allowed": allowed});
                self.extension("response.coracle.answered", with(place, answered));
            }
            CallUpdate::Artifact(artifact) => {
                self.extension("response.coracle.artifact", with(place, json!({"artifact": artifact})));
            }
        }
    }

    fn call_ended(&mut self, id: &str, output: &ToolOutput) {
        let Some(own) = self.calls.remove(id) else { return };
        self.files.extend(output.structured.iter().flat_map(items::artifacts_of));
        self.finish_call(&own, Some(output));
    }

    fn finish_call(&mut self, own: &OwnCall, output: Option<&ToolOutput>) {
        let result = output.map(|output| CallResult {
            call_id: own.call.id.clone(),
            parts: output.parts.clone(),
            is_error: output.is_error,
        });
        let status = if output.is_some() { Status::Completed } else { Status::Incomplete };
        let structured = output.and_then(|output| output.structured.as_ref());
        let shown = result.as_ref().map(|result| (result, structured));
        let place = json!({"item_id": own.id, "output_index": own.index});
        match own.shown {
            Shown::Code if output.is_some() => self.tell("response.code_interpreter_call.completed", place),
            Shown::Tool if output.is_some_and(|output| output.is_error) => self.tell("response.mcp_call.failed", place),
            Shown::Tool => self.tell("response.mcp_call.completed", place),
            Shown::Code | Shown::Shell | Shown::Function => {}
        }
        let of = Place { container: &self.container, functions: &self.functions, has_shell: self.spec.has_shell() };
        let mut views = items::own_call(&own.id, &own.call, shown, status, &of, &mut self.images).into_iter();
        if let Some(item) = views.next() {
            // A call without a result stays in the history, so it stays in the output.
            self.done(own.index, item, Status::Completed);
        }
        for item in views {
            let index = self.add(&item);
            self.done(index, item, Status::Completed);
        }
    }
}

/// An object with more fields.
fn with(mut data: Value, more: Value) -> Value {
    if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
        data.extend(more);
    }
    data
}
