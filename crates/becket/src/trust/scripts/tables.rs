//! Names of programs that run files, and of the files that they run.

/// Programs that run a file that their arguments name.
pub(super) const INTERPRETERS: [&str; 29] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "ash",
    "mksh",
    "fish",
    "source",
    ".",
    "python",
    "node",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "ruby",
    "perl",
    "php",
    "lua",
    "Rscript",
    "pwsh",
    "osascript",
    "tclsh",
    "uv",
    "go",
    "java",
    "awk",
    "gawk",
];
/// Interpreters that read the language of shells.
pub(super) const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "source", "."];
/// Options of interpreters whose values are words of their own.
pub(super) const TAKE_VALUES: [&str; 8] = ["-o", "+o", "-O", "+O", "-r", "-W", "-X", "-I"];
/// Endings that node adds to a name.
pub(super) const NODE: [&str; 8] = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js"];
/// Endings of files that hold programs.
pub(super) const ENDINGS: [&str; 21] = [
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php",
    ".lua", ".R", ".ps1", ".pm", ".cts", ".tsx", ".jsx", ".mk",
];
/// Programs that run what a file of their folder says, and the names of that file.
pub(super) const RUNNERS: [(&str, &[&str]); 12] = [
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("composer", &["composer.json"]),
    ("deno", &["deno.json", "deno.jsonc"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile"]),
    ("pre-commit", &[".pre-commit-config.yaml"]),
];
/// Programs whose arguments are files that they only write, or words that they print.
pub(super) const WRITERS: [&str; 7] = ["touch", "tee", "mkdir", "rm", "rmdir", "echo", "printf"];

/// Characters of code, which are rare in names of files.
pub(super) const CODE: &str = "()'\"`;|&<>{}";
