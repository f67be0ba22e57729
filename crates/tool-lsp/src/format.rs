//! Formatters: choosing one for a file and running it.
//!
//! A formatter reads the text from standard input and prints the formatted text; becket writes the file. So a
//! formatter changes no other file, and a formatter that fails, hangs or prints nothing changes nothing.
//!
//! A formatter runs if the user named it in the configuration. It also runs if the project has a configuration of that formatter
//! and the permission mode allows running the project's programs, because such a configuration may make the formatter load code.

use crate::program::{Environment, find};
use crate::replace::{read_text, replace};
use crate::settings::{CustomFormatter, FormatSettings, Settings, permitted};
use becket_sandbox::{Prepared, Process, ProgramKind, Start, Streams};
use becket_tool::ToolEnv;
use becket_types::{PermissionMode, cut_end};
use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Time limit for a formatter.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes that a formatter may print.
const MAX_OUTPUT: u64 = 8 << 20;
/// Maximum number of changed lines that the model sees.
const SHOWN: usize = 12;

/// Evidence that a project uses a formatter.
enum Sign {
    File(&'static str),
    /// A file, and the beginning of a line in it.
    Line(&'static str, &'static str),
}
use Sign::{File, Line};

struct Builtin {
    name: &'static str,
    /// Command line. `{path}` is the file, `{edition}` the edition of the Rust package.
    command: &'static [&'static str],
    extensions: &'static [&'static str],
    signs: &'static [Sign],
}

const WEB: &[&str] = &[
    "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "json", "jsonc", "css", "scss", "less", "html",
    "vue", "md", "yaml", "yml", "graphql",
];
const PYTHON: &[&str] = &["py", "pyi"];

/// Known formatters, in the order in which they are tried.
const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "rustfmt",
        command: &["rustfmt", "--edition", "{edition}"],
        extensions: &["rs"],
        signs: &[File("rustfmt.toml"), File(".rustfmt.toml")],
    },
    Builtin { name: "gofmt", command: &["gofmt"], extensions: &["go"], signs: &[] },
    Builtin {
        name: "biome",
        command: &["biome", "format", "--stdin-file-path={path}"],
        extensions: WEB,
        signs: &[File("biome.json"), File("biome.jsonc")],
    },
    Builtin {
        name: "prettier",
        command: &["prettier", "--stdin-filepath", "{path}"],
        extensions: WEB,
        signs: &[
            File(".prettierrc"),
            File(".prettierrc.json"),
            File(".prettierrc.json5"),
            File(".prettierrc.yaml"),
            File(".prettierrc.yml"),
            File(".prettierrc.toml"),
            File(".prettierrc.js"),
            File(".prettierrc.cjs"),
            File(".prettierrc.mjs"),
            File("prettier.config.js"),
            File("prettier.config.cjs"),
            File("prettier.config.mjs"),
            Line("package.json", "\"prettier\":"),
        ],
    },
    Builtin {
        name: "black",
        command: &["black", "--quiet", "--stdin-filename", "{path}", "-"],
        extensions: PYTHON,
        signs: &[Line("pyproject.toml", "[tool.black]")],
    },
    Builtin {
        name: "ruff",
        command: &["ruff", "format", "--stdin-filename", "{path}", "-"],
        extensions: PYTHON,
        signs: &[File("ruff.toml"), File(".ruff.toml"), Line("pyproject.toml", "[tool.ruff")],
    },
    Builtin {
        name: "clang-format",
        command: &["clang-format", "--assume-filename={path}"],
        extensions: &["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "m", "mm"],
        signs: &[File(".clang-format"), File("_clang-format")],
    },
    Builtin {
        name: "stylua",
        command: &["stylua", "--stdin-filepath", "{path}", "-"],
        extensions: &["lua"],
        signs: &[File("stylua.toml"), File(".stylua.toml")],
    },
    Builtin {
        name: "shfmt",
        command: &["shfmt", "-filename", "{path}", "-"],
        extensions: &["sh", "bash"],
        signs: &[],
    },
    Builtin { name: "zig", command: &["zig", "fmt", "--stdin"], extensions: &["zig"], signs: &[] },
    Builtin {
        name: "terraform",
        command: &["terraform", "fmt", "-"],
        extensions: &["tf", "tfvars"],
        signs: &[],
    },
];

/// Returns the names that the setting `format.always` accepts.
pub fn formatter_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|f| f.name)
}

/// The formatter for a file, with the path of its program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
}

/// Chooses the formatter for `path`; `None` if none may run. Only examines files in the folders above `path`;
/// starts nothing.
pub(crate) fn choose(
    settings: &FormatSettings,
    vars: &Environment,
    path: &Path,
    mode: PermissionMode,
    env: &ToolEnv,
) -> Option<Chosen> {
    if settings.auto == Some(false) {
        return None;
    }
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let has =
        |list: &[String]| list.iter().any(|e| e.trim_start_matches('.').eq_ignore_ascii_case(&extension));
    let custom = settings.commands.iter().find(|c| has(&c.extensions) && !c.command.is_empty());
    if let Some(CustomFormatter { name, command, .. }) = custom {
        return chosen(name, command.iter().map(String::as_str), path, vars, env);
    }
    BUILTIN.iter().filter(|f| f.extensions.contains(&extension.as_str())).find_map(|f| {
        let named = settings.always.iter().any(|n| n.eq_ignore_ascii_case(f.name));
        if named || (permitted(settings.auto, mode) && configured(f.signs, path, env)) {
            chosen(f.name, f.command.iter().copied(), path, vars, env)
        } else {
            None
        }
    })
}

fn chosen<'a>(
    name: &str,
    mut words: impl Iterator<Item = &'a str>,
    path: &Path,
    vars: &Environment,
    env: &ToolEnv,
) -> Option<Chosen> {
    let program = find(words.next()?, vars, &env.roots)?;
    let fill = |word: &str| {
        let word = word.replace("{path}", &path.to_string_lossy());
        if word.contains("{edition}") { word.replace("{edition}", &edition(path, env)) } else { word }
    };
    Some(Chosen { name: name.to_owned(), program, args: words.map(fill).collect() })
}

/// Returns the folder of the file and the folders above it, up to the session's root that contains the file.
fn folders<'p>(path: &'p Path, env: &ToolEnv) -> impl Iterator<Item = &'p Path> {
    let roots = env.roots.clone();
    path.ancestors().skip(1).take_while(move |dir| becket_tool::paths::is_inside(&roots, dir))
}

fn configured(signs: &[Sign], path: &Path, env: &ToolEnv) -> bool {
    folders(path, env).any(|dir| {
        signs.iter().any(|sign| match sign {
            File(name) => dir.join(name).is_file(),
            Line(name, start) => read_text(&dir.join(name))
                .is_ok_and(|text| text.lines().any(|line| line.trim_start().starts_with(start))),
        })
    })
}

/// Returns the Rust edition of the package around a file, or of its workspace.
fn edition(path: &Path, env: &ToolEnv) -> String {
    let in_file = |dir: &Path| {
        let text = read_text(&dir.join("Cargo.toml")).ok()?;
        let line = text
            .lines()
            .map(str::trim)
            .find(|l| l.strip_prefix("edition").is_some_and(|rest| rest.trim_start().starts_with('=')))?;
        let value = line.split('"').nth(1)?;
        value.bytes().all(|b| b.is_ascii_digit()).then(|| value.to_owned())
    };
    folders(path, env).find_map(in_file).unwrap_or_else(|| "2024".to_owned())
}

/// The effect of a formatter on a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Formatted {
    /// Text for the model; empty if nothing changed.
    pub text: String,
    /// Number of lines removed and added.
    pub lines: usize,
}

/// Runs the formatter on `path`.
///
/// # Errors
///
/// Returns the reason in one line: for example, the formatter failed, took too long, or the file changed meanwhile.
pub(crate) async fn format(
    chosen: &Chosen,
    path: &Path,
    settings: &Settings,
    env: &ToolEnv,
    limit: Duration,
) -> Result<Formatted, String> {
    let name = &chosen.name;
    let unchanged = Formatted { text: String::new(), lines: 0 };
    let old = read_text(path).map_err(|why| format!("not formatted by {name}: {why}"))?;
    let known = env.host.read_hash(path);
    if known.is_some_and(|hash| hash != becket_tool::sha256(old.as_bytes())) {
        return Err(format!("not formatted by {name}: the file changed since it was written"));
    }
    let prepared = settings.programs.prepare(ProgramKind::Formatter);
    let prepared = prepared.map_err(|why| format!("not formatted by {name}: {why}"))?;
    let run = pipe(chosen, &prepared, path, &settings.env, &old);
    let new = match tokio::time::timeout(limit, run).await {
        Err(_) => return Err(format!("{name} did not finish in {} s and was stopped", limit.as_secs())),
        Ok(result) => result.map_err(|why| format!("{name} failed: {why}"))?,
    };
    if new == old {
        return Ok(unchanged);
    }
    if new.trim().is_empty() && !old.trim().is_empty() {
        return Err(format!("{name} printed nothing; the file was left as it is"));
    }
    replace(path, &old, &new).map_err(|why| format!("not formatted by {name}: {why}"))?;
    env.host.note_read(path, &becket_tool::sha256(new.as_bytes()));
    Ok(formatted(name, &old, &new, &env.display(path)))
}

async fn pipe(
    chosen: &Chosen,
    prepared: &Prepared,
    path: &Path,
    vars: &Environment,
    text: &str,
) -> Result<String, String> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let start = Start {
        prepared,
        lease: None,
        program: chosen.program.as_os_str(),
        args: &chosen.args,
        dir,
        variables: vars,
    };
    let (mut process, streams) = Process::start(start).map_err(|e| e.to_string())?;
    let Streams { mut stdin, stdout, stderr } = streams;
    let (mut out, mut said) = (Vec::new(), Vec::new());
    let feed = async move {
        // If the formatter stops reading early, this write fails. The formatter's exit status then says why.
        let _ = stdin.write_all(text.as_bytes()).await;
    };
    let (mut stdout, mut stderr) = (stdout.take(MAX_OUTPUT), stderr.take(64 * 1024));
    let ((), read, _) = tokio::join!(feed, stdout.read_to_end(&mut out), stderr.read_to_end(&mut said));
    read.map_err(|e| e.to_string())?;
    if out.len() as u64 >= MAX_OUTPUT {
        return Err("it printed more than 8 MB".to_owned());
    }
    let status = process.wait().await.map_err(|e| e.to_string())?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
        return Err(format!("{status}: {}", cut_end(line.trim(), 200)));
    }
    String::from_utf8(out).map_err(|_| "it printed text that is not UTF-8".to_owned())
}

fn formatted(name: &str, old: &str, new: &str, shown: &str) -> Formatted {
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(old, new);
    let changed: Vec<(char, Option<usize>, &str)> = diff
        .iter_all_changes()
        .filter_map(|change| match change.tag() {
            ChangeTag::Equal => None,
            ChangeTag::Delete => Some(('-', change.old_index(), change.value())),
            ChangeTag::Insert => Some(('+', change.new_index(), change.value())),
        })
        .collect();
    let lines = changed.len();
    let added = changed.iter().filter(|(sign, ..)| *sign == '+').count();
    let mut text = format!("{shown} formatted by {name}: +{added} −{} lines", lines - added);
    if lines <= SHOWN {
        text.push(':');
        for (sign, at, line) in changed {
            let line = cut_end(line.trim_end_matches(['\n', '\r']), 200);
            let _ = write!(text, "\n{sign}{}: {line}", at.unwrap_or_default() + 1);
        }
    } else {
        text.push_str("; read it again before you edit there");
    }
    Formatted { text, lines }
}
