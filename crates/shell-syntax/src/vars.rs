//! Variables that may be set or shown without changing what later commands do or telling a secret.

/// Environment variables that only change how a program prints or how chatty it is.
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

/// Variables whose value is no secret.
const PUBLIC: &[&str] = &[
    "HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR",
    "UID", "USER",
];

/// Setting it changes nothing that another command does.
pub(crate) fn may_set(name: &str) -> bool {
    if HARMLESS.contains(&name) {
        return true;
    }
    let mut chars = name.chars();
    let lower = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (lower && !OBEYED.contains(&name) && !name.starts_with("npm_") && name != "_")
        || (name.len() == 1 && name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// As [`may_set`], for an assignment of `value` as it is written. Programs look for message catalogues, terminal
/// descriptions and time zones in files that these variables name, so a value with a way out of the usual folders counts
/// as one that programs obey. So does a locale in which a letter may swallow the quote or the slash that follows it.
pub(crate) fn may_set_to(name: &str, value: &str) -> bool {
    let own = !HARMLESS.contains(&name);
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ',' | ':' | '=' | '@' | '+' | '-');
    let slashes = name == "TZ" && !value.starts_with(['/', ':']);
    if matches!(name, "LANG") || name.starts_with("LC_") {
        let (value, low) = (value.trim_matches(['"', '\'']), value.to_ascii_lowercase());
        let unicode = low.contains(".utf-8") || low.contains(".utf8");
        return may_set(name)
            && (matches!(value, "" | "C" | "POSIX") || unicode)
            && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '@'));
    }
    may_set(name)
        && (own
            || (!value.contains("..")
                && value.trim_matches(['"', '\'']).chars().all(|c| plain(c) || (slashes && c == '/'))))
}

/// Printing it tells no secret. Lower-case names are the script's own.
pub fn may_show(name: &str) -> bool {
    PUBLIC.contains(&name)
        || may_set(name)
        || matches!(name, "?" | "#" | "$" | "!" | "0" | "_" | "@" | "*" | "-")
        || name.chars().all(|c| c.is_ascii_digit())
}
