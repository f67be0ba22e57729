//! Finds the files that scripts in Python, JavaScript, Ruby, Perl, PHP and Lua load or start, and those that files of build tools name.
//!
//! Owns what can be decided from the text: imports of modules that are files of the project, and texts in quotes (or words, in files of
//! build tools) that name a program of the project. Takes rather too many than too few, as for shell scripts. Cannot know names that
//! a script puts together when it runs, packages outside of the project, modules found through a search path that the script changes,
//! and data that a script runs (`eval` of a file with another ending).

use super::tables::NODE as NODE_ENDINGS;
use super::{MAX_SHOWN, Search};
use becket_shell_syntax::base_name;
use std::path::{Path, PathBuf};

/// Longest text that can name a file.
const LONGEST: usize = 255;
/// Maximum number of names that are looked up for one command.
const MOST_NAMES: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Python,
    Node,
    Ruby,
    Perl,
    Php,
    Lua,
    /// Files of build tools: each word may name a program.
    Words,
}

const BY_ENDING: [(&str, Language); 17] = [
    ("py", Language::Python),
    ("js", Language::Node),
    ("mjs", Language::Node),
    ("cjs", Language::Node),
    ("ts", Language::Node),
    ("mts", Language::Node),
    ("cts", Language::Node),
    ("tsx", Language::Node),
    ("jsx", Language::Node),
    ("rb", Language::Ruby),
    ("rake", Language::Ruby),
    ("pl", Language::Perl),
    ("pm", Language::Perl),
    ("php", Language::Php),
    ("lua", Language::Lua),
    ("mk", Language::Words),
    ("json", Language::Words),
];
const BY_NAME: [(&str, Language); 9] = [
    ("Makefile", Language::Words),
    ("makefile", Language::Words),
    ("GNUmakefile", Language::Words),
    ("justfile", Language::Words),
    ("Justfile", Language::Words),
    (".justfile", Language::Words),
    ("Taskfile.yml", Language::Words),
    ("Taskfile.yaml", Language::Words),
    ("Rakefile", Language::Ruby),
];
const BY_INTERPRETER: [(&str, Language); 10] = [
    ("python", Language::Python),
    ("node", Language::Node),
    ("bun", Language::Node),
    ("deno", Language::Node),
    ("tsx", Language::Node),
    ("ts-node", Language::Node),
    ("ruby", Language::Ruby),
    ("perl", Language::Perl),
    ("php", Language::Php),
    ("lua", Language::Lua),
];

/// Returns the language of a file, by its ending, its name, or the interpreter in its first line.
fn language(path: &Path, text: &str) -> Option<Language> {
    let of = |table: &[(&str, Language)], key: &str| {
        table.iter().find(|(known, _)| *known == key).map(|(_, language)| *language)
    };
    let name = path.file_name()?.to_string_lossy();
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
    let first = text.strip_prefix("#!").and_then(|rest| rest.lines().next()).unwrap_or_default();
    let by_line = || {
        first.split_whitespace().find_map(|word| {
            let plain = base_name(word).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            of(&BY_INTERPRETER, plain)
        })
    };
    of(&BY_NAME, &name).or_else(by_line).or_else(|| of(&BY_ENDING, &ending))
}

/// Adds the files of the project that a file in another language loads or starts. Returns false if the file is in none of
/// the known languages.
pub(super) fn follow(search: &mut Search<'_>, path: &Path, text: &str) -> bool {
    let Some(language) = language(path, text) else { return false };
    let Some(folder) = path.parent() else { return true };
    let names = match language {
        Language::Words => words(text),
        _ => literals(text),
    };
    for name in names {
        named(search, language, &name, folder);
    }
    match language {
        Language::Python => {
            for module in python_modules(text) {
                python_import(search, &module, folder);
            }
        }
        Language::Perl => {
            for module in text.split(['\n', ';', '{', '}']).filter_map(perl_module) {
                for place in around(search, folder) {
                    looked_up(search, &place.join(&module));
                    looked_up(search, &place.join("lib").join(&module));
                }
            }
        }
        Language::Node | Language::Ruby | Language::Php | Language::Lua | Language::Words => {}
    }
    true
}

/// Adds the files that a text in quotes names: in the folder of the script, or where the command starts.
fn named(search: &mut Search<'_>, language: Language, name: &str, folder: &Path) {
    let plain = name.trim_start_matches('/');
    let dotted = plain.replace('.', "/");
    let endings: &[&str] = match language {
        Language::Node if name.starts_with('.') => &NODE_ENDINGS,
        Language::Ruby => &["", ".rb"],
        Language::Lua => &["", ".lua"],
        _ => &[""],
    };
    // A text without a slash or a dot is an ordinary word, unless the language finds modules by such names.
    let is_name = plain.contains(['/', '.']) || endings.len() > 1;
    if !is_name || plain.is_empty() || plain.len() > LONGEST {
        return;
    }
    // TypeScript sources import `x.js`, which the compiler makes from `x.ts`.
    let source =
        plain.strip_suffix(".js").filter(|_| language == Language::Node).map(|stem| format!("{stem}.ts"));
    let module = Some(format!("{dotted}.lua")).filter(|_| language == Language::Lua);
    let texts = endings.iter().map(|ending| format!("{plain}{ending}")).chain(source).chain(module);
    for text in texts {
        looked_up(search, &folder.join(&text));
        for start in search.environment.dirs.clone() {
            looked_up(search, &start.join(&text));
        }
    }
}

fn python_import(search: &mut Search<'_>, module: &str, folder: &Path) {
    let plain = module.trim_start_matches('.');
    let dots = module.len() - plain.len();
    // In a relative import, one dot means the folder of the file itself, and each further dot its parent.
    let places = match dots {
        0 => around(search, folder),
        dots => folder.ancestors().nth(dots - 1).map(Path::to_path_buf).into_iter().collect(),
    };
    for place in places {
        let mut at = place;
        for part in plain.split('.').filter(|part| !part.is_empty()) {
            at.push(part);
            // Importing `a.b.c` also runs the `__init__.py` of `a` and of `a.b`.
            looked_up(search, &at.join("__init__.py"));
        }
        looked_up(search, &at.with_extension("py"));
        looked_up(search, &at.join("__main__.py"));
    }
}

/// Returns the folder and the folders above it up to the project's root, and the folders in which the command may start.
fn around(search: &Search<'_>, folder: &Path) -> Vec<PathBuf> {
    let up = folder
        .ancestors()
        .take_while(|place| place.starts_with(&search.environment.root))
        .map(Path::to_path_buf);
    let mut out: Vec<PathBuf> = up.chain(search.environment.dirs.iter().cloned()).collect();
    out.dedup();
    out
}

fn looked_up(search: &mut Search<'_>, path: &Path) {
    if search.looked_up < MOST_NAMES {
        search.looked_up += 1;
        search.file(&path.to_string_lossy(), Some(&[]));
    } else {
        search.more = true;
    }
}

/// Returns the texts in quotes, and the single words of those with blanks, because these may be commands.
fn literals(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines().take(MAX_SHOWN) {
        let mut rest = line;
        while let Some(at) = rest.find(['"', '\'', '`']) {
            let quote = rest.as_bytes()[at] as char;
            let body = &rest[at + 1..];
            let end = body.find(quote).unwrap_or(body.len());
            let literal = &body[..end];
            out.push(literal.to_owned());
            if literal.contains(char::is_whitespace) {
                out.extend(words(literal));
            }
            rest = body.get(end + 1..).unwrap_or_default();
        }
    }
    out
}

fn words(text: &str) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || "\"'`;&|()<>=,{}[]:@".contains(c);
    text.split(ends).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The modules that Python imports by statements or by name. Of `from a import b`, both `a` and `a.b` can be files.
pub(super) fn python_modules(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in statements(text) {
        if let Some(rest) = after_word(&line, "import") {
            out.extend(rest.split(',').filter_map(|part| part.split_whitespace().next()).map(str::to_owned));
        } else if let Some((module, names)) =
            after_word(&line, "from").and_then(|rest| rest.split_once("import"))
        {
            let module: String = module.split_whitespace().collect();
            let names = names.split([',', '(', ')']);
            let names = names.filter_map(|part| part.split_whitespace().next());
            let dot = if module.ends_with('.') { "" } else { "." };
            out.extend(names.map(|name| format!("{module}{dot}{name}")));
            out.push(module);
        }
    }
    for call in ["import_module(", "__import__(", "run_module("] {
        for (_, rest) in text.match_indices(call).map(|(at, call)| text.split_at(at + call.len())) {
            let start = rest.split(['\n']).next().unwrap_or_default();
            out.extend(start.split(['"', '\'']).nth(1).map(str::to_owned));
        }
    }
    out.retain(|module| module.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.'));
    out
}

/// The parts of a text in Python in which a statement may begin, with the lines of a list in parentheses in one. Code in quotes
/// counts, too.
fn statements(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let text = text.replace("\\\n", " ");
    let mut lines = text.lines();
    let parts = |line: &str| -> Vec<String> {
        line.split([';', ':', '"', '\'']).map(|part| part.trim_start().to_owned()).collect()
    };
    while let Some(line) = lines.next() {
        let code = line.split('#').next().unwrap_or_default();
        out.extend(parts(line));
        if !(code.contains("import") && code.contains('(')) {
            continue;
        }
        let mut whole = code.to_owned();
        while !whole.contains(')') {
            let Some(more) = lines.next() else { break };
            whole.push(' ');
            whole.push_str(more.split('#').next().unwrap_or_default());
            // The parenthesis may not belong to an import, so the line is also taken as statements of its own.
            out.extend(parts(more));
        }
        out.extend(parts(&whole));
    }
    out
}

/// The rest of a statement that begins with a word.
fn after_word<'t>(statement: &'t str, word: &str) -> Option<&'t str> {
    let rest = statement.strip_prefix(word)?;
    rest.starts_with(|c: char| c.is_whitespace() || c == '.').then_some(rest)
}

/// Returns the file of the module that a line of Perl loads.
fn perl_module(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = line.strip_prefix("use ").or_else(|| line.strip_prefix("require "))?;
    let name = rest.split(|c: char| c.is_whitespace() || c == ';' || c == '(').next()?;
    let is_name = name.chars().next().is_some_and(char::is_alphabetic)
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    is_name.then(|| format!("{}.pm", name.replace("::", "/")))
}
