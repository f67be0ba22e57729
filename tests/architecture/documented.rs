//! Owns the check that public types and functions are documented, and that functions which can fail say when.
//!
//! Reads source text without a compiler: an item counts as public if it is marked `pub` alone, or belongs to a public trait.
//! The lint `unreachable_pub` keeps such items visible outside their crate. Fields and variants may go without a comment.

use super::source::{after_generics, after_group, numbered_tokens, path_at};
use super::{root, rust_files, without_tests};

/// The kinds of items that need a comment. Modules have theirs inside.
const KINDS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// The first words of a paragraph about errors.
const VERBS: &[&str] = &["Returns ", "Fails ", "Never fails"];

#[test]
fn public_items_are_documented_with_their_errors() {
    let mut faults = Vec::new();
    let mut items = 0;
    for folder in std::fs::read_dir(root().join("crates")).unwrap() {
        for file in rust_files(&folder.unwrap().path().join("src")) {
            let source = std::fs::read_to_string(&file).unwrap();
            let found = public_items(without_tests(&source));
            items += found.len();
            let path = file.strip_prefix(root()).unwrap().display();
            faults.extend(found.iter().filter_map(Item::fault).map(|fault| format!("{path}:{fault}")));
        }
    }
    assert!(items > 1000, "only {items} public items were found");
    faults.sort();
    assert!(faults.is_empty(), "{} public items lack documentation:\n{}", faults.len(), faults.join("\n"));
}

/// A public item with the lines of its doc comment, without their `///`.
struct Item {
    line: usize,
    kind: String,
    name: String,
    comment: Vec<String>,
    fails: bool,
}

impl Item {
    /// Returns the line and what is missing there.
    fn fault(&self) -> Option<String> {
        let opens = self.comment.iter().find(|line| !line.is_empty());
        let mut after = self.comment.iter().skip_while(|line| *line != "# Errors").skip(1);
        let says_errors = after.next().is_some_and(String::is_empty)
            && after.next().is_some_and(|text| VERBS.iter().any(|verb| text.starts_with(verb)));
        let (line, kind, name) = (self.line, &self.kind, &self.name);
        match opens {
            None => Some(format!("{line}: `{kind} {name}` has no doc comment")),
            Some(head) if head.starts_with('#') => {
                Some(format!("{line}: the comment of `{kind} {name}` does not say what it is for"))
            }
            Some(_) if self.fails && !says_errors => Some(format!(
                "{line}: `fn {name}` can fail: say when and with what, after `# Errors` and an empty line, in a sentence \
                 that opens with one of {VERBS:?}"
            )),
            Some(_) => None,
        }
    }
}

fn public_items(source: &str) -> Vec<Item> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let (at, words): (Vec<usize>, Vec<String>) = numbered_tokens(source).into_iter().unzip();
    let mut found = Vec::new();
    let mut add = |start: usize, i: usize| {
        let fails = words[i] == "fn" && returns_result(&words, i + 2);
        let comment = comment_above(&lines, at[start] - 1);
        found.push(Item { line: at[i], kind: words[i].clone(), name: words[i + 1].clone(), comment, fails });
    };
    for start in (0..words.len()).filter(|i| words[*i] == "pub") {
        let Some(i) = item_at(&words, start + 1) else { continue };
        add(start, i);
        if words[i] != "trait" {
            continue;
        }
        let Some(open) = (i..words.len()).find(|open| words[*open] == "{") else { continue };
        let end = after_group(&words, open) - 1;
        let mut member = open + 1;
        while member < end {
            match item_at(&words, member) {
                Some(i) => {
                    add(member, i);
                    member = after_member(&words, i);
                }
                // An attribute.
                None if words[member] == "[" => member = after_group(&words, member),
                None => member += 1,
            }
        }
    }
    found
}

/// The index of an item's kind, if an item starts at `i`: `unsafe const fn name` has its kind at `fn`.
fn item_at(words: &[String], mut i: usize) -> Option<usize> {
    let is_name =
        |i: usize| words.get(i).is_some_and(|w| w.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    while matches!(words.get(i)?.as_str(), "const" | "async" | "unsafe" | "extern")
        && matches!(words.get(i + 1)?.as_str(), "const" | "async" | "unsafe" | "extern" | "fn" | "trait")
    {
        i += 1;
    }
    // A field may have the name of a kind, as in `pub r#type: String`.
    (KINDS.contains(&words[i].as_str()) && is_name(i + 1)).then_some(i)
}

/// The index after a member of a trait: after its body or its semicolon.
fn after_member(words: &[String], mut i: usize) -> usize {
    while i < words.len() {
        match words[i].as_str() {
            "{" => return after_group(words, i),
            ";" => return i + 1,
            "(" | "[" => i = after_group(words, i),
            _ => i += 1,
        }
    }
    i
}

/// True if a function returns a `Result`, or a future of one. `i` is the index after its name.
fn returns_result(words: &[String], mut i: usize) -> bool {
    let word = |i: usize| words.get(i).map_or("", String::as_str);
    let is_result = |i: usize| path_at(words, i).last().is_some_and(|name| name == "Result");
    if word(i) == "<" {
        i = after_generics(words, i);
    }
    i = after_group(words, i);
    if word(i) != "->" {
        return false;
    }
    let path = path_at(words, i + 1);
    match path.last().map(String::as_str) {
        Some("Result") => true,
        // `BoxFuture<'a, T>`, of which the reader of source drops the lifetime.
        Some("BoxFuture") => is_result(i + 2 * path.len() + 2),
        Some("impl") => (i..words.len())
            .take_while(|i| !matches!(word(*i), "{" | ";" | "where"))
            .any(|i| word(i) == "Output" && word(i + 1) == "=" && is_result(i + 2)),
        _ => false,
    }
}

/// The doc comment of the item on this line (counted from 0), above its attributes.
fn comment_above(lines: &[&str], item: usize) -> Vec<String> {
    let mut comment = Vec::new();
    let mut in_attribute = false;
    for line in lines[..item].iter().rev() {
        if let Some(text) = line.strip_prefix("///").filter(|_| !in_attribute) {
            comment.push(text.trim().to_owned());
        } else if line.starts_with("#[") {
            in_attribute = false;
        } else if line.ends_with(")]") {
            in_attribute = true;
        } else if !in_attribute && !line.starts_with("//") {
            break;
        }
    }
    comment.reverse();
    comment
}

#[test]
fn missing_comments_are_found() {
    let faults =
        |source: &str| -> Vec<String> { public_items(source).iter().filter_map(Item::fault).collect() };
    let source = "pub struct A;\n/// B.\n#[derive(\n    Debug,\n)]\npub struct B {\n    pub r#type: u8,\n}\n\
        pub(crate) fn c() {}\n/// D.\npub async fn d<F: Fn() -> u8>(f: F) -> io::Result<()> {}\n\
        /// E.\n///\n/// # Errors\n///\n/// Never fails.\npub fn e() -> Result<(), ()> {}\n/// # Errors\n///\n/// F.\npub fn f() {}\n\
        /// G.\npub trait G {\n    type H;\n    /// I.\n    #[must_use]\n    fn i(&self) -> BoxFuture<'_, Result<u8, ()>>;\n    \
        /// J.\n    fn j(&self) -> u8 {\n        const K: u8 = 1;\n        K\n    }\n}\n/// L.\npub const fn l() -> Option<u8> {}\n\
        pub use a::b;\npub mod m;\n/// N.\npub fn n() -> impl Future<Output = Result<u8, ()>> {}\npub const O: u8 = 1;\n\
        /// P.\n///\n/// # Errors\n/// If not.\npub fn p() -> Result<(), ()> {}\n";
    let says_errors = |line: usize, name: &str| {
        format!(
            "{line}: `fn {name}` can fail: say when and with what, after `# Errors` and an empty line, in a sentence that \
             opens with one of {VERBS:?}"
        )
    };
    assert_eq!(
        faults(source),
        [
            "1: `struct A` has no doc comment".to_owned(),
            says_errors(11, "d"),
            "21: the comment of `fn f` does not say what it is for".to_owned(),
            "24: `type H` has no doc comment".to_owned(),
            says_errors(27, "i"),
            says_errors(39, "n"),
            "40: `const O` has no doc comment".to_owned(),
            says_errors(45, "p"),
        ]
    );
}
