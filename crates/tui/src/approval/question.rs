//! Body of a permission question: everything that will run, line by line. Nothing is cut: long lines are wrapped, and
//! invisible characters are made visible.

use super::code::{At, ChangedCode, programs};
use super::offers::{ABSOLUTE, parts_in_words};
use super::{Asked, Spacing};
use crate::paths::ShortPaths;
use crate::text;
use crate::theme::Theme;
use crate::transcript::{DiffLine, Markdown, without_blank_ends};
use becket_types::{FilePreview, PermissionRequest, sdk_names};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

/// Marks the hunk at the cursor.
const LOOKED_AT: &str = "❯ ";

/// Builder for the lines of a question.
pub(super) struct Question<'a> {
    width: usize,
    theme: &'a Theme,
    /// Short forms of paths in the workspace. Other paths of a question are shown whole.
    paths: &'a ShortPaths,
    spacing: Spacing,
    lines: Vec<Line<'static>>,
}

/// Returns for example `  adds 2 lines, removes 5`, to follow a title.
/// `short`: ` +2 −5` instead.
fn counted(files: &[FilePreview], short: bool) -> String {
    let all = || files.iter().flat_map(|file| &file.hunks).flat_map(|hunk| hunk.lines().skip(1));
    let count = |sign: char| all().filter(|line| line.starts_with(sign)).count();
    let lines = |n: usize| if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
    match (count('+'), count('-')) {
        (0, 0) => String::new(),
        (n, m) if short => format!(" +{n} −{m}"),
        (0, n) => format!("  removes {}", lines(n)),
        (n, 0) => format!("  adds {}", lines(n)),
        (n, m) => format!("  adds {}, removes {m}", lines(n)),
    }
}

/// Returns the reason for a question, without the command, which is in a row of its own.
pub(crate) fn reason_of(request: &PermissionRequest) -> String {
    let Some(command) = &request.access.command else { return request.reason.clone() };
    // A reason names only the beginning of a long command.
    let named = format!("`{}`", becket_types::cut_end(command.trim(), NAMED));
    // The reason for a command of several parts is the whole command, and then the reasons for the parts.
    match request.reason.strip_prefix(&format!("{named}: ")) {
        Some(parts) => parts.to_owned(),
        None => request.reason.replacen(&named, "it", 1),
    }
}

/// True if the line starts the hunk at the cursor.
pub(super) fn is_looked_at(line: &Line<'_>) -> bool {
    line.spans.first().is_some_and(|span| span.content == LOOKED_AT)
}

/// Returns the first line numbers of the old and the new text from a header such as `@@ -3,4 +3,6 @@`.
fn first_lines(head: &str) -> Option<(usize, usize)> {
    let (old, new) = head.strip_prefix("@@ -")?.split_once(" +")?;
    let number = |side: &str| side.split([',', ' ']).next()?.parse().ok();
    Some((number(old)?, number(new)?))
}

/// Returns the lines of a hunk with their line numbers: in the new file, or in the old file for a removed line.
fn numbered<'a>(head: &str, body: &'a str) -> Vec<(Option<usize>, &'a str)> {
    let mut at = first_lines(head);
    let number = |line: &'a str| {
        let (old, new) = at.as_mut()?;
        let (in_old, in_new) = (!line.starts_with('+'), !line.starts_with('-'));
        // `\ No newline at end of file` is a line of neither file.
        if line.starts_with('\\') {
            return None;
        }
        let number = if in_new { *new } else { *old };
        (*old, *new) = (*old + usize::from(in_old), *new + usize::from(in_new));
        Some(number)
    };
    let mut number = number;
    body.lines().map(|line| (number(line), line)).collect()
}

/// Maximum number of bytes of a command that a reason names.
const NAMED: usize = 200;

/// Unchanged lines that are shown around a change where there is little room.
const NEAR: usize = 2;

/// Returns the lines from the first change to the last one, with at most `NEAR` unchanged lines on either side.
fn near_changes(lines: &[(Option<usize>, &str)]) -> Range<usize> {
    let is_change = |(_, line): &(Option<usize>, &str)| line.starts_with(['+', '-']);
    match (lines.iter().position(is_change), lines.iter().rposition(is_change)) {
        (Some(first), Some(last)) => first.saturating_sub(NEAR)..(last + 1 + NEAR).min(lines.len()),
        _ => 0..lines.len(),
    }
}

/// Returns the columns before the code of a changed line, after its sign, and two more: a continued row begins there.
fn indentation(spans: &[Span<'_>]) -> usize {
    let line: String = spans.iter().map(|span| span.content.as_ref()).collect();
    let code = line.trim_start_matches(['+', '-']);
    code.len() - code.trim_start().len() + 2
}

impl<'a> Question<'a> {
    pub(super) fn new(width: u16, theme: &'a Theme, paths: &'a ShortPaths, spacing: Spacing) -> Self {
        let rule = || Line::styled("─".repeat(usize::from(width)), theme.outcome.warning);
        let lines = if spacing == Spacing::Short { Vec::new() } else { vec![rule()] };
        Self { width: usize::from(width), theme, paths, spacing, lines }
    }

    fn space(&mut self) {
        if !matches!(self.spacing, Spacing::Tight | Spacing::Short) {
            self.lines.push(Line::default());
        }
    }

    fn title(&mut self, title: String, more: String) {
        let bold = self.theme.accent.add_modifier(Modifier::BOLD);
        let spans = [Span::styled(title, bold), Span::styled(more, self.theme.dim)];
        let lead = Span::styled("? ", self.theme.outcome.warning);
        self.lines.extend(text::wrap(&spans, self.width, &lead, &Span::raw("  ")));
    }

    fn say(&mut self, lead: &'static str, what: &str, style: Style) {
        for (i, line) in what.split('\n').enumerate() {
            let mark = if i == 0 { lead } else { "    " };
            self.lines.extend(text::wrap(
                &[Span::styled(text::visible(line).into_owned(), style)],
                self.width,
                &Span::styled(mark, self.theme.dim),
                &Span::raw("    "),
            ));
        }
    }

    /// Adds a sentence of becket's own, with names in the style of code. Commands and input are never shown in this way, because
    /// their backticks mean something.
    fn explain(&mut self, lead: &'static str, sentence: &str) {
        let (dim, code) = (self.theme.dim, self.theme.code);
        let spans = text::quoted(&text::visible(sentence), dim, code);
        let lead = Span::styled(lead, dim);
        self.lines.extend(text::wrap(&spans, self.width, &lead, &Span::raw("  ")));
    }

    /// Adds the command with its programs marked, after the model's own words about it.
    fn command(&mut self, asked: &Asked) {
        let Some(command) = &asked.request.access.command else { return };
        let description = asked.request.input.get("description").and_then(serde_json::Value::as_str);
        let first = description.and_then(|words| words.lines().find(|line| !line.trim().is_empty()));
        // The words do not run, so they may be cut, and give way where there is little room.
        if let Some(words) = first.filter(|_| self.spacing != Spacing::Short) {
            let words = text::visible(words.trim()).into_owned();
            let words = text::fit_words(&words, self.width.saturating_sub(2)).into_owned();
            self.lines.push(Line::styled(format!("  {words}"), self.theme.dim));
        }
        let rest = Span::raw("    ");
        for (number, line) in command.split('\n').enumerate() {
            let lead = if number == 0 { Span::styled("  $ ", self.theme.dim) } else { rest.clone() };
            let shown = text::visible(line);
            let spans = match &asked.command {
                Some(code) => programs(code, number, &shown, self.theme),
                None => vec![Span::styled(shown.into_owned(), self.theme.code)],
            };
            self.lines.extend(text::wrap(&spans, self.width, &lead, &rest));
        }
    }

    /// Builds the question if a call may run. `others`: questions that wait after this one. `at`: the hunk at the cursor.
    pub(super) fn call(
        mut self,
        asked: &Asked,
        others: usize,
        rejected: &BTreeSet<usize>,
        at: Option<usize>,
    ) -> Vec<Line<'static>> {
        let theme = self.theme;
        let (request, of_subagent) = (&asked.request, asked.subagent.is_some());
        let short = self.spacing == Spacing::Short;
        let mut more = counted(&request.preview, short);
        if others > 0 {
            let questions = if others == 1 { "question" } else { "questions" };
            let _ = write!(more, "  ({others} more {questions} waiting)");
        }
        let whose = if of_subagent { " for a subagent" } else { "" };
        let tool = text::visible(&request.tool);
        // The title names the file if it is the only path of the call.
        let only = match (&request.preview[..], &request.access.paths[..]) {
            ([file], [path]) if file.path == *path && request.secrets.is_none() => Some(path),
            _ => None,
        };
        self.title(
            match &request.secrets {
                Some(kinds) => format!("the output of {tool}{whose} contains {kinds}"),
                None if request.access.command.is_some() => format!("Run this command{whose}?"),
                None if request.preview.is_empty() => format!("Use {tool}{whose}?"),
                None => {
                    let files = match request.preview.len() {
                        1 => only.map_or_else(
                            || "a file".to_owned(),
                            |path| {
                                text::visible(&self.paths.in_workspace(&path.to_string_lossy())).into_owned()
                            },
                        ),
                        n => format!("{n} files"),
                    };
                    // The same verbs as in rules and in the transcript's line of the call.
                    let verb = if sdk_names::own_name(&request.tool) == "write" { "Write" } else { "Edit" };
                    format!("{verb} {files}{whose}?")
                }
            },
            more,
        );
        self.command(asked);
        for path in request.access.paths.iter().filter(|_| only.is_none()) {
            self.say("  → ", &self.paths.in_workspace(&path.to_string_lossy()), theme.code);
        }
        if let Some(subject) = &request.access.subject {
            self.say("  · ", subject, theme.code);
        }
        // The reason comes before the change, which may be long: the last line is the one that is read last. On a short
        // screen it would take the place of the change.
        let reason_last = short && !request.preview.is_empty();
        if !reason_last {
            self.reason(request);
        }
        let mut left_out = false;
        if request.secrets.is_some() {
            self.say(
                "  ",
                "If masked, the model sees only the kind of secret. Files do not change.",
                theme.dim,
            );
        } else if !request.preview.is_empty() {
            self.space();
            left_out = self.preview(&request.preview, &asked.code, rejected, at);
        } else if request.access.command.is_none() {
            let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
            self.say("    ", &input, theme.dim);
        }
        if reason_last {
            self.reason(request);
        }
        // The answers below have numbers like the lines of the change. A line that was left out makes room between them.
        if left_out && !reason_last {
            self.lines.push(Line::default());
        } else {
            self.space();
        }
        self.lines
    }

    /// Says why the question is asked, and which rule comes nearest.
    fn reason(&mut self, request: &PermissionRequest) {
        let reason = self.paths.in_workspace(&reason_of(request));
        self.explain("  asked because ", &reason);
        if let Some(nearest) = request.nearest.as_ref().filter(|rule| !request.reason.contains(rule.as_str()))
        {
            self.say("  the nearest allow rule does not match: ", nearest, self.theme.dim);
        }
    }

    /// Builds the question if a plan shall be carried out, with the plan as Markdown.
    pub(super) fn plan(mut self, request: &PermissionRequest) -> Vec<Line<'static>> {
        self.title("Carry out this plan?".to_owned(), String::new());
        self.space();
        let plan = request.input.get("plan").and_then(serde_json::Value::as_str).unwrap_or_default();
        let mut layout = Markdown::default();
        let rows = layout.lay_out(plan, self.width.saturating_sub(2), self.theme);
        for at in 0..rows {
            let Some(row) = layout.row(at) else { continue };
            let mut line = row.styled(self.theme);
            line.spans.insert(0, Span::raw("  "));
            self.lines.push(line);
        }
        self.space();
        self.lines
    }

    /// Adds a line of a change after its line number. Text that does not fit continues below itself.
    fn change(&mut self, number: Option<usize>, digits: usize, style: Style, spans: &[Span<'static>]) {
        let number = number.map(|n| n.to_string()).unwrap_or_default();
        let lead = Span::styled(format!("  {number:>digits$} "), style);
        let rest = Span::raw(" ".repeat(digits + 4 + indentation(spans).min(self.width / 3)));
        self.lines.extend(text::wrap(spans, self.width, &lead, &rest));
    }

    /// Adds the changes of all files, hunk by hunk. Returns true if unchanged lines around them were left out because there was no room.
    fn preview(
        &mut self,
        files: &[FilePreview],
        code: &[ChangedCode],
        rejected: &BTreeSet<usize>,
        at: Option<usize>,
    ) -> bool {
        let mut left_out = false;
        let theme = self.theme;
        let hunks: usize = files.iter().map(|f| f.hunks.len()).sum();
        let mut number = 0;
        for (i, file) in files.iter().enumerate() {
            let mut code_at = At::default();
            if files.len() > 1 {
                self.say("  ± ", &self.paths.in_workspace(&file.path.to_string_lossy()), theme.accent);
            }
            for hunk in &file.hunks {
                let dropped = rejected.contains(&number);
                let (head, body) = hunk.split_once('\n').unwrap_or((hunk, ""));
                code_at.line += 1;
                if hunks > 1 {
                    let mark = if dropped { "[ ]" } else { "[x]" };
                    let lead = if at == Some(number) { LOOKED_AT } else { "  " };
                    let at_line =
                        first_lines(head).map(|(_, n)| format!("  from line {n}")).unwrap_or_default();
                    let text = format!("{mark} hunk {} of {hunks}{at_line}", number + 1);
                    let style = if at == Some(number) { theme.selected } else { theme.dim };
                    self.lines.push(Line::from(vec![Span::raw(lead), Span::styled(text, style)]));
                }
                let lines = numbered(head, body);
                let kind = |(_, line): &(_, &str)| match line.as_bytes().first() {
                    Some(b'+' | b'-') => DiffLine::Changed,
                    _ if line.trim().is_empty() => DiffLine::Blank,
                    _ => DiffLine::Same,
                };
                let kinds: Vec<DiffLine> = lines.iter().map(kind).collect();
                let near = if self.spacing == Spacing::Airy { 0..lines.len() } else { near_changes(&lines) };
                left_out |= near.len() < lines.len();
                let edges = without_blank_ends(&kinds[near.clone()]);
                let shown = near.start + edges.start..near.start + edges.end;
                let numbers = lines[shown.clone()].iter().filter_map(|(n, _)| *n);
                let digits = numbers.max().map_or(0, |n| n.to_string().len());
                for (index, (n, line)) in lines.into_iter().enumerate() {
                    let (style, tint) = match line.as_bytes().first() {
                        _ if dropped => (theme.dim, None),
                        Some(b'+') => (theme.diff.added, theme.tint(true)),
                        Some(b'-') => (theme.diff.removed, theme.tint(false)),
                        _ => (theme.text, None),
                    };
                    let from = self.lines.len();
                    let coloured = code.get(i).map(|code| code.spans(file, line, &mut code_at, style, theme));
                    // Lines that are not shown still advance `code_at`, so that the colours of later lines fit.
                    if !shown.contains(&index) {
                        continue;
                    }
                    let plain = || vec![Span::styled(text::visible(line).into_owned(), style)];
                    // A rejected hunk is dim as a whole.
                    let spans = coloured.filter(|_| !dropped).unwrap_or_else(plain);
                    // The number of a changed line has the colour of its sign.
                    let number = match line.as_bytes().first() {
                        Some(sign @ (b'+' | b'-')) if !dropped => theme.changed_sign(*sign == b'+'),
                        _ => theme.dim,
                    };
                    self.change(n, digits, number, &spans);
                    // The background colour of a changed line extends to the edge.
                    self.lines[from..].iter_mut().for_each(|line| line.style = tint.unwrap_or_default());
                }
                number += 1;
            }
        }
        left_out
    }

    /// Describes the rule that would allow such calls from now on, and the files it could be written into, the narrower permission first.
    pub(super) fn always(
        mut self,
        request: &PermissionRequest,
        files: Option<&(String, String)>,
    ) -> Vec<Line<'static>> {
        let theme = self.theme;
        let Some(offer) = &request.offer else { return self.lines };
        self.title("Always allow this?".to_owned(), String::new());
        self.say("  becket will not ask again about ", &self.paths.shorten(&offer.covers), theme.text);
        self.say("  as a rule of the settings: ", &offer.rule, theme.code);
        if let Some(parts) = parts_in_words(offer) {
            self.say("  or about its parts: ", &parts, theme.text);
            self.say("  as rules of the settings: ", &offer.parts.join(", "), theme.code);
        }
        if offer.rule.contains(ABSOLUTE) {
            self.explain("  ", "(In a rule, // begins a path from the root of the file system.)");
        }
        self.space();
        if let Some((user, local)) = files {
            self.say("  for this project only, it is saved in ", local, theme.dim);
            self.say("  for every project, it is saved in ", user, theme.dim);
        }
        self.explain("  ", "Both files are yours, not the project's. /permissions withdraws the rule.");
        self.space();
        self.lines
    }
}
