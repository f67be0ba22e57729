//! Choosing the language server and its folder for a file.
//!
//! Pure except for checking if marker files and programs exist: a few `stat` calls, no walk, no process.

use crate::program::{Environment, find};
use crate::settings::LspSettings;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A language server and how to start it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub name: String,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
    pub root_markers: Vec<String>,
    pub options: Option<Value>,
}

struct Builtin {
    name: &'static str,
    command: &'static [&'static str],
    extensions: &'static [&'static str],
    markers: &'static [&'static str],
}

const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "rust-analyzer",
        command: &["rust-analyzer"],
        extensions: &["rs"],
        markers: &["Cargo.toml", "rust-project.json"],
    },
    Builtin {
        name: "typescript",
        command: &["typescript-language-server", "--stdio"],
        extensions: &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"],
        markers: &["tsconfig.json", "jsconfig.json", "package.json"],
    },
    Builtin {
        name: "pyright",
        command: &["pyright-langserver", "--stdio"],
        extensions: &["py", "pyi"],
        markers: &["pyrightconfig.json", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"],
    },
    Builtin { name: "gopls", command: &["gopls"], extensions: &["go"], markers: &["go.work", "go.mod"] },
    Builtin {
        name: "clangd",
        command: &["clangd", "--log=error"],
        extensions: &["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "m", "mm"],
        markers: &["compile_commands.json", "compile_flags.txt", ".clangd"],
    },
];

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Returns all servers: the user's own first, then the built-in ones with the user's changes applied.
pub(crate) fn specs(settings: &LspSettings) -> Vec<Spec> {
    let known = |name: &str| BUILTIN.iter().find(|b| b.name == name);
    let from = |b: &Builtin| Spec {
        name: b.name.to_owned(),
        command: owned(b.command),
        extensions: owned(b.extensions),
        root_markers: owned(b.markers),
        options: None,
    };
    let custom = settings.servers.iter().map(|own| {
        let mut spec =
            known(&own.name).map_or_else(|| Spec { name: own.name.clone(), ..Spec::default() }, from);
        if let Some(command) = &own.command {
            spec.command.clone_from(command);
        }
        if !own.extensions.is_empty() {
            spec.extensions.clone_from(&own.extensions);
        }
        if !own.root_markers.is_empty() {
            spec.root_markers.clone_from(&own.root_markers);
        }
        spec.options.clone_from(&own.initialization_options);
        spec
    });
    let rest = BUILTIN.iter().filter(|b| settings.servers.iter().all(|own| own.name != b.name)).map(from);
    custom.chain(rest).filter(|spec| !spec.command.is_empty()).collect()
}

impl Spec {
    pub(crate) fn serves(&self, path: &Path) -> bool {
        let Some(extension) = path.extension().and_then(|e| e.to_str()) else { return false };
        self.extensions.iter().any(|e| e.trim_start_matches('.').eq_ignore_ascii_case(extension))
    }

    pub(crate) fn program(&self, vars: &Environment, roots: &[PathBuf]) -> Option<PathBuf> {
        find(self.command.first()?, vars, roots)
    }

    /// Returns the folder in which a server of this kind works on a file: the outermost folder with a marker
    /// between the session's root and the file, or else that root. For a file outside the roots, its own
    /// folder.
    pub(crate) fn root_of(&self, path: &Path, roots: &[PathBuf]) -> PathBuf {
        let own = path.parent().unwrap_or(Path::new("/"));
        let Some(top) = roots.iter().filter(|r| path.starts_with(r)).max_by_key(|r| r.components().count())
        else {
            return own.to_path_buf();
        };
        let marked = |dir: &&Path| self.root_markers.iter().any(|m| dir.join(m).exists());
        let inside = own.ancestors().take_while(|dir| dir.starts_with(top));
        inside.filter(marked).last().unwrap_or(top).to_path_buf()
    }

    /// True if a root of the session looks like a project of this kind.
    pub(crate) fn fits(&self, roots: &[PathBuf]) -> bool {
        roots.iter().any(|root| self.root_markers.iter().any(|m| root.join(m).exists()))
    }
}

/// Returns the protocol's name for the language of a file.
pub(crate) fn language_id(path: &Path) -> &str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension {
        "rs" => "rust",
        "ts" | "mts" | "cts" => "typescript",
        "tsx" => "typescriptreact",
        "js" | "mjs" | "cjs" => "javascript",
        "jsx" => "javascriptreact",
        "py" | "pyi" => "python",
        "c" | "h" => "c",
        "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => "cpp",
        "m" => "objective-c",
        "mm" => "objective-cpp",
        "rb" => "ruby",
        "sh" | "bash" => "shellscript",
        "kt" | "kts" => "kotlin",
        "cs" => "csharp",
        "hs" => "haskell",
        "ex" | "exs" => "elixir",
        "yml" => "yaml",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CustomServer;

    #[test]
    fn the_users_word_changes_what_is_known() {
        let own = |name: &str, command: Option<&[&str]>, extensions: &[&str]| CustomServer {
            name: name.to_owned(),
            command: command.map(owned),
            extensions: owned(extensions),
            ..CustomServer::default()
        };
        let servers = vec![
            own("gopls", Some(&[]), &[]),
            own("pyright", Some(&["basedpyright-langserver", "--stdio"]), &[]),
            own("zls", Some(&["zls"]), &[".zig"]),
            own("nothing", None, &["x"]),
        ];
        let specs = specs(&LspSettings { enabled: None, servers });
        let names: Vec<&str> = specs.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["pyright", "zls", "rust-analyzer", "typescript", "clangd"]);
        assert_eq!(specs[0].command[0], "basedpyright-langserver");
        assert!(specs[0].serves(Path::new("/a/b.PY")) && specs[1].serves(Path::new("b.zig")));
        assert!(!specs[0].serves(Path::new("/py")) && !specs[0].serves(Path::new("/a.rs")));
    }

    #[test]
    fn one_folder_for_a_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("ws/crates/a/src")).unwrap();
        for marker in ["ws/Cargo.toml", "ws/crates/a/Cargo.toml"] {
            std::fs::write(root.join(marker), "").unwrap();
        }
        let rust = &specs(&LspSettings::default())[0];
        let roots = [root.clone()];
        assert_eq!(rust.root_of(&root.join("ws/crates/a/src/lib.rs"), &roots), root.join("ws"));
        assert_eq!(rust.root_of(&root.join("x.rs"), &roots), root);
        assert_eq!(rust.root_of(Path::new("/elsewhere/x.rs"), &roots), PathBuf::from("/elsewhere"));
        assert!(!rust.fits(&roots) && rust.fits(&[root.join("ws")]));
    }
}
