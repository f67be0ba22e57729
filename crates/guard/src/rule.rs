//! Permission rules in a syntax that people know from other agents: `Bash(git *)`, `Read(~/.ssh/**)`, `Skill(name)`,
//! `mcp__server__*`.
//!
//! A rule is a tool name, or a tool name with a specifier in parentheses. Names are compared without regard to case. The
//! specifier's meaning depends on the tool: a command pattern for `Bash`, a path pattern for file tools, a name pattern for
//! the others. Parsing is strict: an invalid rule is an error with its position and the nearest valid form.

use crate::path::wild;
use crate::rule_text::{is_several, split_rules, unquoted};
use becket_types::{RuleKind, edit_distance, lexical};
use globset::{Glob, GlobBuilder, GlobMatcher};
use std::fmt;
use std::path::{Path, PathBuf};

/// Limits on the length of a rule and on its wildcards and alternatives, so that matching stays cheap.
const MAX_LEN: usize = 12_000;
const MAX_GLOB_LEN: usize = 512;
const MAX_WILDCARDS: usize = 32;

/// The error for an invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {text:?}, character {position}: {message}; write {nearest}")]
pub struct RuleError {
    /// The rule as it was written.
    pub text: String,
    /// Position of the mistake, counted in characters from 1.
    pub position: usize,
    /// The mistake, for people.
    pub message: String,
    /// The nearest valid rule.
    pub nearest: String,
}

/// One parsed rule. Its `Display` form is the text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    /// The name in the form of [`plain`]. May contain `*` for MCP tools.
    tool: String,
    spec: Option<Spec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Spec {
    Command(CommandPattern),
    Path(String),
    Name(String),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Rule {
    type Err = RuleError;
    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::parse(text)
    }
}

const FILE_TOOLS: &[&str] = &[
    "read",
    "edit",
    "write",
    "grep",
    "glob",
    "ls",
    "multiedit",
    "notebookedit",
    "notebookread",
    "applypatch",
];
const EDIT_TOOLS: &[&str] = &["edit", "write", "multiedit", "notebookedit", "applypatch"];
const READ_TOOLS: &[&str] = &["read", "grep", "glob", "ls", "notebookread"];

/// Tools that rules are usually written for. A rule for another name may be a misspelling or mean a server's tool.
const KNOWN: &[&str] = &[
    "Bash",
    "Read",
    "Edit",
    "Write",
    "Grep",
    "Glob",
    "Lsp",
    "Skill",
    "Todo",
    "Recall",
    "WebFetch",
    "WebSearch",
    "Agent",
    "Task",
];

/// Tools of other agents whose counterparts here need no permission or belong to another tool. A rule for them is no mistake,
/// although it decides nothing.
const ELSEWHERE: &[&str] = &["joboutput", "jobkill", "askuser", "exitplan", "structuredoutput"];

impl Rule {
    /// Parses one rule.
    ///
    /// # Errors
    ///
    /// Returns the position of the mistake and the nearest valid form.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let fail = |at: usize, message: &str, nearest: String| RuleError {
            text: becket_types::cut_end(text, 200).to_owned(),
            position: text[..text.floor_char_boundary(at)].chars().count() + 1,
            message: message.to_owned(),
            nearest,
        };
        if text.is_empty() {
            return Err(fail(0, "a rule needs a tool name", "`Bash(git *)` or `Read`".to_owned()));
        }
        if text.len() > MAX_LEN {
            return Err(fail(MAX_LEN, "the rule is too long", format!("at most {MAX_LEN} bytes")));
        }
        let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let inner: String = text.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).to_owned();
            let nearest = if inner.is_empty() {
                "`Bash(git *)` or `Read`".to_owned()
            } else {
                format!("`Bash({})`", text.trim_matches(|c| matches!(c, '(' | ')')))
            };
            return Err(fail(0, "a rule starts with a tool name", nearest));
        }
        let mcp = name.to_ascii_lowercase().starts_with("mcp__");
        if name.contains('*') && !mcp {
            let at = name.find('*').unwrap_or_default();
            return Err(fail(
                at,
                "only names of MCP tools may hold `*`",
                format!("`{}`", name.replace('*', "")),
            ));
        }
        let tool = plain(name);
        if rest.is_empty() {
            return Ok(Self { text: text.to_owned(), tool, spec: None });
        }
        if !rest.starts_with('(') {
            let nearest =
                format!("`{name}({})`", rest.trim().trim_matches(|c| matches!(c, '(' | ')' | ':')).trim());
            return Err(fail(end, "after the tool name comes `(` or nothing", nearest));
        }
        let Some(inner) = rest.strip_prefix('(').and_then(|r| r.strip_suffix(')')) else {
            return Err(match rest.rfind(')') {
                Some(close) => fail(
                    end + close + 1,
                    "text after the closing `)`",
                    format!("`{name}{}`", &rest[..=close]),
                ),
                None => fail(text.len(), "the closing `)` is missing", format!("`{text})`")),
            });
        };
        if is_several(text) {
            let all: Vec<String> = split_rules(text).iter().map(|rule| format!("`{rule}`")).collect();
            return Err(fail(
                0,
                "this is more than one rule",
                format!("each as a text of its own: {}", all.join(", ")),
            ));
        }
        if inner.trim().is_empty() {
            return Err(fail(
                end + 1,
                "nothing between the parentheses",
                format!("`{name}` for every use of the tool"),
            ));
        }
        if mcp {
            return Err(fail(end, "rules for MCP tools take no parentheses", format!("`{name}`")));
        }
        let spec = match tool.as_str() {
            "bash" | "shell" => Spec::Command(CommandPattern::parse(inner.trim())),
            tool if FILE_TOOLS.contains(&tool) => {
                if let Some(path) = unquoted(inner) {
                    return Err(fail(
                        end + 1,
                        "the quotes would be a part of the path",
                        format!("`{name}({path})`"),
                    ));
                }
                check_glob(inner)
                    .map_err(|message| fail(end + 1, &message, format!("`{name}(./src/**)`")))?;
                Spec::Path(inner.trim().to_owned())
            }
            _ => Spec::Name(inner.trim().to_ascii_lowercase()),
        };
        Ok(Self { text: text.to_owned(), tool, spec: Some(spec) })
    }

    /// True if the rule names a tool that rules are usually written for, a file tool of another agent, or a server's tool.
    fn is_of_known_tool(&self) -> bool {
        let tool = self.tool.as_str();
        KNOWN.iter().any(|known| known.eq_ignore_ascii_case(tool))
            || FILE_TOOLS.contains(&tool)
            || ELSEWHERE.contains(&tool)
            || matches!(tool, "shell")
            || tool.starts_with("mcp__")
    }

    /// A warning about a rule that can never match: no tool has its name, or all of its text is in quotes. `tools` returns the existing names.
    pub(crate) fn complaint(&self, tools: &dyn Fn() -> Vec<String>) -> Option<String> {
        let quoted = match &self.spec {
            Some(Spec::Command(_) | Spec::Name(_)) => {
                let inner = self.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
                inner.and_then(unquoted)
            }
            Some(Spec::Path(_)) | None => None,
        };
        if let Some(inner) = quoted {
            let name = self.text.split('(').next().unwrap_or_default();
            return Some(format!(
                "the rule {self} matches only a text with these quotes around all of it; did you mean {name}({inner})?"
            ));
        }
        if self.is_of_known_tool() {
            return None;
        }
        let tools = tools();
        if tools.iter().any(|tool| self.covers_tool(tool)) {
            return None;
        }
        let far = |name: &str| edit_distance(&plain(name), &self.tool);
        let names = KNOWN.iter().copied().chain(tools.iter().map(String::as_str));
        let nearest = names.min_by_key(|name| far(name)).filter(|name| far(name) * 2 <= self.tool.len());
        Some(match nearest {
            Some(meant) => format!("the rule {self} names no known tool; did you mean {meant}?"),
            None => {
                format!("the rule {self} names no known tool and does nothing; tools: {}", tools.join(", "))
            }
        })
    }

    /// The tool's name in the form in which names are compared: lower case, without `_` unless it is an MCP tool's.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// True if the rule is for every call of its tool: no specifier, or one that matches everything.
    pub fn is_bare(&self) -> bool {
        match &self.spec {
            None => true,
            Some(Spec::Command(pattern)) => pattern.is_everything(),
            Some(Spec::Path(path)) => matches!(path.as_str(), "**" | "*"),
            Some(Spec::Name(name)) => name == "*",
        }
    }

    /// True if the rule applies to this tool. `Edit` covers every tool that changes files; `Read` with a path also covers search
    /// tools.
    pub fn covers_tool(&self, tool: &str) -> bool {
        let tool = plain(tool);
        if self.tool.starts_with("mcp__") {
            let server = !self.tool.contains('*') && self.tool.matches("__").count() == 1;
            return wild(&self.tool, &tool) || (server && tool.starts_with(&format!("{}__", self.tool)));
        }
        self.tool == tool
            || (matches!(self.tool.as_str(), "bash" | "shell") && matches!(tool.as_str(), "bash" | "shell"))
            || (matches!(self.tool.as_str(), "agent" | "task") && matches!(tool.as_str(), "agent" | "task"))
            || (self.tool == "edit" && EDIT_TOOLS.contains(&tool.as_str()))
            || (self.tool == "read" && self.spec.is_some() && READ_TOOLS.contains(&tool.as_str()))
    }

    pub(crate) fn command(&self) -> Option<&CommandPattern> {
        match &self.spec {
            Some(Spec::Command(pattern)) => Some(pattern),
            _ => None,
        }
    }

    pub(crate) fn is_path_rule(&self) -> bool {
        matches!(self.spec, Some(Spec::Path(_)))
    }

    pub(crate) fn matches_name(&self, subject: Option<&str>) -> bool {
        match (&self.spec, subject) {
            (Some(Spec::Name(pattern)), Some(subject)) => {
                let subject = subject.to_ascii_lowercase();
                wild(pattern, &subject)
                    || pattern
                        .strip_suffix(" *")
                        .or_else(|| pattern.strip_suffix(":*"))
                        .is_some_and(|p| p == subject)
            }
            _ => false,
        }
    }

    /// True if the rule itself spells out `word`, so that its author must have meant it.
    pub(crate) fn says(&self, word: &str) -> bool {
        match &self.spec {
            Some(Spec::Command(pattern)) => pattern.says(word),
            Some(Spec::Path(path)) => path.split('/').any(|part| {
                let letters = part.chars().filter(|c| c.is_alphanumeric()).count();
                letters >= 2 && wild(&part.to_lowercase(), &word.to_lowercase())
            }),
            _ => false,
        }
    }
}

/// Normalizes a tool's name for comparison: `WebFetch` and `web_fetch` become the same, and so do `TodoWrite` and `todo`.
/// Names of MCP tools stay unchanged.
fn plain(name: &str) -> String {
    let lower = becket_types::sdk_names::own_name(name).to_ascii_lowercase();
    if lower.starts_with("mcp__") { lower } else { lower.replace('_', "") }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '.')
}

fn check_glob(pattern: &str) -> Result<(), String> {
    let wildcards = pattern.chars().filter(|c| matches!(c, '*' | '?' | '[' | '{' | ',')).count();
    if pattern.len() > MAX_GLOB_LEN || wildcards > MAX_WILDCARDS {
        return Err(format!("a path pattern has at most {MAX_GLOB_LEN} bytes and {MAX_WILDCARDS} wildcards"));
    }
    let mut nested = 0_i32;
    for c in pattern.chars() {
        nested += i32::from(c == '{') - i32::from(c == '}');
        if nested > 2 {
            return Err("alternatives are nested too deeply".to_owned());
        }
    }
    Glob::new(pattern).map(|_| ()).map_err(|e| format!("not a path pattern ({})", e.kind()))
}

/// A command pattern: text in which `*` matches anything and `\*` is a star. ` *` or `:*` at the end also matches the command
/// without arguments, but never the rest of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    tokens: Vec<Token>,
    /// True if the pattern ends in ` *`, so that the arguments may be missing.
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    Any,
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Self {
        let (text, open) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(prefix) if !prefix.ends_with('\\') => (prefix.trim_end(), true),
            _ => (text, false),
        };
        let mut tokens = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if matches!(chars.peek(), Some('*' | '\\')) => {
                    tokens.extend(chars.next().map(Token::Char));
                }
                '*' => tokens.push(Token::Any),
                c => tokens.push(Token::Char(c)),
            }
        }
        Self { tokens, open }
    }

    fn is_everything(&self) -> bool {
        self.tokens.iter().all(|t| *t == Token::Any)
    }

    /// True if the pattern has no wildcard, so that it matches exactly one command.
    pub(crate) fn is_exact(&self) -> bool {
        !self.open && !self.tokens.contains(&Token::Any)
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        if !self.open {
            return matches_all(&self.tokens, &text);
        }
        let mut with_arguments = self.tokens.clone();
        with_arguments.extend([Token::Char(' '), Token::Any]);
        matches_all(&self.tokens, &text) || matches_all(&with_arguments, &text)
    }

    fn literal(&self) -> String {
        self.tokens.iter().map(|t| if let Token::Char(c) = t { *c } else { '\u{1}' }).collect()
    }

    pub(crate) fn says(&self, word: &str) -> bool {
        let literal = self.literal();
        literal
            .split_whitespace()
            .any(|w| w.trim_end_matches('\u{1}') == word || w.ends_with(&format!("/{word}")))
            || (self.is_exact() && literal.contains(word))
    }

    /// The words before the first wildcard, without a word that the wildcard continues.
    pub(crate) fn literal_words(&self) -> Vec<String> {
        let end = self.tokens.iter().position(|token| *token == Token::Any);
        let cut = &self.tokens[..end.unwrap_or(self.tokens.len())];
        let text: String =
            cut.iter().filter_map(|t| if let Token::Char(c) = t { Some(*c) } else { None }).collect();
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if end.is_some() && !text.ends_with(' ') {
            words.pop();
        }
        words
    }

    /// The first word of the pattern.
    pub(crate) fn first_word(&self) -> String {
        self.literal().split_whitespace().next().unwrap_or_default().trim_end_matches('\u{1}').to_owned()
    }
}

fn matches_all(pattern: &[Token], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(Token::Any) => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(Token::Char(c)) if *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    (p, t) = (after, from + 1);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|token| *token == Token::Any)
}

/// Writes `command` as a rule that matches it and nothing else.
pub(crate) fn exact_rule(command: &str) -> String {
    let text = command.trim().replace('\\', "\\\\").replace('*', "\\*");
    format!("Bash({text})")
}

/// The compiled patterns of a path rule, with `~` and relative paths resolved.
#[derive(Clone, Debug)]
pub(crate) struct PathMatcher {
    globs: Vec<GlobMatcher>,
    /// The paths that the rule names without a pattern.
    named: Vec<PathBuf>,
    /// The folders below which the other paths can be.
    starts: Vec<PatternStart>,
}

/// A folder below which a pattern names paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternStart {
    pub folder: PathBuf,
    /// Number of levels below the folder at which the paths can be; `None` if at any.
    pub levels: Option<usize>,
}

impl PathMatcher {
    /// Compiles the path patterns of `rule`. With `wide` (for deny and ask rules), case is ignored, and a pattern without a slash
    /// matches in every folder.
    pub(crate) fn new(rule: &Rule, cwd: &Path, home: &Path, wide: bool) -> Self {
        let Some(Spec::Path(text)) = &rule.spec else { return Self::none() };
        let mut places: Vec<String> = Vec::new();
        let below = |base: &Path, rest: &str| format!("{}/{rest}", escape(base).trim_end_matches('/'));
        let body = text.trim_end_matches('/');
        if body == "~" {
            places.push(escape(home));
        } else if let Some(rest) = body.strip_prefix("~/") {
            places.push(below(home, rest));
        } else if let Some(rest) = body.strip_prefix("//") {
            places.push(format!("/{rest}"));
        } else if body.starts_with('/') || body.is_empty() {
            places.push(if body.is_empty() { "/".to_owned() } else { body.to_owned() });
            places.push(below(cwd, body.trim_start_matches('/')));
        } else if let Some(rest) = body.strip_prefix("./") {
            places.push(below(cwd, rest));
        } else if body == "." {
            places.push(escape(cwd));
        } else if !body.contains('/') || body.starts_with("**/") {
            let rest = body.trim_start_matches("**/");
            places.push(if wide { format!("/**/{rest}") } else { below(cwd, &format!("**/{rest}")) });
        } else {
            places.push(below(cwd, body));
        }
        let Self { mut named, mut starts, .. } = Self::none();
        let mut globs = Vec::new();
        for place in places {
            let place = lexical(Path::new(&place)).to_string_lossy().into_owned();
            let own = place.strip_suffix("/**").unwrap_or(&place).to_owned();
            globs.push(format!("{}/**", own.trim_end_matches('/')));
            match own.find(['*', '?', '[', '{', '\\']) {
                None => named.push(PathBuf::from(&own)),
                Some(at) => {
                    let folder = own[..at].rsplit_once('/').map_or("", |(folder, _)| folder);
                    let pattern = own[folder.len()..].trim_start_matches('/');
                    // A list in braces may contain a slash.
                    let is_plain = !pattern.contains("**") && !pattern.contains('{');
                    let levels = is_plain.then(|| pattern.split('/').count());
                    let folder = PathBuf::from(if folder.is_empty() { "/" } else { folder });
                    starts.push(PatternStart { folder, levels });
                }
            }
            globs.push(own);
        }
        let compiled = globs
            .iter()
            .filter_map(|g| GlobBuilder::new(g).literal_separator(true).case_insensitive(wide).build().ok());
        Self { globs: compiled.map(|g| g.compile_matcher()).collect(), named, starts }
    }

    fn none() -> Self {
        Self { globs: Vec::new(), named: Vec::new(), starts: Vec::new() }
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.globs.iter().any(|glob| glob.is_match(path))
    }

    /// True if the rule may name files below this folder.
    pub(crate) fn reaches_below(&self, folder: &Path) -> bool {
        let meets =
            |start: &PatternStart| start.folder.starts_with(folder) || folder.starts_with(&start.folder);
        self.named.iter().any(|path| path.starts_with(folder)) || self.starts.iter().any(meets)
    }

    pub(crate) fn named(&self) -> &[PathBuf] {
        &self.named
    }

    pub(crate) fn starts(&self) -> &[PatternStart] {
        &self.starts
    }
}

fn escape(path: &Path) -> String {
    globset::escape(&path.to_string_lossy())
}

/// The permission rules of one origin, by kind. A matching deny rule beats an ask rule, and that beats an allow rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
}

impl Rules {
    /// Returns the rules of one kind.
    pub fn of_kind(&self, kind: RuleKind) -> &[Rule] {
        match kind {
            RuleKind::Allow => &self.allow,
            RuleKind::Ask => &self.ask,
            RuleKind::Deny => &self.deny,
        }
    }

    pub(crate) fn list(&mut self, kind: RuleKind) -> &mut Vec<Rule> {
        match kind {
            RuleKind::Allow => &mut self.allow,
            RuleKind::Ask => &mut self.ask,
            RuleKind::Deny => &mut self.deny,
        }
    }

    /// Parses three lists of rules.
    ///
    /// # Errors
    ///
    /// Returns all malformed rules. The caller decides whether to continue.
    pub fn parse<S: AsRef<str>>(allow: &[S], ask: &[S], deny: &[S]) -> Result<Self, Vec<RuleError>> {
        let mut errors = Vec::new();
        let mut list = |texts: &[S]| -> Vec<Rule> {
            texts
                .iter()
                .filter_map(|text| Rule::parse(text.as_ref()).map_err(|e| errors.push(e)).ok())
                .collect()
        };
        let rules = Self { allow: list(allow), ask: list(ask), deny: list(deny) };
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }
}
