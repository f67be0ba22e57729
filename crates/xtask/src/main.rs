//! Chores of the repository, run as `cargo xtask CHORE`.
//!
//! Owns the checks of plain words, of the book, of strings and of commits, and the commands that update generated files. It uses
//! the standard library only, so that it compiles in seconds. It is never part of becket, and no other crate depends on it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod book;
mod commits;
mod strings;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask CHORE

  check                     words, commits and book links; .ci/run calls this
  words [--list PATH]       check the words of comments and pages; --list prints every finding below PATH
  words --update            write the baseline again; refuses when the total rises (--raise allows it)
  strings [--update]        compare strings.txt with the strings that users see, or write it again
  book                      every page is in SUMMARY.md, every link leads to a page and heading
  book --run BECKET         also run the commands of the book that need no model, with this binary
  schema                    write docs/config.schema.json again
  screens                   write the expected screens of crates/tui/tests again
  ci                        everything that must pass before a change lands (.ci/run)
";

/// Problems that a chore found, one line each.
type Problems = Vec<String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in &problems {
                println!("{problem}");
            }
            eprintln!("{} problems", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[&str]) -> Result<Problems, String> {
    let root = root()?;
    match args {
        ["check"] => {
            let mut problems = words::check(&root)?;
            problems.extend(commits::check(&root));
            problems.extend(book::check(&root)?);
            Ok(problems)
        }
        ["words"] => words::check(&root),
        ["words", "--list", path] => words::list(&root, path),
        ["words", "--update"] => words::update(&root, false),
        ["words", "--update", "--raise"] => words::update(&root, true),
        ["strings"] => strings::check(&root),
        ["strings", "--update"] => strings::update(&root),
        ["book"] => book::check(&root),
        ["book", "--run", becket] => {
            let mut problems = book::check(&root)?;
            problems.extend(book::run(&root, Path::new(becket))?);
            Ok(problems)
        }
        ["schema"] => {
            cargo(&root, &["test", "-p", "becket-config", "--test", "schema"], Some(("UPDATE_SCHEMA", "1")))
        }
        ["screens"] => cargo(
            &root,
            &["test", "-p", "becket-tui", "--test", "pictures", "--test", "inspector", "--test", "pages"],
            Some(("BECKET_UPDATE_SCREENS", "1")),
        ),
        ["ci"] => status(Command::new(root.join(".ci/run")).current_dir(&root), ".ci/run"),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(Problems::new())
        }
        _ => Err(format!("unknown chore `{}`\n\n{HELP}", args.join(" "))),
    }
}

/// The repository's folder: the one with `Cargo.lock` above this crate.
fn root() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .find(|dir| dir.join("Cargo.lock").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("no Cargo.lock above {}", here.display()))
}

fn cargo(root: &Path, args: &[&str], variable: Option<(&str, &str)>) -> Result<Problems, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    if let Some((name, value)) = variable {
        command.env(name, value);
    }
    status(&mut command, &format!("cargo {}", args.join(" ")))
}

fn status(command: &mut Command, name: &str) -> Result<Problems, String> {
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    Ok(if status.success() { Problems::new() } else { vec![format!("{name} failed: {status}")] })
}

/// Files below `dir` whose name ends with one of `endings`, sorted. Build output and hidden folders are skipped.
fn files(dir: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
