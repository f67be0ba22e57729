//! The programs of configured MCP servers: which file a name runs, and if there is one.
//!
//! Looks at the file system only. A program is looked up as the server's start looks it up, so not in the project.

use crate::environment::Environment;
use crate::program_lookup::project_around;
use becket_mcp::{Endpoint, ServerConfig, config, program};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the outermost folder of the project, in which no program of the user's own servers is looked up.
pub(super) fn project(cwd: &Path) -> PathBuf {
    project_around(&cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf()))
}

/// Returns the line that shows which file a plain name runs: for a name without a path, the user's `PATH` decides that.
pub(crate) fn program_line(environment: &Environment, cwd: &Path, server: &ServerConfig) -> Option<String> {
    let (command, found) = found_program(environment, cwd, server)?;
    Some(match found {
        Some(path) => format!("{command} runs {path}"),
        None => format!("{command} is not found in PATH"),
    })
}

/// Returns a warning if the program of a server does not exist yet.
pub(crate) fn missing_program(
    environment: &Environment,
    cwd: &Path,
    server: &ServerConfig,
) -> Option<String> {
    let Endpoint::Stdio { command, .. } = &server.endpoint else { return None };
    if command.contains('/') {
        // A path with a variable is not checked, because the variable is filled in only when the server starts.
        let is_missing = !command.contains('$') && !cwd.join(command).exists();
        return is_missing.then(|| format!("the program {command} does not exist yet"));
    }
    let (command, found) = found_program(environment, cwd, server)?;
    found.is_none().then(|| {
        format!("the program {command} is not in PATH yet; an address begins with http:// or https://")
    })
}

/// Returns the plain name of a server's program, and the file that it runs. `None` if it has no plain name.
fn found_program<'a>(
    environment: &Environment,
    cwd: &Path,
    server: &'a ServerConfig,
) -> Option<(&'a str, Option<String>)> {
    let Endpoint::Stdio { command, env, .. } = &server.endpoint else { return None };
    if command.contains('/') {
        return None;
    }
    let path = environment.vars.get("PATH").map(|path| (OsString::from("PATH"), OsString::from(path)));
    let project = project(cwd);
    let avoided = (server.scope.as_deref() != Some(config::PROJECT)).then_some(project.as_path());
    let search = program::search_path(env, path.as_slice(), avoided);
    Some((command, program::find(command, &search, cwd)))
}
