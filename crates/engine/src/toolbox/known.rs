use super::names::{NamesByWire, of_tools};
use coracle_catalog::{Shape, Validator};
use coracle_types::Tool;
use coracle_upstream::ToolList;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Known tools and shapes of one server, for one owner.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Tools as last listed, in this process or an earlier one; `None` if they were never listed.
    tools: Option<Vec<Arc<Tool>>>,
    /// List last received from the connection, to detect quickly that nothing has changed.
    live: Option<Arc<ToolList>>,
    shapes: BTreeMap<String, Learned>,
    validators: HashMap<String, (Arc<Tool>, Arc<Validator>)>,
    /// Names that policy rules may use for the tools; built on first use.
    names: Option<Arc<NamesByWire>>,
}

#[derive(Debug)]
struct Learned {
    shape: Shape,
    /// Whether the shape has changes that are not stored yet.
    fresh: bool,
}

impl Known {
    /// Creates the state from what an earlier run has stored.
    pub(super) fn restored(tools: Option<Vec<Arc<Tool>>>, shapes: impl IntoIterator<Item = (String, Shape)>) -> Self {
        let shapes = shapes.into_iter().map(|(tool, shape)| (tool, Learned { shape, fresh: false }));
        Self { tools, shapes: shapes.collect(), ..Self::default() }
    }

    pub(super) fn tools(&self) -> Option<&[Arc<Tool>]> {
        self.tools.as_deref()
    }

    pub(super) fn shapes(&self) -> BTreeMap<String, Shape> {
        self.shapes.iter().map(|(tool, learned)| (tool.clone(), learned.shape.clone())).collect()
    }

    pub(super) fn shape(&self, tool: &str) -> Option<Shape> {
        self.shapes.get(tool).map(|learned| learned.shape.clone())
    }

    /// Replaces the tools with the current list of the server; returns whether any tool has changed.
    pub(super) fn see(&mut self, list: &Arc<ToolList>) -> bool {
        if self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, list)) {
            return false;
        }
        self.live = Some(Arc::clone(list));
        let same = self.tools.as_ref().is_some_and(|tools| tools.iter().eq(&list.tools));
        if !same {
            self.validators.clear();
            self.names = None;
        }
        // Replaced even if nothing has changed, so that the tools share memory with the connection.
        self.tools = Some(list.tools.clone());
        !same
    }

    /// Returns whether the server has listed its tools in this process.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns a tool as last listed.
    pub(super) fn remembered(&self, name: &str) -> Option<Arc<Tool>> {
        if let Some(live) = &self.live {
            return live.get(name).map(Arc::clone);
        }
        self.tools.as_ref()?.iter().find(|tool| tool.name == name).map(Arc::clone)
    }

    /// Returns the names that policy rules may use for the tools; `None` if the tools are not known.
    pub(super) fn names(&mut self) -> Option<Arc<NamesByWire>> {
        let tools = self.tools.as_ref()?;
        let names = self.names.get_or_insert_with(|| Arc::new(of_tools(tools.iter().map(|tool| tool.name.as_str()))));
        Some(Arc::clone(names))
    }

    /// Returns the validator of a tool, which is compiled once per definition.
    pub(super) fn validator(&mut self, tool: &Arc<Tool>) -> Arc<Validator> {
        if let Some((of, validator)) = self.validators.get(&tool.name)
            && Arc::ptr_eq(of, tool)
        {
            return Arc::clone(validator);
        }
        let validator = Arc::new(Validator::new(tool));
        if let Some(warning) = validator.warning() {
            tracing::warn!(server = %tool.server, tool = %tool.name, "{warning}");
        }
        self.validators.insert(tool.name.clone(), (Arc::clone(tool), Arc::clone(&validator)));
        validator
    }

    /// Merges a shape into the known shape of a tool; returns whether that has changed.
    pub(super) fn learn(&mut self, tool: &str, shape: &Shape) -> bool {
        let Some(learned) = self.shapes.get_mut(tool) else {
            self.shapes.insert(tool.to_owned(), Learned { shape: shape.clone(), fresh: true });
            return true;
        };
        let news = learned.shape.merge(shape);
        learned.fresh |= news;
        news
    }

    /// Returns the shapes that are not stored yet and marks them as stored; the caller must store them.
    pub(super) fn take_fresh(&mut self) -> Vec<(String, Shape)> {
        let fresh = self.shapes.iter_mut().filter(|(_, learned)| learned.fresh);
        fresh
            .map(|(tool, learned)| {
                learned.fresh = false;
                (tool.clone(), learned.shape.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Known;
    use coracle_types::{Schema, ServerName, Tool, ToolHints};
    use coracle_upstream::ToolList;
    use serde_json::json;
    use std::sync::Arc;

    /// Returns the list of a server with one tool, whose argument has the type `kind`.
    fn list(kind: &str) -> Arc<ToolList> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": kind } } });
        let tool = Tool {
            server: ServerName::new("notes").unwrap(),
            name: "add".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Schema::from(schema.as_object().unwrap().clone()),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        };
        Arc::new([tool].into_iter().collect())
    }

    #[test]
    fn the_schema_of_a_tool_is_compiled_once() {
        let mut known = Known::default();
        let mut call = |list: &Arc<ToolList>| {
            known.see(list);
            known.validator(list.get("add").unwrap())
        };
        let (listed, changed) = (list("string"), list("integer"));
        let first = call(&listed);
        assert!(Arc::ptr_eq(&first, &call(&listed)), "a second call");
        // Control: a changed definition is compiled again and validates with its own schema.
        let second = call(&changed);
        let text = json!({ "text": "milk" });
        let arguments = text.as_object().unwrap();
        assert!(first.check(arguments).is_ok() && second.check(arguments).is_err());
    }
}
