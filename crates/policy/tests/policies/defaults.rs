use crate::Made;
use coracle_policy::Policy;
use coracle_types::Decision::{Allow, Ask};
use coracle_types::ToolHints;

#[test]
fn the_default_allows_what_is_not_destructive() {
    let policy = Policy::default();
    let hints = |read_only, destructive| ToolHints { read_only, destructive, ..ToolHints::default() };
    for (hints, expected) in [
        (hints(None, None), Allow),
        (hints(Some(true), None), Allow),
        (hints(Some(true), Some(true)), Allow),
        (hints(Some(false), None), Allow),
        (hints(None, Some(false)), Allow),
        (hints(None, Some(true)), Ask),
        (hints(Some(false), Some(true)), Ask),
    ] {
        assert_eq!(Made { hints, ..Made::default() }.decision(&policy), expected, "{hints:?}");
    }
}
