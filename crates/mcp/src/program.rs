//! Finds the program of a server: in the folders of `PATH`, or at the path that its configuration names. Starts nothing.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Returns the folders in which the program of a server is looked up. Relative folders are left out, because their meaning depends
/// on the working directory. So are folders in `avoided`: a project whose `node_modules/.bin` is in the user's `PATH` would replace
/// the programs of the user's own servers. If the configuration of the server sets `PATH`, all of its absolute folders are used.
pub fn search_path(
    env: &BTreeMap<String, String>,
    variables: &[(OsString, OsString)],
    avoided: Option<&Path>,
) -> Vec<PathBuf> {
    let absolute = |all: &OsStr| env::split_paths(all).filter(|folder| folder.is_absolute()).collect();
    if let Some(own) = env.get("PATH") {
        return absolute(OsStr::new(own));
    }
    let all = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let mut folders: Vec<PathBuf> = absolute(all.unwrap_or_default());
    folders.retain(|folder| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        avoided.is_none_or(|avoided| !real.starts_with(avoided) && !folder.starts_with(avoided))
    });
    folders
}

/// Returns the path of the program. A command with a `/` is taken relative to `dir`; any other name is looked up in `search`.
/// `None` if there is no such file.
pub fn find(command: &str, search: &[PathBuf], dir: &Path) -> Option<String> {
    let runs = |path: PathBuf| {
        let path = if path.is_absolute() { path } else { dir.join(path) };
        path.is_file().then(|| path.to_string_lossy().into_owned())
    };
    if command.contains('/') {
        return runs(PathBuf::from(command));
    }
    search.iter().find_map(|folder| runs(folder.join(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_plants_no_program_of_the_users_servers() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for path in ["p/node_modules/.bin/npx", "p/bin/npx", "system/npx"] {
            std::fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            std::fs::write(base.join(path), "").unwrap();
        }
        let project = base.join("p");
        std::os::unix::fs::symlink(project.join("bin"), base.join("way-in")).unwrap();
        std::os::unix::fs::symlink(base.join("system"), project.join("way-out")).unwrap();
        let folders = ["", ".", "node_modules/.bin", "./bin"].map(PathBuf::from).into_iter();
        let inside = ["p/node_modules/.bin", "p/bin", "way-in", "p/way-out", "system/../p/bin"];
        let folders = folders.chain(inside.map(|name| base.join(name))).chain([base.join("system")]);
        let path = env::join_paths(folders).unwrap();
        let variables = vec![(OsString::from("PATH"), path)];
        let found = |env: &BTreeMap<String, String>, avoided: Option<&Path>| {
            find("npx", &search_path(env, &variables, avoided), &project)
        };
        let at = |path: &str| Some(base.join(path).to_string_lossy().into_owned());
        assert_eq!(found(&BTreeMap::new(), Some(&project)), at("system/npx"));
        // For the project's own servers, the user has seen and allowed this program, so the project's folders count.
        assert_eq!(found(&BTreeMap::new(), None), at("p/node_modules/.bin/npx"));
        let own = BTreeMap::from([("PATH".to_owned(), base.join("p/bin").to_string_lossy().into_owned())]);
        assert_eq!(found(&own, Some(&project)), at("p/bin/npx"));
        assert_eq!(find("./bin/npx", &[], &project), at("p/./bin/npx"));
        assert_eq!(find("absent", &search_path(&own, &variables, None), &project), None);
    }
}
