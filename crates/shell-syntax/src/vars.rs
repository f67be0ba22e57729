//! Lists of variables: which can be set without changing later commands, and which can be shown without revealing a secret.

/// Environment variables that only change the appearance or amount of a program's output.
const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Lower-case names that programs or shells obey.
const OBEYED: &[&str] = &[
    "all_proxy",
    "auto_resume",
    "cdpath",
    "fignore",
    "fpath",
    "ftp_proxy",
    "histchars",
    "http_proxy",
    "https_proxy",
    "manpath",
    "module_path",
    "no_proxy",
    "npm_config_script_shell",
    "path",
    "rsync_proxy",
];

/// Variables whose values are not secret.
const PUBLIC: &[&str] = &[
    "HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR",
    "UID", "USER",
];

/// True if setting the variable changes no other command.
pub(crate) fn may_set(name: &str) -> bool {
    if HARMLESS.contains(&name) {
        return true;
    }
    let mut chars = name.chars();
    let lower = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (lower
        && !OBEYED.contains(&name)
        && !["npm_", "pnpm_", "yarn_", "pip_"].iter().any(|start| name.starts_with(start))
        && name != "_")
        || (name.len() == 1 && name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// True if no other program reads the variable, so that any value is harmless. Only for names that pass [`may_set`].
pub(crate) fn is_own(name: &str) -> bool {
    !HARMLESS.contains(&name)
}

/// Like [`may_set`], for an assignment of `value` as written. Programs search for message catalogues, terminal
/// descriptions and time zones in files that these variables name. So a value that may lead out of the usual folders
/// counts as one that programs obey. So does a locale in which a multibyte letter may include the following quote or
/// slash.
pub(crate) fn may_set_to(name: &str, value: &str) -> bool {
    let own = is_own(name);
    let value = value.trim_matches(['"', '\'']);
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ',' | ':' | '=' | '@' | '+' | '-');
    let slashes = name == "TZ" && !value.starts_with(['/', ':']);
    if matches!(name, "LANG") || name.starts_with("LC_") {
        let low = value.to_ascii_lowercase();
        let unicode = low.contains(".utf-8") || low.contains(".utf8");
        return may_set(name)
            && (matches!(value, "" | "C" | "POSIX") || unicode)
            && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '@'));
    }
    may_set(name)
        && (own || (!value.contains("..") && value.chars().all(|c| plain(c) || (slashes && c == '/'))))
}

/// True if printing the variable reveals no secret. Lower-case names belong to the script itself.
pub fn may_show(name: &str) -> bool {
    PUBLIC.contains(&name)
        || may_set(name)
        || matches!(name, "?" | "#" | "$" | "!" | "0" | "_" | "@" | "*" | "-")
        || name.chars().all(|c| c.is_ascii_digit())
}
