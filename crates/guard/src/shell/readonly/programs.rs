//! Commands whose words are a language of their own: find, sed, awk, jq, date. Any word that is not known to only print is
//! refused. Tried with findutils 4.9.0, GNU sed 4.9, mawk 1.3.4, gawk 5.2.1, jq 1.6 and GNU coreutils 9.1.

use super::super::options::{PathArg, files, options, unknown};
use becket_shell_syntax::{Known, Word};

/// Harmless words of `find` without a value.
const FIND_ALONE: &[&str] = &[
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

/// Harmless words of `find` with a value.
const FIND_VALUED: &[&str] = &[
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

/// True if this word of `find` takes the next one as its value.
pub(crate) fn takes_value(word: &str) -> bool {
    FIND_VALUED.contains(&word) || matches!(word, "-newer" | "-anewer" | "-cnewer" | "-samefile")
}

pub(super) fn find(words: &[Word]) -> Result<Vec<PathArg>, String> {
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
        if FIND_ALONE.contains(&text) {
            expression |= !matches!(text, "-P" | "-H");
        } else if FIND_VALUED.contains(&text) {
            expression = true;
            let value = rest.next().ok_or_else(|| unknown(word))?;
            // An unquoted pattern may become several words, and the second would be a separate expression.
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
            if text == "-newermt" {
                names_no_zone(&value.text)?;
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

/// Judges sed: only printing by line number or pattern, and substitutions without flags that run or write, are accepted.
pub(super) fn sed(words: &[Word]) -> Result<Vec<PathArg>, String> {
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
    // `;`, newlines and braces separate commands only outside patterns, so patterns that contain them are refused.
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

/// The rest after a line number, `$` or `/pattern/`; the whole text if there is no address.
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

/// True for `/a/b/flags` with flags that neither write (`w`) nor run (`e`), and without characters that make the end of a
/// part unclear.
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

pub(super) fn awk(words: &[Word]) -> Result<Vec<PathArg>, String> {
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
            let value = rest.next().filter(|w| w.is_literal() && !w.text.starts_with('-'));
            value.ok_or_else(|| unknown(word))?;
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

pub(super) fn jq(words: &[Word]) -> Result<Vec<PathArg>, String> {
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
    // `.[0]` is also a pattern for file names, but can only match `.0`, which is a harmless program too. Any other pattern could
    // make a file's name the program.
    if !program.is_literal() && !indexes_only(&program.text) {
        return Err(format!("the program {} may become the name of a file (quote it)", program.raw));
    }
    let hidden = ["env", "ENV", "import", "include", "input_filename", "getpath_file", "modulemeta", "debug"];
    if let Some(found) = hidden.iter().find(|h| program.text.contains(**h)) {
        return Err(format!("a jq program with `{found}` may read more than its files"));
    }
    let mut found = files(inputs, true);
    found.extend(files(&parsed.doubtful, true));
    Ok(found)
}

/// True if all brackets of a jq program are empty or hold numbers, and nothing else in it is a pattern for names.
fn indexes_only(program: &str) -> bool {
    !program.contains(['*', '?'])
        && program.split('[').skip(1).all(|part| {
            part.split_once(']').is_some_and(|(index, _)| index.chars().all(|c| c.is_ascii_digit()))
        })
}

/// Refuses the text of a date in which a time zone names a file, anywhere: `TZ="../x" now`. GNU programs read it in every date.
fn names_no_zone(date: &str) -> Result<(), String> {
    if date.contains("TZ=") {
        return Err(format!("`{date}` may open a file as a time zone"));
    }
    Ok(())
}

pub(super) fn date(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let parsed =
        options(words, "uRI", "d", "date= iso-8601 iso-8601= rfc-3339= rfc-email utc universal", true)?;
    // On some BSD systems, `date -d NUMBER` sets the kernel's rule for summer time.
    if let Some((_, value)) =
        parsed.values.iter().find(|(name, value)| name == "d" && value.chars().all(|c| c.is_ascii_digit()))
    {
        return Err(format!("`-d {value}` would set the kernel's summer time on some systems"));
    }
    for (_, value) in parsed.values.iter().filter(|(name, _)| name != "f") {
        names_no_zone(value)?;
    }
    if parsed.positional.iter().all(|w| w.text.starts_with('+') && w.is_literal()) {
        Ok(Vec::new())
    } else {
        Err("an argument would set the clock".to_owned())
    }
}
