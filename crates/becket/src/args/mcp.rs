//! Arguments about MCP servers: of a run, and of `becket mcp`.

use super::{ConfigArgs, Permissions, PluginArgs};
use clap::{Args, Subcommand, ValueEnum};

/// MCP servers of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct McpArgs {
    /// MCP servers of this run, in addition to the configured ones: a JSON file, or JSON text.
    #[arg(long, value_name = "FILE|JSON", num_args = 1..)]
    pub mcp_config: Vec<String>,
    /// Use only the servers of --mcp-config.
    #[arg(long)]
    pub strict_mcp_config: bool,
    /// Answer to questions of MCP servers: ask the program that drives becket, accept the defaults, or
    /// cancel.
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

/// The scope in which a server is configured.
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
        /// Keys of the server, such as `{"command": "npx", "args": ["-y", "some-server"]}`.
        json: String,
        /// The scope in which the server is configured.
        #[arg(short, long, value_enum, default_value_t)]
        scope: McpScope,
        /// Print the result as JSON.
        #[arg(long = "json")]
        as_json: bool,
    },
    /// Start all servers and show their states.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        plugins: PluginArgs,
    },
    /// Show one server, its state and its tools.
    Get {
        /// Name of the server.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        plugins: PluginArgs,
    },
    /// Remove a server.
    Remove {
        /// Name of the server.
        name: String,
        /// Remove it only from this scope.
        #[arg(short, long, value_enum)]
        scope: Option<McpScope>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Get an authorization for an HTTP server. Prints an address for your browser and waits for the answer.
    Login {
        /// Name of the server.
        name: String,
        /// Store the tokens in a file of becket and not in the system's keychain.
        #[arg(long)]
        file: bool,
    },
    /// Remove the authorization of a server.
    Logout {
        /// Name of the server.
        name: String,
    },
    /// Allow a server of the project's `.mcp.json` with its present entry.
    Approve {
        /// Name of the server.
        name: String,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Serve becket's own tools to another program over standard input and output, with the same permissions.
    Serve {
        #[command(flatten)]
        permissions: Permissions,
    },
    /// Withdraw your choices about the servers of this project's `.mcp.json`, and your refusals of its other content.
    ResetProjectChoices {
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server.
    pub name: String,
    /// The scope in which the server is configured.
    #[arg(short, long, value_enum, default_value_t)]
    pub scope: McpScope,
    /// Transport of the server. The default for an address is `http`; use `sse` for the older protocol.
    #[arg(short, long, value_name = "stdio|http|sse")]
    pub transport: Option<String>,
    /// Environment variable for the server: NAME=VALUE.
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Header to send with requests: "Name: value".
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub header: Vec<String>,
    /// Id of an OAuth client that is already registered.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Local port that receives the browser's answer.
    #[arg(long, value_name = "PORT")]
    pub callback_port: Option<u16>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments, or the address.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND|URL")]
    pub command: Vec<String>,
}
