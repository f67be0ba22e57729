//! Finds programs that work on the project.
//!
//! Programs are looked up in absolute folders of `PATH` outside the project, unless the user configured a path. A file in the
//! project is never run just because it has a known name. Starts nothing.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The complete environment of every started program; nothing is inherited.
pub type Environment = Vec<(OsString, OsString)>;

/// Finds a program: an absolute path is used as it is, a name is looked up in `PATH`.
pub(crate) fn find(name: &str, env: &Environment, roots: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return (path.is_absolute() && executable(&path)).then_some(path);
    }
    let search = env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value)?;
    std::env::split_paths(search)
        .filter(|dir| dir.is_absolute() && !becket_tool::paths::is_inside(roots, dir))
        .map(|dir| dir.join(name))
        .find(|path| executable(path))
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_project_are_not_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bin = root.join("node_modules/.bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("prettier"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(bin.join("prettier"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([bin.as_path(), Path::new("relative"), Path::new("/bin")]).unwrap();
        let env = vec![("PATH".into(), path)];
        assert_eq!(find("prettier", &env, &[]), Some(bin.join("prettier")));
        assert_eq!(find("prettier", &env, &[root]), None);
        assert!(find("sh", &env, &[]).is_some());
        assert_eq!(find("no-such-program", &env, &[]), None);
        assert_eq!(find("./sh", &env, &[]), None);
    }
}
