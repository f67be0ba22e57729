//! The environment of commands: the variables that programs need, without secrets.
//!
//! Pure: takes variables, returns variables. Only names on a list are passed on, and none that looks like a secret. Added to
//! them are settings that keep programs from waiting for a person.

use std::ffi::{OsStr, OsString};

/// The variable that marks the processes of a command, so that becket finds them again.
pub(crate) const MARK: &str = "BECKET_RUN";

/// Names of variables that are passed on to commands.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "HOSTNAME",
    "SHLVL",
    "CC",
    "CXX",
    "CPP",
    "AR",
    "LD",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "MAKE",
    "CMAKE_PREFIX_PATH",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "MANPATH",
    "INFOPATH",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_PATH",
    "RBENV_ROOT",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "JAVA_HOME",
    "MAVEN_OPTS",
    "MAVEN_HOME",
    "M2_HOME",
    "GRADLE_HOME",
    "GRADLE_OPTS",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "DOTNET_ROOT",
    "DENO_DIR",
    "BUN_INSTALL",
    "PNPM_HOME",
    "VOLTA_HOME",
    "FNM_DIR",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "KUBECONFIG",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "CLOUDSDK_CONFIG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NIX_PATH",
    "NIX_PROFILES",
    "IN_NIX_SHELL",
    "WSL_DISTRO_NAME",
    "WSL_INTEROP",
    "CI",
    "SOURCE_DATE_EPOCH",
    "COLUMNS",
    "LINES",
];

/// Prefixes of names that are passed on.
const PREFIXES: &[&str] = &[
    "LC_",
    "XDG_",
    "CARGO_",
    "RUST",
    "GO",
    "CGO_",
    "NODE_",
    "NVM_",
    "NPM_CONFIG_",
    "npm_config_",
    "YARN_",
    "PYTHON",
    "CONDA_",
    "POETRY_",
    "UV_",
    "PIP_",
    "RUBY",
    "PERL",
    "PERL5",
    "OPAM",
    "OCAML",
    "GHC",
    "STACK_",
    "CABAL_",
    "ELIXIR_",
    "MIX_",
    "HEX_",
    "SDKMAN_",
    "ASDF_",
    "MISE_",
    "HOMEBREW_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_",
    "BUILDKIT_",
    "COMPOSE_",
    "CMAKE_",
    "CCACHE_",
    "SCCACHE_",
    "MOZ_",
    "QT_",
    "GTK_",
    "DEVENV_",
    "DIRENV_",
];

/// Proxies, in either case.
const PROXIES: &[&str] = &["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"];

/// Parts of a name by which a variable counts as a secret. It is not passed on.
const SECRETS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTH_",
    "_AUTH",
    "BEARER",
    "COOKIE",
    "SIGNING_KEY",
];

/// Variables set for every command, so that programs do not ask questions, start a pager or print colours.
const SETTINGS: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
    // Python buffers what it prints into a pipe, so that an error would appear before the output that led to it.
    ("PYTHONUNBUFFERED", "1"),
    ("SSH_ASKPASS_REQUIRE", "never"),
];

/// Selects the variables for commands from `all`. Names in `extra` are passed on as well, even if they look like secrets,
/// because the user asked for them.
pub fn for_commands(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    extra: &[String],
) -> Vec<(OsString, OsString)> {
    let set = |name: &OsStr| SETTINGS.iter().any(|(n, _)| name == *n);
    let all: Vec<(OsString, OsString)> = all.into_iter().collect();
    let secrets: Vec<&[u8]> = all.iter().filter_map(|(name, value)| secret_value(name, value)).collect();
    let holds_one = |value: &OsStr| {
        let value = value.as_encoded_bytes();
        secrets.iter().any(|secret| value.windows(secret.len()).any(|part| part == *secret))
    };
    let wanted = |(name, value): &&(OsString, OsString)| {
        let asked_for = extra.iter().any(|extra| *name == *extra.as_str());
        !set(name)
            && name.to_str().is_some_and(|name| passes(name, extra))
            && (asked_for || !holds_one(value))
    };
    let mut out: Vec<(OsString, OsString)> = all.iter().filter(wanted).cloned().collect();
    out.extend(SETTINGS.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    out
}

/// Shortest value, in bytes, that counts as a secret because of its variable's name. Shorter values occur in other texts by chance.
const SHORTEST: usize = 12;

/// Returns the value of a variable whose name means a secret.
fn secret_value<'a>(name: &OsStr, value: &'a OsStr) -> Option<&'a [u8]> {
    let upper = name.to_string_lossy().to_ascii_uppercase();
    let is_secret = SECRETS.iter().any(|part| upper.contains(part)) && !is_no_secret(&upper);
    let value = value.as_encoded_bytes();
    // A path only tells where a secret is.
    (is_secret && value.len() >= SHORTEST && !value.starts_with(b"/")).then_some(value)
}

/// True for variables that hold the path of a socket or file and only look like secrets.
fn is_no_secret(name: &str) -> bool {
    name == "SSH_AUTH_SOCK" || name == "XAUTHORITY"
}

fn passes(name: &str, extra: &[String]) -> bool {
    if extra.iter().any(|e| e == name) {
        return true;
    }
    if is_no_secret(name) {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    if SECRETS.iter().any(|part| upper.contains(part)) {
        return false;
    }
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PROXIES.contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (name, want) in [
            ("PATH", true),
            ("HOME", true),
            ("LC_ALL", true),
            ("CARGO_HOME", true),
            ("HTTPS_PROXY", true),
            ("SSH_AUTH_SOCK", true),
            ("ANTHROPIC_API_KEY", false),
            ("OPENAI_API_KEY", false),
            ("ANTHROPIC_AUTH_TOKEN", false),
            ("CARGO_REGISTRY_TOKEN", false),
            ("NPM_CONFIG__AUTH", false),
            ("NODE_AUTH_TOKEN", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("BECKET_ANYTHING", false),
            ("SOMETHING_ELSE", false),
            ("LD_PRELOAD", false),
            ("BASH_ENV", false),
            ("WANTED_TOKEN", true),
        ] {
            assert_eq!(passes(name, &["WANTED_TOKEN".to_owned()]), want, "{name}");
        }
        let vars = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| (OsString::from(a), OsString::from(b))).collect::<Vec<_>>()
        };
        let out = for_commands(vars(&[("PATH", "/bin"), ("PAGER", "less"), ("X_API_KEY", "k")]), &[]);
        assert!(out.contains(&("PATH".into(), "/bin".into())));
        assert!(out.contains(&("PAGER".into(), "cat".into())));
        assert_eq!(out.len(), 1 + SETTINGS.len());
        // The same key under another name, and in the middle of a value.
        let key = "sk-ant-0123456789abcdef";
        let copies = [
            ("ANTHROPIC_API_KEY", key),
            ("XDG_FOO", key),
            ("GOFLAGS", "x=sk-ant-0123456789abcdef y"),
            ("LC_ALL", "C.UTF-8"),
            ("CARGO_X_TOKEN", "short"),
            ("GOPATH", "/short"),
        ];
        let out = for_commands(vars(&copies), &[]);
        let names: Vec<_> = out.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert!(names.contains(&"LC_ALL") && names.contains(&"GOPATH"), "{names:?}");
        assert!(!names.contains(&"XDG_FOO") && !names.contains(&"GOFLAGS"), "{names:?}");
        let asked = for_commands(vars(&copies), &["XDG_FOO".to_owned()]);
        assert!(asked.iter().any(|(name, _)| name == "XDG_FOO"));
    }
}
