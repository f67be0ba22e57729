//! Owns the measures of structure: circles of files, fields of structs, files that add methods to one type, and lines of files and
//! of functions.
//!
//! `tests/architecture/exceptions.txt` lists the exceptions with their figures, which may only fall.

use super::source::{self, Crate};
use super::{root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const MOST_FIELDS: usize = 12;
const MOST_IMPL_FILES: usize = 3;
const MOST_LINES: usize = 600;
/// With the signature, from `fn` to the closing brace. Attributes and comments before it do not count.
const MOST_LINES_OF_FUNCTION: usize = 100;
const EXCEPTIONS: &str = "tests/architecture/exceptions.txt";

/// A measured exception and its figure.
type Found = BTreeMap<String, usize>;

/// Compares the exceptions of the code with the list. Both must agree, so that an improvement cannot be lost again.
#[test]
fn structure_only_improves() {
    let found = measure();
    let list = std::fs::read_to_string(root().join(EXCEPTIONS)).unwrap();
    let listed: Found = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (key, figure) = line.rsplit_once(' ').unwrap();
            (key.to_owned(), figure.parse().unwrap())
        })
        .collect();
    let mut faults = Vec::new();
    for (key, figure) in &found {
        match listed.get(key) {
            None => faults.push(format!("new: {key} {figure}")),
            Some(old) if figure > old => faults.push(format!("grew: {key} {figure}, was {old}")),
            // Lines change with each edit, so their figure is a ceiling.
            Some(old) if figure < old && !key.starts_with("lines ") && !key.starts_with("function ") => {
                faults.push(format!("shrank: write {key} {figure} in {EXCEPTIONS}, was {old}"));
            }
            Some(_) => {}
        }
    }
    for key in listed.keys().filter(|key| !found.contains_key(*key)) {
        faults.push(format!("settled: strike {key} from {EXCEPTIONS}"));
    }
    assert!(
        faults.is_empty(),
        "at most {MOST_FIELDS} fields, {MOST_IMPL_FILES} files of methods, {MOST_LINES} lines in a file, \
         {MOST_LINES_OF_FUNCTION} in a function, no circle of files:\n{}",
        faults.join("\n")
    );
}

/// Measures each crate: the exceptions to the limits, with their figures.
fn measure() -> Found {
    let mut found = Found::new();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        for file in rust_files(&folder.join("src")) {
            let source = std::fs::read_to_string(&file).unwrap();
            let lines = source.lines().count();
            if lines > MOST_LINES {
                found.insert(format!("lines {}", short(&file)), lines);
            }
            for (name, lines) in functions(&source) {
                if lines > MOST_LINES_OF_FUNCTION {
                    found.insert(format!("function {} {name}", short(&file)), lines);
                }
            }
        }
        let roots = ["src/lib.rs", "src/main.rs"];
        for main in roots.iter().map(|root| folder.join(root)).filter(|path| path.exists()) {
            let tree = Crate::read(&main);
            for circle in circles(&arrows(&tree)) {
                found.insert(format!("circle {}", circle.join(" ")), circle.len());
            }
            found.extend(wide_structs(&tree));
            found.extend(scattered_impls(&tree));
        }
    }
    found
}

/// The functions that have a body, with their lines. Tests count, too.
fn functions(source: &str) -> Vec<(String, usize)> {
    let (lines, words): (Vec<usize>, Vec<String>) = source::numbered_tokens(source).into_iter().unzip();
    let mut found = Vec::new();
    for at in (0..words.len()).filter(|at| words[*at] == "fn") {
        // `fn(u8) -> u8` is a type.
        let Some(name) = words.get(at + 1).filter(|name| *name != "(") else { continue };
        let mut open = at;
        while open < words.len() && !matches!(words[open].as_str(), "{" | ";") {
            let is_group = matches!(words[open].as_str(), "(" | "[");
            open = if is_group { source::after_group(&words, open) } else { open + 1 };
        }
        if words.get(open).is_some_and(|word| word == "{") {
            let end = source::after_group(&words, open) - 1;
            found.push((name.clone(), lines[end] - lines[at] + 1));
        }
    }
    found
}

/// A path from the repository's root.
fn short(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// For each file: the other files of its crate from which it names a definition. A module may use what a module above it defines,
/// since a parent that is cut into children shares its types with them.
fn arrows(tree: &Crate) -> BTreeMap<String, BTreeSet<String>> {
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let from = short(&module.file);
        let others = tree.named_by(id).into_iter().map(|(owner, _)| owner);
        let others = others.filter(|owner| !tree.is_above(*owner, id));
        let others = others.map(|owner| short(&tree.modules[owner].file));
        out.entry(from.clone()).or_default().extend(others.filter(|to| *to != from));
    }
    out
}

/// Groups of files that reach each other.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (from.as_str(), reachable(arrows, from))).collect();
    let mut out: Vec<Vec<String>> = reach
        .iter()
        .map(|(from, to)| {
            to.iter().filter(|file| reach[**file].contains(from)).map(|f| (*f).to_owned()).collect()
        })
        .filter(|circle: &Vec<String>| circle.len() > 1)
        .collect();
    out.sort();
    out.dedup();
    out
}

fn reachable<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        for next in &arrows[file] {
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    seen
}

fn wide_structs(tree: &Crate) -> Found {
    let mut found = Found::new();
    for module in &tree.modules {
        let code = &module.code;
        for i in (0..code.len()).filter(|i| code[*i] == "struct") {
            let Some(name) = code.get(i + 1) else { continue };
            let open = (i..code.len()).find(|at| matches!(code[*at].as_str(), "{" | "(" | ";"));
            let Some(open) = open.filter(|at| code[*at] != ";") else { continue };
            let fields = fields(&code[open + 1..source::after_group(code, open) - 1]);
            if fields > MOST_FIELDS {
                found.insert(format!("fields {} {name}", short(&module.file)), fields);
            }
        }
    }
    found
}

/// Counts the fields in the body of a struct.
fn fields(body: &[String]) -> usize {
    let mut count = 0;
    let mut open = false;
    let mut i = 0;
    while i < body.len() {
        match body[i].as_str() {
            "(" | "[" | "{" => i = source::after_group(body, i) - 1,
            "<" => i = source::after_generics(body, i) - 1,
            "," => {
                count += usize::from(open);
                open = false;
                i += 1;
                continue;
            }
            _ => {}
        }
        open = true;
        i += 1;
    }
    count + usize::from(open)
}

/// Types with methods in too many files. An `impl` of a trait is no method of the type's own.
fn scattered_impls(tree: &Crate) -> Found {
    let mut files: BTreeMap<(usize, String), BTreeSet<&Path>> = BTreeMap::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let code = &module.code;
        for i in (0..code.len()).filter(|i| code[*i] == "impl") {
            // `impl` in a type (`-> impl Fn()`, `x: impl Into<T>`) follows something other than the end of an item.
            if i > 0 && !matches!(code[i - 1].as_str(), "}" | ";" | "]" | "unsafe") {
                continue;
            }
            let mut at = i + 1;
            if code.get(at).is_some_and(|t| t == "<") {
                at = source::after_generics(code, at);
            }
            let path = source::path_at(code, at);
            let Some(open) = (at..code.len()).find(|at| code[*at] == "{") else { continue };
            if path.is_empty() || code[at..open].iter().any(|t| t == "for") {
                continue;
            }
            if let Some(definition) = tree.resolve(id, &path) {
                files.entry(definition).or_default().insert(&module.file);
            }
        }
    }
    files
        .into_iter()
        .filter(|(_, files)| files.len() > MOST_IMPL_FILES)
        .map(|((owner, name), files)| {
            (format!("methods {} {name}", short(&tree.modules[owner].file)), files.len())
        })
        .collect()
}

#[test]
fn the_reader_of_source_sees_what_the_compiler_sees() {
    let words =
        source::tokens("a('\\'', '\"', \"x\\\"y\", r#\"\"z\"#, 'x) /* b /* c */ */ d::e // f\n b'\\n' g");
    assert_eq!(words.join(" "), "a ( , , , , ) d :: e g");
    let body = source::tokens("a: BTreeMap<u8, (u8, u8)>, #[serde(default, skip)] pub b: fn(u8, u8) -> u8,");
    assert_eq!(fields(&body), 2);
    let text = "trait T {\n fn a(&self);\n fn b(x: fn(u8)) -> [u8; 2]\n {\n \"}\n\" // }\n }\n}\n#[test]\nasync fn c() {}";
    assert_eq!(functions(text), [("b".to_owned(), 5), ("c".to_owned(), 1)]);
}
