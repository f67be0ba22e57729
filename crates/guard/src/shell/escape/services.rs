//! Words with which clients of servers and databases, compilers and file tools run, write or reach something that a rule's
//! wildcard does not mean. [`super`] asks here for programs that need no parsing of their own.

use super::{Options, listed_options, word_text};
use becket_shell_syntax::{Word, base_name};

/// The words with which some programs run, write or reach something that a wildcard does not mean. The fields are checked in order.
struct Program {
    names: &'static [&'static str],
    options: Option<Options>,
    /// Names of options, without `=` and a value.
    named: &'static [&'static str],
    /// Beginnings of words that count, whatever follows.
    starts: &'static [&'static str],
    /// Finds words that the other fields cannot describe.
    other: fn(&[Word]) -> Option<String>,
}

const NONE: Program = Program { names: &[], options: None, named: &[], starts: &[], other: |_| None };

const PROGRAMS: &[Program] = &[
    Program {
        names: &["kubectl"],
        options: Some(listed_options(
            "",
            "kubeconfig profile-output cache-dir log-file log-dir server",
            "s",
            "nlofckp",
        )),
        ..NONE
    },
    Program {
        names: &["patch"],
        options: Some(listed_options("", "output reject-file directory", "ord", "pFiDVYzB")),
        ..NONE
    },
    Program {
        names: &["file"],
        options: Some(listed_options("", "compile magic-file", "Cm", "FPeE")),
        ..NONE
    },
    Program {
        names: &["psql"],
        options: Some(listed_options("", "file output log-file", "foL", "cdhUpFRTv")),
        other: |rest| first(rest, psql_escapes),
        ..NONE
    },
    Program {
        names: &["sqlite3"],
        named: &["-cmd", "-init", "--cmd", "--init", "-archive", "--archive"],
        other: |rest| first(rest, |t| t.starts_with("-A") || t.starts_with("--A") || sqlite_escapes(t)),
        ..NONE
    },
    Program { names: &["mysql", "mariadb"], other: |rest| first(rest, mysql_escapes), ..NONE },
    Program {
        names: &["openssl"],
        named: &[
            "-engine",
            "-provider",
            "-provider-path",
            "-out",
            "-writerand",
            "-config",
            "-CAcreateserial",
            "-keyout",
        ],
        ..NONE
    },
    Program { names: &["docker", "podman"], starts: &["--host", "--config"], other: docker, ..NONE },
    Program {
        names: &["systemctl", "journalctl", "loginctl", "timedatectl", "hostnamectl"],
        named: &["-H", "--host", "-M", "--machine", "--cursor-file", "--root", "--image"],
        starts: &["-H", "-M"],
        ..NONE
    },
    Program { names: &["gh"], named: &["--hostname", "--body-file", "--input", "--notes-file"], ..NONE },
    Program { names: &["split", "csplit"], starts: &["--f"], ..NONE },
    Program { names: &["cmake"], other: cmake, ..NONE },
    Program { names: &["ninja", "samu"], starts: &["-C", "-f"], ..NONE },
    Program {
        names: &["rake"],
        options: Some(listed_options(
            "",
            "rakefile require execute execute-print execute-continue libdir rakelibdir",
            "rfepEIR",
            "jDTW",
        )),
        ..NONE
    },
    Program {
        names: &["apt", "apt-get", "apt-cache"],
        options: Some(listed_options("", "option config-file", "oc", "t")),
        ..NONE
    },
    Program {
        names: &["tcpdump"],
        other: |rest| {
            first(rest, |t| t.starts_with('-') && !t.starts_with("--") && t.contains(['z', 'w', 'F']))
        },
        ..NONE
    },
    Program {
        names: &["java"],
        starts: &[
            "-javaagent:",
            "-agentpath:",
            "-agentlib:",
            "-XX:OnError",
            "-XX:OnOutOfMemoryError",
            "-XX:Flags",
            "@",
        ],
        ..NONE
    },
    Program {
        names: &["jq"],
        options: Some(listed_options("", "from-file rawfile slurpfile library-path", "fL", "")),
        named: &["--rawfile", "--slurpfile", "--from-file"],
        ..NONE
    },
    Program { names: &["terraform", "tofu"], named: &["-chdir", "-plugin-dir"], ..NONE },
    Program {
        names: &["bazel", "bazelisk"],
        named: &[
            "--run_under",
            "--bazelrc",
            "--test_env",
            "--action_env",
            "--workspace_status_command",
            "--override_repository",
            "--override_module",
            "--host_jvm_args",
            "--server_javabase",
            "--shell_executable",
            "--script_path",
        ],
        ..NONE
    },
    Program { names: &["meson"], named: &["--native-file", "--cross-file", "--destdir", "-C"], ..NONE },
    Program {
        names: &["scons"],
        starts: &["-f", "-C", "-Y", "--file", "--site-dir", "--repository"],
        ..NONE
    },
    Program {
        names: &["sbt"],
        named: &["-java-home", "--java-home", "-sbt-jar", "--sbt-jar"],
        starts: &["eval", "-D", "-J"],
        ..NONE
    },
    Program { names: &["dotnet"], other: dotnet, ..NONE },
    Program {
        names: &["ant"],
        named: &["-lib", "-logger", "-listener", "-f", "-file", "-buildfile", "-inputhandler"],
        ..NONE
    },
    Program { names: &["stack"], named: &["--stack-yaml", "--with-gcc", "--with-hpack"], ..NONE },
    Program {
        names: &["cabal"],
        named: &["--with-compiler", "--with-ghc", "--with-hc-pkg", "--project-file", "--project-dir"],
        ..NONE
    },
    Program {
        names: &["swift"],
        named: &["--toolchain", "-Xcc", "-Xswiftc", "-Xlinker", "--package-path"],
        ..NONE
    },
    Program { names: &["zig"], named: &["--build-file", "--build-runner", "--zig-lib-dir"], ..NONE },
    Program { names: &["cpack"], named: &["--config"], ..NONE },
    Program {
        names: &["ctest"],
        named: &[
            "-S",
            "-SP",
            "--script",
            "--build-and-test",
            "--build-makeprogram",
            "--test-command",
            "--test-dir",
            "--output-log",
        ],
        ..NONE
    },
    Program {
        names: &["mvn", "mvnw"],
        other: |rest| {
            const WORDS: [&str; 4] = ["exec-maven-plugin", "maven.ext.class.path", "argLine", "javaagent"];
            first(rest, |t| t.starts_with("exec:") || WORDS.iter().any(|word| t.contains(word)))
        },
        named: &["-f", "--file", "-s", "--settings", "-gs", "--global-settings", "-t", "--toolchains"],
        ..NONE
    },
    Program {
        names: &["tox"],
        options: Some(listed_options("", "override conf workdir root", "xc", "efpnr")),
        other: |rest| rest.first().filter(|word| matches!(word.text.as_str(), "exec" | "e")).map(word_text),
        ..NONE
    },
    Program {
        names: &["hg", "rhg", "chg"],
        options: Some(listed_options("", "config config-file cwd repository debugger", "R", "rbdkulITXmtes")),
        // These subcommands of Mercurial run a program, or serve the repository.
        other: |rest| {
            let sub = rest.first().filter(|word| {
                let runs = ["debug", "extdiff", "serve", "bisect", "email", "patchbomb"];
                runs.iter().any(|name| word.text.starts_with(name))
            });
            sub.map(word_text)
        },
        ..NONE
    },
    Program {
        names: &["svn", "svnadmin", "svnlook"],
        options: Some(listed_options(
            "",
            "diff-cmd diff3-cmd editor-cmd config-option config-dir",
            "",
            "rmFcN",
        )),
        ..NONE
    },
    Program {
        names: &["just", "task", "go-task"],
        options: Some(listed_options(
            "",
            "shell shell-arg shell-command command chooser choose edit justfile working-directory dotenv-path set global-justfile \
             tempdir init taskfile dir global exit-code",
            "cefdgEtD",
            "s",
        )),
        // A word with `=` sets a variable of the recipe file, which may hold a command.
        other: |rest| first(rest, |text| !text.starts_with('-') && text.contains('=')),
        ..NONE
    },
    Program {
        names: &["prove"],
        options: Some(listed_options("", "exec harness plugin formatter source archive rc", "eaP", "IjM")),
        ..NONE
    },
    Program {
        names: &["cppcheck"],
        named: &["--addon", "--addon-python", "--clang", "--output-file", "--plist-output", "--file-list"],
        ..NONE
    },
    Program {
        names: &["rustdoc"],
        named: &["--test-runtool", "--test-builder", "--test-builder-wrapper", "--output", "-o"],
        starts: &["@", "-C", "--codegen"],
        ..NONE
    },
    Program {
        names: &["javac"],
        named: &["-processor", "-processorpath", "--processor-path", "--processor-module-path"],
        starts: &["@", "-J", "-Xplugin"],
        ..NONE
    },
    Program { names: &["ghc"], starts: &["@", "-pgm", "-F", "-fplugin", "-plugin-package"], ..NONE },
    Program {
        names: &["node"],
        named: &["-r", "--require", "--import", "--loader", "--experimental-loader"],
        // A rule such as `node --test *` does not cover code that is evaluated from the command line.
        other: |rest| {
            const EVALUATES: [&str; 7] = ["-e", "--eval", "-p", "--print", "-pe", "-i", "--interactive"];
            let tests = first(rest, |text| text == "--test" || text == "--check" || text == "-c");
            tests.and_then(|_| named(rest, &EVALUATES))
        },
        ..NONE
    },
];

/// The word by which `name` runs, writes or reaches something else; `None` if there is none.
pub(super) fn escape(name: &str, rest: &[Word]) -> Option<String> {
    let program = PROGRAMS.iter().find(|program| program.names.contains(&name))?;
    let option = program.options.as_ref().and_then(|options| options.hit(rest));
    option
        .or_else(|| named(rest, program.named))
        .or_else(|| first(rest, |text| program.starts.iter().any(|start| text.starts_with(start))))
        .or_else(|| (program.other)(rest))
}

/// The first word that passes a test.
fn first(rest: &[Word], test: impl Fn(&str) -> bool) -> Option<String> {
    rest.iter().find(|word| test(&word.text)).map(word_text)
}

/// The first word that is one of these options, alone or with a value after `=`.
fn named(rest: &[Word], names: &[&str]) -> Option<String> {
    first(rest, |text| text.starts_with('-') && names.contains(&text.split('=').next().unwrap_or_default()))
}

/// Options of docker before the subcommand: `-H` names another host, `-c` another configuration.
fn docker(rest: &[Word]) -> Option<String> {
    let mut before = rest.iter().take_while(|word| word.text.starts_with('-'));
    before.find(|word| word.text.starts_with("-H") || word.text.starts_with("-c")).map(word_text)
}

fn cmake(rest: &[Word]) -> Option<String> {
    /// Parts of names of CMake variables that name a program, a file with commands, or a folder in which CMake looks for them.
    const NAMES: &[&str] = &[
        "COMPILER",
        "LAUNCH",
        "PROGRAM",
        "EXECUTABLE",
        "EMULATOR",
        "LINKER",
        "CLANG_TIDY",
        "CPPCHECK",
        "CPPLINT",
        "CMAKE_AR",
        "RANLIB",
        "TOOLCHAIN",
        "MODULE_PATH",
        "PREFIX_PATH",
        "ROOT_PATH",
        "SOURCE_DIR",
        "_INCLUDE",
        "SHELL",
    ];
    /// Options that run scripts or programs, or write a file wherever the word says.
    const OPTIONS: &[&str] = &[
        "-P",
        "-E",
        "-C",
        "--build-tool",
        "--toolchain",
        "--graphviz",
        "--trace-redirect",
        "--profiling-output",
        "--system-information",
        "--help-",
        "--prefix",
    ];
    let is_variable = |text: &str| NAMES.iter().any(|name| text.contains(name));
    let escapes = |text: &str| {
        let value =
            text.strip_prefix("-D").or_else(|| text.contains(':').then_some(text)).unwrap_or_default();
        OPTIONS.iter().any(|word| text.starts_with(word)) || is_variable(value)
    };
    let for_build_tool = || {
        // The words after `--` are for make or ninja.
        let mut after = rest.iter().skip_while(|word| word.text != "--").skip(1);
        let sets = |word: &&Word| {
            word.text.contains('=') || word.text.starts_with('-') && word.text.contains(['f', 'C', 'I', 'E'])
        };
        after.find(sets).map(word_text)
    };
    let after_define = || {
        let mut pairs = rest.iter().zip(rest.iter().skip(1));
        pairs
            .find(|(flag, word)| flag.text == "-D" && is_variable(&word.text))
            .map(|(_, word)| word_text(word))
    };
    first(rest, escapes).or_else(for_build_tool).or_else(after_define)
}

/// A program that `dotnet` itself runs (`exec`, a `.dll`), or a file that the build tool loads.
fn dotnet(rest: &[Word]) -> Option<String> {
    let loads = |text: &str| {
        let lower = text.to_ascii_lowercase();
        lower.contains("logger") || lower.contains("toolpath")
    };
    let program = rest
        .first()
        .filter(|word| word.text == "exec" || word.text.to_ascii_lowercase().strip_suffix(".dll").is_some());
    program.map(word_text).or_else(|| first(rest, loads))
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
        return option(&["w", "u"]).map(word_text);
    }
    // npm takes shortened subcommands.
    let is =
        |word: &Word, sub: &str| word.text == sub || name.ends_with("npm") && sub.starts_with(&word.text);
    SETTINGS.iter().filter(|(program, ..)| *program == name).find_map(|(_, sub, actions)| {
        if actions.is_empty() {
            return operands.first().filter(|word| word.text == *sub).copied().map(word_text);
        }
        let at = operands.iter().position(|word| !word.text.is_empty() && is(word, sub))?;
        let mut after = operands.iter().skip(at + 1).take(2);
        after
            .find(|word| !word.is_literal() || actions.split_ascii_whitespace().any(|a| a == word.text))
            .copied()
            .map(word_text)
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
    // Arguments of commands such as `\d` may contain backquotes, which run a program.
    text.split('\\').skip(1).any(|command| !shows(command) || command.contains('`'))
        || words.any(|word| word == "program")
}
