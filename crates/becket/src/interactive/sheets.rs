//! Pages of the interactive session as data: `/context`, `/config`, `/cost`, `/tools`, `/skills`, `/agents`, `/memory`, `/status`
//! and `/doctor`.
//!
//! Pure: figures in, a [`Sheet`] out. The interface decides how it looks.

use super::figures::{self, FilePaths, UNPRICED, Usages};
use crate::agents::{DefinedIn, Definition};
use crate::assemble::Opening;
use crate::cmd::context::{ContextFill, LoadedSession, name};
use crate::cmd::doctor::Check;
use crate::cmd::hooks::{HookList, HookRow};
use crate::cmd::sandbox::LevelReach;
use crate::cmd::{count, one_line, short};
use becket_config::Row;
use becket_tool_skill::Skills;
use becket_tui::page::{self, Cell, Column, Item, Share, Sheet, TableRow};
use becket_tui::status::meter::Part;
use becket_types::{Entry, Span, SpanKind, SystemItem, SystemKind, ToolSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of rows of a list of shares.
const MAX_ROWS: usize = 12;
/// Maximum number of characters of a text that a row shows.
const MAX_TEXT_CHARS: usize = 200;

/// Shortens paths for display: relative to the workspace or the home folder, else absolute.
#[derive(Clone, Debug, Default)]
pub(super) struct PathDisplay {
    pub cwd: PathBuf,
    pub home: Option<PathBuf>,
}

impl PathDisplay {
    pub(super) fn path(&self, path: &Path) -> String {
        match (path.strip_prefix(&self.cwd), self.home.as_ref().map(|home| path.strip_prefix(home))) {
            (Ok(below), _) if below.as_os_str().is_empty() => ".".to_owned(),
            (Ok(below), _) => below.display().to_string(),
            (_, Some(Ok(below))) if below.as_os_str().is_empty() => "~".to_owned(),
            (_, Some(Ok(below))) => format!("~/{}", below.display()),
            _ => path.display().to_string(),
        }
    }

    /// Returns the folder itself, never `.`.
    pub(super) fn folder(&self, path: &Path) -> String {
        Self { cwd: PathBuf::from("/dev/null"), home: self.home.clone() }.path(path)
    }

    /// Replaces the home folder in `text` by `~`.
    pub(super) fn text(&self, text: &str) -> String {
        match self.home.as_ref().and_then(|home| home.to_str()).filter(|home| home.len() > 1) {
            Some(home) => text.replace(&format!("{home}/"), "~/"),
            None => text.to_owned(),
        }
    }
}

/// Returns the page `/config`: what differs from the defaults first, with its source.
pub(super) fn config(rows: &[Row], warnings: &[String], shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    let value = |row: &Row| if row.value.is_empty() { "-".to_owned() } else { shown.text(&row.value) };
    let (defaults, set): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.source == "default");
    sheet.heading("Set", "by a file, a flag or in this session");
    if set.is_empty() {
        sheet.note("Nothing differs from the defaults.");
    }
    let entry = |row: &&Row| {
        let from = shown.text(&row.source);
        page::Entry::new(&row.key, "", &value(row)).prominent().with_detail(format!("({from})"))
    };
    sheet.entries(set.iter().map(entry).collect());
    for warning in warnings {
        sheet.note(format!("Warning: {}", shown.text(warning)));
    }
    sheet.heading("Defaults", "");
    let columns = vec![Column::word("", 2), Column::faint("")];
    let row = |row: &&Row| TableRow {
        cells: vec![row.key.as_str().into(), value(row).into()],
        ..TableRow::default()
    };
    sheet.items.push(Item::Table { columns, rows: defaults.iter().map(row).collect() });
    sheet
}

/// Returns the page `/context`. `threshold`: tokens at which the context is compacted.
pub(super) fn context(
    reading: &LoadedSession,
    filled: &ContextFill,
    threshold: u64,
    paths: &FilePaths,
    shown: &PathDisplay,
) -> Sheet {
    let mut sheet = Sheet::default();
    let how = if filled.exact { "counted" } else { "estimated" };
    let percent = (filled.sum * 100).div_ceil(filled.usable.max(1));
    let used =
        format!("{} tokens, {percent} % of {} usable ({how})", short(filled.sum), short(filled.usable));
    sheet.heading("In use", used);
    let mut parts: BTreeMap<Part, u64> = BTreeMap::new();
    for span in &filled.spans {
        *parts.entry(Part::of(span.kind)).or_default() += span.tokens.0;
    }
    sheet.items.push(Item::Bar {
        parts: parts.into_iter().collect(),
        of: filled.usable,
        mark: Some(threshold),
    });
    sheet.field("model", reading.model.as_deref().unwrap_or("unknown"));
    let assumed =
        if filled.assumed { " (assumed, because this model is unknown; context.window sets it)" } else { "" };
    let window = short(filled.budget.window);
    sheet.field("usable", format!("{} tokens of a window of {window}{assumed}", short(filled.usable)));
    sheet.field("compacted at", format!("{} tokens", short(threshold)));
    sheet.field("title", one_line(reading.summary.label(), 60));
    sheet.field("session", reading.summary.id.to_string());

    let mut kinds: BTreeMap<SpanKind, (usize, u64)> = BTreeMap::new();
    for span in &filled.spans {
        let (pieces, tokens) = kinds.entry(span.kind).or_default();
        (*pieces, *tokens) = (*pieces + 1, *tokens + span.tokens.0);
    }
    let rows = kinds.into_iter().map(|(kind, (pieces, tokens))| Share {
        part: Part::of(kind),
        label: name(kind).into(),
        amount: tokens,
        value: short(tokens),
        detail: format!("{pieces}×"),
    });
    sheet.heading("By kind", "tokens");
    sheet.items.push(Item::Shares { of: filled.sum, rows: rows.collect() });
    let (tools, files) = figures::by_tool_and_file(&filled.spans, paths);
    let label = |path: &str| Cell::Path(shown.path(&shown.cwd.join(path)));
    add_largest(&mut sheet, "By tool", tools, filled.sum, &|name| name.into());
    add_largest(&mut sheet, "By file", files, filled.sum, &label);
    let sizes = figures::sizes(&reading.entries);
    if let Some(most) = sizes.iter().max() {
        sheet.heading(
            "Over time",
            format!("{}, at most {} tokens", count(sizes.len(), "request"), short(*most)),
        );
        sheet.items.push(Item::Plot { values: sizes });
    }
    sheet.heading("Spans", "as the model gets them");
    sheet.items.push(spans(&filled.spans, &filled.texts, shown));
    for bad in &reading.damaged_records {
        sheet.note(format!("unreadable record (kept): {bad}"));
    }
    sheet
}

fn spans(spans: &[Span], texts: &[String], shown: &PathDisplay) -> Item {
    let columns = vec![
        Column::number("seq", 1),
        Column::number("tokens", 4),
        Column::word("kind", 3),
        Column::text("text"),
    ];
    let row = |(span, text): (&Span, &String)| {
        let seq = span.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
        let applied =
            if span.applied.is_empty() { String::new() } else { format!("[{}] ", span.applied.join(", ")) };
        let label = match Path::new(&span.label) {
            path if path.is_absolute() => shown.path(path),
            _ => one_line(&span.label, 40),
        };
        let text = format!("{applied}{label}: {}", one_line(text, MAX_TEXT_CHARS));
        TableRow {
            part: Some(Part::of(span.kind)),
            cells: vec![seq.into(), short(span.tokens.0).into(), name(span.kind).into(), text.into()],
            note: String::new(),
        }
    };
    Item::Table { columns, rows: spans.iter().zip(texts).map(row).collect() }
}

/// Adds a table of the largest sums (at most [`MAX_ROWS`]); nothing if there are none.
fn add_largest(
    sheet: &mut Sheet,
    title: &str,
    sums: BTreeMap<String, u64>,
    of: u64,
    label: &dyn Fn(&str) -> Cell,
) {
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    if sums.is_empty() {
        return;
    }
    sums.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let rows = sums.iter().take(MAX_ROWS).map(|(name, tokens)| Share {
        part: Part::Outputs,
        label: label(name),
        amount: *tokens,
        value: short(*tokens),
        detail: String::new(),
    });
    sheet.heading(title, "tokens");
    sheet.items.push(Item::Shares { of, rows: rows.collect() });
    if sums.len() > MAX_ROWS {
        sheet.note(format!("… and {} more", sums.len() - MAX_ROWS));
    }
}

/// Returns the page `/cost`.
pub(super) fn cost(entries: &[Entry]) -> Sheet {
    let mut sheet = Sheet::default();
    let usages = Usages::from_entries(entries);
    if usages.rows.is_empty() {
        sheet.heading("Cost", "$0.0000");
        sheet.note("No request was made yet. Each one will have a row here: what it read, wrote and cost.");
        return sheet;
    }
    let sum = &usages.sum;
    let prices = if sum.cost > 0.0 { "at list prices" } else { UNPRICED };
    sheet.heading("Cost", format!("${:.4} {prices}", sum.cost));
    sheet.field("requests", usages.rows.len().to_string());
    let share = if sum.read == 0 { 0.0 } else { 100.0 * sum.cached as f64 / sum.read as f64 };
    sheet.field("read", format!("{} tokens, {share:.0} % from the cache", short(sum.read)));
    sheet.field("wrote", format!("{} tokens", short(sum.wrote)));

    // Without prices, tokens are compared instead of cost.
    let priced = sum.cost > 0.0;
    let unit = if priced { "at list prices" } else { "tokens" };
    for (title, groups) in [("By model", &usages.models), ("By purpose", &usages.purposes)] {
        let amount = |cost: f64, tokens: u64| if priced { (cost * 1e6) as u64 } else { tokens };
        let rows: Vec<Share> = groups
            .iter()
            .enumerate()
            .map(|(n, (name, group))| Share {
                part: Part::ALL[n % Part::ALL.len()],
                label: Cell::Path(name.clone()),
                amount: amount(group.cost, group.read + group.wrote),
                value: if priced { format!("${:.4}", group.cost) } else { short(group.read + group.wrote) },
                detail: count(group.requests, "request"),
            })
            .collect();
        sheet.heading(title, unit);
        sheet.items.push(Item::Shares { of: rows.iter().map(|row| row.amount).sum(), rows });
    }
    let kinds = [
        (Part::System, "read from the cache", sum.cached),
        (Part::Rules, "read and written to it", sum.cache_write),
        (Part::Tools, "read, not cached", sum.read - sum.cached - sum.cache_write),
        (Part::Messages, "written", sum.wrote),
    ];
    let rows = kinds.into_iter().filter(|(_, _, tokens)| *tokens > 0).map(|(part, label, tokens)| Share {
        part,
        label: label.into(),
        amount: tokens,
        value: short(tokens),
        detail: String::new(),
    });
    sheet.heading("By kind", "tokens");
    sheet.items.push(Item::Shares { of: sum.read + sum.wrote, rows: rows.collect() });

    sheet.heading("Requests", "the oldest first");
    let columns = vec![
        Column::number("seq", 1),
        Column::word("for", 2),
        Column::number("read", 7),
        Column::number("cached", 5),
        Column::number("uncached", 3),
        Column::number("wrote", 6),
        Column::number("$", 8),
    ];
    let mut rows = Vec::new();
    let mut running = "";
    for row in &usages.rows {
        if running != row.model {
            running = row.model;
            rows.push(TableRow { note: running.to_owned(), ..TableRow::default() });
        }
        rows.push(TableRow {
            part: None,
            cells: vec![
                row.seq.to_string().into(),
                row.purpose.into(),
                short(row.read).into(),
                short(row.cached).into(),
                short(row.read - row.cached).into(),
                short(row.wrote).into(),
                format!("{:.4}", row.cost).into(),
            ],
            note: row.missed.as_ref().map(|why| format!("↑ not from the cache: {why}")).unwrap_or_default(),
        });
    }
    sheet.items.push(Item::Table { columns, rows });
    sheet
}

/// Returns the page `/tools`.
pub(super) fn tools(tools: &[ToolSpec]) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.heading("Tools", format!("{} that the model has", tools.len()));
    let rows = tools.iter().map(|tool| {
        let first = tool.description.split_once(". ").map_or(tool.description.as_str(), |(first, _)| first);
        let text = one_line(first, MAX_TEXT_CHARS);
        let cells = vec![tool.name.clone().into(), text.trim_end_matches('.').into()];
        TableRow { cells, ..TableRow::default() }
    });
    let columns = vec![Column::word("", 9), Column::sentences("")];
    sheet.items.push(Item::Table { columns, rows: rows.collect() });
    if tools.is_empty() {
        sheet.note("The model has no tools.");
    }
    sheet
}

/// Returns the page `/skills`.
pub(super) fn skills(skills: &Skills) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.heading("Skills", format!("{} found", skills.iter().count()));
    let rows = skills.iter().map(|skill| {
        let cells = vec![skill.name.clone().into(), one_line(&skill.description, MAX_TEXT_CHARS).into()];
        TableRow { cells, ..TableRow::default() }
    });
    let rows: Vec<TableRow> = rows.collect();
    if rows.is_empty() {
        sheet.note(
            "No skill was found. A skill is a folder with a SKILL.md below .becket/skills of the project.",
        );
    } else {
        sheet.items.push(Item::Table { columns: vec![Column::word("", 9), Column::sentences("")], rows });
    }
    for warning in skills.warnings() {
        sheet.check(false, "skill", one_line(warning, MAX_TEXT_CHARS));
    }
    sheet
}

/// Returns the page `/memory`. `items`: the blocks of the system prompt. `spans`: those of the context, without tools.
pub(super) fn memory(items: &[SystemItem], spans: &[Span], shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    // The first spans belong to the system prompt. Its skills are counted as rules there and are not files.
    let is_file = |n: usize| items.get(n).is_none_or(|item| item.kind == SystemKind::Rules);
    let rules: Vec<&Span> = spans
        .iter()
        .enumerate()
        .filter(|(n, span)| span.kind == SpanKind::Rules && is_file(*n))
        .map(|(_, span)| span)
        .collect();
    let sum: u64 = rules.iter().map(|span| span.tokens.0).sum();
    let files = if rules.is_empty() { "none" } else { "in the order in which the model reads them" };
    sheet.heading("Rules files", files);
    let rows = rules.iter().map(|span| Share {
        part: Part::Rules,
        label: Cell::Path(shown.path(Path::new(&span.label))),
        amount: span.tokens.0,
        value: short(span.tokens.0),
        detail: String::new(),
    });
    let rows: Vec<Share> = rows.collect();
    if rows.is_empty() {
        sheet.note(
            "No rules file was found: AGENTS.md here or above, up to the project's root. /init writes one.",
        );
    } else {
        sheet.items.push(Item::Shares { of: sum, rows });
        sheet.note(format!("{} tokens in all.", short(sum)));
    }
    sheet.heading("Add a line", "");
    sheet.note("#text and /memory text add a line to the nearest AGENTS.md.");
    sheet
}

/// Returns the page `/agents`.
pub(super) fn agents(agents: &[Definition], shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.heading("Agents", count(agents.len(), "agent"));
    for definition in agents {
        let kind = &definition.kind;
        sheet.heading(&kind.name, one_line(&kind.description, MAX_TEXT_CHARS));
        let from = match &definition.place {
            DefinedIn::BuiltIn => "built in".to_owned(),
            DefinedIn::Given => "given for this run".to_owned(),
            DefinedIn::User(path) | DefinedIn::Project(path) => shown.path(path),
        };
        sheet.field("from", from);
        for (label, value) in definition.keys() {
            sheet.field(label, value);
        }
    }
    sheet
        .note("The documentation of subagents describes the keys of an agent's file; --agent NAME runs a session as one.");
    sheet
}

/// The facts of `/status`.
pub(super) struct Status<'a> {
    pub session: &'a str,
    pub roots: &'a [PathBuf],
    pub trusted: bool,
    pub mode: &'a str,
    pub opening: &'a Opening,
    /// The backends in one line, and the mode of the sandbox.
    pub sandbox: String,
    pub sandbox_mode: &'a str,
    /// A line about deny rules with patterns that the sandbox cannot enforce everywhere.
    pub deny_rules: Option<String>,
    pub levels: Vec<LevelReach>,
}

/// Maximum number of places of a level of the sandbox that the page names: a project has more than a hundred protected ones.
const MAX_PATHS: usize = 24;

/// Returns the page `/status`.
pub(super) fn status(status: Status<'_>, shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.heading("Session", format!("becket {}", env!("CARGO_PKG_VERSION")));
    sheet.field("session", status.session);
    if !status.opening.model.is_empty() {
        sheet.field("model at the start", status.opening.model.as_str());
    }
    sheet.field("permission mode", status.mode);
    let trusted =
        if status.trusted { "trusted" } else { "not trusted: its settings can only add restrictions" };
    sheet.field("project", trusted);
    for (n, root) in status.roots.iter().enumerate() {
        sheet.path(if n == 0 { "folder" } else { "also" }, shown.folder(root));
    }
    sheet.heading("Sandbox", format!("mode {}", status.sandbox_mode));
    sheet.field("confined by", status.sandbox);
    if let Some(text) = status.deny_rules {
        sheet.field("deny rules", shown.text(&text));
    }
    for level in status.levels {
        sheet.heading(&format!("Commands at the level {}", level.level), level.backend);
        for (name, places) in level.places {
            if !places.is_empty() {
                let listed = if places.len() > MAX_PATHS + 1 { MAX_PATHS } else { places.len() };
                let mut text: Vec<String> =
                    places.iter().take(listed).map(|place| shown.folder(place)).collect();
                let more = places.len() - listed;
                if more > 0 {
                    text.push(format!("and {more} more, which `becket sandbox` lists"));
                }
                sheet.field(name, text.join(", "));
            }
        }
        sheet.field("network", level.network);
    }
    sheet
}

/// Returns the page `/hooks`.
pub(super) fn hooks(listed: &HookList, shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    if let Some(line) = listed.off_line() {
        sheet.note(line);
    } else if listed.rows.is_empty() {
        sheet.note("No hooks are configured.");
    }
    let entry = |row: &HookRow| {
        let matcher = if row.matcher.is_empty() { "*" } else { &row.matcher };
        let what = format!("{}: {}", row.kind, becket_print::clean(&row.hook));
        page::Entry::new(row.event.as_str(), &becket_print::clean(matcher), &what)
            .prominent()
            .with_detail(format!("({}; {})", shown.text(&becket_print::clean(&row.source)), row.state))
    };
    sheet.entries(listed.rows.iter().map(entry).collect());
    for warning in &listed.warnings {
        sheet.note(format!("Warning: {}", shown.text(&becket_print::clean(warning))));
    }
    sheet
}

/// Returns the page `/doctor`.
pub(super) fn doctor(checks: &[Check], shown: &PathDisplay) -> Sheet {
    let mut sheet = Sheet::default();
    let wrong = checks.iter().filter(|check| !check.ok).count();
    let found = match wrong {
        0 => "everything is in order".to_owned(),
        1 => "1 check failed".to_owned(),
        n => format!("{n} checks failed"),
    };
    sheet.heading("Checks", found);
    for check in checks {
        sheet.check(check.ok, check.name, shown.text(&becket_print::clean(&check.text)));
    }
    if wrong > 0 {
        sheet.note("becket doctor SESSION looks at one session, becket doctor --repair at all of them.");
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_from_the_workspace_or_the_home_folder() {
        let shown = PathDisplay { cwd: "/home/u/work".into(), home: Some("/home/u".into()) };
        for (path, want) in [
            ("/home/u/work/src/a.rs", "src/a.rs"),
            ("/home/u/work", "."),
            ("/home/u/.config/becket/AGENTS.md", "~/.config/becket/AGENTS.md"),
            ("/home/u", "~"),
            ("/home/user/x", "/home/user/x"),
            ("/etc/passwd", "/etc/passwd"),
        ] {
            assert_eq!(shown.path(Path::new(path)), want, "{path}");
        }
        assert_eq!(shown.folder(Path::new("/home/u/work")), "~/work");
        assert_eq!(shown.text("read (/home/u/.config/x)"), "read (~/.config/x)");
    }

    #[test]
    fn tools_and_costs_are_there_before_the_first_request() {
        let tool = |name: &str, description: &str| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: serde_json::Value::Null.into(),
        };
        let page = tools(&[tool("read", "Reads a file. More.")]).spoken();
        assert!(page.contains("read") && page.contains("Reads a file") && !page.contains("More"), "{page}");
        assert!(cost(&[]).spoken().contains("No request was made yet"));
    }
}
