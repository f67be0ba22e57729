//! Judges the files and folders that a command names: where they are, and if they may be read or written.
//!
//! Owns the paths of words and patterns. The rules for the command's text are in [`super`]. Opens nothing: the guard's
//! caller may pass a view of files.

use super::unseen::names_no_files;
use super::{Judge, MAX_NESTING};
use crate::RuleKind;
use crate::git;
use crate::path::{inside, is_sink, protected};
use crate::rule::Rule;
use crate::secret::{pattern_meets_secret, secret};
use crate::shell::escape::{escape, git_folders, input_escape, runner_words};
use crate::shell::glob;
use crate::shell::readonly;
use crate::wording::{candidates, inner_candidates, raw};
use becket_shell_syntax::{Known, Paths, Simple, Unwrapped, Word, base_name, system_name, unwrap};
use std::path::{Path, PathBuf};

/// True for a path below `/proc/PID`, `/proc/self` or `/dev/fd`: becket would resolve it for its own process, but the command for
/// another.
fn is_of_process(path: &Path) -> bool {
    let mut parts = path.components().skip(1).map(|part| part.as_os_str().to_string_lossy().into_owned());
    let (first, second, has_more) = (parts.next(), parts.next(), parts.next());
    match (first.as_deref(), second.as_deref()) {
        (Some("proc"), Some(name)) => {
            matches!(name, "self" | "thread-self") || name.bytes().all(|b| b.is_ascii_digit())
        }
        // `/dev/fd/1` itself is an open file of the command, but `/dev/fd/../cwd` is more.
        (Some("dev"), Some("fd")) => has_more.is_some_and(|name| !name.bytes().all(|b| b.is_ascii_digit())),
        _ => false,
    }
}

impl Judge<'_> {
    pub(super) fn paths(&self) -> Paths<'_> {
        Paths { home: &self.guard.settings.home, resolve: &*self.guard.resolve }
    }

    /// The paths that `text` can name, one for each folder in which the command may run (`dirs`). `None` if that is not known.
    pub(super) fn places(&self, text: &str, dirs: Option<&[PathBuf]>) -> Option<Vec<PathBuf>> {
        let paths = self.paths();
        let root = [PathBuf::from("/")];
        // The kernel follows the link `/dev/fd` before it applies `..`, so resolving by text would give another path.
        if text.contains("/dev/fd/..") {
            return None;
        }
        if dirs.unwrap_or(&root).iter().any(|dir| is_of_process(&becket_types::lexical(&dir.join(text)))) {
            return None;
        }
        match dirs {
            Some(dirs) => Some(dirs.iter().map(|dir| paths.join(dir, text)).collect()),
            None if text.starts_with('/') || text.starts_with("~/") || text == "~" => {
                Some(vec![paths.join(Path::new("/"), text)])
            }
            None => None,
        }
    }

    /// Says how a command leaves the workspace: it runs in, or changes to, a folder that is not known to be there, or a word of
    /// it is a path outside. The system's own folders do not count as outside, because the sandbox keeps them as they are.
    pub(super) fn names_outside(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> Option<String> {
        const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc", "/nix", "/dev"];
        // In the arguments of these programs, a `/` alone is text, not the root folder.
        const OF_TEXT: &[&str] = &[
            "awk", "basename", "cut", "echo", "expr", "fold", "grep", "join", "jq", "paste", "printf", "rg",
            "sed", "sort", "split", "test", "tr", "[",
        ];
        let roots = &self.guard.settings.roots;
        let known = dirs.is_some_and(|dirs| dirs.iter().all(|dir| inside(dir, roots)));
        let name = base_name(&words[0].text);
        if matches!(name, "cd" | "pushd" | "popd") {
            return Some("it changes to a folder that may be outside the workspace".to_owned());
        }
        if !known {
            return Some("the folder in which it runs may be outside the workspace".to_owned());
        }
        let root_counts = !OF_TEXT.contains(&name);
        let outside = |path: &PathBuf| {
            !inside(path, roots) && !is_sink(path) && !SYSTEM.iter().any(|dir| path.starts_with(dir))
        };
        let known = words.iter().skip(1).filter(|word| word.known != Known::Dynamic);
        let word = known.filter(|word| !word.text.contains("://")).find(|word| {
            if word.text == "/" {
                return root_counts;
            }
            let texts = candidates(&word.text);
            let mut paths = texts.iter().filter(|text| {
                text.starts_with('/') && text.len() > 1
                    || text.starts_with('~')
                    || text.split('/').any(|part| part == "..")
            });
            paths.any(|text| self.places(text, dirs).is_none_or(|places| places.iter().any(outside)))
        });
        word.map(|word| format!("{} is outside the workspace", word.raw))
    }

    /// True if `git -C` leads out of the workspace, to a repository whose configuration git would obey.
    pub(super) fn leaves(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> bool {
        let mut dirs = dirs.map(<[PathBuf]>::to_vec);
        for folder in git_folders(words) {
            dirs = if folder.is_literal() { self.places(&folder.text, dirs.as_deref()) } else { None };
            if !dirs.as_ref().is_some_and(|dirs| dirs.iter().all(|d| inside(d, &self.guard.settings.roots))) {
                return true;
            }
        }
        false
    }

    /// The word that no wildcard of a rule covers. It belongs to the command or, after a launcher such as `env`, to the command
    /// that the launcher starts.
    pub(super) fn beyond_wildcards(&self, words: &[Word], command: &Simple) -> Option<String> {
        let dirs = command.dirs.as_deref();
        let mut words = words.to_vec();
        for _ in 0..=MAX_NESTING {
            let found = escape(&words)
                .or_else(|| self.leaves(&words, dirs).then(|| "-C".to_owned()))
                .or_else(|| self.outside_of_runner(&words, dirs))
                .or_else(|| self.by_input(&words, command))
                .or_else(|| self.brought_repository(&words, dirs));
            if found.is_some() {
                return found;
            }
            let Unwrapped::Command(inner) = unwrap(&words) else { return None };
            words = inner;
        }
        None
    }

    /// The standard input, if the command would run something else because of it.
    pub(super) fn by_input(&self, words: &[Word], command: &Simple) -> Option<String> {
        input_escape(words, command.input.as_deref(), command.piped || self.reads_file)
    }

    /// The word by which a test runner or build tool gets a file or folder outside of the workspace: it would run code from
    /// there, or write there.
    pub(super) fn outside_of_runner(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> Option<String> {
        let roots = &self.guard.settings.roots;
        let is_fine = |path: &PathBuf| {
            inside(path, roots) || is_sink(path) || path.starts_with("/tmp") && path != Path::new("/tmp")
        };
        let leads_out = |text: &&str| {
            let looks_like_a_path = text.starts_with(['/', '~']) || text.split('/').any(|part| part == "..");
            looks_like_a_path && !self.places(text, dirs).is_some_and(|places| places.iter().all(is_fine))
        };
        let own = runner_words(words);
        let found = own.into_iter().filter(|word| word.known != Known::Dynamic);
        let mut found = found.filter(|word| inner_candidates(&word.text).iter().any(&leads_out));
        found.next().map(|word| if word.is_literal() { word.text.clone() } else { word.raw.clone() })
    }

    /// `Ok` if the command only reads, and only files of the workspace that are no secrets. The value is true if it names any file.
    pub(super) fn free(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> Result<bool, String> {
        let roots = &self.guard.settings.roots;
        let name = system_name(&words[0].text).unwrap_or(&words[0].text);
        if matches!(name, "cd" | "pushd" | "popd") {
            let fine = dirs.is_some_and(|dirs| dirs.iter().all(|dir| inside(dir, roots)));
            return if fine { Ok(true) } else { Err("it leaves the workspace".to_owned()) };
        }
        let files = readonly::check(words)?;
        let anywhere = matches!(
            name,
            "echo" | "printf" | "true" | "false" | "test" | "[" | ":" | "exit" | "date" | "seq"
        );
        match dirs {
            _ if anywhere => {}
            Some(dirs) if dirs.iter().all(|dir| inside(dir, roots)) => {}
            _ => return Err("it may run outside the workspace".to_owned()),
        }
        if name == "git"
            && let Some(why) = self.git_objection(words, dirs)
        {
            return Err(why);
        }
        let some = !files.is_empty();
        for file in files {
            match file.known {
                Known::Pipe => continue,
                Known::Dynamic => return Err(format!("{} is not known before it runs", file.text)),
                Known::Glob if file.text.contains("..") => {
                    return Err(format!("{} may lead anywhere", file.text));
                }
                Known::Glob | Known::Literal => {}
            }
            if file.content
                && file.known == Known::Glob
                && let Some(found) = pattern_meets_secret(&file.text)
            {
                return Err(format!("{} may match secrets such as {found}", file.text));
            }
            let paths = if file.known == Known::Glob {
                self.matched(&file.text, dirs)
                    .ok_or_else(|| format!("{} matches files that cannot all be judged", file.text))?
            } else {
                self.places(&file.text, dirs).ok_or("the folder it runs in is not known")?
            };
            for path in paths {
                if is_sink(&path) {
                    continue;
                }
                if !inside(&path, roots) {
                    return Err(format!("{} is outside the workspace", path.display()));
                }
                if name == "diff" && self.is_folder(&path) {
                    return Err("a diff of folders follows the links in them".to_owned());
                }
                if file.content
                    && let Some(found) = secret(&path)
                {
                    return Err(format!("{found} may hold secrets"));
                }
            }
        }
        Ok(some)
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.guard.files.as_ref().is_some_and(|files| files.entries(path).is_ok())
    }

    /// Applies deny and ask rules for paths to a word: also to the files that its pattern matches now, and to each word that its
    /// braces or known values of variables make. `words`: the command; none for a redirection.
    pub(super) fn apply_path_rules(
        &mut self,
        word: &Word,
        dirs: Option<&[PathBuf]>,
        tools: &[&str],
        words: &[Word],
    ) {
        if !self.guard.has_path_rules() {
            return;
        }
        let what = if words.is_empty() { word.raw.clone() } else { raw(words) };
        let is_pattern = |text: &str| text.contains(['*', '?', '[']);
        let names_no_files = names_no_files(words);
        let made = match word.known {
            Known::Literal => vec![word.text.clone()],
            Known::Glob => braces(&word.text),
            Known::Dynamic if word.raw.contains('{') && !word.raw.contains(['$', '`', '\'', '"', '\\']) => {
                braces(&word.raw)
            }
            Known::Pipe => return,
            Known::Dynamic => match self.texts(word, dirs) {
                Some(texts) => texts,
                None if names_no_files => return,
                None => return self.unseen_word(word, tools),
            },
        };
        let has_braces = word.known == Known::Glob || word.expansions.is_none();
        if has_braces && made.iter().any(|text| first_braces(text).is_some() && word.known != Known::Literal)
        {
            self.doubt(format!("the rules for files cannot be checked on `{}`", word.raw));
            self.unseen_word(word, tools);
        }
        for text in made.iter().flat_map(|text| candidates(text)) {
            let paths = if word.known != Known::Literal && is_pattern(text) {
                let Some(paths) = self.matched(text, dirs) else {
                    self.doubt(format!("the rules for files cannot be checked on `{}`", word.raw));
                    self.unseen_word(word, tools);
                    continue;
                };
                paths
            } else if let Some(paths) = self.places(text, dirs) {
                paths
            } else {
                if !names_no_files {
                    self.unseen(
                        || format!("the folder in which {} is looked up is not known", word.raw),
                        tools,
                        true,
                    );
                }
                continue;
            };
            for (path, tool) in paths.iter().flat_map(|path| tools.iter().map(move |tool| (path, tool))) {
                if let Some(rule) = self.guard.path_rule(RuleKind::Deny, tool, path) {
                    self.deny(&what, rule);
                } else if let Some(rule) = self.guard.path_rule(RuleKind::Ask, tool, path) {
                    self.asked_by(format!("the rule {rule} asks about {}", path.display()), rule);
                }
            }
        }
    }

    /// The paths that a pattern matches, or the pattern itself if files cannot be listed.
    fn matched(&self, pattern: &str, dirs: Option<&[PathBuf]>) -> Option<Vec<PathBuf>> {
        let mut out = self.places(pattern, dirs)?;
        let Some(files) = &self.guard.files else { return Some(out) };
        let home = pattern.strip_prefix("~/");
        for dir in dirs.unwrap_or_default() {
            let (dir, pattern) = match home {
                Some(rest) => (self.guard.settings.home.as_path(), rest),
                None => (dir.as_path(), pattern),
            };
            out.extend(glob::matches(&**files, dir, pattern)?.iter().map(|path| (self.guard.resolve)(path)));
        }
        Some(out)
    }

    /// The reason why a rule for git does not cover git in the folders where `words` would run it: a repository there may have been
    /// brought by a clone. `None` if nothing speaks against it, or the folders are not known.
    pub(super) fn brought_repository(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> Option<String> {
        let git = words.first().is_some_and(|word| base_name(&word.text) == "git");
        let files = self.guard.files.as_ref().filter(|_| git)?;
        let mut dirs = dirs.map(<[PathBuf]>::to_vec);
        for folder in git_folders(words) {
            dirs = self.places(&folder.text, dirs.as_deref());
        }
        dirs?.iter().find_map(|dir| git::brought(&**files, &*self.guard.resolve, dir))
    }

    /// The reason why git may not run without asking in the folders where `words` would run it; `None` if it may.
    fn git_objection(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> Option<String> {
        let files = self.guard.files.as_ref()?;
        let mut dirs = dirs.map(<[PathBuf]>::to_vec);
        for folder in git_folders(words) {
            dirs = self.places(&folder.text, dirs.as_deref());
        }
        match dirs {
            Some(dirs) => dirs.iter().find_map(|dir| git::objection(&**files, &*self.guard.resolve, dir)),
            None => Some("the folder it runs in is not known".to_owned()),
        }
    }

    /// Finds a word of an allowed command that names a secret, or a file that other programs obey later, unless the rule itself
    /// spells it out.
    pub(super) fn sensitive(
        &self,
        words: &[Word],
        dirs: Option<&[PathBuf]>,
        rule: Option<&Rule>,
    ) -> Option<String> {
        let says = |word: &str| rule.is_some_and(|rule| rule.says(word));
        let name = rule.map_or_else(String::new, ToString::to_string);
        if matches!(base_name(&words[0].text), "echo" | "printf") {
            return None;
        }
        // A word whose value is only known at run time may be anything that the script names.
        if words.iter().any(|w| w.known == Known::Dynamic) {
            let name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '~');
            let names = self.source.split(|c| !name(c)).filter(|text| text.len() > 2);
            let found = names.filter_map(|text| secret(Path::new(text))).find(|found| !says(found));
            if let Some(found) = found {
                return Some(format!("it may read {found}, which may hold secrets"));
            }
        }
        for word in words.iter().skip(1).filter(|w| w.known != Known::Dynamic) {
            for text in candidates(&word.text).into_iter().filter(|t| !t.contains([' ', '\n'])) {
                // Git and search programs expand wildcards even if they are quoted.
                let wild = word.known == Known::Glob || text.contains(['*', '?']);
                let pattern = wild.then(|| pattern_meets_secret(text)).flatten();
                let places = if word.known == Known::Glob {
                    self.matched(text, dirs)
                } else {
                    self.places(text, dirs)
                };
                let places = places.unwrap_or_else(|| vec![PathBuf::from(text)]);
                for path in places {
                    let excused = self.guard.excuses("read", &path) || self.guard.excuses("edit", &path);
                    if let Some(found) = secret(&path).or_else(|| pattern.clone())
                        && !says(&found)
                        && !excused
                    {
                        return Some(format!("{name} may reach `{text}`, which may hold secrets"));
                    }
                    if let Some(found) = protected(&path, &self.guard.settings.own)
                        && !says(&found)
                        && !excused
                    {
                        return Some(format!(
                            "`{text}` belongs to {found}, from which other programs may run commands later, and {name} does not name it"
                        ));
                    }
                }
            }
        }
        None
    }

    /// True if the command only creates, copies or moves files inside the workspace, which `acceptEdits` allows.
    pub(super) fn edits_files(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> bool {
        let Some((name, rest)) = words.split_first() else { return false };
        if !matches!(name.text.as_str(), "mkdir" | "touch" | "cp" | "mv")
            || rest.iter().any(|w| !w.is_literal())
        {
            return false;
        }
        let roots = &self.guard.settings.roots;
        let fine = |path: &PathBuf| {
            inside(path, roots)
                && !roots.contains(path)
                && secret(path).is_none()
                && self.guard.obeyed_later(path).is_none()
                && !self.guard.has_other_names(path)
        };
        let mut named: Vec<&Word> = Vec::new();
        let mut whole = false;
        for word in rest {
            if let Some(letters) = word.text.strip_prefix('-') {
                if letters == "-parents"
                    || letters.chars().all(|c| matches!(c, 'p' | 'r' | 'R' | 'v' | 'n' | 'a'))
                {
                    whole |= letters.contains(['r', 'R', 'a']);
                    continue;
                }
                return false;
            }
            match self.places(&word.text, dirs) {
                Some(paths) if paths.iter().all(fine) => named.push(word),
                _ => return false,
            }
        }
        match named.split_last() {
            Some((to, from)) if name.text == "cp" => {
                from.iter().all(|word| self.lands_inside(word, to, dirs, whole, &fine))
            }
            Some(_) => true,
            None => false,
        }
    }

    /// True if `cp` into the folder `to` writes inside the workspace, and not through a link in that folder. With `whole`, folders
    /// are copied with their contents; an existing target folder is then refused, because its contents are not checked for links.
    fn lands_inside(
        &self,
        from: &Word,
        to: &Word,
        dirs: Option<&[PathBuf]>,
        whole: bool,
        fine: &dyn Fn(&PathBuf) -> bool,
    ) -> bool {
        let name = from.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") {
            return false;
        }
        let inner = format!("{}/{name}", to.text);
        let Some(paths) = self.places(&inner, dirs) else { return false };
        let merges = |text: &str| {
            whole && self.places(text, dirs).is_none_or(|paths| paths.iter().any(|path| self.is_folder(path)))
        };
        paths.iter().all(fine) && !merges(&inner)
    }
}

/// Maximum number of words made from one word's braces. Beyond it, the word remains a doubt.
const MAX_BRACES: usize = 256;

/// Returns the words that the braces of a word make: `a{b,c}d` makes `abd` and `acd`. A sequence such as `{1..3}` counts as `*`.
fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut todo = vec![text.to_owned()];
    while let Some(text) = todo.pop() {
        let Some((start, end, parts)) = first_braces(&text).filter(|_| done.len() + todo.len() < MAX_BRACES)
        else {
            done.push(text);
            continue;
        };
        todo.extend(parts.iter().map(|part| format!("{}{part}{}", &text[..start], &text[end..])));
    }
    done
}

/// Returns start and end of the first non-empty group of braces in the text, and the alternatives in it.
fn first_braces(text: &str) -> Option<(usize, usize, Vec<String>)> {
    for (start, _) in text.match_indices('{') {
        let (mut depth, mut from, mut parts) = (0_usize, start + 1, Vec::new());
        for (at, c) in text[start..].char_indices().map(|(at, c)| (start + at, c)) {
            match c {
                '{' => depth += 1,
                ',' if depth == 1 => {
                    parts.push(text[from..at].to_owned());
                    from = at + 1;
                }
                '}' if depth == 1 => {
                    parts.push(text[from..at].to_owned());
                    if let [only] = parts.as_slice() {
                        if !only.contains("..") {
                            break;
                        }
                        parts = vec!["*".to_owned()];
                    }
                    return Some((start, at + 1, parts));
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::braces;

    #[test]
    fn braces_make_words() {
        let sorted = |text: &str| {
            let mut words = braces(text);
            words.sort();
            words
        };
        assert_eq!(sorted("a{b,c}d"), ["abd", "acd"]);
        assert_eq!(
            sorted("priv{ate,}/{x,y{1,2}}"),
            ["priv/x", "priv/y1", "priv/y2", "private/x", "private/y1", "private/y2"]
        );
        assert_eq!(sorted("{a..c}/f"), ["*/f"]);
        assert_eq!(sorted("{}x{a}{b,c}"), ["{}x{a}b", "{}x{a}c"]);
        assert_eq!(sorted("{a,b"), ["{a,b"]);
        assert!(braces(&"{a,b}".repeat(40)).len() <= 300);
    }
}
