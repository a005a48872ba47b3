//! MCP request handlers.

#![expect(deprecated, reason = "clients and servers of earlier revisions log, sample and list roots")]

mod agent_tools;
mod budget;
mod client_requests;
mod code;
mod code_request;
pub(crate) mod definitions;
mod direct;
mod discovery;
mod files;
mod frontend;
mod headed;
mod held;
mod personal;
mod plan_text;
mod plans;
mod progress;
mod prompt;
mod render;
mod run;
mod selection;
mod shape;
mod skills;
mod sources;
mod tasks;
mod token_count;

pub(crate) use agent_tools::DEFINITIONS;
pub use agent_tools::FrontendTools;
pub(crate) use code_request::CodeRequest;
pub use definitions::{OfferedTool, names as tool_names, offered as offered_tools};
pub(crate) use files::with_files;
pub use frontend::{Frontend, FrontendOptions, new_client};
pub(crate) use held::HeldExecutions;
pub use prompt::INSTRUCTIONS;
pub use selection::SelectedTools;
pub use token_count::count_tokens;

use crate::profile::Profile;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_engine::ArtifactError;
use coracle_upstream::CHAIN_CAPABILITY;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams, CompleteResult,
    ConstString, ContentBlock, DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, Role, ServerCapabilities, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Parses the arguments of a call.
fn arguments<T: DeserializeOwned>(request: &CallToolRequestParams) -> Result<T, String> {
    let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| format!("invalid arguments: {error}"))
}

/// Tool result with an error for the model.
fn refusal(reason: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason.into())])
}

fn structured(text: &str, value: Value) -> CallToolResult {
    render::answer(vec![ContentBlock::text(text.trim_end().to_owned())], value, false)
}

impl Frontend {
    async fn call_own(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = match request.name.as_ref() {
            "execute_code" => return code::execute_code(self, request, context).await,
            "execute_bash" => return code::execute_bash(self, request, context).await,
            "run_plan" => return plans::run_plan(self, request, context).await,
            "search_tools" => discovery::search_tools(self, &request).await,
            "get_tool_definition" => discovery::get_tool_definition(self, &request).await,
            "list_tool_categories" => discovery::list_tool_categories(self).await,
            "list_available_tools" => discovery::list_available_tools(self, &request).await,
            "list_servers" => discovery::list_servers(self).await,
            "get_server_tools" => discovery::get_server_tools(self, &request).await,
            "read_file" | "write_file" | "read_docstring" => self.call_program(&request, &context).await,
            "save_skill" | "load_skill" | "list_skills" | "search_skills" | "delete_skill" | "get_skill" => {
                skills::answer(self, &request).await
            }
            "write_workspace_file" => files::write_workspace_file(self, &request).await,
            "read_workspace_file" => files::read_workspace_file(self, &request).await,
            "list_workspace_files" => files::list_workspace_files(self, &request).await,
            "get_state" => files::get_state(self, &request).await,
            "save_state" => files::save_state(self, &request).await,
            "execute_task"
            | "dispatch_background_task"
            | "get_background_task_status"
            | "wait_for_background_task"
            | "list_background_tasks"
            | "cancel_background_task" => tasks::answer(self, &request, &context).await,
            "sanitize_pii" => self.sanitize_pii(&request).await,
            "restore_pii" => self.restore_pii(&request).await,
            "get_version" => Ok(version()),
            "get_execution_stats" => Ok(self.stats().await),
            _ => return Err(unknown_tool(&request.name)),
        };
        Ok(discovery::answered(answer).into())
    }

    /// Calls a tool that is implemented as a small program in the sandbox.
    async fn call_program(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, String> {
        #[derive(serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        struct Read {
            file_path: String,
            #[serde(default)]
            offset: u32,
            #[serde(default)]
            line_count: Option<u32>,
        }
        #[derive(serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        struct Write {
            file_path: String,
            content: String,
        }
        #[derive(serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        struct Docstring {
            file_path: String,
            function_name: String,
        }
        let (program, vars) = match request.name.as_ref() {
            "read_file" => (code::READ_FILE, vars(&arguments::<Read>(request)?)),
            "write_file" => (code::WRITE_FILE, vars(&arguments::<Write>(request)?)),
            _ => (code::READ_DOCSTRING, vars(&arguments::<Docstring>(request)?)),
        };
        // If the client disconnects, this future and the program are dropped.
        Ok(code::program(self, program, vars, context.ct.child_token()).await)
    }

    async fn stats(&self) -> CallToolResult {
        let inventory = self.inventory(None).await;
        let (servers, tools) =
            inventory.map_or((0, 0), |inventory| (inventory.catalog.servers().len(), inventory.catalog.len()));
        let skills = self.engine.count_skills(&self.user()).await;
        let instructions = self.engine.library().read().await.skills.len();
        let all = json!({
            "workspace": files::stats(self).await,
            "skills": { "count": skills, "instructions": instructions },
            "tool_registry": { "servers": servers, "tools": tools },
            "capabilities": self.tools(),
            "limits": self.options.settings.limits(),
        });
        structured(&all.to_string(), all)
    }

    /// Rejects a client that is part of this Coracle, which would start itself endlessly.
    fn refuse_recursion(&self, client: Option<&ClientCapabilities>) -> Result<(), ErrorData> {
        let chain =
            client.and_then(|client| client.experimental.as_ref()?.get(CHAIN_CAPABILITY)?.get("chain")?.as_array());
        let is_itself = |identity: &String| chain.is_some_and(|chain| chain.iter().any(|of| of == identity.as_str()));
        if self.options.identity.as_ref().is_some_and(is_itself) {
            return Err(ErrorData::invalid_request(RECURSION, None));
        }
        Ok(())
    }

    /// Rejects methods that only the gateway offers.
    fn only_direct<M: ConstString>(&self) -> Result<(), ErrorData> {
        if self.options.profile == Profile::Direct { Ok(()) } else { Err(ErrorData::method_not_found::<M>()) }
    }

    async fn artifact(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let (artifact, bytes) = self.engine.artifact(&self.user(), uri).await.map_err(|error| match error {
            ArtifactError::Missing { .. } => ErrorData::resource_not_found(error.to_string(), None),
            ArtifactError::TooLarge { .. } => ErrorData::invalid_params(error.to_string(), None),
            ArtifactError::Unreadable { .. } | ArtifactError::Store(_) => {
                ErrorData::internal_error(error.to_string(), None)
            }
        })?;
        let contents = match String::from_utf8(bytes) {
            Ok(text) if artifact.mime.starts_with("text/") || artifact.mime == "application/json" => {
                ResourceContents::text(text, uri)
            }
            Ok(text) => ResourceContents::blob(STANDARD.encode(text), uri),
            Err(bytes) => ResourceContents::blob(STANDARD.encode(bytes.as_bytes()), uri),
        };
        Ok(ReadResourceResult::new(vec![contents.with_mime_type(artifact.mime)]))
    }
}

/// Error for a client that is part of this Coracle.
const RECURSION: &str = "this server is Coracle itself, with the same settings: remove it from mcpServers";

fn vars(arguments: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(arguments) {
        Ok(Value::Object(vars)) => vars,
        _ => Map::new(),
    }
}

fn version() -> CallToolResult {
    let version = json!({ "name": "coracle", "version": env!("CARGO_PKG_VERSION") });
    structured(concat!("coracle ", env!("CARGO_PKG_VERSION")), version)
}

fn unknown_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(100).collect();
    ErrorData::invalid_params(format!("there is no tool {name:?}: see tools/list"), None)
}

impl ServerHandler for Frontend {
    fn get_info(&self) -> ServerConfig {
        let capabilities = match self.options.profile {
            Profile::Direct => direct::capabilities(),
            Profile::Code | Profile::Full => {
                ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build()
            }
        };
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("coracle", env!("CARGO_PKG_VERSION"));
        if self.options.profile != Profile::Direct {
            info.instructions = Some(prompt::INSTRUCTIONS.to_owned());
        }
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.refuse_recursion(Some(&request.capabilities))?;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.refuse_recursion(context.meta.client_capabilities().as_ref())?;
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        let mut tools: Vec<Tool> = self.tools.iter().map(definitions::Definition::tool).collect();
        if self.options.profile == Profile::Direct {
            tools.extend(frontend.definitions_for_model(frontend.passed_on_tools().await).await?);
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.tools.iter().any(|tool| tool.name == request.name) {
            if request.name == "restore_pii" {
                // What it returns is meant for the model, if it is allowed.
                return frontend.call_own(request, context).await;
            }
            frontend.carries(&request.name).await?;
            frontend.restored_names(&mut request).await?;
            let answer = frontend.call_own(request, context).await;
            return frontend.tool_result_for_model(answer).await;
        }
        if self.options.profile == Profile::Direct {
            let answer = frontend.pass_on(request, context).await;
            return frontend.tool_result_for_model(answer).await;
        }
        Err(unknown_tool(&request.name))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = self.tools.iter().find(|tool| tool.name == name);
        own.map(definitions::Definition::tool).or_else(|| self.headed.get(name))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.options.profile == Profile::Direct {
            return frontend.for_model(frontend.passed_on_prompts().await).await;
        }
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new(prompt::NAME, Some(prompt::DESCRIPTION), None)]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.options.profile == Profile::Direct {
            return frontend.prompt_for_model(frontend.pass_on_prompt(request, context).await).await;
        }
        if request.name != prompt::NAME {
            return Err(ErrorData::invalid_params(format!("there is no such prompt: use {}", prompt::NAME), None));
        }
        let message = PromptMessage::new_text(Role::User, prompt::text(&frontend).await);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt::DESCRIPTION).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.options.profile == Profile::Direct {
            return frontend.for_model(frontend.passed_on_resources().await).await;
        }
        let artifacts = frontend.engine.newest_artifacts(&frontend.user()).await;
        let mut resources = skills::resources(&frontend).await;
        resources.extend(artifacts.iter().map(render::resource));
        resources.extend(files::resources(&frontend).await);
        frontend.for_model(Ok(ListResourcesResult::with_all_items(resources))).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.options.profile == Profile::Direct {
            return frontend.for_model(frontend.passed_on_templates().await).await;
        }
        Ok(ListResourceTemplatesResult::with_all_items(Vec::new()))
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        request.uri = frontend.restored_name(request.uri).await?;
        let answer = if self.options.profile == Profile::Direct && !request.uri.starts_with("coracle://") {
            frontend.pass_on_resource(request, context).await
        } else if let Err(error) = frontend.reads_own_resource().await {
            Err(error)
        } else if request.uri.starts_with(skills::SCHEME) {
            skills::read(&frontend, &request.uri).await.map(Into::into)
        } else if request.uri.starts_with(files::SCHEME) {
            files::resource(&frontend, &request.uri).await.map(Into::into)
        } else {
            frontend.artifact(&request.uri).await.map(Into::into)
        };
        frontend.resource_for_model(answer).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let frontend = self.of(&context.extensions)?;
        if self.options.profile == Profile::Direct {
            return frontend.for_model(frontend.pass_on_completion(request, context).await).await;
        }
        Ok(CompleteResult::default())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(frontend) = self.of(&context.extensions) else { return };
        if self.options.profile == Profile::Direct {
            frontend.tell_of_changes(context.peer);
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        (self.options.profile == Profile::Direct).then(|| requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let frontend = self.of(&context.request_context().extensions)?;
        frontend.listened(context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let frontend = self.of(&context.extensions)?;
        self.only_direct::<SubscribeRequestMethod>()?;
        frontend.watch(&request.uri).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let frontend = self.of(&context.extensions)?;
        self.only_direct::<UnsubscribeRequestMethod>()?;
        frontend.unwatch(&request.uri).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let frontend = self.of(&context.extensions)?;
        self.only_direct::<SetLevelRequestMethod>()?;
        frontend.set_levels(&request).await
    }
}
