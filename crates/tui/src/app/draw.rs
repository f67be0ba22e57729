//! Layout of the panes: the rows that the transcript, a question, the composer and the status line get.
//!
//! Depends on the state of the panes alone. Owns no state.

use super::App;
use super::messages::wanted_past;
use crate::approval::Spacing;
use crate::hint;
use crate::input::{Effect, Request};
use crate::keymap::{Do, pretty};
use crate::overlay::Overlay;
use crate::text;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

/// The composer takes at most the screen's height divided by this.
const COMPOSER_SHARE: u16 = 3;
/// Rows that a question may take even on a small screen.
const TIGHT_QUESTION: u16 = 10;
/// A screen with at least this many rows has room for an edge, a horizontal line, above and below the composer.
const EDGED: u16 = 20;
/// A screen with at least this many rows has a blank row above the composer's edge.
const TALL: u16 = 24;
/// Fewest columns for whole sentences as the hint in an empty composer.
const NARROW: u16 = 64;
/// Fewest columns for the longer hint of an idle composer.
const TINY: u16 = 44;
/// Rows for a list above the composer if there is no transcript to draw it over.
const LIST_ROWS: usize = 12;
/// Rows of the transcript that are kept above a question, so that the agent's reason stays in view.
const REASON_ROWS: u16 = 4;
/// Rows of the transcript that are more important than blank rows and the edges below a question: the agent's reason, and the last line
/// of the output that it is about.
const OUTPUT_ROWS: u16 = 8;
/// Rows of the transcript that are more important than the blank row between the answers and the line of keys.
const SEEN_ROWS: u16 = 6;
/// The header is in the middle of the screen if that leaves at least this many blank rows above and below it.
const MIDDLE: u16 = 6;
/// Rows for the header in the terminal's scrollback. Its large letters need more.
const INLINE_HEADER: u16 = 12;
/// Minimum height of the transcript, in rows, from which its first row shows the message that the rows belong to.
const PINNED: u16 = 8;
/// Like `PINNED`, while a question is open: the message that the work is for is more important then than one row of output.
const PINNED_ASKING: u16 = 3;

/// The panes of a screen, from its top.
struct Areas {
    transcript: Rect,
    /// The todo list, messages that wait, and the activity.
    working: Rect,
    question: Rect,
    /// The composer with its edges.
    bottom: Rect,
    status: Rect,
    /// The composer has an edge above and below.
    edged: bool,
}

impl App {
    /// Returns the window title: a mark for working or waiting, the session, the folder.
    fn title(&self) -> String {
        let asks = self.approvals.is_open() || self.pages.servers.is_open();
        let mark = match (asks, self.status.is_working()) {
            (true, _) => "? ",
            (false, true) => "◐ ",
            (false, false) => "",
        };
        format!("{mark}{}", self.status.title())
    }

    pub(super) fn retitle(&mut self) -> Effect {
        let title = self.title();
        self.window.retitle(title)
    }

    /// Draws a page that covers the transcript. Returns `None` if no page is open.
    fn draw_page(&mut self, frame: &mut Frame<'_>, area: Rect) -> Option<Vec<Effect>> {
        let writing = self.editor.writing();
        if self.pages.servers.is_open() {
            let page = self.page_above_composer(frame, area, "Or write to becket", true);
            return Some(self.pages.servers.draw(frame, page, writing, &self.look.theme));
        }
        if let Some(open) = &mut self.pages.key_page {
            open.page.draw(frame, &self.look.theme);
            return Some(open.page.painted());
        }
        // A page that asks a question leaves room for the composer.
        let page = if self.pages.overlay.as_ref().is_some_and(Overlay::asks) {
            let active = !self.pages.overlay.as_ref().is_some_and(Overlay::is_focused);
            let hint = if active && area.width < TINY {
                "Or write a message"
            } else if active {
                "Or write a message, which closes this page"
            } else {
                "Tab goes back to writing"
            };
            self.page_above_composer(frame, area, hint, active)
        } else {
            area
        };
        if let Some(overlay) = &mut self.pages.overlay {
            overlay.draw(frame, page, writing, &self.look.theme);
            return Some(overlay.painted(writing));
        }
        if let Some(inspector) = &mut self.pages.inspector {
            inspector.draw(frame, area, &self.look.theme);
            return Some(inspector.painted());
        }
        let picker = self.pages.picker.as_mut()?;
        picker.draw(frame, area, &self.look.theme);
        Some(Vec::new())
    }

    /// Draws the composer at the bottom, and returns the area above it.
    fn page_above_composer(&mut self, frame: &mut Frame<'_>, area: Rect, hint: &str, active: bool) -> Rect {
        let most = (area.height / COMPOSER_SHARE).max(1);
        let rows = self.editor.composer.height(area.width).clamp(1, most).min(area.height.saturating_sub(1));
        let page = Rect { height: area.height - rows, ..area };
        if rows > 0 {
            let bottom = Rect { y: page.bottom(), height: rows, ..area };
            self.editor.composer.draw(frame, bottom, &self.look.theme, hint, active);
        }
        page
    }

    /// Returns the lines above the composer: the todo list, messages that wait, and the current activity.
    fn above(&self, columns: u16, rows: u16, asking: bool) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if !asking {
            // Between turns, the panel is one row that says how many items are left, so it gets no rows for them.
            let room = if self.status.is_working() { rows } else { 0 };
            lines = self.todo.lines(columns, room, &self.look.theme);
        }
        let airy = !asking && rows >= TALL && self.window.screen.is_none();
        // A list of several rows and the line of the activity are two things.
        if airy && lines.len() > 1 {
            lines.push(Line::default());
        }
        lines.extend(self.editor.waiting.lines(columns, &self.look.theme));
        lines.extend(self.pages.held_line(columns, &self.look.theme));
        // While a question is open, no activity is shown: the question says itself that becket waits.
        if !asking {
            let moves = self.editor.composer.is_empty();
            lines.extend(self.status.activity(columns, &self.look.theme, self.stop_key(), moves));
        }
        lines.extend(self.status.note(columns, &self.look.theme));
        // The line of the activity belongs to the transcript, so on a tall screen a blank row divides it from the composer.
        if airy && !lines.is_empty() {
            lines.push(Line::default());
        }
        lines
    }

    /// Returns the key that interrupts now, `None` while a list or a search uses every key.
    fn stop_key(&self) -> Option<&'static str> {
        let taken = self.pages.palette.is_some()
            || self.reading.is_open(&self.transcript)
            || self.editor.composer.is_searching();
        let escape_is_taken = self.editor.completion.is_open() || self.editor.composer.takes_escape();
        (!taken).then_some(if escape_is_taken { "Ctrl-C" } else { "Esc" })
    }

    /// Returns the composer's height on a screen of `rows`.
    fn composer_rows(&self, columns: u16, rows: u16, asking: bool) -> u16 {
        let share = if asking { 2 * COMPOSER_SHARE } else { COMPOSER_SHARE };
        self.editor.composer.height(columns).clamp(1, (rows / share).max(1))
    }

    /// Returns the height of the edges around the composer. In inline mode there are none, because a window that becomes
    /// narrower would break the edges into several rows.
    fn edge_rows(&self, rows: u16) -> u16 {
        if self.window.screen.is_some() || rows < EDGED { 0 } else { 2 }
    }

    /// Returns the title for the edge above the composer. While becket works or asks there is none, nor if the title is the beginning
    /// of a message: above the composer it would look like a text that is still to be sent.
    fn edge_title(&self, columns: usize) -> Option<String> {
        let rests = !self.status.is_working() && !self.approvals.is_open();
        let title = self.status.session_title(columns).filter(|_| rests)?;
        (!self.transcript.has_prompt(&title)).then_some(title)
    }

    /// Draws an edge above and below the composer, the upper one with the session's title at its right end and, if the end of
    /// the transcript is not in view, a note that says so. Returns the area between them.
    fn edged(&self, frame: &mut Frame<'_>, area: Rect) -> Rect {
        let columns = usize::from(area.width);
        let meaning = self.editor.meaning();
        let style = meaning.map_or(self.look.theme.border, |_| self.look.theme.outcome.warning);
        let edge = |columns: usize| Span::styled("─".repeat(columns), style);
        let note = self.more_below();
        let taken = note.as_ref().map_or(0, |note| text::line_width(note) + 2);
        let mut upper = match self.edge_title(columns.saturating_sub(4 + taken)) {
            Some(title) => {
                let title = format!(" {title} ");
                let rest = columns.saturating_sub(2 + taken + text::width(&title));
                vec![edge(rest), Span::styled(title, self.look.theme.dim), edge(2)]
            }
            None => vec![edge(columns.saturating_sub(taken))],
        };
        // If the text is no message for the model, the edge says what it is.
        if let Some(meaning) = meaning
            && let Some(first) = upper.first_mut()
            && let Some(rest) = text::width(&first.content).checked_sub(text::width(meaning) + 4)
        {
            *first = edge(rest);
            upper.splice(0..0, [edge(2), Span::styled(format!(" {meaning} "), style)]);
        }
        if let Some(note) = note {
            upper.extend(note.spans);
            upper.push(edge(2));
        }
        let upper = Line::from(upper);
        put(frame, Rect { height: 1, ..area }, &[upper]);
        let lower = Line::from(edge(columns));
        put(frame, Rect { y: area.bottom().saturating_sub(1), height: 1, ..area }, &[lower]);
        Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area }
    }

    /// Returns the note that the end of the transcript is not in view, with the key that goes there.
    fn more_below(&self) -> Option<Line<'static>> {
        if self.transcript.follows() {
            return None;
        }
        // While the composer holds text, End goes to the end of its line, so the chord of the action is named.
        let end = match self.keyboard.keymap.chord(Do::End) {
            Some(chord) if !self.editor.composer.is_empty() => pretty(&chord),
            _ => "End".to_owned(),
        };
        let label = self.look.theme.label();
        let spans = hint::spans(&format!(" ↓ more below · {end} "), &self.look.theme);
        Some(spans.into_iter().map(|span| span.patch_style(label)).collect())
    }

    /// Draws the user's message that the view belongs to over the first row, while that message is above the view. The rows below stay
    /// in place, and pages overlap by more than this row.
    fn pin_prompt(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let least = if self.approvals.is_open() { PINNED_ASKING } else { PINNED };
        if area.height < least {
            return;
        }
        let Some(prompt) = self.transcript.prompt_above(area.width, &self.look.theme) else { return };
        let row = Rect { height: 1, ..area };
        frame.render_widget(ratatui::widgets::Clear, row);
        frame.buffer_mut().set_style(row, prompt.style);
        put(frame, row, &[prompt]);
    }

    /// Returns the height of a question that is shown whole, with at least one row of the transcript; `None` if there is no
    /// room for that. An answer that allows counts only after the end of the question was seen. `around`: rows around it; `kept`: rows
    /// of the transcript that blank rows must not hide.
    fn whole_question(&self, area: Rect, around: u16, kept: u16) -> Option<u16> {
        let fits = |spacing: Spacing| {
            // Blank rows are less important than what the agent said before the question.
            let before = match spacing {
                Spacing::Airy | Spacing::Near => kept.clamp(REASON_ROWS, SEEN_ROWS),
                Spacing::Close => REASON_ROWS,
                Spacing::Tight | Spacing::Short => 1,
            };
            self.question_fits(area, around.saturating_add(before), spacing)
        };
        [Spacing::Airy, Spacing::Near, Spacing::Close, Spacing::Tight].into_iter().find_map(fits)
    }

    /// Returns the height of the question with this spacing, if `around` rows fit around it.
    fn question_fits(&self, area: Rect, around: u16, spacing: Spacing) -> Option<u16> {
        let rows = self.approvals.height(area.width, &self.look.theme, spacing).max(1);
        (rows.saturating_add(around) <= area.height).then_some(rows)
    }

    /// Returns the rows of the transcript that a question should leave in view.
    fn kept_rows(&mut self, columns: u16) -> u16 {
        let asked = self.approvals.asked().cloned();
        self.transcript.rows_beside(columns, &self.look.theme, asked.as_ref(), OUTPUT_ROWS)
    }

    /// Returns the height of the question in `area`. `above`: rows above it; `composer`: rows of the composer and its edges; `kept`: as in
    /// [`Self::whole_question`].
    fn question_rows(&self, area: Rect, above: usize, composer: u16, kept: u16) -> u16 {
        if let Some(rows) = self.window.screen {
            return self.asked(area.width, rows, above, composer);
        }
        let fixed = composer + self.status.height(area.width);
        if let Some(whole) = self.whole_question(area, fixed.saturating_add(above as u16), kept) {
            return whole;
        }
        let whole = self.approvals.height(area.width, &self.look.theme, Spacing::Tight);
        // The row of the current activity stays, and on all but the smallest screens a part of the transcript.
        let around = fixed + (above as u16).min(1);
        let most = (area.height * 2 / 3).max(TIGHT_QUESTION).min(area.height.saturating_sub(around));
        whole.clamp(1, most.max(1))
    }

    /// Divides the screen. `above`: lines above the composer; `asking`: while a question is open, the rows of the transcript that it
    /// should leave in view.
    fn areas(&self, area: Rect, above: usize, asking: Option<u16>) -> Areas {
        // Keeps the composer's row, and one row of the transcript unless the terminal's scrollback holds it.
        let kept = if self.window.screen.is_some() { 1 } else { 2 };
        let status_rows = self.status.height(area.width).min(area.height.saturating_sub(kept));
        let room = area.height.saturating_sub(kept + status_rows);
        let composer_rows =
            self.composer_rows(area.width, self.window.screen.unwrap_or(area.height), asking.is_some());
        let mut edges = self.edge_rows(area.height);
        // On a small screen the question, and what it is about, are more important than the edges below it.
        let around = (above as u16).saturating_add(composer_rows + edges + status_rows);
        if let Some(kept) = asking
            && self.question_fits(area, around + kept.max(REASON_ROWS), Spacing::Close).is_none()
        {
            edges = 0;
        }
        let question_rows =
            asking.map_or(0, |kept| self.question_rows(area, above, composer_rows + edges, kept));
        let [transcript, working, question, bottom, status] = Layout::vertical([
            Constraint::Min(0),
            Constraint::Length((above as u16).min(room)),
            Constraint::Length(question_rows),
            Constraint::Length(composer_rows + edges),
            Constraint::Length(status_rows),
        ])
        .areas(area);
        Areas { transcript, working, question, bottom, status, edged: edges > 0 }
    }

    /// Draws the transcript, or the header of a session without messages.
    fn draw_transcript(&mut self, frame: &mut Frame<'_>, areas: &Areas) {
        let transcript = areas.transcript;
        // In inline mode the rows of the area above the transcript's own stay blank: a terminal that becomes narrower pushes as
        // many rows into its scrollback as it wraps, and blank rows do no harm there.
        let most = if self.window.screen.is_some() { self.window.live } else { u16::MAX };
        let height = transcript.height.min(most);
        let y = transcript.bottom().saturating_sub(height);
        // The row of the call that a question is about only says that the call waits, so the question covers that row.
        let asked = self.approvals.asked().filter(|_| areas.working.height == 0).cloned();
        let covered = match self.transcript.asking_rows(transcript.width, &self.look.theme, asked.as_ref()) {
            0 => 0,
            // With few rows left, the last thing that the agent said is shown instead of the blank row after it.
            waiting => (waiting + u16::from(height < REASON_ROWS)).min(areas.question.height),
        };
        let rows = Rect { y, height: height + covered, ..transcript };
        self.transcript.draw_beside(frame, rows, &self.look.theme, asked.as_ref());
        self.pin_prompt(frame, transcript);
        if covered > 0 {
            frame.render_widget(ratatui::widgets::Clear, Rect { height: covered, ..areas.question });
        }
        // A list is drawn over the header, and a part of the header above it would look like one of its entries.
        let listed = self.editor.completion.is_open() || self.pages.palette.is_some();
        let lines = if listed { Vec::new() } else { self.header(transcript) };
        if !lines.is_empty() {
            put(frame, self.header_area(transcript, &lines), &lines);
        }
    }

    /// Returns the place of the header: in the middle of a large screen, else next to the input with a blank row between them.
    fn header_area(&self, transcript: Rect, lines: &[Line<'_>]) -> Rect {
        let rows = lines.len() as u16;
        if self.window.screen.is_none() && transcript.height >= rows + 2 * MIDDLE {
            let columns =
                lines.iter().map(Line::width).max().unwrap_or(0).min(usize::from(transcript.width)) as u16;
            let (left, top) = ((transcript.width - columns) / 2, (transcript.height - rows) / 2);
            return Rect::new(transcript.x + left, transcript.y + top, columns, rows);
        }
        let y = transcript.bottom().saturating_sub(rows + 1).max(transcript.y);
        Rect { y, height: transcript.bottom() - y, ..transcript }
    }

    /// Returns the header, for a session without messages.
    fn header(&self, transcript: Rect) -> Vec<Line<'static>> {
        if !self.transcript.is_empty() {
            return Vec::new();
        }
        let Some(rows) = self.window.screen else { return self.status.header(transcript, &self.look.theme) };
        let lines = self.inline_header(transcript.width, rows);
        if lines.len() < usize::from(transcript.height) { lines } else { Vec::new() }
    }

    /// Returns the header for the terminal's scrollback. It is the form for few rows: the inline region must fit even if the
    /// window becomes half as wide.
    fn inline_header(&self, columns: u16, rows: u16) -> Vec<Line<'static>> {
        self.status.header(Rect::new(0, 0, columns, rows.min(INLINE_HEADER)), &self.look.theme)
    }

    /// Draws the open question. Returns effects that follow from it having been shown.
    fn draw_question(&mut self, frame: &mut Frame<'_>, areas: &Areas) -> Vec<Effect> {
        let question = areas.question;
        let writing = self.writing();
        self.approvals.draw(frame, question, writing, &self.look.theme);
        // A list drawn over the question hides it, so the question cannot have been read.
        if self.editor.completion.is_open() { Vec::new() } else { self.approvals.painted(writing) }
    }

    /// Draws the whole screen. Returns effects that follow from something having been shown.
    pub fn draw(&mut self, frame: &mut Frame<'_>) -> Vec<Effect> {
        let area = frame.area();
        self.window.resized(area.width, &mut self.transcript);
        let asking = self.approvals.is_open();
        if !asking && let Some(effects) = self.draw_page(frame, area) {
            return effects;
        }
        let mut above = self.above(area.width, self.window.screen.unwrap_or(area.height), asking);
        let kept = asking.then(|| self.kept_rows(area.width));
        let mut areas = self.areas(area, above.len(), kept);
        // The composer's edge contains the note that more is below. Without edges the note has a row of its own, so that it covers no text.
        if let Some(note) = self.more_below().filter(|_| !areas.edged && areas.transcript.height > 2) {
            above.push(note.right_aligned());
            areas = self.areas(area, above.len(), kept);
        }
        self.draw_transcript(frame, &areas);
        let bottom = if areas.edged { self.edged(frame, areas.bottom) } else { areas.bottom };
        let mut jobs = self.transcript.jobs();
        if asking {
            jobs.extend(self.approvals.jobs());
        }
        let skip = above.len() - usize::from(areas.working.height).min(above.len());
        for (y, line) in (areas.working.y..areas.working.bottom()).zip(&above[skip..]) {
            frame.render_widget(line, Rect { y, height: 1, ..areas.working });
        }
        let hint = self.composer_hint(bottom.width, asking);
        let active = !self.approvals.is_focused();
        self.editor.composer.draw(frame, bottom, &self.look.theme, hint, active);
        let mut effects = if asking { self.draw_question(frame, &areas) } else { Vec::new() };
        let height = areas.transcript.height + areas.working.height + areas.question.height;
        let lists = Rect { height, ..areas.transcript };
        match self.pages.palette.as_mut().filter(|_| !asking) {
            Some(palette) => palette.draw(frame, lists, &self.look.theme),
            None => self.editor.completion.draw(frame, lists, &self.look.theme),
        }
        self.draw_status(frame, &areas);
        if !jobs.is_empty() {
            effects.push(Effect::Highlight(jobs));
        }
        effects.extend(self.requests_of_transcript());
        let title = self.title();
        effects.extend(self.window.keep_title(title));
        effects
    }

    /// Returns the text that an empty composer shows.
    fn composer_hint(&self, width: u16, asking: bool) -> &'static str {
        match (asking, self.status.is_working()) {
            (true, _) => self.approvals.hint(),
            (false, true) if width < NARROW => "Enter sends now, Tab after this turn",
            (false, true) => "Write a message: Enter sends it now, Tab after this turn",
            (false, false) if width < TINY => "Describe a task · / for commands",
            (false, false) => "Describe a task, or type / for commands",
        }
    }

    /// Draws the status line, or the line about the place in the transcript while the user reads there.
    fn draw_status(&self, frame: &mut Frame<'_>, areas: &Areas) {
        let area = areas.status;
        let reading = self.reading.line(&self.transcript, area.width, &self.look.theme);
        if let Some((line, cursor)) = reading {
            put(frame, area, &[line]);
            if let Some(column) = cursor {
                frame.set_cursor_position((area.x + column, area.y));
            }
        } else {
            let vim = self.editor.composer.vim();
            let headed = !self.header(areas.transcript).is_empty();
            put(frame, area, &self.status.lines(area.width, &self.look.theme, vim, headed));
        }
    }

    /// Returns requests for content that the transcript needs now that it was shown.
    fn requests_of_transcript(&mut self) -> Vec<Effect> {
        let mut effects: Vec<Effect> = Vec::new();
        effects.extend(self.window.wanted_images(&mut self.transcript));
        let losses = self.transcript.losses().into_iter();
        effects.extend(losses.map(|entry| Effect::Ask(Request::Loss { entry })));
        let removed = self.transcript.wanted_removed().into_iter();
        effects.extend(removed.map(|entry| Effect::Ask(Request::Removed { entry: Some(entry) })));
        effects.extend(wanted_past(&mut self.transcript));
        effects
    }

    /// Returns the lines of the transcript that the terminal's scrollback does not hold yet, and marks them as printed.
    pub fn print(&mut self) -> Vec<Line<'static>> {
        self.transcript.print(self.window.columns, &self.look.theme, true)
    }

    /// Like [`Self::print`], for the lines that can no longer change.
    pub fn print_finished(&mut self) -> Vec<Line<'static>> {
        let mut lines = self.print_header();
        lines.extend(self.transcript.print(self.window.columns, &self.look.theme, false));
        lines
    }

    /// Returns the header once, when the first message takes its place: from then on it belongs to the scrollback.
    fn print_header(&mut self) -> Vec<Line<'static>> {
        let Some(rows) = self.window.screen.filter(|_| !self.window.headed && !self.transcript.is_empty())
        else {
            return Vec::new();
        };
        let mut lines = self.inline_header(self.window.columns, rows);
        self.window.headed = !lines.is_empty();
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines
    }

    /// Sizes the inline region, which draws only what was not printed. Returns the rows it needs on a terminal of
    /// `columns` and `rows`.
    ///
    /// A terminal that becomes narrower wraps rows before the program can redraw. Rows that no longer fit then stay in
    /// its scrollback for good. So the height leaves room for all rows at half the width.
    pub fn inline(&mut self, columns: u16, rows: u16) -> u16 {
        self.transcript.set_inline();
        self.window.columns = columns;
        self.window.screen = Some(rows);
        let asking = self.approvals.is_open();
        if !asking && self.pages.is_full() {
            return rows;
        }
        let above = self.above(columns, rows, asking).len();
        let lists = (!asking && self.pages.palette.is_some()) || self.editor.completion.is_open();
        let composer = self.composer_rows(columns, rows, asking);
        let question = if asking { self.asked(columns, rows, above, composer) } else { 0 };
        let around = above + usize::from(question + composer) + usize::from(self.status.height(columns));
        let room = usize::from(rows).saturating_sub(2 * around).max(1);
        let live = self.transcript.live_rows(columns, &self.look.theme, half(columns), room);
        let header = self.inline_header(columns, rows).len() + 1;
        let headed = self.transcript.is_empty() && 2 * header <= room && header > 1;
        let live = if headed { header } else { live };
        self.window.live = live as u16;
        (live.max(if lists { LIST_ROWS } else { 0 }) + around).clamp(1, usize::from(rows)) as u16
    }

    /// Returns the height of a question in inline mode. `above`: rows above it; `composer`: rows of the composer.
    fn asked(&self, columns: u16, rows: u16, above: usize, composer: u16) -> u16 {
        let around = 2 * (above + usize::from(self.status.height(columns) + composer));
        let room = usize::from(rows).saturating_sub(around);
        self.approvals.rows_in(columns, &self.look.theme, half(columns), room).min((rows * 2 / 3).max(1))
    }
}

/// Returns the columns of each part if the window is divided into two panes, with a column between them.
fn half(columns: u16) -> u16 {
    (columns.saturating_sub(1) / 2).max(1)
}

/// Draws lines into an area from its top. Lines that do not fit are dropped.
fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
    for (y, line) in lines.iter().take(usize::from(area.height)).enumerate() {
        frame.buffer_mut().set_line(area.x, area.y + y as u16, line, area.width);
    }
}
