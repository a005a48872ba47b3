//! Compares the frames with the frozen schema, so that a change to them is deliberate.

use crate::{FromGuest, ToGuest, VERSION};
use std::path::Path;

/// To update the file, run `CORACLE_UPDATE=1 cargo test -p coracle-protocol`. Increase `VERSION` if an older guest
/// would misunderstand the new frames.
#[test]
fn the_frames_are_those_of_the_schema_file() {
    let schema = serde_json::json!({
        "version": VERSION,
        "to_guest": schemars::schema_for!(ToGuest),
        "from_guest": schemars::schema_for!(FromGuest),
    });
    let text = coracle_types::sorted_json_pretty(&schema).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/v{VERSION}.json"));
    if std::env::var_os("CORACLE_UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "see the comment above this test");
}
