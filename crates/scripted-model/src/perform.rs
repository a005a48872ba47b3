//! Plays the steps of a turn.

mod stage;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

pub(crate) use stage::{Broken, Stage};

use crate::fault::Fault;
use crate::gates::Gates;
use crate::output::{Beat, CallStart, Usage};
use crate::script::{
    Arrangement, Call, CallGroup, FinishReason, Reasoning, Repeat, Status, Step, Text, Turn, UsageFigures, Wait,
};
use crate::seal;
use crate::template::Values;
use crate::tokens::estimate;

/// How often steps with `times` have been played. There is one entry per step at most.
pub(crate) type Counts = Mutex<HashMap<(String, usize, usize), u64>>;

/// What of the answer is open.
enum Open {
    Nothing,
    Text,
    Reasoning { text: String, is_encrypted: bool },
}

/// Plays one turn.
pub(crate) struct Performer {
    pub(crate) script: String,
    pub(crate) number: usize,
    pub(crate) turn: Turn,
    pub(crate) values: Values,
    /// The counts of the prompt.
    pub(crate) usage: Usage,
    pub(crate) call_prefix: &'static str,
    /// Makes each id unique.
    pub(crate) nonce: String,
    pub(crate) gates: Gates,
    pub(crate) counts: Arc<Counts>,
}

impl Performer {
    /// Takes the figures of the script into account that are known before the answer.
    pub(crate) fn prompt_usage(turn: &Turn, estimated: Usage) -> Usage {
        let figures = figures(turn);
        Usage {
            input: figures.input.unwrap_or(estimated.input),
            cached: figures.cached.unwrap_or(estimated.cached),
            ..estimated
        }
    }

    /// Waits as the turn demands before a status, and returns the HTTP error that is sent in place of the turn.
    pub(crate) async fn opening(&self) -> Option<Status> {
        let last = last_status(&self.turn)?;
        for (number, step) in self.turn.steps.iter().enumerate().take(last + 1) {
            match step {
                Step::Wait(wait) => self.wait(wait).await,
                Step::Status(status) if self.is_due(number, status.times) => return Some(status.clone()),
                _ => {}
            }
        }
        None
    }

    /// Whether bytes are sent as they are.
    pub(crate) fn has_raw(&self) -> bool {
        self.turn.steps.iter().any(|step| matches!(step, Step::Raw(_)))
    }

    /// Plays all steps.
    pub(crate) async fn perform(&self, stage: &mut Stage) -> Result<(), Broken> {
        stage.begin().await?;
        let turn = &self.turn;
        let (mut open, mut slot, mut spoken) = (Open::Nothing, 0, Usage::default());
        let mut reason = None;
        if turn.steps.contains(&Step::FinishWithContent) {
            stage.beat(Beat::HoldContent).await?;
        }
        let last_status = last_status(turn);
        for (number, step) in turn.steps.iter().enumerate() {
            match step {
                // `opening` has waited already.
                Step::Wait(_) if last_status.is_some_and(|last| number < last) => {}
                Step::Wait(wait) => self.wait(wait).await,
                Step::Text(text) => {
                    if !matches!(open, Open::Text) {
                        close(&mut open, stage).await?;
                        stage.beat(Beat::OpenText).await?;
                        open = Open::Text;
                    }
                    spoken.output += self.text(text, stage).await?;
                }
                Step::Reasoning(reasoning) => {
                    let tokens = self.reasoning(reasoning, &mut open, stage).await?;
                    spoken.output += tokens;
                    spoken.reasoning += tokens;
                }
                Step::Call(call) => {
                    close(&mut open, stage).await?;
                    let group = CallGroup { calls: vec![call.clone()], arrangement: Arrangement::Interleaved };
                    spoken.output += self.calls(&group, &mut slot, stage).await?;
                }
                Step::Calls(group) => {
                    close(&mut open, stage).await?;
                    spoken.output += self.calls(group, &mut slot, stage).await?;
                }
                Step::Disconnect(disconnect) if self.is_due(number, disconnect.times) => return Err(Broken::ByScript),
                Step::Close => return Ok(()),
                Step::Error(error) if self.is_due(number, error.times) => {
                    return stage.beat(Beat::Fail(Fault::of_stream(error))).await;
                }
                Step::Raw(raw) => stage.raw(raw).await?,
                Step::Finish(finish) => reason = Some(*finish),
                Step::Status(_)
                | Step::Disconnect(_)
                | Step::Error(_)
                | Step::Usage(_)
                | Step::FinishWithContent
                | Step::NoEnd => {}
            }
        }
        close(&mut open, stage).await?;
        let natural = if slot > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
        let figures = figures(turn);
        let usage = Usage {
            output: figures.output.unwrap_or(spoken.output),
            reasoning: figures.reasoning.unwrap_or(spoken.reasoning),
            ..self.usage
        };
        let has_end = !turn.steps.contains(&Step::NoEnd);
        stage.beat(Beat::Finish { reason: reason.unwrap_or(natural), usage, has_end }).await
    }

    async fn text(&self, text: &Text, stage: &mut Stage) -> Result<u64, Broken> {
        let mut bytes = 0;
        let whole = self.values.fill(&text.text);
        bytes += whole.len();
        if !whole.is_empty() {
            stage.beat(Beat::Text(whole)).await?;
        }
        for piece in &text.pieces {
            pause(text.delay_ms).await;
            let piece = self.values.fill(piece);
            bytes += piece.len();
            stage.beat(Beat::Text(piece)).await?;
        }
        if let Some(Repeat { piece, times }) = &text.repeat {
            if text.delay_ms == 0 {
                stage.start_batch();
            }
            for _ in 0..*times {
                pause(text.delay_ms).await;
                bytes += piece.len();
                stage.beat(Beat::Text(piece.clone())).await?;
            }
            stage.end_batch().await?;
        }
        Ok(estimate(bytes))
    }

    async fn reasoning(&self, reasoning: &Reasoning, open: &mut Open, stage: &mut Stage) -> Result<u64, Broken> {
        let piece = self.values.fill(&reasoning.text);
        let tokens = estimate(piece.len());
        if reasoning.redacted {
            close(open, stage).await?;
            let sealed = seal::seal(&piece);
            stage.beat(Beat::OpenReasoning { is_redacted: true }).await?;
            stage.beat(Beat::CloseReasoning { sealed, is_encrypted: reasoning.encrypted }).await?;
            return Ok(tokens);
        }
        if !matches!(open, Open::Reasoning { .. }) {
            close(open, stage).await?;
            stage.beat(Beat::OpenReasoning { is_redacted: false }).await?;
            *open = Open::Reasoning { text: String::new(), is_encrypted: false };
        }
        if let Open::Reasoning { text, is_encrypted } = open {
            text.push_str(&piece);
            *is_encrypted |= reasoning.encrypted;
        }
        stage.beat(Beat::Reasoning(piece)).await?;
        Ok(tokens)
    }

    async fn calls(&self, group: &CallGroup, slot: &mut usize, stage: &mut Stage) -> Result<u64, Broken> {
        let mut bytes = 0;
        let (mut starts, mut pieces) = (Vec::new(), Vec::new());
        for call in &group.calls {
            let arguments = self.arguments(call);
            bytes += call.name.len() + arguments.len();
            let least = if group.arrangement == Arrangement::Interleaved && group.calls.len() > 1 { 2 } else { 1 };
            pieces.push(split(&arguments, call.pieces.max(least)));
            starts.push(CallStart {
                slot: *slot,
                id: call.id.clone().unwrap_or_else(|| format!("{}{}{slot:02}", self.call_prefix, self.nonce)),
                name: call.name.clone(),
                split_name: call.split_name,
                index: call.index,
                signature: call.thought_signature.then(|| seal::seal(&call.name)),
            });
            *slot += 1;
        }
        let slots: Vec<usize> = starts.iter().map(|start| start.slot).collect();
        match group.arrangement {
            Arrangement::OneChunk => {
                let mut beats = Vec::new();
                for (start, pieces) in starts.into_iter().zip(pieces) {
                    let slot = start.slot;
                    beats.push(Beat::OpenCall(start));
                    beats.push(Beat::Arguments { slot, piece: pieces.concat() });
                    beats.push(Beat::CloseCall { slot });
                }
                stage.beat(Beat::Together(beats)).await?;
            }
            Arrangement::Interleaved => {
                for start in starts {
                    stage.beat(Beat::OpenCall(start)).await?;
                }
                for round in 0..pieces.iter().map(Vec::len).max().unwrap_or(0) {
                    for (slot, pieces) in slots.iter().zip(&pieces) {
                        if let Some(piece) = pieces.get(round) {
                            stage.beat(Beat::Arguments { slot: *slot, piece: piece.clone() }).await?;
                        }
                    }
                }
                for slot in slots {
                    stage.beat(Beat::CloseCall { slot }).await?;
                }
            }
        }
        Ok(estimate(bytes))
    }

    fn arguments(&self, call: &Call) -> String {
        match &call.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(raw) => self.values.fill(raw),
            value => self.values.fill_value(value).to_string(),
        }
    }

    async fn wait(&self, wait: &Wait) {
        match wait {
            Wait::Ms(milliseconds) => pause(*milliseconds).await,
            Wait::Gate(name) => self.gates.pass(name).await,
        }
    }

    /// Whether a step that applies `times` times still applies, and counts it.
    fn is_due(&self, step: usize, times: Option<u64>) -> bool {
        let Some(times) = times else { return true };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((self.script.clone(), self.number, step)).or_default();
        let is_due = *count < times;
        *count += u64::from(is_due);
        is_due
    }
}

async fn close(open: &mut Open, stage: &mut Stage) -> Result<(), Broken> {
    match std::mem::replace(open, Open::Nothing) {
        Open::Nothing => Ok(()),
        Open::Text => stage.beat(Beat::CloseText).await,
        Open::Reasoning { text, is_encrypted } => {
            stage.beat(Beat::CloseReasoning { sealed: seal::seal(&text), is_encrypted }).await
        }
    }
}

async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

fn last_status(turn: &Turn) -> Option<usize> {
    turn.steps.iter().rposition(|step| matches!(step, Step::Status(_)))
}

fn figures(turn: &Turn) -> UsageFigures {
    let mut figures =
        turn.steps.iter().filter_map(|step| if let Step::Usage(figures) = step { Some(*figures) } else { None });
    figures.next_back().unwrap_or_default()
}

/// The text in this number of pieces, or fewer if it is shorter.
fn split(text: &str, pieces: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(pieces.max(1)).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_without_loss() {
        assert_eq!(split("äbcde", 2), ["äbc", "de"]);
        assert_eq!(split("ab", 5), ["a", "b"]);
        assert_eq!(split("", 3), Vec::<String>::new());
    }
}
