//! Programs that run another program, as deny rules see them.
//!
//! `becket_shell_syntax::unwrap` takes the launchers apart that people write every day. Hundreds of other programs also run their
//! arguments, or a text in them. Owns the names of programs known to do so, and of programs that never do. If any other program's
//! words name a denied program, that is a doubt: becket asks in every mode.
//!
//! Cannot see a name that a program puts together by itself, as in `python3 -c 'run("r" + "m")'`.

use super::escape::{escape, split_git};
use super::readonly;
use becket_shell_syntax::{Word, base_name};

/// Programs that start one of their arguments as a program, with the arguments after it.
const RUNNERS: &str = "\
    aa-exec abduco agetty aoss arch-chroot aws-vault bundle bunx cgexec chamber choom chpst chronic conda concurrently \
    coresched corepack coverage cpulimit cross-env cross-env-shell daemon daemonize datefudge dbus-launch dbus-run-session \
    dchroot deepspeed direnv distrobox doas doppler dotenv dotenvx dtach dumb-init eatmydata env-cmd envconsul envdir \
    envuidgid execlineb faketime fakechroot fakeroot fakeroot-sysv fakeroot-tcp fd fdfind fil-profile find firejail \
    flatpak-spawn flock gdb gdbserver getty gosu gprofng gtime guix hatch heaptrack horovodrun host-spawn hwloc-bind \
    hyperfine i386 ifne infisical ionice ip kcov kernprof lckdo ld-linux.so.2 ld-linux-x86-64.so.2 \
    ld-linux-aarch64.so.1 linux32 linux64 lldb logsave ltrace machinectl mamba micromamba mise asdf rbenv pyenv nodenv jenv \
    minijail0 mispipe mpiexec mpirun multitime nerdctl newgrp nix nix-shell nodemon nohup npx nsenter nsjail \
    numactl onchange op orterun overmind honcho foreman parallel pdm pee perf pidproxy pipenv pipx pixi pkexec \
    podman docker buildah poetry powerprofilesctl prlimit proot proxychains proxychains4 prterun py-spy qemu-aarch64 \
    qemu-x86_64 qemu-i386 reflex retry rlwrap ros2 rr run-one run-parts run-this-one run0 runcon runuser rush rye s6-applyuidgid \
    s6-envdir s6-envuidgid s6-setlock s6-setsid s6-setuidgid s6-softlimit scalene schroot scl screen script sem setarch setlock \
    setpriv setsid setuidgid sg socat softlimit sops sparc32 sparc64 srun ssh-agent start-stop-daemon \
    startx kubectl strace stdbuf su su-exec sudo summon switch_root systemd-cat systemd-inhibit systemd-nspawn \
    systemd-run taskset teller timelimit timeout time tini tmux toolbox torchrun torify torsocks trace-cmd trickle tsocks ttyd \
    tcpserver uclampset uftrace unbuffer unshare uname26 uutils coreutils uv valgrind vault viddy volta watch watchexec \
    websocketd when-changed winpty with-contenv x86_64 xargs xinit xvfb-run xwfb-run zrun accelerate busybox toybox \
    dpkg-architecture caffeinate sandbox-exec arch gnome-session-inhibit \
    entr bpftrace sysdig stap pm2 forever supervisord \
    zellij gotty asciinema ttyrec termtosvg npm pnpm yarn bun cargo go deno env nice command exec builtin eval sh bash dash zsh \
    ksh mksh fish tcsh csh rbash ash elvish nu xonsh pwsh";

/// Programs that never start their operands as programs. Their options that start one are in [`escape`].
const QUIET: &str = "\
    apt apt-get apt-cache brew cargo cat chmod chown cp curl cut dig dnf docker dpkg echo gem gh git glab gradle gradlew grep \
    egrep fgrep head helm host jest jq kill kubectl ln ls make man mkdir mocha mv mvn mvnw npm nslookup pacman patch ping pip \
    pip3 pnpm podman pkill pgrep printf ps pytest readlink rg rm rmdir rustup sed sort stat systemctl journalctl tail tar tee \
    terraform test touch tr tree true type uniq unzip vitest wc wget which whereis whatis xdg-open yarn yum zip killall snap \
    conda mamba micromamba nix guix poetry pdm pipenv pipx pixi uv bundle mise volta op vault sops rbenv pyenv asdf \
    flatpak bun go dotnet tsc eslint prettier ruff mypy rustc gcc g++ clang cc javac";

/// Subcommands with which a program of [`QUIET`] does start its operands.
const STARTING: &[&str] = &["exec", "run", "dlx", "foreach", "shell", "env", "tool", "watch"];

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

/// True if an argument of the command may be a program that it starts. Deny rules are then tried on the words from each
/// argument on.
pub(crate) fn runs_operands(words: &[Word]) -> bool {
    let Some(name) = words.first().map(|word| base_name(&word.text)) else { return false };
    // `npm x` is short for `npm exec`, but an `x` further on is an operand.
    let is_x = || words.get(1).is_some_and(|word| word.text == "x");
    let starts = || is_x() || words.iter().skip(1).take(4).any(|word| STARTING.contains(&word.text.as_str()));
    is_in(RUNNERS, name) && (!is_in(QUIET, name) || starts())
}

/// True if the program that the command starts is not known before it runs.
pub(crate) fn starts_unknown(words: &[Word]) -> bool {
    let Some(name) = words.first().map(|word| base_name(&word.text)) else { return false };
    if !runs_operands(words) {
        return false;
    }
    let operands = &words[1..];
    let is_unknown = |word: &Word| !word.is_literal();
    if !is_in(QUIET, name) {
        return operands.iter().take(4).any(is_unknown);
    }
    let after = operands.iter().position(|word| STARTING.contains(&word.text.as_str()) || word.text == "x");
    let mut rest = operands.iter().skip(after.map_or(0, |at| at + 1));
    rest.find(|word| !word.text.starts_with('-')).is_some_and(is_unknown)
}

/// Programs that make a program available under another name.
const COPIES: &[&str] = &["ln", "link", "cp", "install", "mv", "rsync", "cat", "dd", "tee"];

/// True if the command may run a program that a deny rule names by `named`, its first literal words, in a way that this module
/// cannot parse. `source`: the script around the command. `input`: the text on its standard input.
pub(crate) fn may_run(words: &[Word], source: &str, input: Option<&str>, named: &[String]) -> bool {
    let Some(name) = words.first().map(|word| base_name(&word.text)) else { return false };
    let Some((program, rest)) = named.split_first() else { return false };
    let says = |text: &str, wanted: &String| tokens(text).any(|token| token == wanted);
    if program == name {
        // The rule itself was already tried on this command. But one of its options may hold another command.
        let mut operands = words.iter().skip(1).map(|word| word.text.as_str());
        let holds = |text: &str| rest.iter().all(|wanted| text != wanted && says(text, wanted));
        return !rest.is_empty() && operands.any(holds) && escape(words).is_some();
    }
    let has_unknown = words.iter().skip(1).any(|word| !word.is_literal());
    let operands = words.iter().skip(1).map(|word| word.text.as_str());
    let is_program = |text: &str| text.contains('/') && base_name(text) == program;
    if COPIES.contains(&name) && words.iter().skip(1).any(|word| copies(word, program, &is_program)) {
        return true;
    }
    let texts: Vec<&str> = operands.chain(has_unknown.then_some(source)).chain(input).collect();
    let mentions = |wanted: &String| texts.iter().any(|text| says(text, wanted));
    if matches!(name, "hash" | "alias" | "enable") && mentions(program) {
        return true;
    }
    if !named.iter().all(mentions) || readonly::check(words).is_ok() {
        return false;
    }
    // In `docker rm`, `escape` reports the word `rm`, but docker starts no program `rm`.
    let escapes = || escape(words).is_some_and(|word| !named.contains(&word));
    !is_in(QUIET, name) || runs_operands(words) || escapes()
}

/// True if a word of a command that copies or links files may be the denied program: by its path, or because the word is put
/// together by a command that names it, such as `$(which rm)`.
fn copies(word: &Word, program: &str, is_program: &dyn Fn(&str) -> bool) -> bool {
    let is_found = || {
        word.raw.contains(['$', '`'])
            && ["which", "command", "type", "whereis"].iter().any(|finder| word.raw.contains(finder))
            && tokens(&word.raw).any(|token| token == program)
    };
    let value = word.text.split_once('=').map_or(word.text.as_str(), |(_, value)| value);
    is_program(&word.text) || is_program(value) || !word.is_literal() && is_found()
}

/// True if the words begin with the program that `named` names, and words that are not known before the command runs may complete
/// `named`.
pub(crate) fn may_be(words: &[Word], named: &[String]) -> bool {
    let pairs = || words.iter().zip(named);
    let fits = |(at, (word, wanted)): (usize, (&Word, &String))| match at {
        0 => base_name(&word.text) == wanted,
        _ => !word.is_literal() || word.text == *wanted,
    };
    pairs().enumerate().all(fits) && pairs().skip(1).any(|(word, _)| !word.is_literal())
}

/// The words of git without its own options before the subcommand, and with `git-push` as `git push`; `None` if nothing changes
/// or the command is no git.
pub(crate) fn plain_git(words: &[Word]) -> Option<Vec<Word>> {
    let (first, rest) = words.split_first()?;
    let name = base_name(&first.text);
    if let Some(sub) = name.strip_prefix("git-").filter(|sub| !sub.is_empty()) {
        return Some([&[Word::literal("git"), Word::literal(sub)], rest].concat());
    }
    if name != "git" {
        return None;
    }
    let (before, after) = split_git(rest);
    (!before.is_empty() && !after.is_empty()).then(|| [&[Word::literal("git")], after].concat())
}

/// Pairs of git subcommands, with the first operand if it matters. The first of a pair does what the second does, so deny and ask
/// rules about the second apply to both.
const SAME: &[(&[&str], &[&str])] = &[
    (&["send-pack"], &["push"]),
    (&["http-push"], &["push"]),
    (&["subtree", "push"], &["push"]),
    (&["lfs", "push"], &["push"]),
    (&["svn", "dcommit"], &["push"]),
    (&["p4", "submit"], &["push"]),
    (&["annex", "sync"], &["push"]),
    (&["annex", "push"], &["push"]),
    (&["remote-http"], &["push"]),
    (&["remote-https"], &["push"]),
    (&["remote-ftp"], &["push"]),
    (&["remote-ext"], &["push"]),
    (&["remote-fd"], &["push"]),
    (&["fetch-pack"], &["fetch"]),
    (&["http-fetch"], &["fetch"]),
    (&["checkout-index"], &["checkout"]),
    (&["read-tree"], &["checkout"]),
    (&["commit-tree"], &["commit"]),
    (&["update-ref", "-d"], &["branch", "-D"]),
    (&["update-ref", "-d"], &["tag", "-d"]),
];

/// The same command under the names of the subcommands in [`SAME`].
pub(crate) fn same_git(words: &[Word]) -> Vec<Vec<Word>> {
    let plain = plain_git(words);
    let words = plain.as_deref().unwrap_or(words);
    let Some((first, rest)) = words.split_first().filter(|(first, _)| base_name(&first.text) == "git") else {
        return Vec::new();
    };
    let says = |names: &[&str]| {
        rest.len() >= names.len() && rest.iter().zip(names).all(|(word, name)| word.text == *name)
    };
    let found = SAME.iter().filter(|(names, _)| says(names));
    let said = |(names, other): &(&[&str], &[&str])| {
        let other: Vec<Word> = other.iter().copied().map(Word::literal).collect();
        [std::slice::from_ref(first), &other, &rest[names.len()..]].concat()
    };
    found.map(said).collect()
}

/// The parts of a text that may be names of programs.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+')))
        .flat_map(|token| [token, attached(token)])
}

/// Returns the value after the letter of an option: `rm` in `-crm`.
fn attached(token: &str) -> &str {
    match token.strip_prefix('-').map(|rest| rest.split_at_checked(1)) {
        Some(Some((letter, value))) if letter != "-" => value,
        _ => token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ').map(Word::literal).collect()
    }

    #[test]
    fn git_is_compared_without_its_own_options() {
        let form = |text: &str| {
            plain_git(&words(text))
                .map(|words| words.iter().map(|w| w.text.clone()).collect::<Vec<_>>().join(" "))
        };
        for (text, want) in [
            ("git -C . push o", Some("git push o")),
            ("git --no-pager -c a.b=c push", Some("git push")),
            ("/usr/bin/git --git-dir x push", Some("git push")),
            ("git-push o", Some("git push o")),
            ("/usr/lib/git-core/git-push o", Some("git push o")),
            ("git push", None),
            ("git --version", None),
            ("gitk -C", None),
        ] {
            assert_eq!(form(text).as_deref(), want, "{text}");
        }
        let unknown = |text: &str| Word { known: becket_shell_syntax::Known::Dynamic, ..Word::literal(text) };
        let push = ["git".to_owned(), "push".to_owned()];
        assert!(may_be(&[Word::literal("git"), unknown("$x")], &push));
        assert!(!may_be(&[Word::literal("git"), Word::literal("log"), unknown("$x")], &push));
        assert!(!may_be(&words("git push"), &push));
        assert!(may_run(&words("git rebase --exec=git;push main"), "", None, &push));
        assert!(may_run(&words("git -c alias.x=push x"), "", None, &push));
        assert!(!may_run(&words("git log --grep=push"), "", None, &push));
    }

    #[test]
    fn a_denied_name_in_an_unknown_program_is_a_doubt() {
        let named = ["rm".to_owned()];
        for (text, want) in [
            ("frobnicate rm -rf x", true),
            ("frobnicate --exec=/bin/rm x", true),
            ("frobnicate -crm x", true),
            ("python3 -c os.system('rm')", true),
            ("tar --to-command=rm -xf x.tar", true),
            ("git rm x", false),
            ("docker rm x", false),
            ("docker exec box rm x", true),
            ("npm rm x", false),
            ("npm exec rm x", true),
            ("grep -rn rm src", false),
            ("frobnicate --rmdir x", false),
            ("rm x", false),
        ] {
            let words = words(text);
            assert_eq!(may_run(&words, text, None, &named), want, "{text}");
        }
        let push = ["git".to_owned(), "push".to_owned()];
        assert!(may_run(&words("frobnicate git -C x push"), "", None, &push));
        assert!(!may_run(&words("frobnicate git -C x pull"), "", None, &push));
        assert!(!may_run(&words("frobnicate git"), "", None, &[]));
    }
}
