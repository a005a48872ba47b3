use super::fetch::Fetches;
use super::sources::Sources;
use super::timers::Timers;
use super::wire::Wire;
use rquickjs::{Persistent, Value};
use std::cell::RefCell;
use std::collections::HashSet;

/// The state that the natives and the loop share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) wire: RefCell<Wire>,
    pub(super) timers: RefCell<Timers>,
    /// Calls that are not answered yet.
    pub(super) calls: RefCell<HashSet<u64>>,
    /// Requests of `fetch`.
    pub(super) fetches: RefCell<Fetches>,
    pub(super) sources: RefCell<Sources>,
    /// Rejected promises without a handler, with their reasons.
    pub(super) rejections: RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>,
}
