//! Syntax highlighting: classifies the words of code as keywords, strings, names and so on.
//!
//! A piece of [`Code`] is parsed once, when it comes into view, outside the interface's thread ([`Job`]). Until then it
//! is shown plain. The result is classes, not colours, so another theme needs no new parsing. Code that grows is parsed
//! from where parsing ended.
//!
//! Invariants: a run ends on a character boundary; code that was never in view is not parsed; the first job loads the
//! grammars, so they do not delay the start. Long code and long lines stay plain, because waiting for colours is worse
//! than having none.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

/// Longest code, and longest line of it, that is parsed, in bytes.
const MOST: usize = 128 * 1024;
const MOST_OF_LINE: usize = 1_000;

/// Class of a word of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Plain,
    Comment,
    String,
    Number,
    Constant,
    Keyword,
    Type,
    Function,
    Attribute,
}

/// Classes of a line, as runs: the end of each run in bytes.
type Runs = Box<[(usize, Class)]>;

/// Lines of code in one language.
#[derive(Debug)]
pub struct Code {
    /// Name or file extension of the language.
    language: String,
    /// The code as it is shown; lines are separated by `\n`.
    text: String,
    found: OnceLock<ParsedCode>,
    asked: AtomicBool,
    /// The shorter code that this code extends. The runs of its complete lines are reused.
    base: Mutex<Option<Arc<Code>>>,
}

#[derive(Debug)]
struct ParsedCode {
    lines: Vec<Runs>,
    /// Parser state after the last complete line.
    state: Option<(ParseState, ScopeStack)>,
    whole: usize,
}

impl Code {
    /// Creates code that is not parsed yet. `language`: a name or a file extension.
    pub fn new(language: &str, text: String) -> Arc<Self> {
        Arc::new(Self::made(language, text, None))
    }

    fn made(language: &str, text: String, base: Option<Arc<Code>>) -> Self {
        Self {
            language: language.to_owned(),
            text,
            found: OnceLock::new(),
            asked: AtomicBool::new(false),
            base: Mutex::new(base),
        }
    }

    /// True if this is the same code in the same language.
    pub fn is(&self, language: &str, text: &str) -> bool {
        self.text.len() == text.len() && self.language == language && self.text == text
    }

    /// Returns the longer code if `text` starts with this code, `None` otherwise.
    pub fn grown(self: &Arc<Self>, language: &str, text: &str) -> Option<Arc<Self>> {
        if self.language != language || !text.starts_with(&self.text) {
            return None;
        }
        let asked = self.asked.load(Ordering::Relaxed);
        let base = if asked { Some(Arc::clone(self)) } else { self.base().clone() };
        Some(Arc::new(Self::made(language, text.to_owned(), base)))
    }

    fn base(&self) -> std::sync::MutexGuard<'_, Option<Arc<Self>>> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the runs of `range` of a line, as far as they are known, to `each`: the length in bytes and the class.
    pub fn runs(&self, line: usize, range: Range<usize>, mut each: impl FnMut(usize, Class)) {
        let mut walk = |runs: &Runs| {
            let mut from = range.start;
            for (end, class) in runs {
                let to = (*end).min(range.end);
                if to > from {
                    each(to - from, *class);
                    from = to;
                }
            }
        };
        match self.found.get() {
            Some(found) => found.lines.get(line).into_iter().for_each(&mut walk),
            None => {
                if let Some(base) = self.base().as_ref()
                    && let Some(found) = base.found.get()
                {
                    found.lines[..found.whole].get(line).into_iter().for_each(&mut walk);
                }
            }
        }
    }

    /// Returns the job that parses the code, the first time that the code is in view.
    pub fn wanted(self: &Arc<Self>) -> Option<Job> {
        if self.language.is_empty() || self.found.get().is_some() || self.asked.load(Ordering::Relaxed) {
            return None;
        }
        // The shorter code is still being parsed. The job is given out on a later call, so that it can continue from
        // that result.
        let waits = self.base().as_ref().is_some_and(|base| base.found.get().is_none());
        if waits || self.asked.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(Job(Arc::clone(self)))
    }

    fn read(&self) -> ParsedCode {
        let syntaxes = syntaxes();
        let Some(syntax) = syntaxes.find_syntax_by_token(&self.language).filter(|_| self.text.len() <= MOST)
        else {
            return ParsedCode { lines: Vec::new(), state: None, whole: 0 };
        };
        let base = self.base().take();
        let (mut lines, mut state) = match base.as_ref().and_then(|base| base.found.get()) {
            Some(ParsedCode { lines, state: Some(state), whole }) => {
                (lines[..*whole].to_vec(), state.clone())
            }
            _ => (Vec::new(), (ParseState::new(syntax), ScopeStack::new())),
        };
        let mut classes = Classes::default();
        let mut whole = lines.len();
        let mut behind = state.clone();
        for line in self.text.split_inclusive('\n').skip(whole) {
            lines.push(classes.of(line, &mut state, syntaxes));
            if line.ends_with('\n') {
                whole = lines.len();
                behind = state.clone();
            }
        }
        ParsedCode { lines, state: Some(behind), whole }
    }
}

/// Parsing of one piece of code, run outside the interface's thread.
#[derive(Clone, Debug)]
pub struct Job(Arc<Code>);

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Job {
    /// Parses the code. Runs outside the interface's thread.
    pub fn run(&self) {
        let found = self.0.read();
        let _ = self.0.found.set(found);
    }
}

fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(two_face::syntax::extra_newlines)
}

/// Classes by scope; the first matching entry wins. A scope without an entry has the class of the scope around it.
const CLASSES: [(&str, Class); 34] = [
    ("comment", Class::Comment),
    ("string.regexp", Class::Constant),
    ("string", Class::String),
    ("constant.character.escape", Class::Constant),
    ("constant.numeric", Class::Number),
    ("constant", Class::Constant),
    ("keyword.operator.word", Class::Keyword),
    ("keyword.operator", Class::Plain),
    ("keyword", Class::Keyword),
    ("storage.type.function", Class::Keyword),
    ("storage.type.struct", Class::Keyword),
    ("storage.type.enum", Class::Keyword),
    ("storage.type.class", Class::Keyword),
    ("storage.type.trait", Class::Keyword),
    ("storage.type.impl", Class::Keyword),
    ("storage.type.module", Class::Keyword),
    ("storage.type.import", Class::Keyword),
    ("storage.type", Class::Type),
    ("storage", Class::Keyword),
    ("variable.language", Class::Keyword),
    ("variable.function", Class::Function),
    ("variable.annotation", Class::Attribute),
    ("entity.name.function", Class::Function),
    ("entity.name.macro", Class::Function),
    ("entity.name.tag", Class::Keyword),
    ("entity.other.attribute-name", Class::Attribute),
    ("entity.name", Class::Type),
    ("entity.other.inherited-class", Class::Type),
    ("support.function", Class::Function),
    ("support.macro", Class::Function),
    ("support", Class::Type),
    ("markup.heading", Class::Keyword),
    ("markup.inserted", Class::String),
    ("markup.deleted", Class::Number),
];

#[derive(Default)]
struct Classes {
    known: HashMap<Scope, Option<Class>>,
}

impl Classes {
    fn of(&mut self, line: &str, state: &mut (ParseState, ScopeStack), syntaxes: &SyntaxSet) -> Runs {
        if line.len() > MOST_OF_LINE {
            return Box::default();
        }
        let Ok(ops) = state.0.parse_line(line, syntaxes) else { return Box::default() };
        let mut runs: Vec<(usize, Class)> = Vec::new();
        let mut put = |to: usize, class| match runs.last_mut() {
            Some((end, last)) if *last == class => *end = to,
            Some((end, _)) if *end >= to => {}
            None if to == 0 => {}
            _ => runs.push((to, class)),
        };
        for (at, op) in &ops {
            put(*at, self.class(&state.1));
            let _ = state.1.apply(op);
        }
        put(line.len(), self.class(&state.1));
        runs.into_boxed_slice()
    }

    fn class(&mut self, stack: &ScopeStack) -> Class {
        let found = stack.as_slice().iter().rev().find_map(|scope| {
            *self.known.entry(*scope).or_insert_with(|| {
                table().iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, class)| *class)
            })
        });
        found.unwrap_or(Class::Plain)
    }
}

fn table() -> &'static [(Scope, Class)] {
    static TABLE: OnceLock<Vec<(Scope, Class)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        CLASSES.iter().filter_map(|(name, class)| Some((Scope::new(name).ok()?, *class))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: &Code, line: usize) -> Vec<(String, Class)> {
        let text = code.text.lines().nth(line).unwrap();
        let mut out = Vec::new();
        let mut at = 0;
        code.runs(line, 0..text.len(), |length, class| {
            out.push((text[at..at + length].to_owned(), class));
            at += length;
        });
        out
    }

    #[test]
    fn words_have_classes_once_the_job_is_done() {
        let code = Code::new("rust", "// why\nfn main() { let x = \"a\"; }\n".to_owned());
        assert_eq!(shown(&code, 1), []);
        let job = code.wanted().unwrap();
        assert_eq!(code.wanted(), None);
        job.run();
        assert_eq!(shown(&code, 0), [("// why".to_owned(), Class::Comment)]);
        let line = shown(&code, 1);
        for (word, class) in [("fn", Class::Keyword), ("main", Class::Function), ("\"a\"", Class::String)] {
            assert!(line.contains(&(word.to_owned(), class)), "{word} {line:?}");
        }
    }

    #[test]
    fn grown_code_goes_on_where_it_was() {
        let first = Code::new("py", "'''a\nb".to_owned());
        let waiting = first.grown("py", "'''a\nb\nc").unwrap();
        assert!(waiting.wanted().is_some(), "nothing was asked before it");
        let code = Code::new("py", "'''a\nb".to_owned());
        code.wanted().unwrap().run();
        let more = code.grown("py", "'''a\nb\nc'''\nx = 1\n").unwrap();
        assert_eq!(shown(&more, 0), shown(&code, 0));
        assert_eq!(shown(&more, 1), [], "the line may go on");
        more.wanted().unwrap().run();
        let whole = Code::new("py", "'''a\nb\nc'''\nx = 1\n".to_owned());
        whole.wanted().unwrap().run();
        for line in 0..4 {
            assert_eq!(shown(&more, line), shown(&whole, line), "{line}");
        }
        assert!(code.grown("py", "other").is_none());
    }

    #[test]
    fn what_is_not_known_stays_plain() {
        for (language, text) in [("no-such-language", "x".to_owned()), ("rust", "y".repeat(MOST_OF_LINE + 1))]
        {
            let code = Code::new(language, text);
            code.wanted().unwrap().run();
            assert_eq!(shown(&code, 0), []);
        }
        assert_eq!(Code::new("", "fn".to_owned()).wanted(), None);
    }
}
