//! Finds the programs that becket starts for its own use (git, the clipboard's, those that print keys).
//!
//! `PATH` often names folders of the project (`node_modules/.bin`, a virtual environment, `bin` with direnv). The model can write there, and
//! so can whoever wrote the project. A program of becket's own comes from the system's folders, or from a folder of `PATH` that is outside
//! of the folder in which becket runs. Starts nothing.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Returns the program of this name. A name with a slash is the user's own choice.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let system = becket_sandbox::SYSTEM_PATH.split(':').map(PathBuf::from);
    first_program(name, system).or_else(|| find_on(name, &std::env::var_os("PATH").unwrap_or_default()))
}

/// Returns the program of this name in a folder of `search` outside of the project.
pub(crate) fn find_on(name: &str, search: &OsStr) -> Option<PathBuf> {
    let cwd = std::env::current_dir().and_then(|dir| dir.canonicalize()).unwrap_or_default();
    let project = project_around(&cwd);
    first_program(name, outside(search, &project))
}

fn first_program(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    folders.map(|folder| folder.join(name)).find(is_program)
}

fn outside(search: &OsStr, project: &Path) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(search).filter(move |folder| {
        let real = folder.canonicalize().unwrap_or_default();
        folder.is_absolute() && (project == Path::new("/") || !real.starts_with(project))
    })
}

/// Returns the outermost folder, from this one upwards, that is a git repository, or the folder itself if there is none.
pub(crate) fn project_around(cwd: &Path) -> PathBuf {
    let repository = cwd.ancestors().filter(|dir| dir.join(".git").symlink_metadata().is_ok()).last();
    repository.unwrap_or(cwd).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_of_the_project_is_becket_s_own() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let make = |path: &str| {
            let path = base.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        for name in ["sh", "of-project", "of-both"] {
            make(&format!("p/bin/{name}"));
        }
        let (mine, both) = (make("tools/mine"), make("tools/of-both"));
        std::os::unix::fs::symlink(base.join("p/bin"), base.join("way-in")).unwrap();
        std::fs::create_dir(base.join("p/.git")).unwrap();
        let folders = ["p/bin", "way-in", "tools"].map(|name| base.join(name));
        let search = std::env::join_paths(folders.iter().cloned().chain(["bin".into(), "".into()])).unwrap();
        let project = project_around(&base.join("p/bin"));
        assert_eq!(project, base.join("p"));
        let found = |name: &str| first_program(name, outside(&search, &project));
        assert!(find("sh").is_some_and(|path| !path.starts_with(&base)));
        assert_eq!(found("sh"), None);
        assert_eq!(found("of-project"), None);
        assert_eq!(found("of-both"), Some(both));
        assert_eq!(found("mine"), Some(mine));
        assert_eq!(find("./x"), Some("./x".into()));
    }
}
