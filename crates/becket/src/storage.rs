//! Location of the sessions: the data directory, or the store that `BECKET_STORE` names.
//!
//! A store that cannot be used ends the command. If runs of a fleet fell back to their own disks, their sessions would
//! be lost unnoticed.

use crate::environment::Environment;
use crate::failure::Failure;
use std::fs;
use std::io;
use std::path::Path;

const STORE: &str = "BECKET_STORE";

/// Returns the environment with the location of the sessions set. Call it once, before any session is used.
///
/// # Errors
///
/// Returns a failure for the user if the store cannot be used.
pub(crate) fn connect_store(mut environment: Environment) -> Result<Environment, Failure> {
    // The environment takes a relative path for none, so the variables are looked at.
    for name in ["HOME", "BECKET_HOME"] {
        let relative = |path: &&str| !path.is_empty() && Path::new(path).is_relative();
        if let Some(path) = environment.var(name).filter(relative) {
            return Err(Failure::usage(format!("{name} is not an absolute path: {path}")).hint(format!(
                "sessions and settings would be in another place for each directory; set {name} to a path that \
                 begins with /"
            )));
        }
    }
    let unreadable = unreadable(&environment);
    environment.notes.extend(unreadable);
    match environment.var(STORE).map(str::to_owned) {
        Some(address) => connected(environment, &address),
        None => Ok(environment),
    }
}

/// Files and folders of becket that are read as empty if they cannot be read, because that allows nothing.
const DATA_FILES: [&str; 4] =
    ["trusted-directories", "trusted-content.jsonl", "mcp-approved.json", "history.jsonl"];
const CONFIGURATION_FILES: [&str; 3] = ["commands", "projects", "AGENTS.md"];

/// Returns a note for everything of becket's own that exists and cannot be read. It must not look as if it were gone.
fn unreadable(environment: &Environment) -> Vec<String> {
    let mut notes = Vec::new();
    for (folder, names) in
        [(&environment.data_dir, &DATA_FILES[..]), (&environment.config_dir, &CONFIGURATION_FILES)]
    {
        if let Some(why) = why_unreadable(folder) {
            notes.push(format!("{} cannot be read: {why}; nothing of it is used", folder.display()));
            continue;
        }
        for path in names.iter().map(|name| folder.join(name)) {
            if let Some(why) = why_unreadable(&path) {
                notes.push(format!("{} cannot be read: {why}; it is not used", path.display()));
            }
        }
    }
    notes
}

/// Returns the error if something is at this path, or may be, and cannot be read.
fn why_unreadable(path: &Path) -> Option<io::Error> {
    let read = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::read_dir(path).map(drop),
        Ok(metadata) if metadata.is_file() => fs::File::open(path).map(drop),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    read.err().filter(|error| !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

#[cfg(feature = "postgres")]
fn connected(mut environment: Environment, address: &str) -> Result<Environment, Failure> {
    // Each store has its own copy. Its folder is named by a hash, which does not reveal the address.
    let name = becket_session::blobs::id_of(address.as_bytes());
    environment.store_dir =
        environment.data_dir.join(format!("store-{}", becket_types::cut_end(name.as_str(), 16)));
    let store = becket_store_postgres::Postgres::connect(address, &environment.store_dir)
        .map_err(|e| Failure::error(e.to_string()))?;
    becket_session::store::set_default_storage(std::sync::Arc::new(store));
    Ok(environment)
}

#[cfg(not(feature = "postgres"))]
fn connected(_: Environment, _: &str) -> Result<Environment, Failure> {
    Err(Failure::usage(format!("{STORE} is set, but this becket was built without PostgreSQL"))
        .hint("build it with: cargo build --release --features postgres; or unset BECKET_STORE"))
}
