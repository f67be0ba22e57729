//! The table of commands that only read: free in the workspace without any rule.
//!
//! An entry lists the options that are known to be harmless, by their exact names; any other option, and any word that
//! could turn into one, takes the command off the table. Programs that can write, run another program, reach the
//! network or obey a file of the project (`cargo --version` obeys `rust-toolchain.toml`) are not in it.

use super::word::{Known, Word};
use super::{gitcmd, vars};

/// A word that names a file, for the caller to place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathArg {
    pub text: String,
    pub known: Known,
    /// The file's content is shown, not only its name or size.
    pub content: bool,
}

/// What the words that are no options mean.
#[derive(Clone, Copy, PartialEq)]
enum Args {
    /// Files whose content is read.
    Files,
    /// Files of which only names and attributes are shown.
    Names,
    /// A pattern, then files.
    Pattern,
    /// Plain text.
    Text,
    /// At most this many files (a further one would be written).
    UpTo(usize),
    None,
}

struct Entry {
    names: &'static str,
    /// Option letters without a value.
    flags: &'static str,
    /// Option letters with one.
    valued: &'static str,
    /// Long options; with `=` at the end they take a value, attached or as the next word.
    long: &'static str,
    args: Args,
    /// No option of the program does harm, so a file name pattern may also match a name that looks like an option.
    tame: bool,
}

const fn entry(
    names: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
    args: Args,
    tame: bool,
) -> Entry {
    Entry { names, flags, valued, long, args, tame }
}

const GREP_LONG: &str = "after-context= before-context= binary-files= byte-offset color color= colour= context= count \
    exclude= exclude-dir= extended-regexp files-with-matches files-without-match fixed-strings ignore-case include= \
    initial-tab invert-match line-buffered line-number line-regexp max-count= no-filename no-messages null \
    only-matching perl-regexp quiet recursive regexp= silent text with-filename word-regexp basic-regexp";

const RG_LONG: &str = "after-context= before-context= binary block-buffered byte-offset case-sensitive color= colors= \
    column context= context-separator= count count-matches crlf debug encoding= files files-with-matches \
    files-without-match fixed-strings glob= glob-case-insensitive heading hidden iglob= ignore-case invert-match json \
    line-buffered line-number line-regexp max-columns= max-columns-preview max-count= max-depth= max-filesize= mmap \
    multiline multiline-dotall no-config no-filename no-heading no-ignore no-ignore-dot no-ignore-parent \
    no-ignore-vcs no-line-number no-messages null one-file-system only-matching passthru pcre2 pretty quiet regexp= \
    replace= smart-case sort= sortr= stats text threads= trim type= type-list type-not= unrestricted version vimgrep \
    with-filename word-regexp";

const TABLE: &[Entry] = &[
    entry(
        "cat",
        "AbeEnstTuv",
        "",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        Args::Files,
        true,
    ),
    entry("tac", "br", "s", "before regex separator=", Args::Files, true),
    entry(
        "nl",
        "p",
        "bdfhilnsvw",
        "body-numbering= number-format= number-width= starting-line-number= number-separator=",
        Args::Files,
        true,
    ),
    entry("head tail", "qvz", "nc", "lines= bytes= quiet silent verbose zero-terminated", Args::Files, true),
    entry("wc", "clmwL", "", "bytes chars lines words max-line-length total=", Args::Files, true),
    entry(
        "ls dir vdir",
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "ITw",
        "all almost-all author block-size= classify color color= dereference directory escape file-type format= \
         full-time group-directories-first hide= human-readable hyperlink ignore= indicator-style= inode no-group \
         numeric-uid-gid quote-name recursive reverse si size sort= time= time-style= width= zero",
        Args::Names,
        true,
    ),
    entry("stat", "Lft", "c", "dereference file-system format= printf= terse", Args::Names, true),
    entry(
        "du",
        "abchHklmsSxLDP0",
        "dBt",
        "all apparent-size block-size= bytes dereference exclude= human-readable inodes max-depth= one-file-system \
         separate-dirs si summarize threshold= time time= total",
        Args::Names,
        true,
    ),
    entry(
        "df",
        "ahHiklPT",
        "Btx",
        "all block-size= human-readable inodes local output output= portability print-type si total type=",
        Args::Names,
        true,
    ),
    entry("basename dirname", "az", "s", "multiple suffix= zero", Args::Text, true),
    entry(
        "realpath readlink",
        "eflmnqsvzLP",
        "",
        "canonicalize canonicalize-existing canonicalize-missing no-newline relative-to= relative-base= zero strip",
        Args::Names,
        true,
    ),
    entry("rev", "", "", "", Args::Files, true),
    entry("fold fmt", "bscu", "w", "bytes spaces width=", Args::Files, true),
    entry("expand unexpand", "ai", "t", "all first-only initial tabs=", Args::Files, true),
    entry(
        "cut",
        "nsz",
        "bcdf",
        "bytes= characters= complement delimiter= fields= only-delimited output-delimiter= zero-terminated",
        Args::Files,
        true,
    ),
    entry("paste", "sz", "d", "delimiters= serial zero-terminated", Args::Files, true),
    entry(
        "column",
        "etxnL",
        "cosNRHTEWd",
        "table separator= output-separator= table-columns=",
        Args::Files,
        true,
    ),
    entry("comm", "123iz", "", "check-order nocheck-order output-delimiter= total", Args::Files, true),
    entry("join", "iz", "aejtv12o", "ignore-case header", Args::Files, true),
    entry("cmp", "bls", "in", "print-bytes verbose quiet silent bytes= ignore-initial=", Args::Files, true),
    entry(
        "diff",
        "abBcdeEiNnpqrstTuwyl",
        "UCIWx",
        "brief color color= context context= exclude= ignore-all-space ignore-blank-lines ignore-case \
         ignore-space-change ignore-trailing-space label= minimal new-file normal recursive report-identical-files \
         side-by-side speed-large-files strip-trailing-cr suppress-common-lines text unified unified= width=",
        Args::Files,
        false,
    ),
    entry(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum",
        "btz",
        "a",
        "binary text tag zero",
        Args::Files,
        true,
    ),
    entry("strings", "afw", "neT", "all bytes= encoding= radix=", Args::Files, false),
    entry(
        "od",
        "abcdfhilosxv",
        "AjNtw",
        "address-radix= format= read-bytes= skip-bytes= width=",
        Args::Files,
        true,
    ),
    entry("hexdump hd", "bcCdovx", "ns", "", Args::Files, false),
    entry("xxd", "abeipu", "closg", "", Args::UpTo(1), false),
    entry("tr", "cCdst", "", "complement delete squeeze-repeats truncate-set1", Args::Text, true),
    entry("seq", "w", "sf", "separator= format= equal-width", Args::Text, true),
    entry(
        "sleep true false : nproc arch tty logname whoami groups users who uptime lscpu lsb_release getconf",
        "abdhmrsq",
        "",
        "all ignore= version short description",
        Args::Text,
        true,
    ),
    entry(
        "uname",
        "asnrvmpio",
        "",
        "all kernel-name nodename kernel-release machine operating-system",
        Args::None,
        true,
    ),
    entry("id", "gGnruzZ", "", "user group groups name real", Args::Text, true),
    entry("hostname", "fsiIdA", "", "fqdn short ip-address", Args::None, true),
    entry("free", "bkmghtlsw", "", "human mega giga total wide", Args::None, true),
    entry("pwd", "LP", "", "", Args::None, true),
    entry("which type whereis", "apPtfs", "", "all", Args::Text, true),
    entry(
        "file",
        "bhiILkNr0",
        "F",
        "brief mime mime-type mime-encoding dereference no-dereference keep-going separator=",
        Args::Files,
        false,
    ),
    entry(
        "tree",
        "adfFilpsughDJNnCrtvSx",
        "LPI",
        "noreport dirsfirst gitignore prune filelimit= charset= du si inodes matchdirs ignore-case",
        Args::Names,
        false,
    ),
    entry(
        "sort",
        "bdfghiMnRrVcCmsuz",
        "ktS",
        "check dictionary-order field-separator= general-numeric-sort human-numeric-sort ignore-case \
         ignore-leading-blanks key= merge month-sort numeric-sort parallel= random-sort reverse sort= stable unique \
         version-sort zero-terminated",
        Args::Files,
        false,
    ),
    entry(
        "uniq",
        "cdDiuz",
        "fsw",
        "all-repeated count ignore-case repeated skip-chars= skip-fields= unique zero-terminated check-chars=",
        Args::UpTo(1),
        false,
    ),
    entry("tsort", "", "", "", Args::Files, true),
    entry(
        "nm size readelf",
        "aACDdghlnrsSuWV",
        "",
        "demangle defined-only undefined-only extern-only dynamic headers symbols",
        Args::Files,
        false,
    ),
    entry("grep egrep fgrep", "abcEFGhHiIlLnoPqrsTuUvwxyzZ", "ABCem", GREP_LONG, Args::Pattern, false),
    entry("rg", "abcFhHiIlnNopPqsSuUvVwx0.", "ABCdeEgjmMrtT", RG_LONG, Args::Pattern, false),
    entry(
        "fd fdfind",
        "0Hgipsu1aF",
        "cdEejStj",
        "absolute-path base-directory= case-sensitive changed-before= changed-within= color= exact-depth= exclude= \
         extension= fixed-strings full-path glob hidden ignore-case max-depth= max-results= min-depth= no-ignore \
         no-ignore-vcs print0 prune quiet regex size= type= unrestricted version",
        Args::Pattern,
        false,
    ),
    entry(
        "ss",
        "46aeHilmnopstuwx",
        "",
        "all listening numeric processes tcp udp unix summary",
        Args::None,
        true,
    ),
    entry("ps", "AaefFjlxH", "opuCt", "forest no-headers sort= format= pid=", Args::None, true),
];

/// Programs whose `--version` is free: neither they nor a launcher in front of them obeys files of the project.
const VERSIONED: &[&str] = &[
    "python",
    "python3",
    "node",
    "ruby",
    "perl",
    "gcc",
    "g++",
    "clang",
    "cc",
    "make",
    "cmake",
    "ninja",
    "git",
    "rg",
    "jq",
    "docker",
    "psql",
    "bash",
    "java",
    "php",
    "lua",
    "sqlite3",
    "curl",
    "tar",
    "sed",
    "awk",
    "grep",
    "find",
    "ls",
    "openssl",
    "ffmpeg",
    "fd",
    "gh",
    "kubectl",
    "pkg-config",
    "ld",
    "gdb",
    "vim",
    "tmux",
];

/// The files that the command would read when it is known to only read; otherwise why it is not.
pub(crate) fn check(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let Some((first, rest)) = words.split_first() else { return Err("it is empty".to_owned()) };
    if !first.is_literal() {
        return Err("its name is not known before it runs".to_owned());
    }
    let name = first
        .text
        .strip_prefix("/usr/bin/")
        .or_else(|| first.text.strip_prefix("/bin/"))
        .unwrap_or(&first.text);
    if let [only] = rest
        && VERSIONED.contains(&name)
        && (only.text == "--version"
            || (only.text == "-V" && name.starts_with("python"))
            || (only.text == "-v" && name == "node"))
    {
        return Ok(Vec::new());
    }
    match name {
        "git" => gitcmd::check(rest),
        "find" => find(rest),
        "sed" | "gsed" => sed(rest),
        "awk" | "gawk" | "mawk" => awk(rest),
        "jq" => jq(rest),
        "date" => date(rest),
        "echo" => text(rest),
        "printf" if rest.first().is_some_and(|w| w.is_literal() && !w.text.starts_with("-v")) => text(rest),
        "test" | "[" if !rest.iter().any(|w| matches!(w.text.as_str(), "-v" | "-R")) => text(rest),
        "command" if rest.first().is_some_and(|w| matches!(w.text.as_str(), "-v" | "-V")) => text(rest),
        "exit" | "return" | "break" | "continue" | "wait" if rest.iter().all(is_number) => Ok(Vec::new()),
        "unset" | "export" | "local" | "readonly" | "declare" if rest.is_empty() => Ok(Vec::new()),
        "set"
            if rest.iter().all(|w| {
                matches!(
                    w.text.as_str(),
                    "-e" | "-u" | "-x" | "-eu" | "-euo" | "-o" | "pipefail" | "-ex" | "-eux" | "-euxo"
                )
            }) && !rest.is_empty() =>
        {
            Ok(Vec::new())
        }
        "ps" if rest.len() == 1
            && matches!(rest[0].text.as_str(), "aux" | "auxf" | "auxww" | "ax" | "axu") =>
        {
            Ok(Vec::new())
        }
        _ => TABLE
            .iter()
            .find(|e| e.names.split(' ').any(|n| n == name))
            .ok_or_else(|| {
                format!("`{}` is not one of the commands known to only read", super::unwrap::base_name(name))
            })
            .and_then(|e| by_table(e, rest)),
    }
}

fn is_number(word: &Word) -> bool {
    word.is_literal() && word.text.chars().all(|c| c.is_ascii_digit())
}

/// Whether printing the word tells no secret.
fn printable(word: &Word) -> bool {
    match &word.variables {
        Some(names) => names.iter().all(|name| vars::may_show(name)),
        None => word.known != Known::Dynamic,
    }
}

fn text(words: &[Word]) -> Result<Vec<PathArg>, String> {
    match words.iter().find(|w| !printable(w)) {
        Some(word) => Err(format!("{} may show a secret of the environment", word.raw)),
        None => Ok(Vec::new()),
    }
}

fn by_table(entry: &Entry, words: &[Word]) -> Result<Vec<PathArg>, String> {
    if entry.args == Args::Text && words.iter().all(|w| !w.text.starts_with('-')) {
        return text(words);
    }
    let parsed = options(words, entry.flags, entry.valued, entry.long, entry.tame)?;
    let mut positional = parsed.positional;
    match entry.args {
        Args::None if !positional.is_empty() => return Err("an argument would change something".to_owned()),
        Args::UpTo(max) if positional.len() > max => {
            return Err("its second file would be written".to_owned());
        }
        Args::Text => return text(&positional),
        Args::Pattern
            if !parsed.seen.iter().any(|o| matches!(o.as_str(), "e" | "regexp" | "files" | "type-list")) =>
        {
            positional.drain(..positional.len().min(1));
        }
        _ => {}
    }
    Ok(files(&positional, entry.args != Args::Names))
}

fn files(words: &[Word], content: bool) -> Vec<PathArg> {
    words
        .iter()
        .filter(|w| w.text != "-")
        .map(|w| PathArg { text: w.text.clone(), known: w.known, content })
        .collect()
}

/// A command line split into options and the rest.
pub(super) struct Parsed {
    pub positional: Vec<Word>,
    /// Names of the options seen, letters and long names.
    pub seen: Vec<String>,
}

/// Splits `words`; an option that is not listed, or a word that could become one, is an error.
pub(super) fn options(
    words: &[Word],
    flags: &str,
    valued: &str,
    long: &str,
    tame: bool,
) -> Result<Parsed, String> {
    let mut out = Parsed { positional: Vec::new(), seen: Vec::new() };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.known {
            Known::Dynamic => return Err(format!("{} is not known before it runs", word.raw)),
            Known::Glob if !tame && word.text.starts_with(['*', '?', '[', '-']) => {
                return Err(format!(
                    "the pattern {} may match a name that reads as an option (write ./{0})",
                    word.raw
                ));
            }
            _ => {}
        }
        let Some(option) = word.text.strip_prefix('-').filter(|o| !o.is_empty()) else {
            out.positional.push(word.clone());
            continue;
        };
        if word.text == "--" {
            for word in rest.by_ref() {
                if word.known == Known::Dynamic {
                    return Err(format!("{} is not known before it runs", word.raw));
                }
                out.positional.push(word.clone());
            }
            break;
        }
        if let Some(name) = option.strip_prefix('-') {
            let (name, value) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
            let takes = long.split_whitespace().any(|l| l.strip_suffix('=') == Some(name));
            let alone = long.split_whitespace().any(|l| l == name);
            match value {
                Some(_) if takes => {}
                None if alone => {}
                None if takes => {
                    rest.next().filter(|w| w.is_literal()).ok_or_else(|| unknown(word))?;
                }
                _ => return Err(unknown(word)),
            }
            out.seen.push(name.to_owned());
            continue;
        }
        if option.chars().all(|c| c.is_ascii_digit())
            && (valued.contains('n') || valued.contains('C') || valued.contains('w'))
        {
            continue;
        }
        for (at, letter) in option.char_indices() {
            if valued.contains(letter) {
                out.seen.push(letter.to_string());
                if at + letter.len_utf8() == option.len() {
                    rest.next().filter(|w| w.is_literal()).ok_or_else(|| unknown(word))?;
                }
                break;
            }
            if !flags.contains(letter) {
                return Err(unknown(word));
            }
            out.seen.push(letter.to_string());
        }
    }
    Ok(out)
}

fn unknown(word: &Word) -> String {
    format!("its option {} is not known to be harmless", word.raw)
}

fn find(words: &[Word]) -> Result<Vec<PathArg>, String> {
    const ALONE: &[&str] = &[
        "-print",
        "-print0",
        "-ls",
        "-empty",
        "-depth",
        "-prune",
        "-mount",
        "-xdev",
        "-daystart",
        "-not",
        "-and",
        "-or",
        "-a",
        "-o",
        "!",
        "(",
        ")",
        "-true",
        "-false",
        "-quit",
        "-readable",
        "-writable",
        "-executable",
        "-noleaf",
        "-P",
        "-H",
        ",",
    ];
    const VALUED: &[&str] = &[
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-atime",
        "-amin",
        "-ctime",
        "-cmin",
        "-maxdepth",
        "-mindepth",
        "-perm",
        "-user",
        "-group",
        "-links",
        "-printf",
        "-inum",
        "-newermt",
        "-uid",
        "-gid",
        "-lname",
        "-ilname",
        "-fstype",
    ];
    let mut paths = Vec::new();
    let mut rest = words.iter();
    let mut expression = false;
    while let Some(word) = rest.next() {
        if word.known == Known::Dynamic
            || (word.known == Known::Glob && word.text.starts_with(['*', '?', '[', '-']))
        {
            return Err(format!("{} is not known before it runs", word.raw));
        }
        let text = word.text.as_str();
        if ALONE.contains(&text) {
            expression |= !matches!(text, "-P" | "-H");
        } else if VALUED.contains(&text) {
            expression = true;
            let value = rest.next().ok_or_else(|| unknown(word))?;
            // An unquoted pattern may become several words, and a second one an expression of its own.
            let single = value.is_literal()
                || (value.known == Known::Glob && value.raw.starts_with(['\'', '"', '\\']));
            if !single && value.known != Known::Glob {
                return Err(format!("{} is not known before it runs", value.raw));
            }
            if value.known == Known::Glob && value.text.starts_with(['-', '?', '[']) {
                return Err(format!("the pattern {} is not quoted", value.raw));
            }
            if value.known == Known::Glob && value.text.starts_with('*') && !value.text[1..].starts_with('.')
            {
                return Err(format!("the pattern {} is not quoted", value.raw));
            }
        } else if matches!(text, "-newer" | "-anewer" | "-cnewer" | "-samefile") {
            expression = true;
            paths.extend(files(std::slice::from_ref(rest.next().ok_or_else(|| unknown(word))?), false));
        } else if text.starts_with('-') || expression {
            return Err(format!("{} can run, write or delete", word.raw));
        } else {
            paths.extend(files(std::slice::from_ref(word), false));
        }
    }
    Ok(paths)
}

/// Only printing by line number or pattern, and substitutions without flags that run or write.
fn sed(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let mut scripts = Vec::new();
    let mut positional = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.text.as_str() {
            _ if !word.is_literal()
                && (word.known != Known::Glob || word.text.starts_with(['*', '?', '[', '-'])) =>
            {
                return Err(format!("{} is not known before it runs", word.raw));
            }
            "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-nE" | "-nr" | "-En" | "--quiet" | "--silent"
            | "--regexp-extended" | "--posix" => {}
            "-e" | "--expression" | "-ne" | "-nEe" => {
                scripts.push(rest.next().filter(|w| w.is_literal()).ok_or_else(|| unknown(word))?.clone());
            }
            text if text.starts_with('-') => return Err(unknown(word)),
            _ => positional.push(word.clone()),
        }
    }
    if scripts.is_empty() {
        if positional.is_empty() || !positional[0].is_literal() {
            return Err("its script is not known".to_owned());
        }
        scripts.push(positional.remove(0));
    }
    match scripts.iter().find(|s| !sed_prints_only(&s.text)) {
        Some(script) => Err(format!("the sed script {} may run or write something", script.raw)),
        None => Ok(files(&positional, true)),
    }
}

fn sed_prints_only(script: &str) -> bool {
    // `;`, newlines and braces separate commands only outside patterns, so patterns that hold them are refused.
    script.split([';', '\n']).all(|command| {
        let command = command.trim();
        if command.is_empty() {
            return true;
        }
        let Some(rest) = after_address(command) else { return false };
        let rest = match rest.strip_prefix(',') {
            Some(second) => match after_address(second.trim_start_matches(['+', '~'])) {
                Some(rest) => rest,
                None => return false,
            },
            None => rest,
        };
        let rest = rest.trim_start().trim_start_matches('!').trim_start();
        matches!(rest, "p" | "d" | "q" | "=" | "P" | "D" | "l" | "n" | "N" | "h" | "H" | "g" | "G" | "x")
            || rest.strip_prefix('s').is_some_and(substitutes_only)
            || (rest.starts_with('q') && rest[1..].trim().chars().all(|c| c.is_ascii_digit()))
    })
}

/// What follows a line number, `$` or `/pattern/`, or the whole text where there is no address.
fn after_address(text: &str) -> Option<&str> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(body) = text.strip_prefix('/') {
        let end = body.find('/')?;
        let pattern = &body[..end];
        return (!pattern.contains(['\\', '[', '{', '}'])).then(|| body[end + 1..].trim_start_matches('I'));
    }
    Some(text.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// `/a/b/flags` with flags that neither write (`w`) nor run (`e`), and no character that hides where a part ends.
fn substitutes_only(text: &str) -> bool {
    let Some(delimiter) = text.chars().next().filter(|c| matches!(c, '/' | '|' | '#' | ',' | ':' | '@'))
    else {
        return false;
    };
    let body = &text[1..];
    if body.contains('[') || body.contains(&format!("\\{delimiter}")) || body.contains("\\\\") {
        return false;
    }
    let parts: Vec<&str> = body.split(delimiter).collect();
    parts.len() == 3
        && parts[2].trim().chars().all(|c| matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit())
}

fn awk(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let mut rest = words.iter();
    let mut program = None;
    let mut positional = Vec::new();
    while let Some(word) = rest.next() {
        if !word.is_literal() && (word.known != Known::Glob || word.text.starts_with(['*', '?', '[', '-'])) {
            return Err(format!("{} is not known before it runs", word.raw));
        }
        let text = word.text.as_str();
        if program.is_some() {
            if text.starts_with('-') && text != "-" {
                return Err(unknown(word));
            }
            positional.push(word.clone());
        } else if matches!(text, "-F" | "-v") {
            rest.next().filter(|w| w.is_literal()).ok_or_else(|| unknown(word))?;
        } else if text.starts_with("-F") {
        } else if text.starts_with('-') {
            return Err(unknown(word));
        } else {
            program = Some(word);
        }
    }
    let program = program.filter(|p| p.is_literal()).ok_or("its program is not known")?;
    let hidden = [
        "system", "getline", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB", "fflush", "close", "@", ">",
        "|", "&",
    ];
    let text = program.text.replace("&&", " ").replace("||", " ").replace(">=", " ");
    if let Some(found) = hidden.iter().find(|h| text.contains(**h)) {
        return Err(format!("an awk program with `{found}` may run, write or read more than its files"));
    }
    Ok(files(&positional, true))
}

fn jq(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let parsed = options(
        words,
        "rcnsSaejMC",
        "",
        "raw-output compact-output null-input slurp sort-keys ascii-output exit-status join-output tab raw-input \
         color-output monochrome-output indent= version",
        false,
    )?;
    let Some((program, inputs)) = parsed.positional.split_first() else {
        return if parsed.seen.iter().any(|s| s == "version") {
            Ok(Vec::new())
        } else {
            Err("its program is not known".to_owned())
        };
    };
    let hidden = ["env", "ENV", "import", "include", "input_filename", "getpath_file", "modulemeta", "debug"];
    if let Some(found) = hidden.iter().find(|h| program.text.contains(**h)) {
        return Err(format!("a jq program with `{found}` may read more than its files"));
    }
    Ok(files(inputs, true))
}

fn date(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let parsed =
        options(words, "uRI", "d", "date= iso-8601 iso-8601= rfc-3339= rfc-email utc universal", true)?;
    if parsed.positional.iter().all(|w| w.text.starts_with('+') && w.is_literal()) {
        Ok(Vec::new())
    } else {
        Err("an argument would set the clock".to_owned())
    }
}
