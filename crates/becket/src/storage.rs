//! Location of the sessions: the data directory, or the store that `BECKET_STORE` names.
//!
//! A store that cannot be used ends the command. If runs of a fleet fell back to their own disks, their sessions would
//! be lost unnoticed.

use crate::environment::Environment;
use crate::failure::Failure;

const STORE: &str = "BECKET_STORE";

/// Returns the environment with the location of the sessions set. Call it once, before any session is used.
///
/// # Errors
///
/// Returns a failure for the user if the store cannot be used.
pub(crate) fn place(environment: Environment) -> Result<Environment, Failure> {
    // The environment takes a relative home for none, so the variable is looked at.
    if let Some(home) = environment.var("HOME").filter(|home| std::path::Path::new(home).is_relative()) {
        return Err(Failure::usage(format!("HOME is not an absolute path: {home}"))
            .hint("sessions and settings would be in another place for each directory; set HOME to a path that begins with /"));
    }
    match environment.var(STORE).map(str::to_owned) {
        Some(address) => connected(environment, &address),
        None => Ok(environment),
    }
}

#[cfg(feature = "postgres")]
fn connected(mut environment: Environment, address: &str) -> Result<Environment, Failure> {
    // Each store has its own copy. Its folder is named by a hash, which does not reveal the address.
    let name = becket_session::blobs::id_of(address.as_bytes());
    environment.store_dir =
        environment.data_dir.join(format!("store-{}", becket_types::cut_end(name.as_str(), 16)));
    let store = becket_store_postgres::Postgres::connect(address, &environment.store_dir)
        .map_err(|e| Failure::error(e.to_string()))?;
    becket_session::store::keep_in(std::sync::Arc::new(store));
    Ok(environment)
}

#[cfg(not(feature = "postgres"))]
fn connected(_: Environment, _: &str) -> Result<Environment, Failure> {
    Err(Failure::usage(format!("{STORE} is set, but this becket was built without PostgreSQL"))
        .hint("build it with: cargo build --release --features postgres; or unset BECKET_STORE"))
}
