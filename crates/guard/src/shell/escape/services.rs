//! Words with which clients of servers and databases, compilers and file tools run, write or reach something that a rule's
//! wildcard does not mean. [`super`] asks here for programs that need no parsing of their own.

use super::{Options, of, shown};
use becket_shell_syntax::{Word, base_name};

const KUBECTL: Options =
    of("", "kubeconfig profile-output cache-dir log-file log-dir server", "s", "nlofckp");
const PATCH: Options = of("", "output reject-file directory", "ord", "pFiDVYzB");
const FILE: Options = of("", "compile magic-file", "Cm", "FPeE");
const PSQL: Options = of("", "file output log-file", "foL", "cdhUpFRTv");

const RAKE: Options =
    of("", "rakefile require execute execute-print execute-continue libdir rakelibdir", "rfepEIR", "jDTW");
const APT: Options = of("", "option config-file", "oc", "t");
const JQ: Options = of("", "from-file rawfile slurpfile library-path", "fL", "");

/// The word by which `name` runs, writes or reaches something else; `None` if there is none.
pub(super) fn escape(name: &str, rest: &[Word]) -> Option<String> {
    let has = |test: &dyn Fn(&str) -> bool| rest.iter().find(|w| test(&w.text)).map(shown);
    let option = |names: &[&str]| {
        has(&|t| {
            let name = t.split('=').next().unwrap_or_default();
            t.starts_with('-') && names.contains(&name)
        })
    };
    match name {
        "kubectl" => KUBECTL.hit(rest),
        "patch" => PATCH.hit(rest),
        "file" => FILE.hit(rest),
        "psql" => PSQL.hit(rest).or_else(|| has(&psql_escapes)),
        "sqlite3" => option(&["-cmd", "-init", "--cmd", "--init", "-archive", "--archive"])
            .or_else(|| has(&|t| t.starts_with("-A") || t.starts_with("--A") || sqlite_escapes(t))),
        "mysql" | "mariadb" => has(&mysql_escapes),
        "openssl" => option(&[
            "-engine",
            "-provider",
            "-provider-path",
            "-out",
            "-writerand",
            "-config",
            "-CAcreateserial",
            "-keyout",
        ]),
        "docker" | "podman" => has(&|t| t.starts_with("--host") || t.starts_with("--config")).or_else(|| {
            let mut before = rest.iter().take_while(|word| word.text.starts_with('-'));
            before.find(|word| word.text.starts_with("-H") || word.text.starts_with("-c")).map(shown)
        }),
        "systemctl" | "journalctl" | "loginctl" | "timedatectl" | "hostnamectl" => {
            option(&["-H", "--host", "-M", "--machine", "--cursor-file", "--root", "--image"])
                .or_else(|| has(&|t| t.starts_with("-H") || t.starts_with("-M")))
        }
        "gh" => option(&["--hostname", "--body-file", "--input", "--notes-file"]),
        "split" | "csplit" => has(&|t| t.starts_with("--f")),
        "cmake" => has(&|t| {
            const NAMES: &[&str] = &[
                "COMPILER",
                "LAUNCHER",
                "PROGRAM",
                "LINKER",
                "TOOLCHAIN",
                "MODULE_PATH",
                "_INCLUDE",
                "SHELL",
            ];
            let value = t.strip_prefix("-D").or_else(|| t.contains(':').then_some(t)).unwrap_or_default();
            ["-P", "-E", "-C", "--build-tool", "--toolchain"].iter().any(|word| t.starts_with(word))
                || NAMES.iter().any(|word| value.contains(word))
        })
        .or_else(|| {
            // The words after `--` are for make or ninja.
            let mut after = rest.iter().skip_while(|word| word.text != "--").skip(1);
            let sets = |word: &&Word| {
                word.text.contains('=')
                    || word.text.starts_with(['-']) && word.text.contains(['f', 'C', 'I', 'E'])
            };
            after.find(sets).map(shown)
        })
        .or_else(|| {
            let define = rest.iter().zip(rest.iter().skip(1)).find(|(flag, _)| flag.text == "-D");
            define
                .filter(|(_, word)| {
                    ["COMPILER", "LAUNCHER", "PROGRAM", "LINKER", "TOOLCHAIN"]
                        .iter()
                        .any(|name| word.text.contains(name))
                })
                .map(|(_, word)| shown(word))
        }),
        "ninja" | "samu" => has(&|t| t.starts_with("-C") || t.starts_with("-f")),
        "rake" => RAKE.hit(rest),
        "apt" | "apt-get" | "apt-cache" => APT.hit(rest),
        "tcpdump" => has(&|t| t.starts_with('-') && !t.starts_with("--") && t.contains(['z', 'w', 'F'])),
        "java" => has(&|t| {
            [
                "-javaagent:",
                "-agentpath:",
                "-agentlib:",
                "-XX:OnError",
                "-XX:OnOutOfMemoryError",
                "-XX:Flags",
                "@",
            ]
            .iter()
            .any(|word| t.starts_with(word))
        }),
        "jq" => JQ.hit(rest).or_else(|| option(&["--rawfile", "--slurpfile", "--from-file"])),
        "terraform" | "tofu" => option(&["-chdir", "-plugin-dir"]),
        "bazel" | "bazelisk" => option(&["--run_under", "--bazelrc", "--test_env", "--action_env"]),
        "ctest" => {
            option(&["-S", "-SP", "--script", "--build-and-test", "--build-makeprogram", "--test-command"])
        }
        "mvn" | "mvnw" => has(&|t| t.starts_with("exec:") || t.contains("exec-maven-plugin"))
            .or_else(|| option(&["-f", "--file"])),
        "tox" => rest.first().filter(|word| matches!(word.text.as_str(), "exec" | "e")).map(shown),
        "node" => option(&["-r", "--require", "--import", "--loader", "--experimental-loader"]),
        _ => None,
    }
}

/// Programs with the subcommands, and the actions after them, that change settings in the user's home folder: later commands obey these,
/// and some name programs. Without actions the subcommand counts by itself, as the first operand.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("npm", "config", "set delete rm edit fix"),
    ("npm", "set", ""),
    ("pnpm", "config", "set delete rm edit"),
    ("pnpm", "set", ""),
    ("yarn", "config", "set unset delete"),
    ("pip", "config", "set unset edit"),
    ("pip3", "config", "set unset edit"),
    ("gh", "alias", "set import delete"),
    ("gh", "config", "set"),
    ("gh", "extension", "install upgrade exec create"),
    ("glab", "alias", "set delete"),
    ("glab", "config", "set edit"),
    (
        "kubectl",
        "config",
        "set set-cluster set-context set-credentials unset use-context use delete-cluster delete-context \
         delete-user rename-context",
    ),
    ("helm", "plugin", "install update"),
    ("helm", "repo", "add"),
    ("gcloud", "config", "set unset"),
    ("aws", "configure", "set import"),
    ("az", "config", "set unset"),
    ("rustup", "toolchain", "link"),
    ("rustup", "override", "set"),
    ("rustup", "default", ""),
    ("docker", "context", "create update use import"),
    ("docker", "plugin", "install create enable set"),
    ("docker", "buildx", "create use"),
    ("conda", "config", ""),
    ("poetry", "config", ""),
    ("poetry", "self", "add"),
    ("bundle", "config", "set"),
    ("composer", "config", ""),
    ("deno", "install", ""),
];

/// The word by which a command changes settings of the user for later commands.
pub(super) fn permanent(name: &str, rest: &[Word]) -> Option<String> {
    let operands: Vec<&Word> = rest.iter().filter(|word| !word.text.starts_with('-')).collect();
    let option = |names: &[&str]| {
        rest.iter().find(|w| {
            names.iter().any(|name| w.text.trim_start_matches('-').starts_with(name))
                && w.text.starts_with('-')
        })
    };
    if name == "go" && operands.first().is_some_and(|word| word.text == "env") {
        return option(&["w", "u"]).map(shown);
    }
    // npm takes shortened subcommands.
    let is =
        |word: &Word, sub: &str| word.text == sub || name.ends_with("npm") && sub.starts_with(&word.text);
    SETTINGS.iter().filter(|(program, ..)| *program == name).find_map(|(_, sub, actions)| {
        if actions.is_empty() {
            return operands.first().filter(|word| word.text == *sub).copied().map(shown);
        }
        let at = operands.iter().position(|word| !word.text.is_empty() && is(word, sub))?;
        let mut after = operands.iter().skip(at + 1).take(2);
        after
            .find(|word| !word.is_literal() || actions.split_ascii_whitespace().any(|a| a == word.text))
            .copied()
            .map(shown)
    })
}

/// The standard input by which a program that reads commands from there runs or writes something else; `None` if there is none. `input`:
/// its text, as written. `is_open`: true if it may be a file or the output of another command.
pub(crate) fn input_escape(words: &[Word], input: Option<&str>, is_open: bool) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let has = |starts: &[&str]| rest.iter().any(|w| starts.iter().any(|start| w.text.starts_with(start)));
    let harms: fn(&str) -> bool = match base_name(&name.text) {
        "sqlite3" if rest.iter().filter(|word| !word.text.starts_with('-')).count() < 2 => sqlite_escapes,
        "psql" if !has(&["-c", "--c", "-l", "--l", "--v", "-V"]) => psql_escapes,
        "mysql" | "mariadb" if !has(&["-e", "--e"]) => mysql_escapes,
        "ed" | "red" | "ex" | "dc" | "m4" | "gnuplot" | "ftp" | "sftp" | "lftp" => editor_escapes,
        _ => return None,
    };
    let Some(text) = input else { return is_open.then(|| "standard input".to_owned()) };
    let plain = text.trim_matches(['"', '\'', '\n']);
    (plain.contains(['$', '`']) || harms(plain)).then(|| becket_types::cut_end(text, 60).to_string())
}

/// True if a text of sqlite3 is a command of its shell, or loads, reads or writes a file, or starts an editor.
fn sqlite_escapes(text: &str) -> bool {
    const NAMES: &[&str] =
        &["load_extension", "writefile", "readfile", "edit", "attach", "fsdir", "zipfile", "fts3_tokenizer"];
    let text = text.to_lowercase();
    let names: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    text.lines().any(|line| line.trim_start().starts_with('.'))
        || names.iter().any(|name| NAMES.contains(name))
        || names.contains(&"vacuum") && names.contains(&"into")
}

/// True if a text of mysql runs a program, or reads or writes a file.
fn mysql_escapes(text: &str) -> bool {
    const NAMES: &[&str] =
        &["system", "source", "tee", "pager", "edit", "outfile", "dumpfile", "load_file", "infile"];
    let lower = text.to_lowercase();
    text.contains('\\')
        || lower.split(|c: char| !c.is_alphanumeric() && c != '_').any(|name| NAMES.contains(&name))
}

/// True if a text for a line editor or calculator may run a program.
fn editor_escapes(text: &str) -> bool {
    text.contains('!') || ["system", "syscmd", "|"].iter().any(|word| text.contains(word))
}

/// True if a text of psql runs a program or reads or writes a file: by a command with a backslash that is not known to only
/// show something, or by `copy … program`.
fn psql_escapes(text: &str) -> bool {
    let shows = |command: &str| command.starts_with(['d', 'l', 'x', 'z', 't']) && !command.starts_with("lo");
    let words = text.to_lowercase();
    let mut words = words.split(|c: char| !c.is_alphanumeric());
    // Arguments of these commands may hold backquotes, which run a program.
    text.split('\\').skip(1).any(|command| !shows(command) || command.contains('`'))
        || words.any(|word| word == "program")
}
