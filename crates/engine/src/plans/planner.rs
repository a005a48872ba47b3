//! Collects the calls of code that runs in the mode `plan`.

use super::content::{Effect, Read};
use super::placeholders::Placeholders;
use super::settings::{PlanSettings, ToolEffect};
use crate::host_calls::{HostCallError, refused};
use crate::json;
use coracle_catalog::{Shape, sample};
use coracle_policy::ToolNames;
use coracle_types::Tool;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size of the calls of one plan, as JSON.
const MAX_BYTES: u64 = 4 << 20;
/// Size of a call besides its arguments, at most.
const CALL_BYTES: u64 = 1 << 10;

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct Planner {
    settings: Arc<PlanSettings>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    placeholders: Placeholders,
    /// By number of the call.
    effects: BTreeMap<u64, Effect>,
    reads: BTreeMap<u64, Read>,
    bytes: u64,
}

/// Everything that was collected.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) placeholders: Placeholders,
    pub(crate) effects: Vec<Effect>,
    pub(crate) reads: Vec<Read>,
}

impl State {
    fn charge(&mut self, arguments: &Map<String, Value>, preview: Option<&Value>) -> Result<(), HostCallError> {
        let bytes = CALL_BYTES + json::length(arguments) + preview.map_or(0, json::length);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            let message =
                format!("the plan is too large: at most {MAX_BYTES} bytes of calls are kept; plan less at once");
            return Err(refused("plan_too_large", &message));
        }
        Ok(())
    }
}

impl Planner {
    pub(crate) fn new(settings: Arc<PlanSettings>) -> Result<Self, getrandom::Error> {
        let placeholders = Placeholders::new()?;
        let state = State { placeholders, effects: BTreeMap::new(), reads: BTreeMap::new(), bytes: 0 };
        Ok(Self { settings, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tool does.
    pub(crate) fn effect_of(&self, tool: &Tool, names: &ToolNames) -> ToolEffect {
        self.settings.effect(tool, names)
    }

    /// The argument by which a tool can be asked what it would do.
    pub(crate) fn preview_of(&self, tool: &Tool, names: &ToolNames) -> Option<&'static str> {
        self.settings.preview(tool, names)
    }

    /// The effects whose results the arguments have, or why that cannot be told.
    pub(crate) fn uses(&self, arguments: &Map<String, Value>) -> Result<BTreeSet<u64>, String> {
        self.state().placeholders.uses(arguments)
    }

    /// Records a call that was made.
    pub(crate) fn read(&self, number: u64, read: Read) -> Result<(), HostCallError> {
        let mut state = self.state();
        state.charge(&read.arguments, None)?;
        state.reads.insert(number, read);
        Ok(())
    }

    /// Records a call that is not made, and returns what the code gets in place of its result.
    pub(crate) fn effect(&self, effect: Effect, tool: &Tool, shape: Option<&Shape>) -> Result<Value, HostCallError> {
        let mut state = self.state();
        state.charge(&effect.arguments, effect.preview.as_ref())?;
        if !state.placeholders.has_room() {
            let message = "the plan has too many results that do not exist yet; plan less at once";
            return Err(refused("plan_too_large", message));
        }
        let number = effect.number;
        let placeholders = &mut state.placeholders;
        let value = sample(tool, shape, &mut |path, leaf| placeholders.place(number, path, leaf));
        placeholders.sampled(number, value.clone());
        state.effects.insert(number, effect);
        Ok(value)
    }

    /// Everything that was collected, in the order in which the calls arrived.
    pub(crate) fn collected(&self) -> Collected {
        let state = self.state();
        Collected {
            placeholders: state.placeholders.clone(),
            effects: state.effects.values().cloned().collect(),
            reads: state.reads.values().cloned().collect(),
        }
    }
}
