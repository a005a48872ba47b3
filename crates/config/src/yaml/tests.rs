use super::*;

#[test]
fn positions_of_keys_and_values_are_known() {
    let text = "a: 1\nb:\n  cé: [x, 2.50]\n";
    let node = Node::parse(text).unwrap();
    let Content::Map(entries) = &node.content else { panic!("{node:?}") };
    assert_eq!((entries[1].0.place.line, entries[1].0.place.column), (2, 1));
    let Content::Map(inner) = &entries[1].1.content else { panic!("{node:?}") };
    assert_eq!((inner[0].0.place.line, inner[0].0.place.column), (3, 3));
    let Content::List(items) = &inner[0].1.content else { panic!("{node:?}") };
    assert_eq!(items[1].content, Content::Scalar("2.50".to_owned(), Style::Number));
    assert_eq!((items[1].place.line, items[1].place.column), (3, 11));
    assert_eq!(&text[items[1].place.offset.unwrap()..][..4], "2.50");
}

#[test]
fn scalars_keep_their_spelling() {
    let node = Node::parse("[007, 1.10, 0x10, 'true', \"5\", true, ~, no, 1_0]").unwrap();
    let Content::List(items) = node.content else { panic!("no list") };
    let texts: Vec<_> = items
        .iter()
        .map(|item| match &item.content {
            Content::Scalar(text, style) => format!("{text} {style:?}"),
            other => format!("{other:?}"),
        })
        .collect();
    insta::assert_debug_snapshot!(texts);
}

#[test]
fn an_empty_text_is_null() {
    for text in ["", "\n", "# only a comment\n", "---\n", "\u{feff}"] {
        assert_eq!(Node::parse(text).map(|node| node.content), Ok(Content::Null), "{text:?}");
    }
}

#[test]
fn bombs_and_invalid_texts_are_rejected() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        bomb = format!("{bomb}a{level}: &a{level} [{inner}]\n");
    }
    let deep = "[".repeat(10_000);
    let long = format!("[{}]", "x,".repeat(MAX_NODES + 1));
    let cases = [bomb.as_str(), &deep, &long, "a: [", "a: 1\na: 2\n", "a: 1\n---\nb: 2\n", "a: *x\n", "\ta: 1\n b"];
    let messages: Vec<_> = cases.iter().map(|text| Node::parse(text).unwrap_err()).collect();
    insta::assert_debug_snapshot!(messages.iter().map(|error| (&error.message, error.place.line)).collect::<Vec<_>>());
    assert!(Node::parse("a: &x [1]\nb: *x\n").is_ok());
}
