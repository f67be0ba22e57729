//! Arguments of the commands that look at the installation: `becket doctor`, `config` and `models`.

use super::ConfigArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub what: Option<DoctorWhat>,
    /// Make repaired copies of all damaged sessions, or of the named one. The originals are not changed.
    #[arg(long, global = true)]
    pub repair: bool,
    /// Search the files and sessions of this folder for secrets. Prints their locations, never a whole secret.
    #[arg(long, conflicts_with = "repair")]
    pub secrets: bool,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoctorWhat {
    /// Check one session: its chain of hashes, its blobs, and the repairs in the model's view.
    Session {
        /// The session: its id, the start of its id, or its title. Without one: the newest of this directory.
        id: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCommandArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of the configuration.
    #[arg(long)]
    pub schema: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Also ask the configured servers for their models.
    #[arg(long)]
    pub remote: bool,
    /// Update windows and prices from the configured servers' own lists and from `models.catalog`, save them, and show
    /// the changes.
    #[arg(long, conflicts_with = "remote")]
    pub refresh: bool,
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}
