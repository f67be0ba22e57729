//! Pages as data: their appearance at three sizes and in all themes. No row may ever be too wide.
//!
//! `screens/page-NAME.COLUMNSxROWS.txt` contains the expected screen; `BECKET_UPDATE_SCREENS=1` writes it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/expected.rs"]
mod expected;

use becket_tui::app::App;
use becket_tui::input::{Input, Page, Reply};
use becket_tui::page::{Cell, Column, Entry, Item, Share, Sheet, TableRow};
use becket_tui::picture;
use becket_tui::status::meter::Part;
use becket_tui::terminal::surface::Surface;
use becket_tui::text;
use becket_tui::theme::Theme;
use expected::Expected;
use proptest::prelude::*;
use ratatui::layout::Size;

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 12), (120, 40)];
const NAMES: [&str; 7] = ["context", "cost", "doctor", "memory", "skills", "status", "tools"];

fn share(part: Part, label: &str, amount: u64, value: &str, detail: &str) -> Share {
    let label = if label.contains('/') { Cell::Path(label.to_owned()) } else { Cell::from(label) };
    Share { part, label, amount, value: value.to_owned(), detail: detail.to_owned() }
}

fn row(part: Option<Part>, cells: &[&str], note: &str) -> TableRow {
    TableRow { part, cells: cells.iter().map(|cell| Cell::from(*cell)).collect(), note: note.to_owned() }
}

fn named(name: &str) -> Sheet {
    let mut sheet = Sheet::default();
    match name {
        "context" => context(&mut sheet),
        "cost" => cost(&mut sheet),
        "doctor" => {
            sheet.heading("Checks", "1 check failed");
            sheet.check(true, "config", "read (~/.config/becket/config.toml)");
            sheet.check(false, "model", "no model can be used: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server");
            sheet.check(true, "store", "3 sessions, 29kB of ledgers in ~/.local/share/becket/sessions");
        }
        "memory" => {
            sheet.heading("Rules files", "in the order in which the model reads them");
            let rows = vec![
                share(Part::Rules, "~/.config/becket/AGENTS.md", 120, "120", ""),
                share(Part::Rules, "AGENTS.md", 1_300, "1.3k", ""),
                share(Part::Rules, "crates/session/src/context/compaction/AGENTS.md", 80, "80", ""),
            ];
            sheet.items.push(Item::Shares { of: 1_500, rows });
            sheet.note("1.5k tokens in all.");
        }
        "skills" | "tools" => {
            sheet.heading(if name == "tools" { "Tools" } else { "Skills" }, "3 found");
            let rows = vec![
                row(None, &["read", "Read a file (text, image, PDF, notebook) or list a directory"], ""),
                row(
                    None,
                    &["job_output", "New output and state of a background job; without id lists all"],
                    "",
                ),
                row(
                    None,
                    &[
                        "write-tests",
                        "Add or improve tests for existing or new code. Use when asked to write tests, raise coverage, add a regression test",
                    ],
                    "",
                ),
            ];
            sheet.items.push(Item::Table { columns: vec![Column::word("", 9), Column::text("")], rows });
        }
        _ => {
            sheet.heading("Session", "becket 0.1.0");
            sheet.field("session", "01a20b70-84a7-705e-b655-dab65089a318");
            sheet.field("permission mode", "default");
            sheet.path("folder", "~/work/some/quite/deeply/nested/folder/of/a/project/with-a-long-name");
            sheet.heading("Commands at the level read-only", "Landlock (version 6) and seccomp");
            sheet.field("reads", "/usr, /bin, /sbin, /lib, /lib32, /lib64, /opt, /nix/store, /gnu/store, /etc, /sys, /proc/cpuinfo");
            sheet.field("network", "off");
        }
    }
    sheet
}

fn context(sheet: &mut Sheet) {
    sheet.heading("In use", "26k of 180k tokens, 15 % (estimated)");
    let parts = vec![
        (Part::System, 940),
        (Part::Rules, 1_300),
        (Part::Tools, 2_200),
        (Part::Messages, 3_330),
        (Part::Outputs, 18_000),
    ];
    sheet.items.push(Item::Bar { parts, of: 180_000, mark: Some(162_000) });
    sheet.field("model", "anthropic/claude-sonnet-4-5");
    sheet.field("window", "200k tokens");
    sheet.heading("By kind", "tokens");
    let rows = vec![
        share(Part::System, "system", 940, "940", "2×"),
        share(Part::Rules, "rules", 1_300, "1.3k", "1×"),
        share(Part::Tools, "tools", 2_200, "2.2k", "13×"),
        share(Part::Messages, "user", 20, "20", "4×"),
        share(Part::Outputs, "tool output", 18_000, "18k", "44×"),
    ];
    sheet.items.push(Item::Shares { of: 22_460, rows });
    sheet.heading("By file", "tokens");
    let rows = vec![
        share(Part::Outputs, "crates/session/src/context/compaction/plan.rs", 4_400, "4.4k", ""),
        share(Part::Outputs, "src/parser.rs", 1_700, "1.7k", ""),
    ];
    sheet.items.push(Item::Shares { of: 22_460, rows });
    sheet.heading("Over time", "48 requests, at most 31k tokens");
    sheet.items.push(Item::Plot { values: (1..=48).map(|n| 5_000 + n * 550 % 26_000).collect() });
    sheet.heading("Spans", "as the model gets them");
    let columns = vec![
        Column::number("seq", 1),
        Column::number("tokens", 4),
        Column::word("kind", 3),
        Column::text("text"),
    ];
    let rows = vec![
        row(
            Some(Part::System),
            &[
                "-",
                "690",
                "system",
                "prompt: You are becket, a coding agent working in a terminal. You get a task",
            ],
            "",
        ),
        row(
            Some(Part::Messages),
            &["6", "30", "user", "user: the parser loses a line when a comment ends the file"],
            "",
        ),
        row(Some(Part::Outputs), &["19", "14k", "tool output", "bash: running 214 tests"], ""),
    ];
    sheet.items.push(Item::Table { columns, rows });
}

fn cost(sheet: &mut Sheet) {
    sheet.heading("Cost", "$25.0795 at list prices");
    sheet.field("requests", "5");
    sheet.heading("By model", "at list prices");
    let rows = vec![
        share(Part::System, "anthropic/claude-sonnet-4-5", 79_500, "$0.0795", "3 requests"),
        share(Part::Rules, "openai/gpt", 25_000_000, "$25.0000", "2 requests"),
    ];
    sheet.items.push(Item::Shares { of: 25_079_500, rows });
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
    let rows = vec![
        row(None, &[], "anthropic/claude-sonnet-4-5"),
        row(
            None,
            &["12", "turn", "8.1k", "0", "8.1k", "120", "0.0290"],
            "↑ not from the cache: the first request",
        ),
        row(
            None,
            &["123456", "compaction", "1.2M", "0", "1.2M", "120", "12.5000"],
            "↑ not from the cache: a pause of more than 5 minutes",
        ),
    ];
    sheet.items.push(Item::Table { columns, rows });
}

fn drawn(sheet: Sheet, name: &str, (columns, rows): (u16, u16), theme: Theme) -> String {
    let page = Page { title: name.to_owned(), sheet: Some(sheet), ..Page::default() };
    let mut app = App::new(theme);
    app.update(Input::Reply(Reply::Page(Ok(page))));
    let size = Size::new(columns, rows);
    let mut surface = Surface::new(size).unwrap();
    picture::text(surface.cells(size, |frame| drop(app.draw(frame))).unwrap().0)
}

#[test]
fn pages_are_what_they_were() {
    let mut expected = Expected::of_folder("screens");
    for name in NAMES {
        for (columns, rows) in SIZES {
            let shown = drawn(named(name), name, (columns, rows), Theme::dark());
            expected.check(&format!("page-{name}.{columns}x{rows}"), &shown);
        }
    }
    expected.end();
}

/// A theme changes colours only: without colours (`NO_COLOR`) and with sixteen, every share still has its mark.
#[test]
fn pages_say_the_same_without_colours() {
    for name in NAMES {
        for size in SIZES {
            let plain = drawn(named(name), name, size, Theme::plain());
            for theme in Theme::NAMES {
                assert_eq!(
                    drawn(named(name), name, size, Theme::by_name(theme).unwrap()),
                    plain,
                    "{name} {theme}"
                );
            }
        }
    }
    let rows = named("context").rows(80, &Theme::plain());
    let has = |mark: char| rows.iter().any(|row| row.to_string().matches(mark).count() > 1);
    for part in Part::ALL {
        assert!(has(part.mark()), "{part:?}");
    }
    for theme in ["plain", "dark", "ansi"] {
        let coloured = named("context").rows(80, &Theme::by_name(theme).unwrap());
        let coloured = coloured.iter().flat_map(|row| &row.spans).any(|span| span.style.fg.is_some());
        assert_eq!(coloured, theme != "plain", "{theme}");
    }
}

#[test]
fn what_is_read_out_has_no_bars_and_is_whole() {
    let spoken = named("context").spoken();
    assert!(!spoken.contains(['█', '▓', '▒', '▚', '░', '·', '…', '│']), "{spoken}");
    assert!(spoken.contains("crates/session/src/context/compaction/plan.rs"), "{spoken}");
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z /._-]{0,80}", "[a-z日👍é\u{301}\t\u{202e}/ ]{0,30}", "/[a-z/]{0,120}\\.rs"]
}

fn item() -> impl Strategy<Value = Item> {
    let parts = || proptest::sample::select(Part::ALL.to_vec());
    let shares = proptest::collection::vec((parts(), words(), any::<u32>(), words(), words()), 0..5)
        .prop_map(|rows| {
            let rows: Vec<Share> =
                rows.iter().map(|(p, l, n, v, d)| share(*p, l, u64::from(*n), v, d)).collect();
            Item::Shares { of: rows.iter().map(|row| row.amount).sum(), rows }
        });
    let table =
        proptest::collection::vec((proptest::option::of(parts()), words(), words(), words(), words()), 0..5)
            .prop_map(|rows| {
                let columns = vec![Column::number("seq", 1), Column::word("kind", 3), Column::text("text")];
                let rows = rows.iter().map(|(part, a, b, c, note)| row(*part, &[a, b, c], note)).collect();
                Item::Table { columns, rows }
            });
    let fields = (words(), words(), 0..4u8).prop_map(|(label, value, kind)| {
        let mut sheet = Sheet::default();
        match kind {
            0 => sheet.field(&label, value),
            1 => sheet.path(&label, value),
            kind => sheet.check(kind == 2, &label, value),
        }
        sheet.items.remove(0)
    });
    prop_oneof![
        (words(), words()).prop_map(|(text, detail)| Item::Heading { text, detail }),
        fields,
        shares,
        table,
        proptest::collection::vec((parts(), 0..1_000u64), 0..6).prop_map(|parts| Item::Bar {
            parts,
            of: 2_000,
            mark: Some(1_800)
        }),
        proptest::collection::vec(0..1_000_000u64, 0..90).prop_map(|values| Item::Plot { values }),
        words().prop_map(Item::Note),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_row_is_wider_than_the_terminal(items in proptest::collection::vec(item(), 0..8)) {
        let sheet = Sheet { items };
        for columns in 1..=200 {
            for row in sheet.rows(columns, &Theme::plain()) {
                prop_assert!(text::width(&row.to_string()) <= columns, "{columns}: {row}");
            }
        }
    }
}

#[test]
fn no_row_of_any_page_is_wider_than_the_terminal() {
    for name in NAMES {
        for columns in 20..=200 {
            for row in named(name).rows(columns, &Theme::plain()) {
                assert!(text::width(&row.to_string()) <= columns, "{name} {columns}: {row}");
            }
        }
    }
}

/// A detail is shown whole: beside what it belongs to, or below it. A long word, such as an id, is not broken beside its label.
#[test]
fn details_and_ids_are_not_broken() {
    let id = "01a20b70-84a7-705e-b655-dab65089a318";
    let mut sheet = Sheet::default();
    sheet.heading("Rules files", "in the order in which the model reads them");
    sheet.field("session", id);
    sheet.field("permission mode", "default");
    let entry = Entry::new("permissions.ask", "", "\"Bash(git push *)\"").prominent();
    sheet.entries(vec![entry.with_detail("(user: ~/.config/becket/config.toml)")]);
    for columns in [40, 60, 80, 120] {
        let rows: Vec<String> = sheet
            .rows(columns, &Theme::plain())
            .iter()
            .map(|row| row.to_string().trim_end().to_owned())
            .collect();
        let page = rows.join("\n");
        assert!(!page.contains('…'), "{page}");
        for whole in [id, "\"Bash(git push *)\"", "(user: ~/.config/becket/config.toml)"] {
            assert!(rows.iter().any(|row| row.contains(whole)), "{columns}: {whole}\n{page}");
        }
    }
}

/// The rows of a plot on a terminal with this many columns.
fn plot(values: impl Iterator<Item = u64>, columns: usize) -> Vec<String> {
    let sheet = Sheet { items: vec![Item::Plot { values: values.collect() }] };
    sheet.rows(columns, &Theme::plain()).iter().map(ToString::to_string).collect()
}

#[test]
fn a_plot_has_its_largest_value_on_top() {
    for columns in [40, 80, 200] {
        // More values than columns: each column shows the largest of its values, so the last one is as high as the plot.
        let rows = plot((1..=200).map(|n| n * 100), columns);
        let page = rows.join("\n");
        let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
        assert!(first.trim_start().starts_with("20k │") && first.ends_with('█'), "{page}");
        let widths: Vec<usize> = rows.iter().map(|row| row.trim_end().chars().count()).collect();
        assert!(rows.len() > 1 && widths.iter().all(|width| *width == widths[0]), "{widths:?}\n{page}");
        let (label, bars) = last.split_once('│').unwrap();
        assert!(label.trim() == "0" && !bars.starts_with(' '), "the first value is drawn:\n{page}");
    }
    assert!(plot(std::iter::empty(), 80).is_empty() && plot([0, 0].into_iter(), 80).is_empty());
    // A single value needs no axis.
    assert_eq!(plot([7].into_iter(), 80).len(), 1);
}
