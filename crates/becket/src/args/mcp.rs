//! Arguments about MCP servers: of a run, and of `becket mcp`.

use super::{ConfigArgs, Permissions};
use clap::{Args, Subcommand, ValueEnum};

/// MCP servers of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct McpArgs {
    /// MCP servers of this run, on top of the configured ones: a JSON file, or JSON text.
    #[arg(long, value_name = "FILE|JSON", num_args = 1..)]
    pub mcp_config: Vec<String>,
    /// Use the servers of --mcp-config alone.
    #[arg(long)]
    pub strict_mcp_config: bool,
    /// Answer to questions of MCP servers: ask the person, accept the defaults, or cancel.
    #[arg(long, value_name = "HOW", value_enum)]
    pub mcp_elicitation: Option<ElicitationArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ElicitationArg {
    Ask,
    Defaults,
    Cancel,
}

#[derive(Debug, Args)]
pub(crate) struct McpCommandArgs {
    #[command(subcommand)]
    pub what: McpWhat,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// The place where a server is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpScope {
    /// For you, in this project.
    #[default]
    Local,
    /// For everybody in this project: `.mcp.json`.
    Project,
    /// For you, everywhere.
    User,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpWhat {
    /// Add a server: a command after `--`, or an address.
    Add(AddArgs),
    /// Add a server as JSON, with all keys.
    AddJson {
        /// Name of the server.
        name: String,
        /// Such as `{"command": "npx", "args": ["-y", "some-server"]}`.
        json: String,
        /// Place where it is written down.
        #[arg(short, long, value_enum, default_value_t)]
        scope: McpScope,
    },
    /// Start all servers and show their states.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one server, its state and its tools.
    Get {
        /// Name of the server.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a server.
    Remove {
        /// Name of the server.
        name: String,
        /// Only from here.
        #[arg(short, long, value_enum)]
        scope: Option<McpScope>,
    },
    /// Get an authorization for an HTTP server: opens no browser, prints the address, takes the answer.
    Login {
        /// Name of the server.
        name: String,
    },
    /// Forget the authorization of a server.
    Logout {
        /// Name of the server.
        name: String,
    },
    /// Allow a server of the project's `.mcp.json`, as it is now.
    Approve {
        /// Name of the server.
        name: String,
    },
    /// Offer becket's own tools to another program, over standard input and output, with the same permissions.
    Serve {
        #[command(flatten)]
        permissions: Permissions,
    },
    /// Forget which servers of this project's `.mcp.json` were allowed.
    ResetProjectChoices,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server.
    pub name: String,
    /// Place where it is written down.
    #[arg(short, long, value_enum, default_value_t)]
    pub scope: McpScope,
    /// Way to the server; an address is `http` unless this says `sse`.
    #[arg(short, long, value_name = "stdio|http|sse")]
    pub transport: Option<String>,
    /// Variable for the server: NAME=VALUE.
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Header of requests: "Name: value".
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub header: Vec<String>,
    /// Id of a client that is registered already.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Port for the answer of the browser.
    #[arg(long, value_name = "PORT")]
    pub callback_port: Option<u16>,
    /// The command and its arguments, or the address.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND|URL")]
    pub command: Vec<String>,
}
