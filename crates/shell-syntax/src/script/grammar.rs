//! The constructs that the grammar (tree-sitter-bash) reads differently from bash, and how they are recognized.
//!
//! Owns the checks of the text before it is parsed, and the checks of each node of the tree. If a fault is found, some effects of
//! the script may be missing in the result. Follows no commands and no directories.

use crate::word::text_of;
use tree_sitter::{Node, Parser, Tree};

/// Parses a text into the grammar's tree, whose positions are those of the text.
///
/// # Errors
///
/// Returns the reason in a few words if there is no tree. Errors of syntax are nodes of the tree.
pub(super) fn parse(source: &str) -> Result<Tree, &'static str> {
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return Err("the shell grammar could not be loaded");
    }
    let masked = mask(source).ok_or("it uses every letter beside characters that are not ASCII")?;
    parser.parse(&masked, None).ok_or("it could not be parsed")
}

pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// Returns the reasons why a node of the tree cannot be trusted.
pub(super) fn faults(node: Node<'_>, source: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    gaps(node, source, &mut faults);
    words_apart(node, source, &mut faults);
    hidden(node, source, &mut faults);
    misread(node, source, &mut faults);
    match node.kind() {
        "comment" => comment(node, source, &mut faults),
        "ansi_c_string" if !ends_as_in_bash(text_of(node, source)) => {
            faults.push("a quoted text ends elsewhere for the shell");
        }
        _ => {}
    }
    faults
}

/// True if a redirection may directly follow a closing brace. Bash takes `{name}>file` as an assignment of the new
/// descriptor to `name`, which may be `PATH` or an array element whose subscript is evaluated. Examines only the text,
/// quoted or not, because the grammar takes such a name for an ordinary word.
pub(super) fn names_descriptor(source: &str) -> bool {
    let text = source.replace("\\\n", "");
    let mut after_brace = false;
    for c in text.chars() {
        if after_brace && matches!(c, '<' | '>') {
            return true;
        }
        after_brace = c == '}' || (after_brace && c == '&');
    }
    false
}

/// True if a substitution in backquotes is parsed once more after its backslashes are removed.
pub(super) fn has_escapes(text: &str) -> bool {
    text.starts_with('`') && [r"\\", r"\`", r"\$"].iter().any(|escape| text.contains(escape))
}

/// Control and format characters, and white space that the grammar and bash may interpret differently.
pub(super) fn is_odd(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `source` with every character that is not plain ASCII replaced by a letter that does not occur in it. The
/// replacement has the same number of bytes, so that positions in the tree are positions in the source.
///
/// The grammar's scanner (tree-sitter-bash 0.25.1) looks characters up in a C table without checking their range: `{`
/// followed by a character of a high plane ends the process. To bash these characters are ordinary parts of words, like
/// the letter. The letter must be new, because otherwise a here-document could seem to end early.
fn mask(source: &str) -> Option<String> {
    let plain = |c: char| c == '\n' || c == '\t' || (c.is_ascii() && !c.is_ascii_control());
    if source.chars().all(plain) {
        return Some(source.to_owned());
    }
    let letter = ('a'..='z').chain('A'..='Z').rev().find(|l| !source.contains(*l))?;
    let mut out = String::with_capacity(source.len());
    for c in source.chars() {
        if plain(c) {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n(letter, c.len_utf8()));
        }
    }
    Some(out)
}

/// Finds unquoted operators and blanks in what the grammar takes for one word, as in `ls [[ a == |make ]]`, where `[[` is an
/// argument. For the shell they end the word, so that another command may follow. Patterns of `[[ … ]]` and `case` may hold them.
fn misread(node: Node<'_>, source: &str, faults: &mut Vec<&'static str>) {
    if !matches!(node.kind(), "word" | "number" | "regex" | "extglob_pattern" | "test_operator") {
        return;
    }
    let text = text_of(node, source);
    let mut chars = text.chars();
    let mut ends = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' => ends = true,
            c => ends |= c.is_ascii_whitespace(),
        }
    }
    let within = |kind: &str| matches!(kind, "test_command" | "case_item");
    let is_pattern = || {
        std::iter::successors(node.parent(), Node::parent)
            .take_while(|up| up.kind() != "command")
            .any(|up| within(up.kind()))
    };
    if ends && !is_pattern() {
        faults.push("a word holds an operator, behind which the shell begins another command");
    }
}

/// Checks that the tree accounts for all of the text. The grammar can continue over the end of a line without
/// marking an error (seen with pipes before a here-document), and take the next command for arguments.
fn gaps(node: Node<'_>, source: &str, faults: &mut Vec<&'static str>) {
    let one_line = matches!(
        node.kind(),
        "command"
            | "declaration_command"
            | "unset_command"
            | "negated_command"
            | "variable_assignment"
            | "variable_assignments"
            | "file_redirect"
            | "herestring_redirect"
    );
    let statement = one_line
        || matches!(
            node.kind(),
            "program"
                | "compound_statement"
                | "do_group"
                | "else_clause"
                | "elif_clause"
                | "if_statement"
                | "while_statement"
                | "for_statement"
                | "case_statement"
                | "case_item"
                | "subshell"
                | "pipeline"
                | "command_substitution"
                | "process_substitution"
                | "list"
                | "redirected_statement"
                | "function_definition"
                | "test_command"
        );
    if !statement || node.child_count() == 0 {
        return;
    }
    let mut at = node.start_byte();
    let ends = children(node).into_iter().map(|c| (c.kind(), c.start_byte(), c.end_byte()));
    for (kind, start, end) in ends.chain([("", node.end_byte(), node.end_byte())]) {
        let gap = source.get(at..start).unwrap_or("?").replace("\\\n", "");
        let joins = matches!(kind, "|" | "|&" | "&&" | "||" | "file_redirect" | "herestring_redirect");
        if gap.contains(|c: char| !matches!(c, ' ' | '\t' | '\n')) {
            faults.push("a part of it was not read");
        }
        if matches!(kind, ";;" | ";&" | ";;&") && node.kind() != "case_item" {
            faults.push("the end of a case is outside of one");
        }
        if gap.contains('\n') && !kind.is_empty() && (one_line || joins) {
            faults.push("a command seems to go on over the end of a line");
        }
        at = end;
    }
}

/// Handles words that the grammar splits by mistake. It ends a word after a quote if an escaped letter follows
/// (`'a'\n'b'`). For the shell, text without a blank in between is one word.
fn words_apart(node: Node<'_>, source: &str, faults: &mut Vec<&'static str>) {
    if is_word(node.kind()) {
        return;
    }
    let children = children(node);
    for pair in children.windows(2) {
        let [before, after] = pair else { continue };
        let ends_a_word = is_word(before.kind())
            || matches!(before.kind(), "variable_assignment" | "file_redirect" | "herestring_redirect");
        let gap = source.get(before.end_byte()..after.start_byte()).unwrap_or_default();
        if ends_a_word && is_word(after.kind()) && gap.replace("\\\n", "").is_empty() {
            faults.push("words that are joined without a blank were parsed separately");
        }
    }
}

/// Finds backquotes that the grammar takes for text, in patterns and other places. The shell runs their contents.
fn hidden(node: Node<'_>, source: &str, faults: &mut Vec<&'static str>) {
    let kind = node.kind();
    if !matches!(
        kind,
        "word"
            | "number"
            | "regex"
            | "extglob_pattern"
            | "test_operator"
            | "string"
            | "concatenation"
            | "translated_string"
            | "brace_expression"
    ) {
        return;
    }
    let mut pieces = String::new();
    let mut at = node.start_byte();
    for child in children(node).into_iter().filter(|c| c.is_named() && c.kind() != "string_content") {
        pieces.push_str(source.get(at..child.start_byte()).unwrap_or_default());
        pieces.push(' ');
        at = child.end_byte();
    }
    pieces.push_str(source.get(at..node.end_byte()).unwrap_or_default());
    let mut escaped = false;
    let mut before = ' ';
    for c in pieces.chars() {
        let opens = (c == '(' && matches!(before, '$' | '<' | '>') && !(kind == "string" && before != '$'))
            || (matches!(c, '{' | '[') && before == '$');
        if !escaped && (c == '`' || opens) {
            return faults.push("a pattern or a word holds a command that could not be read");
        }
        before = if escaped { ' ' } else { c };
        escaped = c == '\\' && !escaped;
    }
}

/// Handles a comment of the grammar. A `#` starts a comment only at the start of a word. After a continued line or
/// an escaped blank, the shell takes the `#` for a letter of the word and runs the text after it.
fn comment(node: Node<'_>, source: &str, faults: &mut Vec<&'static str>) {
    let before = source.get(..node.start_byte()).unwrap_or("?");
    let blank = before.chars().next_back();
    let escapes = before.chars().rev().skip(1).take_while(|c| *c == '\\').count();
    let starts = blank.is_none_or(|c| c.is_ascii_whitespace() || ";&|()".contains(c));
    if !starts || escapes % 2 == 1 {
        faults.push("what looks like a comment may be a part of a word");
    }
}

/// True if `$'…'` ends where bash ends it. The grammar takes the longest text that ends with a quote, and a backslash before
/// a quote for an escape even if it is escaped itself.
fn ends_as_in_bash(text: &str) -> bool {
    let Some(body) = text.strip_prefix("$'") else { return false };
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\'' => return chars.as_str().is_empty(),
            _ => {}
        }
    }
    false
}

/// Words that bash does not take for a command at a place where a command begins. The grammar does so in places where it does not
/// expect these words.
pub(super) const RESERVED: &[&str] = &[
    "then", "else", "elif", "fi", "do", "done", "esac", "{", "}", "if", "in", "case", "for", "while",
    "until", "select", "function", "[[",
];

/// True for nodes that are a word or a part of one.
fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "number"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "command_name"
            | "simple_expansion"
            | "expansion"
            | "arithmetic_expansion"
            | "command_substitution"
            | "process_substitution"
            | "brace_expression"
            | "regex"
            | "extglob_pattern"
            | "variable_name"
            | "special_variable_name"
            | "test_operator"
    )
}

/// True if the line at which the grammar ends this body of a here-document is the delimiter alone. Only `<<-` allows tabs before it;
/// the grammar always does.
pub(super) fn ends_here(body: Node<'_>, delimiter: &str, source: &str) -> bool {
    let Some(redirect) = body.parent() else { return false };
    let Some(end) = children(redirect).into_iter().find(|child| child.kind() == "heredoc_end") else {
        return false;
    };
    let from = source[..end.start_byte()].rfind('\n').map_or(0, |at| at + 1);
    let line = source[from..].lines().next().unwrap_or_default();
    let strips =
        text_of(redirect, source).trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("<<-");
    let line = if strips { line.trim_start_matches('\t') } else { line };
    line == delimiter
}

/// Returns the delimiter of a here-document, if it is plain text, quoted or not.
pub(super) fn delimiter(mark: &str) -> Option<&str> {
    let quoted = |quote: char| mark.strip_prefix(quote).and_then(|m| m.strip_suffix(quote));
    let inner = quoted('\'').or_else(|| quoted('"')).or_else(|| mark.strip_prefix('\\')).unwrap_or(mark);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | '@' | '%' | '+');
    (!inner.is_empty() && inner.chars().all(plain)).then_some(inner)
}
