use serde_json::json;

use super::*;
use crate::script::{Arrangement, Call, CallGroup};

fn library() -> Library {
    let calls = CallGroup {
        calls: vec![Call::new("f", json!({})), Call::new("g", json!({}))],
        arrangement: Arrangement::default(),
    };
    Library::single([[Step::text("1")], [Step::text("2")]])
        .with("two", Script::new([vec![Step::Calls(calls)], vec![Step::text("done")]]))
        .with("said", Script::new([[Step::text("x")]]).says("Exactly this").then(Then::Repeat))
}

fn user(text: &str) -> Item {
    Item::User(text.to_owned())
}

fn called(name: &str) -> Item {
    Item::Called { id: format!("id-{name}"), name: name.to_owned(), is_signed: false }
}

fn result() -> Item {
    Item::Result("r".to_owned())
}

#[track_caller]
fn assert_next(items: &[Item], script: &str, turn: usize) {
    let library = library();
    let history = follow(&library, items).unwrap();
    assert_eq!((history.next.name(), history.next.turn), (script, turn));
}

#[test]
fn turns_are_counted_from_the_message_that_selects_the_script() {
    assert_next(&[user("Hi")], "main", 0);
    assert_next(&[user("Hi"), Item::Said, user("More")], "main", 1);
    assert_next(&[user("Hi"), Item::Said, user("please [script:two] now")], "two", 0);
    assert_next(&[user("[script:two]"), called("f"), called("g"), result(), result()], "two", 1);
    assert_next(&[user("[script:two]"), Item::Said, user("Exactly this")], "said", 0);
    assert_next(&[user("Exactly this "), Item::Said], "main", 1);
    assert_next(&[Item::System, user("[script:rules]")], RULES, 0);
    assert_next(&[user("[script:two]"), Item::Said, user("go on"), Item::Said], "two", 2);
}

#[test]
fn items_without_anything_between_them_are_one_turn() {
    assert_next(&[user("Hi"), Item::Reasoned, Item::Said, called("f"), result()], "main", 1);
    assert_next(&[user("Hi"), called("f"), result(), called("f"), result()], "main", 2);
    // Here, the script says that both calls are of one turn.
    assert_next(&[user("[script:two]"), called("f"), result(), called("g"), result()], "two", 1);
    assert_next(&[user("[script:two]"), called("f"), result(), called("g"), result(), called("h")], "two", 2);
}

#[test]
fn a_script_ends_as_it_says() {
    let library = library();
    let items = [user("Exactly this"), Item::Said, user("Again"), Item::Said];
    assert_eq!(follow(&library, &items).unwrap().next.turn().unwrap(), library.scripts["said"].turns.last());
    let items = [user("a"), Item::Said, user("b"), Item::Said, user("c")];
    let error = follow(&library, &items).unwrap().next.turn().unwrap_err();
    assert_eq!(error, SelectError::Exhausted { script: "main".to_owned(), turns: 2 });
    let unknown = [user("[script:none]")];
    assert_eq!(follow(&library, &unknown).unwrap_err(), SelectError::Unknown("none".to_owned()));
    let empty = Library::default();
    let first = [user("Hi")];
    assert_eq!(follow(&empty, &first).unwrap().next.turn(), Ok(None));
}
