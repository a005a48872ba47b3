use crate::Settings;

/// The JSON Schema of the settings file, as text that ends with a line break.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Settings);
    schema.insert("title".to_owned(), "coracle.yaml".into());
    // Only a value that is no JSON could fail here, and a schema is JSON.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
