//! Owns a reader of Rust source for the architecture test: tokens, and the module tree of a crate with the paths that each file names.
//!
//! Reads without a compiler: it follows `mod`, `use` and paths, and never expands a macro or resolves a method call. Items with
//! `#[cfg(test)]` are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Splits source text into identifiers and punctuation. Comments, literals and lifetimes are dropped; `::` and `->` are one token each.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    numbered_tokens(source).into_iter().map(|(_, token)| token).collect()
}

/// The same tokens, each with the number of its line.
pub(crate) fn numbered_tokens(source: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = source.chars().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && chars[i] != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            i = after_block_comment(&chars, i);
        } else if c == '"' {
            i = after_string(&chars, i);
        } else if c == '\'' {
            // A character literal closes after one character or an escape; a lifetime does not.
            let literal = at(i + 1) == '\\' || at(i + 2) == '\'';
            i += if literal { 2 } else { 1 };
            while literal && i < chars.len() && chars[i] != '\'' {
                i += 1;
            }
            if literal {
                // The quote in `'\''` is the escaped character itself.
                i += if at(i + 1) == '\'' && chars[i - 1] == '\\' { 2 } else { 1 };
            } else {
                while is_word(at(i)) {
                    i += 1;
                }
            }
        } else if is_word(c) {
            let start = i;
            while is_word(at(i)) {
                i += 1;
            }
            let word: String = chars[start..i].iter().collect();
            match (word.as_str(), at(i)) {
                ("r" | "br" | "cr", '"' | '#') => i = after_raw_string(&chars, i),
                ("b" | "c", '"') => i = after_string(&chars, i),
                ("b", '\'') => {}
                _ => out.push((start, word)),
            }
        } else if (c == ':' && at(i + 1) == ':') || (c == '-' && at(i + 1) == '>') {
            out.push((i, format!("{c}{}", at(i + 1))));
            i += 2;
        } else {
            if !c.is_whitespace() {
                out.push((i, c.to_string()));
            }
            i += 1;
        }
    }
    let (mut line, mut seen) = (1, 0);
    for (at, _) in &mut out {
        line += chars[seen..*at].iter().filter(|c| **c == '\n').count();
        seen = *at;
        *at = line;
    }
    out
}

fn after_block_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn after_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The place after a raw string whose hashes start at `i`; after the hash of a raw identifier (`r#type`).
fn after_raw_string(chars: &[char], mut i: usize) -> usize {
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return i;
    }
    i += 1;
    while i < chars.len() {
        if chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    i
}

/// The index after the bracket that closes the one at `open`.
pub(crate) fn after_group(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// The index after the `>` that closes the `<` at `open`.
pub(crate) fn after_generics(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// A name that a module brings into scope: `use path as name`, or a glob when `name` is `*`.
pub(crate) struct Import {
    name: String,
    path: Vec<String>,
    public: bool,
}

#[derive(Default)]
pub(crate) struct Module {
    pub file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// The tokens of the module without its inline modules and its `use` declarations.
    pub code: Vec<String>,
}

/// The modules of one crate. The first is the root.
pub(crate) struct Crate {
    pub modules: Vec<Module>,
}

/// A definition: the module that holds it, and its name.
pub(crate) type Definition = (usize, String);

impl Crate {
    /// Reads a crate from its root file.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self { modules: Vec::new() };
        let source = std::fs::read_to_string(root).unwrap();
        tree.add(root.to_path_buf(), root.parent().unwrap().to_path_buf(), None, &tokens(&source));
        tree
    }

    /// Adds a module with the tokens of its body. `folder` holds the files of its children.
    fn add(&mut self, file: PathBuf, folder: PathBuf, parent: Option<usize>, body: &[String]) -> usize {
        let id = self.modules.len();
        self.modules.push(Module { file: file.clone(), parent, ..Module::default() });
        let mut i = 0;
        let mut depth = 0;
        let mut public = false;
        while i < body.len() {
            let word = body[i].as_str();
            let next = body.get(i + 1).map_or("", String::as_str);
            match word {
                "#" if next == "[" || next == "!" => {
                    let open = if next == "[" { i + 1 } else { i + 2 };
                    let end = after_group(body, open);
                    let attribute = body[open + 1..end - 1].concat();
                    i = if attribute == "cfg(test)" { after_item(body, end) } else { end };
                    continue;
                }
                "pub" => {
                    public = true;
                    if next == "(" {
                        i = after_group(body, i + 1);
                        continue;
                    }
                }
                "use" if next != "<" => {
                    let end = (i..body.len()).find(|at| body[*at] == ";").unwrap_or(body.len());
                    read_use(&body[i + 1..end], &[], public, &mut self.modules[id].imports);
                    public = false;
                    i = end + 1;
                    continue;
                }
                "mod" if depth == 0 => {
                    public = false;
                    let name = next.to_owned();
                    let below = folder.join(&name);
                    let child = if body.get(i + 2).is_some_and(|t| t == "{") {
                        let end = after_group(body, i + 2);
                        let child = self.add(file.clone(), below, Some(id), &body[i + 3..end - 1]);
                        i = end;
                        child
                    } else {
                        i += 3;
                        let flat = folder.join(format!("{name}.rs"));
                        let path = if flat.exists() { flat } else { below.join("mod.rs") };
                        let source = std::fs::read_to_string(&path).unwrap();
                        self.add(path, below, Some(id), &tokens(&source))
                    };
                    self.modules[id].children.insert(name, child);
                    continue;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                    if depth == 0 && !matches!(next, "fn" | "unsafe" | "async" | "extern") =>
                {
                    self.modules[id].items.insert(next.to_owned());
                }
                "macro_rules" => {
                    self.modules[id].items.insert(body.get(i + 2).cloned().unwrap_or_default());
                }
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            public = public && word == "pub";
            self.modules[id].code.push(body[i].clone());
            i += 1;
        }
        id
    }

    /// Finds the definition that a path names in the scope of a module; none when it names a module or something of another crate.
    pub(crate) fn resolve(&self, module: usize, path: &[String]) -> Option<Definition> {
        self.walk(module, path, &mut BTreeSet::new())
    }

    fn walk(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Option<Definition> {
        let mut here = module;
        let mut first = true;
        for (i, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here = 0,
                "self" if first => {}
                "super" => here = self.modules[here].parent?,
                name => {
                    let owner = &self.modules[here];
                    if let Some(child) = owner.children.get(name) {
                        here = *child;
                    } else if owner.items.contains(name) {
                        return Some((here, name.to_owned()));
                    } else if seen.insert((here, name.to_owned())) {
                        let rest = &path[i + 1..];
                        return owner.imports.iter().find_map(|import| {
                            let glob = import.name == "*";
                            if !glob && import.name != name {
                                return None;
                            }
                            let mut full = import.path.clone();
                            full.extend(glob.then(|| name.to_owned()));
                            full.extend_from_slice(rest);
                            self.walk(here, &full, seen)
                        });
                    } else {
                        return None;
                    }
                }
            }
            first = false;
        }
        None
    }

    /// True if `upper` is a parent of `lower`, at any distance.
    pub(crate) fn is_above(&self, upper: usize, lower: usize) -> bool {
        self.modules[lower].parent.is_some_and(|parent| parent == upper || self.is_above(upper, parent))
    }

    /// The definitions of this crate that a module names, by `use` or by a path in its code. A name that is only handed on does not count.
    pub(crate) fn named_by(&self, module: usize) -> BTreeSet<Definition> {
        let owner = &self.modules[module];
        let words: BTreeSet<&str> = owner.code.iter().map(String::as_str).collect();
        let mut out = BTreeSet::new();
        for import in &owner.imports {
            if import.name == "*" {
                let named = words.iter().filter_map(|word| {
                    let mut path = import.path.clone();
                    path.push((*word).to_owned());
                    self.resolve(module, &path)
                });
                out.extend(named);
            } else if !import.public || words.contains(import.name.as_str()) {
                out.extend(self.resolve(module, &import.path));
            }
        }
        let mut i = 0;
        while i < owner.code.len() {
            let path = path_at(&owner.code, i);
            if path.len() > 1 && (i == 0 || owner.code[i - 1] != ".") {
                out.extend(self.resolve(module, &path));
            }
            i += (2 * path.len()).max(2) - 1;
        }
        out
    }
}

/// The names of the path that starts at `i`, without generic arguments.
pub(crate) fn path_at(code: &[String], mut i: usize) -> Vec<String> {
    let is_name =
        |i: usize| code.get(i).is_some_and(|t| t.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    let mut out = Vec::new();
    while is_name(i) {
        out.push(code[i].clone());
        if code.get(i + 1).is_none_or(|t| t != "::") {
            break;
        }
        i += 2;
    }
    out
}

/// The index after the item that starts at `i`: after its first block, or its semicolon when that comes before.
fn after_item(body: &[String], mut i: usize) -> usize {
    while i < body.len() {
        match body[i].as_str() {
            "{" => return after_group(body, i),
            "(" | "[" => i = after_group(body, i),
            // A field or a variant, or the last item of a block.
            ";" | "," | "}" => return if body[i] == "}" { i } else { i + 1 },
            _ => i += 1,
        }
    }
    i
}

/// Reads a tree of `use` below the names in `prefix`.
fn read_use(tree: &[String], prefix: &[String], public: bool, out: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut i = 0;
    while i < tree.len() {
        match tree[i].as_str() {
            "::" => {}
            "{" => {
                let inside = &tree[i + 1..after_group(tree, i) - 1];
                let mut start = 0;
                let mut depth = 0;
                for (at, token) in inside.iter().enumerate() {
                    match token.as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        "," if depth == 0 => {
                            read_use(&inside[start..at], &path, public, out);
                            start = at + 1;
                        }
                        _ => {}
                    }
                }
                if start < inside.len() {
                    read_use(&inside[start..], &path, public, out);
                }
                return;
            }
            "*" => {
                out.push(Import { name: "*".to_owned(), path, public });
                return;
            }
            "as" => {
                out.push(Import { name: tree[i + 1].clone(), path, public });
                return;
            }
            // `use a::{self}` names `a`.
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        i += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    out.push(Import { name, path, public });
}
