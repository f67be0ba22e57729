//! Judges a shell command: each simple command, each launcher around it, each redirection, and each part that cannot be read.
//!
//! A command runs without a question only if every part of it may. A deny rule that matches any part, at any depth,
//! denies the whole. The files that a command names are judged in `files`.

mod files;
mod shown;
mod unseen;

use crate::findings::{Ask, Findings, PartNotes};
use crate::path::{inside, is_sink};
use crate::rule::{CommandPattern, Rule, exact_rule};
use crate::secret::secret;
use crate::shell::escape::escape;
use crate::shell::{readonly, wrappers};
use crate::wording::{program, raw, suggestion, variants};
use crate::{Guard, RuleKind, Verdict};
use becket_shell_syntax::{
    Dirs, Known, Redirect, Script, Simple, Unwrapped, Word, base_name, is_launcher, read, unwrap,
};
use becket_types::edit_distance;
use shown::{Hidden, traces};
use unseen::{Values, rearranges};

const MAX_NESTING: usize = 6;

pub(crate) struct Judge<'a> {
    guard: &'a Guard,
    pub found: Findings,
    depth: usize,
    /// The text of the judged script.
    source: String,
    /// True if a redirection of the script reads a file, so that any of its commands may get its standard input from there.
    reads_file: bool,
    /// The command, as written, that may change where paths lead before or while the part under judgement runs.
    moved: Option<String>,
    /// Variables that the scripts judged so far set, and that may hold a secret of the environment.
    hidden: Hidden,
    /// The name of a secret environment variable in the judged script. `set -x` would print its value.
    traced: Option<String>,
    /// The values that the judged script gives its variables.
    values: Values,
    /// Findings about the part under judgement; `None` if parts are not recorded one by one.
    now: Option<PartNotes>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(guard: &'a Guard) -> Self {
        Self {
            guard,
            found: Findings { read_only: true, ..Findings::default() },
            depth: 0,
            source: String::new(),
            reads_file: false,
            moved: None,
            hidden: Hidden::default(),
            traced: None,
            values: Values::default(),
            now: None,
        }
    }

    /// Also records the findings about each part.
    fn recording(mut self) -> Self {
        self.now = Some(PartNotes::default());
        self
    }

    /// Judges one part with `judge` and records the findings about it. `text` makes the text of the part.
    fn part(&mut self, text: impl FnOnce() -> String, judge: impl FnOnce(&mut Self)) {
        if self.now.is_none() {
            return judge(self);
        }
        let recorded = self.found.parts.len();
        let reasons = self.found.why.len();
        self.now = Some(PartNotes::default());
        judge(self);
        let Some(notes) = self.now.replace(PartNotes::default()) else { return };
        // A part that only contains other parts needs no entry of its own.
        if self.found.parts.len() == recorded || !notes.is_empty() {
            let why = self.found.why.get(reasons..).unwrap_or_default();
            self.found.parts.push(notes.into_part(text(), why));
        }
    }

    fn ask(&mut self, reason: impl Into<String>, rule: Option<String>) {
        self.push(Ask { reason: reason.into(), rule, ..Ask::default() });
    }

    /// Asks about a part that touches a secret, a place outside the workspace, or a file that other programs obey.
    fn ask_place(&mut self, reason: impl Into<String>, rule: Option<String>) {
        self.push(Ask { reason: reason.into(), rule, place: true, ..Ask::default() });
    }

    /// Asks about a part that cannot be read with certainty.
    fn doubt(&mut self, reason: impl Into<String>) {
        self.found.uncertain = true;
        self.push(Ask { reason: reason.into(), doubt: true, ..Ask::default() });
    }

    fn push(&mut self, ask: Ask) {
        self.found.read_only = false;
        if let Some(now) = &mut self.now {
            now.asks.push(ask.reason.clone());
        }
        if self.found.asks.len() < 16 && !self.found.asks.contains(&ask) {
            self.found.asks.push(ask);
        }
    }

    pub(crate) fn script(&mut self, source: &str, dirs: Dirs) {
        if self.depth > MAX_NESTING {
            return self.doubt("it is nested too deeply to be judged");
        }
        self.whole(source);
        source.clone_into(&mut self.source);
        let script = read(source, dirs, &self.paths());
        // A script inside another one may get other values from it.
        let values = if self.depth == 0 { Values::of(&script, source) } else { Values::default() };
        let values_outside = std::mem::replace(&mut self.values, values);
        let Script { mut commands, redirects, given, doubts, unordered, .. } = script;
        self.hidden.add(&given);
        for command in &mut commands {
            self.hidden.mark(&mut command.words);
        }
        let secret = self.hidden.secret_in(source);
        let traced_outside = std::mem::replace(&mut self.traced, secret);
        if let Some(doubt) = doubts.first() {
            self.unseen(|| doubt.clone(), &["read", "edit"], true);
            self.part(
                || source.trim().to_owned(),
                |judge| {
                    judge.scan_text(source);
                    for doubt in doubts {
                        judge.doubt(doubt);
                    }
                },
            );
        }
        self.reads_file = redirects.iter().any(|redirect| !redirect.write);
        let moves = commands.iter().find(|command| rearranges(&command.words)).filter(|_| commands.len() > 1);
        let before = self.moved.clone();
        if let Some(command) = moves {
            // Redirections, pipes and loops may run before or after this command.
            self.moved = Some(raw(&command.words));
        }
        for redirect in redirects {
            self.part(|| redirection(&redirect), |judge| judge.redirect(&redirect));
        }
        if !unordered {
            self.moved = before;
        }
        for command in commands {
            self.part(|| raw(&command.words), |judge| judge.simple(&command));
            if rearranges(&command.words) {
                self.moved = Some(raw(&command.words));
            }
        }
        (self.traced, self.values) = (traced_outside, values_outside);
    }

    /// Returns the reason why a command that only reads would print a secret of the environment.
    fn shows(&self, words: &[Word], command: &Simple) -> Option<String> {
        let traced = self.traced.as_ref().filter(|_| traces(words));
        let given = || command.input.as_ref().and_then(|text| self.hidden.secret_in(text));
        let name = traced.cloned().or_else(given)?;
        Some(format!("it may show {name}, a secret of the environment"))
    }

    /// Asks if an earlier command, or one that runs at the same time, may change where the paths of this part lead.
    fn uses_path(&mut self) {
        if let Some(moved) = &self.moved {
            let moved = becket_types::cut_end(moved, 80);
            let reason =
                format!("a part uses paths that `{moved}` may change before; run them one after the other");
            self.ask(reason, None);
        }
    }

    /// Applies deny rules whose pattern matches the whole text.
    fn whole(&mut self, source: &str) {
        let text = source.trim();
        for rule in self.guard.rules(RuleKind::Deny) {
            if rule.command().is_some_and(|p| p.matches(text)) {
                self.deny(text, rule);
            }
        }
    }

    fn deny(&mut self, what: &str, rule: &Rule) {
        if let Some(now) = &mut self.now {
            now.denied.get_or_insert_with(|| rule.to_string());
        }
        if self.found.deny.is_none() {
            let what = becket_types::cut_end(what, 120);
            self.found.deny = Some((format!("`{what}` is denied by the rule {rule}"), rule.to_string()));
        }
    }

    fn asked_by(&mut self, reason: String, rule: &Rule) {
        if let Some(now) = &mut self.now {
            now.asked_by.get_or_insert_with(|| (reason.clone(), rule.to_string()));
        }
        self.found.ask_rule.get_or_insert_with(|| (reason, rule.to_string()));
    }

    /// Tries deny rules on every piece of the text that looks like a command, because the parsed tree cannot be trusted.
    fn scan_text(&mut self, source: &str) {
        for piece in source.split([';', '|', '&', '\n', '(', ')', '`', '{', '}', '\r', '"', '\'']) {
            let words: Vec<&str> = piece.split_whitespace().take(200).collect();
            for from in 0..words.len().min(8) {
                let text = words[from..].join(" ");
                for rule in self.guard.rules(RuleKind::Deny) {
                    if rule.command().is_some_and(|p| !p.first_word().is_empty() && p.matches(&text)) {
                        self.deny(&text, rule);
                    }
                }
            }
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let target = &redirect.target;
        if target.known == Known::Pipe {
            return;
        }
        if !target.is_literal() {
            let tool = if redirect.write { "edit" } else { "read" };
            self.apply_path_rules(target, redirect.dirs.as_deref(), &[tool], &[]);
            return self
                .doubt(format!("the file of a redirection ({}) is not known before it runs", target.raw));
        }
        let Some(paths) = self.places(&target.text, redirect.dirs.as_deref()) else {
            self.unseen(|| format!("the folder of {} is not known", target.raw), &["read", "edit"], true);
            return self.doubt(format!("the folder of the redirection to {} is not known", target.raw));
        };
        for path in paths {
            if is_sink(&path) {
                continue;
            }
            self.uses_path();
            let tool = if redirect.write { "edit" } else { "read" };
            if let Some(rule) = self.guard.path_rule(RuleKind::Ask, tool, &path) {
                self.asked_by(format!("the rule {rule} asks about {}", path.display()), rule);
            }
            if let Some(now) = &mut self.now {
                now.covered = self.guard.path_rule(RuleKind::Allow, tool, &path).map(ToString::to_string);
            }
            let (verdict, bare) = if redirect.write {
                self.found.read_only = false;
                (self.guard.write_path("edit", &path), self.guard.allows_all_commands())
            } else {
                (self.guard.read_path("read", &path), self.guard.allows_all_commands())
            };
            match verdict {
                Verdict::Deny { reason, rule, .. } => {
                    if let Some(now) = &mut self.now {
                        now.denied.clone_from(&rule);
                    }
                    self.found.deny.get_or_insert((reason, rule.unwrap_or_default()));
                }
                Verdict::Ask { reason, rule } => {
                    let sensitive = secret(&path).is_some() || self.guard.obeyed_later(&path).is_some();
                    let place = sensitive || !inside(&path, &self.guard.settings.roots);
                    if !bare || sensitive {
                        let reason = format!("the redirection: {reason}");
                        self.push(Ask { reason, rule, place, ..Ask::default() });
                    }
                }
                Verdict::Allow { why } => self.found.why.push(why),
            }
        }
    }

    fn simple(&mut self, command: &Simple) {
        let mut words = command.words.clone();
        let prefix = command.assigns.join(" ");
        let mut covered: Option<Rule> = None;
        for _ in 0..=MAX_NESTING {
            let texts = variants(&words, &prefix);
            self.match_rules(&words, &texts, command);
            self.deny_paths(&words, command);
            let Some(name) = words.first() else { return };
            if !name.is_literal() || name.text.is_empty() {
                return self
                    .doubt(format!("the name of a command ({}) is not known before it runs", name.raw));
            }
            if matches!(
                name.text.as_str(),
                "test" | "[" | "printf" | "let" | "read" | "unset" | "mapfile" | "wait"
            ) {
                // These commands evaluate subscripts in their arguments.
                for word in words[1..].iter().filter(|w| w.text.contains("$(") || w.text.contains('`')) {
                    self.scan_text(&word.text);
                }
            }
            if covered.is_none() {
                covered = self.allowed_by(&words, &texts, command);
                if let Some(now) = &mut self.now {
                    now.covered = covered.as_ref().map(ToString::to_string);
                }
            }
            match unwrap(&words) {
                Unwrapped::Plain => return self.plain(&words, command, covered),
                Unwrapped::Command(inner) => words = inner,
                Unwrapped::Script(text) => {
                    if covered.is_some() {
                        // The rule allows the outer command. Deny and ask rules still apply to the commands inside.
                        let mut inner = Judge::new(self.guard);
                        inner.depth = self.depth + 1;
                        inner.script(&text, command.dirs.clone());
                        self.found.deny = self.found.deny.take().or(inner.found.deny);
                        self.found.ask_rule = self.found.ask_rule.take().or(inner.found.ask_rule);
                        self.found.uncertain |= inner.found.uncertain;
                        if let Some(unseen) = inner.found.unseen {
                            unseen.join(&mut self.found.unseen);
                        }
                        self.found.read_only = false;
                    } else {
                        if let Some(name) = self.hidden.secret_in(&text).filter(|_| traces(&words)) {
                            let reason =
                                format!("`{}` may show {name}, a secret of the environment", raw(&words));
                            self.ask(reason, Some(exact_rule(&raw(&words))));
                        }
                        self.depth += 1;
                        self.script(&text, command.dirs.clone());
                        self.depth -= 1;
                    }
                    return;
                }
                Unwrapped::Opaque(why) => return self.opaque(&words, why, covered),
            }
        }
        self.doubt("it is nested too deeply to be judged");
    }

    fn opaque(&mut self, words: &[Word], why: &str, covered: Option<Rule>) {
        self.found.read_only = false;
        self.found.uncertain = true;
        let name = base_name(&words[0].text).to_owned();
        let rights = matches!(name.as_str(), "sudo" | "doas" | "su" | "pkexec" | "runuser");
        match covered {
            // A rule for all commands does not ensure that no denied one runs inside.
            Some(rule) if rule.is_bare() && self.guard.has_command_rules() => {
                self.doubt(format!("`{name}` {why}, and the deny and ask rules cannot be checked on that"));
            }
            Some(rule) if !rights || rule.says(&name) => self.found.why.push(format!("allowed by {rule}")),
            _ => self.ask(format!("`{name}` {why}"), Some(exact_rule(&raw(words)))),
        }
    }

    /// Applies deny and ask rules to one form of the command. For a launcher also to the words from each argument on.
    fn match_rules(&mut self, words: &[Word], texts: &[String], command: &Simple) {
        let mut tried: Vec<String> = texts.to_vec();
        let runs_operands = is_launcher(words) || wrappers::runs_operands(words);
        if runs_operands {
            for from in 1..words.len().min(64) {
                tried.extend(variants(&words[from..], ""));
                let forms =
                    wrappers::plain_git(&words[from..]).into_iter().chain(wrappers::same_git(&words[from..]));
                tried.extend(forms.flat_map(|git| variants(&git, "")));
            }
        }
        let git = wrappers::plain_git(words);
        tried.extend(git.iter().flat_map(|git| variants(git, "")));
        tried.extend(wrappers::same_git(words).iter().flat_map(|git| variants(git, "")));
        for rule in self.guard.rules(RuleKind::Deny) {
            if let Some(text) = tried.iter().find(|t| rule.command().is_some_and(|p| p.matches(t))) {
                let text = text.clone();
                self.deny(&text, rule);
            }
        }
        if self.found.deny.is_none() {
            self.doubt_ruled(words, git.as_deref().unwrap_or(words), command);
        }
        for rule in self.guard.rules(RuleKind::Ask) {
            if let Some(text) = tried.iter().find(|t| rule.command().is_some_and(|p| p.matches(t))) {
                let reason = format!("the rule {rule} asks about `{}`", becket_types::cut_end(text, 120));
                self.asked_by(reason, rule);
            }
        }
    }

    /// Asks as a doubt if the command may be what a deny or ask rule names, or may start a program that a deny rule names. `plain`:
    /// the words as rules know them.
    fn doubt_ruled(&mut self, words: &[Word], plain: &[Word], command: &Simple) {
        let source = std::mem::take(&mut self.source);
        let guard = self.guard;
        // A program may run what it reads: the text given to it, or what another command prints.
        let input = command.input.as_deref().or_else(|| command.piped.then_some(source.as_str()));
        let denied = guard.rules(RuleKind::Deny).find(|rule| {
            rule.command().is_some_and(|pattern| {
                let named = pattern.literal_words();
                wrappers::may_run(words, &source, input, &named)
                    || !named.is_empty() && wrappers::starts_unknown(words)
            })
        });
        self.source = source;
        let may_be = |rule: &&Rule| {
            rule.command().is_some_and(|pattern| wrappers::may_be(plain, &pattern.literal_words()))
        };
        let asked = || guard.rules(RuleKind::Ask).chain(guard.rules(RuleKind::Deny)).find(may_be);
        if let Some(rule) = denied.or_else(asked) {
            let text = raw(words);
            let shown = becket_types::cut_end(&text, 120);
            self.doubt(format!("`{shown}` may run what the rule {rule} is about"));
        }
    }

    /// Applies deny and ask rules for files to every word that may be a file.
    fn deny_paths(&mut self, words: &[Word], command: &Simple) {
        if !self.guard.has_path_rules() {
            return;
        }
        self.unseen_program(words, command);
        let reads = readonly::check(words).is_ok();
        let tools = if reads { &["read"][..] } else { &["read", "edit"][..] };
        for word in words.iter().skip(1) {
            self.apply_path_rules(word, command.dirs.as_deref(), tools, words);
        }
    }

    /// The allow rule that covers this form. No wildcard matches a word with which the program runs or destroys something else.
    fn allowed_by(&self, words: &[Word], texts: &[String], command: &Simple) -> Option<Rule> {
        let escape = self.beyond_wildcards(words, command);
        // The first two texts are as written. The others leave out folders and quotes, which is only safe for deny rules.
        self.guard
            .rules(RuleKind::Allow)
            .find(|rule| {
                let matched = rule.covers_tool("bash")
                    && (rule.is_bare()
                        || rule.command().is_some_and(|p| texts.iter().take(2).any(|t| p.matches(t))));
                matched && (rule.is_bare() || escape.as_ref().is_none_or(|option| rule.says(option)))
            })
            .cloned()
    }

    fn plain(&mut self, words: &[Word], command: &Simple, covered: Option<Rule>) {
        let free = self.free(words, command.dirs.as_deref());
        let free = free.and_then(|paths| self.shows(words, command).map_or(Ok(paths), Err));
        let git = base_name(&words[0].text) == "git";
        // A rule for git allows git to obey the repository's configuration. A git command that only reads does not need that.
        if let Ok(paths) = free
            && !(git && covered.is_some())
        {
            if paths {
                self.uses_path();
            }
            self.found.free_git |= git;
            if covered.is_some() {
                self.found.coverage.reading = true;
            } else {
                self.found.coverage.gap = true;
                self.found.kind_rule.get_or_insert_with(|| kind_rule(words));
            }
            self.found.why.push(format!("`{}` only reads in the workspace", words[0].text));
            return;
        }
        self.found.read_only &= free.is_ok();
        if let Some(rule) = covered {
            self.found.coverage.by_rule = true;
            self.found.coverage.reading_git |= git && free.is_ok();
            return match self.sensitive(words, command.dirs.as_deref(), Some(&rule)) {
                Some(reason) => self.ask_place(reason, Some(exact_rule(&raw(words)))),
                None => self.found.why.push(format!("allowed by {rule}")),
            };
        }
        if self.guard.edits_freely() && self.edits_files(words, command.dirs.as_deref()) {
            self.uses_path();
            return self.found.why.push(format!("`{}` changes files of the workspace only", words[0].text));
        }
        let text = raw(words);
        let shown = becket_types::cut_end(&text, 120);
        let outside = self.outside_of_runner(words, command.dirs.as_deref());
        let is_outside = outside.is_some();
        let word = escape(words).or(outside).or_else(|| self.by_input(words, command));
        let free = free.and(self.brought_repository(words, command.dirs.as_deref()).map_or(Ok(()), Err));
        let mut unruled = word.is_none().then(|| program(words));
        let mut reason = match (free, word) {
            (_, Some(option)) => {
                format!("`{shown}` holds `{option}`, which can run or destroy something else")
            }
            (Err(why), None) => format!("no rule allows `{shown}` ({why})"),
            (Ok(()), None) => format!("no rule allows `{shown}`"),
        };
        if let Some(rule) = self.nearest(&words[0].text) {
            reason = format!("{reason}; nearest rule: {rule}");
        }
        let dirs = command.dirs.as_deref();
        let delicate = self.sensitive(words, dirs, None);
        let rule = Some(if delicate.is_some() || is_outside { exact_rule(&text) } else { suggestion(words) });
        let place =
            delicate.or_else(|| self.names_outside(words, dirs).map(|why| format!("`{shown}`: {why}")));
        let is_place = place.is_some();
        if let Some(why) = place.filter(|_| self.guard.confines_freely()) {
            // Without the place, the sandbox would let the command run without a question.
            (reason, unruled) = (why, None);
        }
        self.push(Ask { reason, rule, unruled, place: is_place, ..Ask::default() });
    }

    fn nearest(&self, name: &str) -> Option<&'a Rule> {
        self.guard
            .rules(RuleKind::Allow)
            .filter_map(|rule| Some((edit_distance(&rule.command()?.first_word(), name), rule)))
            .filter(|(distance, _)| *distance <= 2)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, rule)| rule)
    }

    /// The allow rule without wildcards that names the whole command. Its author saw this text, so no doubt remains.
    pub(crate) fn named_exactly(&self, source: &str) -> Option<&'a Rule> {
        let text = source.trim();
        self.guard
            .rules(RuleKind::Allow)
            .find(|rule| rule.command().is_some_and(|p: &CommandPattern| p.is_exact() && p.matches(text)))
    }
}

fn redirection(redirect: &Redirect) -> String {
    format!("{} {}", if redirect.write { ">" } else { "<" }, redirect.target.raw)
}

/// Judges a whole command.
pub(crate) fn judge(guard: &Guard, source: &str, dirs: Dirs) -> Findings {
    finish(Judge::new(guard), source, dirs)
}

/// Judges a whole command like [`judge`], and records each part.
pub(crate) fn judge_parts(guard: &Guard, source: &str, dirs: Dirs) -> Findings {
    finish(Judge::new(guard).recording(), source, dirs)
}

fn finish(mut judge: Judge<'_>, source: &str, dirs: Dirs) -> Findings {
    let guard = judge.guard;
    judge.script(source, dirs);
    let named = judge.named_exactly(source).map(ToString::to_string);
    if judge.found.free_git && judge.found.coverage.by_rule {
        let reason = "git that only reads runs without a question only where no other part is allowed by a rule; run it \
                      by itself";
        judge.ask(reason, None);
    }
    let mut found = judge.found;
    // If every part only reads, git runs in the safe environment, even in parts that a rule allows.
    if found.coverage.reading_git && found.read_only {
        (found.free_git, found.coverage.by_rule) = (true, false);
    }
    found.coverage.whole = named.is_some() || guard.allows_all_commands();
    found.named.clone_from(&named);
    if let Some(rule) = named {
        found.asks.clear();
        found.why = vec![format!("allowed by {rule}")];
    } else if guard.allows_all_commands() {
        // The tool as a whole is allowed, so parts that could not be read may run, unless there are rules for commands.
        let strict = guard.has_command_rules();
        found.asks.retain(|ask| !ask.doubt || strict);
        if found.asks.is_empty() && found.why.is_empty() {
            found.why.push("a rule allows every command".to_owned());
        }
    }
    found
}

/// A rule that allows all commands like this one: the same program, for git also the same subcommand.
fn kind_rule(words: &[Word]) -> String {
    let name = base_name(&words[0].text);
    let sub = words.iter().skip(1).find(|word| name == "git" && word.is_literal());
    match sub.filter(|sub| !sub.text.starts_with('-')) {
        Some(sub) => format!("Bash({name} {} *)", sub.text),
        None => format!("Bash({name} *)"),
    }
}

/// Longest command that is judged, in characters.
pub(crate) use becket_shell_syntax::MAX_CHARS;
