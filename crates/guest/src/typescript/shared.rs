use super::sources::Sources;
use super::timers::Timers;
use super::wire::Wire;
use rquickjs::{Persistent, Value};
use std::cell::RefCell;
use std::collections::HashSet;

/// What the natives and the loop share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) wire: RefCell<Wire>,
    pub(super) timers: RefCell<Timers>,
    /// Calls that are not answered.
    pub(super) calls: RefCell<HashSet<u64>>,
    pub(super) sources: RefCell<Sources>,
    /// Promises that were rejected with nobody to hear it, and why.
    pub(super) rejections: RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>,
}
