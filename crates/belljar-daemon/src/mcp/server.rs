//! What MCP clients speak with: who we are, which tools there are, and calls of them.

use std::borrow::Cow;
use std::sync::Arc;

use belljar::AgentTool;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::calls::Caller;
use super::progress::Progress;
use super::tools::{self, Call};
use crate::desk::{Desk, House, Problem, problem};

/// What a model is told about all tools together.
const INSTRUCTIONS: &str = "Belljar runs Python and JavaScript in isolated sandboxes: no network, \
    no processes, no files but the sandbox's own, and limits on time, memory and output. Use \
    run_python_code for a single computation. For several steps that build on each other, make a \
    session with create_session and give its session_id to execute_code: variables and files live \
    on, and write_file and read_file move data in and out. An error in the code leaves the session \
    usable. fork_session copies a session, to try something out.";

/// One client's server.
pub(crate) struct Server {
    desk: Arc<Desk>,
    tool: Arc<AgentTool>,
    newest: ProtocolVersion,
}

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Agents {
    pub(crate) house: Arc<House>,
    /// What `run_python_code` is.
    pub(crate) tool: Arc<AgentTool>,
}

impl Server {
    pub(crate) fn new(agents: Agents, newest: ProtocolVersion) -> Self {
        Self { desk: Desk::new(agents.house), tool: agents.tool, newest }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let info = Implementation::new("belljar", env!("CARGO_PKG_VERSION")).with_title("Belljar");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(info)
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&self.newest))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    /// That there is no such tool is an error of the protocol. Everything else is a result: whoever
    /// wrote the arguments, or the code, can read it and do better.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(call) = Call::read(&request.name, request.arguments.unwrap_or_default()) else {
            let problem = format!("Unknown tool: {}", request.name);
            return Err(ErrorData::invalid_params(problem, None));
        };
        let token = context.meta.get_progress_token();
        let caller = Caller {
            desk: Arc::clone(&self.desk),
            tool: Arc::clone(&self.tool),
            gone: context.ct,
            progress: token.map(|token| Progress::new(context.peer, token)),
        };
        let outcome = match call {
            Ok(call) => caller.call(call).await,
            Err(problem) => Err(problem),
        };
        Ok(outcome.unwrap_or_else(failed).into())
    }
}

/// A result that says what went wrong, with the tools by their names. It has no structured content:
/// that would have to be what the tool gives when it works.
fn failed(problem: Problem) -> CallToolResult {
    let problem = match &*problem.code {
        problem::NO_SESSION => {
            problem.hint("make one with create_session; unused ones end after a while")
        }
        problem::TOO_MANY_SESSIONS => problem.hint("end one with destroy_session"),
        problem::BUSY => problem.hint("wait, or stop what runs with cancel_execution"),
        _ => problem,
    };
    CallToolResult::error(vec![ContentBlock::text(problem.to_string())])
}
