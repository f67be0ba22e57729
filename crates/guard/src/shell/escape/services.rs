//! Words with which clients of servers and databases, compilers and file tools run, write or reach something that a rule's
//! wildcard does not mean. [`super`] asks here for programs that need no parsing of their own.

use super::{Options, of, shown};
use becket_shell_syntax::Word;

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
        "sqlite3" => option(&["-cmd", "-init", "--cmd", "--init", "-A", "-archive"]).or_else(|| {
            const FUNCTIONS: [&str; 5] = ["load_extension", "writefile", "readfile", "edit(", "attach"];
            has(&|t| {
                let text = t.to_lowercase();
                text.lines().any(|line| line.trim_start().starts_with('.'))
                    || FUNCTIONS.iter().any(|function| text.replace(' ', "").contains(function))
            })
        }),
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
            ["-P", "-E", "-C", "--build-tool"].iter().any(|word| t.starts_with(word))
                || t.starts_with("-D")
                    && ["COMPILER", "LAUNCHER", "PROGRAM", "LINKER"].iter().any(|word| t.contains(word))
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

/// True if a text of psql runs a program or reads or writes a file: by a command with a backslash that is not known to only
/// show something, or by `copy … program`.
fn psql_escapes(text: &str) -> bool {
    let shows = |command: &str| command.starts_with(['d', 'l', 'x', 'z', 't']) && !command.starts_with("lo");
    let words = text.to_lowercase();
    let mut words = words.split(|c: char| !c.is_alphanumeric());
    text.split('\\').skip(1).any(|command| !shows(command)) || words.any(|word| word == "program")
}
