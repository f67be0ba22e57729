//! Reads scripts and adds up what their commands put at risk, by the tables.

use super::table::{
    ARCHIVES, CLEANS, DESTROYS, IN_PLACE, INTERPRETERS, LAUNCHERS, MANAGERS, OPERANDS, SHELLS, VERSIONED,
    is_known,
};
use super::{CommandContext, GitRisk, Level, Risk, git};
use becket_shell_syntax::{Dirs, Known, Paths, Script, Simple, Word, read_long};
use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 6;

/// Reads scripts and adds up what they put at risk.
pub(super) struct Reader<'a> {
    around: &'a CommandContext<'a>,
    pub risk: Risk,
    /// All folders in which the command may run; `None` if they are not known.
    dirs: Dirs,
}

impl<'a> Reader<'a> {
    pub(super) fn new(around: &'a CommandContext<'a>) -> Self {
        Self { around, risk: Risk::default(), dirs: Some(vec![around.cwd.to_path_buf()]) }
    }

    pub(super) fn script(&mut self, source: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return self.risk.all();
        }
        let nowhere = Path::new("/");
        let paths = Paths { home: self.around.home.unwrap_or(nowhere), resolve: &becket_types::lexical };
        let Script { commands, redirects, unread, .. } = read_long(source, self.dirs.clone(), &paths);
        // A part that is not understood may do anything. Without a home folder, `~` is not understood.
        if unread || (self.around.home.is_none() && source.contains('~')) {
            self.risk.all();
        }
        let before = self.dirs.take();
        for redirect in redirects.into_iter().filter(|redirect| redirect.write) {
            self.dirs = redirect.dirs;
            self.target(&redirect.target);
        }
        for command in &commands {
            self.dirs.clone_from(&command.dirs);
            self.simple(&command.words, command, depth);
        }
        self.dirs = before;
    }

    /// Adds the risk of a path that is written to or destroyed.
    fn target(&mut self, word: &Word) {
        let text = word.text.as_str();
        match word.known {
            Known::Dynamic => return self.risk.all(),
            // A process substitution such as `<(…)` gives the program a pipe, not a file.
            Known::Pipe => return,
            Known::Literal | Known::Glob => {}
        }
        if ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"].contains(&text) || text.is_empty() {
            return;
        }
        let path = match (text.strip_prefix('~'), self.around.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            (Some(_), _) => return self.risk.all(),
            (None, _) => PathBuf::from(text),
        };
        let Some(dirs) = self.dirs.clone() else { return self.risk.all() };
        let glob = word.known == Known::Glob;
        let hidden = text.rsplit('/').next().is_some_and(|last| last.starts_with('.'));
        for dir in dirs {
            let path = becket_types::lexical(&dir.join(&path));
            let path = if glob { before_pattern(&path) } else { path };
            let holds_dir = dir.starts_with(&path);
            if path.components().any(|part| part.as_os_str() == ".git") || holds_dir && (!glob || hidden) {
                self.risk.raise_git(GitRisk::Objects);
                self.risk.ignored |= holds_dir;
            }
            self.risk.raise(Level::Named);
            self.risk.targets.push(path);
        }
    }

    fn simple(&mut self, words: &[Word], command: &Simple, depth: usize) {
        let first = words.iter().position(|word| !is_assignment(word)).unwrap_or(words.len());
        let Some((name, args)) = words.get(first..).and_then(<[Word]>::split_first) else { return };
        if is_dynamic(name) && !name.text.contains('/') {
            return self.risk.all();
        }
        let base = name.text.rsplit('/').next().unwrap_or_default();
        let base = base.trim_end_matches(".exe");
        let before = (self.risk.level, self.risk.targets.len());
        match base {
            "cd" | "pushd" | "popd" => return,
            "eval" => {
                let text: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
                if args.iter().any(is_dynamic) {
                    self.risk.all();
                }
                return self.script(&text.join(" "), depth + 1);
            }
            "source" | "." => return self.run_file(args.first(), depth),
            "echo" | "printf" | "true" | ":" => return,
            "git" => return self.git(command, args),
            "find" | "fd" | "fdfind" | "gfind" => self.find(args, command, depth),
            "dd" => {
                args.iter().filter_map(|w| Some((w, w.text.strip_prefix("of=")?))).for_each(|(w, file)| {
                    self.target(&Word { text: file.to_owned(), ..w.clone() });
                });
            }
            "rsync" | "rclone" | "unison" | "scp" | "sftp" | "robocopy" => self.operands(args),
            "docker" | "podman" | "nerdctl" | "docker-compose" => self.volumes(args),
            _ if base.starts_with("mkfs") => self.operands(args),
            _ if SHELLS.contains(&base) => self.shell(base, args, command, depth),
            _ if ARCHIVES.contains(&base) => self.archive(args),
            _ if VERSIONED.contains(&base) => {
                self.risk.raise(Level::Destructive);
                self.risk.raise_git(GitRisk::State);
            }
            _ if MANAGERS.contains(&base) => self.manager(args),
            _ if LAUNCHERS.contains(&base) => self.launcher(base, args, command, depth),
            _ if OPERANDS.contains(&base) => self.operands(args),
            _ => {}
        }
        self.in_place(base, args);
        if INTERPRETERS.iter().any(|known| base == *known || is_version_of(base, known)) {
            self.program(args, command);
        }
        self.outputs(args);
        if (self.risk.level, self.risk.targets.len()) == before && name.text.contains('/') {
            self.run_file(Some(name), depth);
        }
    }

    fn operands(&mut self, args: &[Word]) {
        self.risk.raise(Level::Named);
        let mut plain = false;
        for word in args {
            plain |= word.text == "--";
            if plain || !word.text.starts_with('-') || is_dynamic(word) {
                if word.text != "--" {
                    self.target(word);
                }
            } else if let Some((_, value)) = word.text.split_once('=') {
                self.target(&Word { text: value.to_owned(), ..word.clone() });
            }
        }
    }

    /// Adds the risk of git.
    fn git(&mut self, command: &Simple, args: &[Word]) {
        let known = self.dirs.is_some() && !command.assigns.iter().any(|set| set.starts_with("GIT_"));
        for cwd in self.dirs.clone().unwrap_or_else(|| vec![self.around.cwd.to_path_buf()]) {
            let mut risk = Risk::default();
            git::classify(args, &cwd, &mut risk);
            if !known && risk.level > Level::default() {
                risk.nested = risk.nested.max(risk.git);
                let dirs = command.assigns.iter().filter_map(|set| set.strip_prefix("GIT_DIR="));
                let dirs = dirs.map(|dir| becket_types::lexical(&cwd.join(dir.trim_matches(['"', '\'']))));
                risk.git_dirs.extend(dirs);
            }
            self.risk.add(risk);
        }
    }

    fn find(&mut self, args: &[Word], command: &Simple, depth: usize) {
        let acts = [
            "-delete",
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-fprint",
            "-fls",
            "-x",
            "-X",
            "--exec",
            "--exec-batch",
        ];
        let Some(at) = args.iter().position(|word| acts.contains(&word.text.as_str())) else { return };
        let run = args.get(at + 1..).unwrap_or_default();
        if args.get(at).is_some_and(|word| word.text != "-delete")
            && run.first().is_some_and(|w| {
                ["echo", "cat", "ls", "grep", "head", "wc", "stat", "file"].contains(&w.text.as_str())
            })
        {
            return;
        }
        let mut starts: Vec<&Word> =
            args.iter().take_while(|w| !w.text.starts_with(['-', '(', '!'])).collect();
        let here = Word::literal(".");
        if starts.is_empty() {
            starts.push(&here);
        }
        self.risk.raise(Level::Destructive);
        for word in starts {
            self.target(word);
        }
        self.simple(run, command, depth + 1);
    }

    fn shell(&mut self, base: &str, args: &[Word], command: &Simple, depth: usize) {
        let inline = args
            .iter()
            .position(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains('c'));
        if let Some(word) = inline.and_then(|at| args.get(at + 1)) {
            if is_dynamic(word) || !matches!(base, "bash" | "rbash") && differs(&word.text) {
                self.risk.all();
            }
            return self.script(&word.text, depth + 1);
        }
        if let Some(file) = args.iter().find(|word| !word.text.starts_with('-')) {
            return self.run_file(Some(file), depth);
        }
        match &command.input {
            Some(text) => self.script(text, depth + 1),
            None => self.risk.all(),
        }
    }

    /// Adds the risk of running a file as a script: that of its text, or the highest if the file is not known before the command
    /// runs.
    fn run_file(&mut self, file: Option<&Word>, depth: usize) {
        let Some(file) = file else { return };
        if matches!(file.known, Known::Dynamic | Known::Pipe) {
            return self.risk.all();
        }
        let Some(texts) = self.texts(file) else { return self.risk.all() };
        // A compiled program and a missing file have no text, and add no risk.
        for text in texts {
            self.run_text(&text, depth);
        }
    }

    /// Returns the texts of all files with this name, one for each folder in which the command may run. Returns `None` if the folder is not known,
    /// so that any file may be meant.
    fn texts(&self, file: &Word) -> Option<Vec<String>> {
        let name = Path::new(&file.text);
        let paths = match &self.dirs {
            _ if name.is_absolute() => vec![becket_types::lexical(name)],
            None => return None,
            Some(dirs) => dirs.iter().map(|dir| becket_types::lexical(&dir.join(name))).collect(),
        };
        Some(paths.iter().filter_map(|path| (self.around.script)(path)).collect())
    }

    fn run_text(&mut self, text: &str, depth: usize) {
        let first = text.lines().next().unwrap_or_default();
        if first.starts_with("#!") && !first.contains("sh") {
            return self.text(text);
        }
        self.script(text, depth + 1);
    }

    fn program(&mut self, args: &[Word], command: &Simple) {
        let inline = args.iter().position(|w| {
            ["-c", "-e", "-E", "-r", "--eval", "-p", "--print", "eval"].contains(&w.text.as_str())
                || (w.text.starts_with('-')
                    && !w.text.starts_with("--")
                    && w.text.len() <= 6
                    && w.text.ends_with('e'))
        });
        if let Some(at) = inline {
            let text: Vec<&str> = args.iter().skip(at).map(|word| word.text.as_str()).collect();
            return self.text(&text.join(" "));
        }
        if let Some(text) = &command.input {
            self.text(text);
        } else if let Some(file) = args.iter().find(|word| !word.text.starts_with('-')) {
            let Some(texts) = self.texts(file) else { return self.risk.all() };
            if texts.is_empty() {
                // The word is a program for awk or a module, not a file.
                self.text(&file.text);
            }
            for text in texts {
                self.text(&text);
            }
        } else if command.piped {
            self.risk.all();
        }
    }

    /// Adds the risk of a program in another language: the highest if it contains a word of [`DESTROYS`].
    fn text(&mut self, text: &str) {
        if DESTROYS.iter().any(|word| text.contains(word)) {
            self.risk.all();
        }
    }

    fn in_place(&mut self, base: &str, args: &[Word]) {
        let Some((_, options)) = IN_PLACE.iter().find(|(name, _)| *name == base) else { return };
        let has = |word: &Word| {
            options.iter().any(|option| {
                word.text == *option
                    || (option.starts_with('-') && word.text.starts_with(option))
                    || (option.len() == 2
                        && word.text.starts_with('-')
                        && !word.text.starts_with("--")
                        && word.text.contains(&option[1..]))
            })
        };
        if args.iter().any(has) {
            self.operands(args);
        }
    }

    /// Adds the files named by options such as `-o`, which many programs write to.
    fn outputs(&mut self, args: &[Word]) {
        for (at, word) in args.iter().enumerate() {
            match word.text.as_str() {
                "-o" | "-O" | "--output" | "--out" | "-out" | "--output-file" | "--output-document"
                | "-outfile" => {
                    if let Some(file) = args.get(at + 1).filter(|file| !file.text.starts_with('-')) {
                        self.target(file);
                    }
                }
                text => {
                    if let Some(file) = text.strip_prefix("--output=").or_else(|| text.strip_prefix("--out="))
                    {
                        self.target(&Word { text: file.to_owned(), ..word.clone() });
                    }
                }
            }
        }
    }

    fn archive(&mut self, args: &[Word]) {
        let lists = args.first().is_some_and(|word| {
            let text = word.text.trim_start_matches('-');
            text.starts_with('t') || text == "l" || text == "list"
        });
        if lists {
            return;
        }
        // An archive program may overwrite the archive and everything in the folder into which it unpacks.
        self.risk.raise(Level::Destructive);
        self.operands(args);
        let into = args.iter().position(|w| ["-C", "-d", "--directory"].contains(&w.text.as_str()));
        match into.and_then(|at| args.get(at + 1)) {
            Some(dir) => self.target(dir),
            None => {
                // The folder is the current one, in which only files with names from the archive are overwritten. Tracked files can
                // be restored from the repository, so ignored files are what could be lost.
                self.risk.ignored = true;
            }
        }
    }

    fn manager(&mut self, args: &[Word]) {
        if args.iter().any(|word| {
            CLEANS.iter().any(|clean| word.text == *clean || word.text.ends_with(&format!(":{clean}")))
        }) {
            self.risk.raise(Level::Destructive);
            self.risk.ignored = true;
        }
    }

    fn volumes(&mut self, args: &[Word]) {
        for (at, word) in args.iter().enumerate() {
            let volume = match word.text.as_str() {
                "-v" | "--volume" | "--mount" => args.get(at + 1).map(|next| next.text.as_str()),
                text => text.strip_prefix("--volume=").or_else(|| text.strip_prefix("--mount=")),
            };
            let Some(volume) = volume else { continue };
            let source = volume
                .split(',')
                .find_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")));
            let host = source.unwrap_or_else(|| volume.split(':').next().unwrap_or_default());
            let known = if host.contains('$') { Known::Dynamic } else { Known::Literal };
            self.target(&Word { known, ..Word::literal(host) });
        }
    }

    fn launcher(&mut self, base: &str, args: &[Word], command: &Simple, depth: usize) {
        if depth > MAX_DEPTH {
            return self.risk.all();
        }
        if base == "script" || base == "su" || base == "flock" || base == "watch" || base == "parallel" {
            for word in args.iter().filter(|word| word.text.contains(' ')) {
                self.script(&word.text, depth + 1);
            }
        }
        let before = self.risk.clone();
        for at in 0..args.len() {
            let Some(rest) = args.get(at..) else { break };
            let name =
                rest.first().map(|word| word.text.rsplit('/').next().unwrap_or_default()).unwrap_or_default();
            if is_known(name) {
                self.simple(rest, command, depth + 1);
                break;
            }
        }
        // The operands of these programs come from a pipe, so they are not known.
        if matches!(base, "xargs" | "parallel" | "entr") && self.risk != before {
            self.risk.all();
        }
    }
}

/// True for a script with forms that shells other than bash read differently. For example, `[[ a > b ]]` compares in bash
/// but writes to a file in other shells.
fn differs(script: &str) -> bool {
    ["[[", "$'", "$\"", "<(", ">(", "<<<"].iter().any(|form| script.contains(form))
}

fn is_dynamic(word: &Word) -> bool {
    word.known == Known::Dynamic
}

fn is_assignment(word: &Word) -> bool {
    word.text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// True if `name` is `known` with a version at its end, as `python3.12` for `python3`.
fn is_version_of(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The directory that contains all matches of a pattern.
fn before_pattern(path: &Path) -> PathBuf {
    let pattern =
        |part: &std::path::Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    path.components().take_while(|part| !pattern(part)).collect()
}
