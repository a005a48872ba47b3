//! Harmless MCP servers for `coracle up --demo`: a shop and its customers, invented and in memory.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Customers and orders.
const DATA: &str = include_str!("demo/data.json");

/// A server of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoServer {
    /// Orders of a shop.
    Shop,
    /// Customers of the shop.
    Crm,
}

impl DemoServer {
    /// All servers of the demo.
    pub const ALL: [Self; 2] = [Self::Shop, Self::Crm];

    /// Name of the server.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shop => "shop",
            Self::Crm => "crm",
        }
    }

    fn tools(self) -> Vec<Tool> {
        let reads = || ToolAnnotations::new().read_only(true).open_world(false);
        let cancels = ToolAnnotations::new().destructive(true).open_world(false);
        match self {
            Self::Shop => vec![
                tool(
                    "list_orders",
                    "Lists all orders of the shop, with their totals.",
                    json!({"status": {"type": "string", "enum": ["open", "shipped", "delivered"]}}),
                    &[],
                    reads(),
                ),
                tool(
                    "get_order",
                    "Returns one order with its items.",
                    json!({"id": {"type": "integer"}}),
                    &["id"],
                    reads(),
                ),
                tool("cancel_order", "Cancels an order.", json!({"id": {"type": "integer"}}), &["id"], cancels),
            ],
            Self::Crm => vec![
                tool("list_customers", "Lists all customers.", json!({}), &[], reads()),
                tool("get_customer", "Returns one customer.", json!({"id": {"type": "string"}}), &["id"], reads()),
            ],
        }
    }
}

impl fmt::Display for DemoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DemoServer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|server| server.as_str() == name).ok_or_else(|| "use shop or crm".to_owned())
    }
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
    annotations: ToolAnnotations,
) -> Tool {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), json!(false));
    Tool::new(name, description, Arc::new(schema)).with_annotations(annotations)
}

/// One server with its data.
#[derive(Clone, Debug)]
struct Demo {
    server: DemoServer,
    data: Arc<Value>,
    cancelled: Arc<Mutex<BTreeSet<u64>>>,
}

impl Demo {
    fn new(server: DemoServer) -> Result<Self, serde_json::Error> {
        let data = Arc::new(serde_json::from_str(DATA)?);
        Ok(Self { server, data, cancelled: Arc::default() })
    }

    fn entries(&self, list: &str) -> impl Iterator<Item = Value> {
        let entries = self.data[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entries.iter().cloned().map(move |mut entry| {
            if entry["id"].as_u64().is_some_and(|id| cancelled.contains(&id)) {
                entry["status"] = json!("cancelled");
            }
            entry
        })
    }

    fn find(&self, list: &str, id: &Value) -> Result<Value, String> {
        self.entries(list).find(|entry| entry["id"] == *id).ok_or_else(|| format!("{list}: there is no {id}"))
    }

    /// The result of a tool, or why it failed.
    fn call(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        let id = arguments.get("id").unwrap_or(&Value::Null);
        match (self.server, name) {
            (DemoServer::Shop, "list_orders") => {
                let status = arguments.get("status").unwrap_or(&Value::Null);
                let mut orders: Vec<Value> = self.entries("orders").collect();
                orders.retain(|order| status.is_null() || order["status"] == *status);
                for order in &mut orders {
                    order.as_object_mut().and_then(|order| order.remove("items"));
                }
                Ok(json!({ "orders": orders }))
            }
            (DemoServer::Shop, "get_order") => self.find("orders", id),
            (DemoServer::Shop, "cancel_order") => {
                self.find("orders", id)?;
                let mut cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
                cancelled.extend(id.as_u64());
                drop(cancelled);
                self.find("orders", id)
            }
            (DemoServer::Crm, "list_customers") => {
                Ok(json!({ "customers": self.entries("customers").collect::<Vec<_>>() }))
            }
            (DemoServer::Crm, "get_customer") => self.find("customers", id),
            _ => Err(format!("there is no tool {name}")),
        }
    }
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(format!("coracle-demo-{}", self.server), env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.server.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.call(&request.name, &request.arguments.unwrap_or_default()) {
            Ok(value) => CallToolResult::structured(value),
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        };
        Ok(result.into())
    }
}

/// Serves one client over standard input and output until it disconnects.
pub async fn serve_demo(server: DemoServer) -> std::io::Result<()> {
    let demo = Demo::new(server).map_err(std::io::Error::other)?;
    match demo.serve(rmcp::transport::io::stdio_pipes()).await {
        Ok(service) => service.waiting().await.map(drop).map_err(std::io::Error::other),
        // Closing the connection without sending anything is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(std::io::Error::other(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(demo: &Demo, name: &str, arguments: &Value) -> Result<Value, String> {
        demo.call(name, arguments.as_object().unwrap())
    }

    #[test]
    fn every_tool_answers() {
        let (shop, crm) = (Demo::new(DemoServer::Shop).unwrap(), Demo::new(DemoServer::Crm).unwrap());
        let orders = called(&shop, "list_orders", &json!({})).unwrap();
        assert_eq!(orders["orders"].as_array().unwrap().len(), 24);
        assert!(orders["orders"][0]["total"].is_u64() && orders["orders"][0].get("items").is_none());
        let open = called(&shop, "list_orders", &json!({"status": "open"})).unwrap();
        assert!(open["orders"].as_array().unwrap().iter().all(|order| order["status"] == "open"));
        for order in orders["orders"].as_array().unwrap() {
            let whole = called(&shop, "get_order", &json!({"id": order["id"]})).unwrap();
            let items = whole["items"].as_array().unwrap();
            let sum: u64 =
                items.iter().map(|item| item["price"].as_u64().unwrap() * item["quantity"].as_u64().unwrap()).sum();
            assert_eq!(whole["total"], sum);
            assert_eq!(
                called(&crm, "get_customer", &json!({"id": order["customer"]})).unwrap()["id"],
                order["customer"]
            );
        }
        assert!(called(&shop, "get_order", &json!({"id": 1})).unwrap_err().contains("there is no 1"));
        assert!(called(&crm, "list_orders", &json!({})).is_err());
        assert_eq!(called(&shop, "cancel_order", &json!({"id": 1007})).unwrap()["status"], "cancelled");
        assert_eq!(called(&shop, "get_order", &json!({"id": 1007})).unwrap()["status"], "cancelled");
    }
}
