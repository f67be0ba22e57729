//! Arguments of the commands about keys. None of them takes a key: arguments are visible to others on this machine.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The provider, such as `anthropic` or `groq`; by default, becket recognizes it by the beginning of the
    /// key. With `[providers.NAME.login]`, becket shows an address and a code instead of asking for a key.
    pub provider: Option<String>,
    /// Get a key by a login in the browser, where the provider's rules allow it (`openrouter`).
    #[arg(long)]
    pub browser: bool,
    /// Save the key in credentials.toml and not in the system's keychain.
    #[arg(long)]
    pub file: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The provider, such as `anthropic` or `groq`.
    pub provider: String,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Show the providers with a key. Exit code 0: there is a key; 1: there is none; 2: a provider refused
    /// its key.
    Status(AuthStatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuthStatusArgs {
    /// Show only this provider.
    pub provider: Option<String>,
    /// Ask each provider if it accepts its key.
    #[arg(long)]
    pub check: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
