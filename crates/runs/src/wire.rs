//! The language of the Responses API: items, events and the response object.

pub(crate) mod items;
pub(crate) mod narrator;
pub(crate) mod response;
