//! Tool definitions for tests.

use coracle_catalog::ServerTools;
use coracle_types::{Schema, ServerName, Tool, ToolHints};
use serde_json::Value;

/// A tool from an entry of a `tools/list` result.
pub(crate) fn tool(server: &ServerName, definition: &Value) -> Tool {
    let text = |key: &str| definition.get(key).and_then(Value::as_str).map(str::to_owned);
    let object = |key: &str| definition.get(key).and_then(Value::as_object).map(Schema::from);
    Tool {
        server: server.clone(),
        name: text("name").unwrap(),
        title: text("title"),
        description: text("description").unwrap_or_default(),
        input_schema: object("inputSchema").unwrap_or_default(),
        output_schema: object("outputSchema"),
        category: None,
        hints: ToolHints::default(),
    }
}

/// A server from a list of such entries.
pub(crate) fn server(name: &str, description: Option<&str>, tools: &[Value]) -> ServerTools {
    let name = ServerName::new(name).unwrap();
    let tools: Vec<Tool> = tools.iter().map(|definition| tool(&name, definition)).collect();
    ServerTools { description: description.map(str::to_owned), ..ServerTools::new(name, tools) }
}
