//! Loops: each round starts where the previous one ended, and the variable of a `for` loop takes known values one by one.
//!
//! A loop whose body may change the directory is read with unknown directories. A variable that anything else may set is not
//! followed.

use super::{Walker, grammar};
use crate::vars;
use crate::word::{Known, Word, text_of};
use tree_sitter::Node;

/// Maximum number of rounds of loops that are judged one by one. If there would be more, the loop's variable counts as unknown.
const MAX_ROUNDS: usize = 256;

impl Walker<'_> {
    /// Handles blocks that are repeated: each round starts in the directory in which the previous round ended. If a
    /// block may change the directory, the blocks are read with unknown directories.
    pub(super) fn rounds(&mut self, nodes: &[Node<'_>], depth: usize) {
        let (commands, redirects) = (self.out.commands.len(), self.out.redirects.len());
        let before = self.dirs.clone();
        for node in nodes {
            self.block(*node, depth);
        }
        if self.dirs != before {
            self.out.commands.truncate(commands);
            self.out.redirects.truncate(redirects);
            self.dirs = None;
            for node in nodes {
                self.block(*node, depth);
            }
            self.dirs = None;
        }
    }

    /// Puts the values of loop variables in place of `"$f"`, where all of them are known: one command for each round of the loop.
    /// The values must not become words of one command, or the second would be judged as an operand of the first.
    pub(super) fn with_known(&self, words: Vec<Word>) -> Vec<Vec<Word>> {
        let mut rounds = vec![words];
        let mut done: Vec<String> = Vec::new();
        loop {
            let next = rounds[0].iter().find_map(|word| {
                let name = word.variable.as_ref().filter(|name| !done.contains(name))?;
                Some((name.clone(), self.known.get(name)?))
            });
            let Some((name, values)) = next else { return rounds };
            if rounds.len() * values.len() > MAX_ROUNDS {
                return rounds;
            }
            rounds = rounds
                .iter()
                .flat_map(|words| {
                    values.iter().map(|value| {
                        let put = |word: &Word| {
                            if word.variable.as_ref() == Some(&name) { value } else { word }.clone()
                        };
                        words.iter().map(put).collect()
                    })
                })
                .collect();
            done.push(name);
        }
    }

    pub(super) fn for_loop(&mut self, node: Node<'_>, depth: usize) {
        self.out.unordered = true;
        let mut values = Vec::new();
        let mut name = String::new();
        let mut bodies = Vec::new();
        for child in grammar::children(node) {
            match child.kind() {
                "variable_name" => text_of(child, self.source).clone_into(&mut name),
                "do_group" | "compound_statement" => bodies.push(child),
                _ if child.is_named() => {
                    self.visit(child, depth + 1);
                    values.push(Word::decode(child, self.source));
                }
                _ => {}
            }
        }
        self.out.given.extend(values.iter().map(|value| (name.clone(), value.raw.clone())));
        self.out.looped.extend(values.iter().map(|value| (name.clone(), value.clone())));
        // A `for` loop without values takes the arguments of the shell, which are not known.
        let is_known = |value: &Word| value.known == Known::Literal && vars::may_set_to(&name, &value.raw);
        let may_set = vars::may_set(&name)
            && (vars::is_own(&name) || !values.is_empty() && values.iter().all(is_known));
        if !may_set {
            self.doubt(format!("it sets {name}, which other programs may obey"));
        }
        let followed = !values.is_empty()
            && !self.known.contains_key(&name)
            && values.iter().all(|v| matches!(v.known, Known::Literal | Known::Glob))
            && !set_elsewhere(self.source, &name);
        let known = if followed { values } else { vec![Word::of_unknown(&name)] };
        self.known.insert(name, known);
        self.rounds(&bodies, depth + 1);
    }
}

/// True if anything in the script except this loop may set `name`: the name occurs somewhere without `$` before it.
fn set_elsewhere(source: &str, name: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = source.match_indices(name).filter(|(at, _)| {
        let (before, after) = (&source[..*at], &source[at + name.len()..]);
        let whole = !before.ends_with(of_a_name) && !after.starts_with(of_a_name);
        let read = before.ends_with('$') || (before.ends_with("${") && after.starts_with('}'));
        whole && !read
    });
    named.count() != 1 || source.contains("read ")
}
