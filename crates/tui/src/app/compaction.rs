//! Previews of a compaction, and bringing back messages that a compaction removed from the context.
//!
//! Owns the plan on show, and the flag that its summary is open in the editor. The agent computes and applies
//! compactions.

use super::App;
use crate::input::{Effect, Page, Request};
use crate::menu::Item;
use crate::overlay::{Choice, Overlay};
use crate::picker::{Kind, Picker, Row};
use crate::text::thousands;
use crate::transcript::Folded;
use crate::transcript::compaction::{Known, left_out_lines, lines, plan_line};
use becket_types::{Command, CompactionPlan, ContextChange, FoldedMessage, Loss, Seq};
use std::fmt::Write as _;

/// Most messages that the page lists.
const MOST: usize = 200;

/// A compaction that is shown before it is applied.
pub(super) struct Preview {
    plan: CompactionPlan,
    /// The user's editor is open on the summary.
    editing: bool,
}

impl App {
    pub(super) fn show_compaction(&mut self, plan: CompactionPlan) -> Vec<Effect> {
        self.overlay = Some(page(&plan));
        self.preview = Some(Preview { plan, editing: false });
        vec![Effect::Notify("the compaction can be looked at".to_owned())]
    }

    /// Handles the page's effects after a key; `None`: the page closes.
    pub(super) fn compaction_answered(&mut self, effects: Option<Vec<Effect>>) -> Vec<Effect> {
        let Some(effects) = effects else {
            (self.overlay, self.preview) = (None, None);
            return self.status.toast("nothing was compacted".to_owned());
        };
        for effect in &effects {
            match effect {
                Effect::Send(Command::CarryOut { .. }) => (self.overlay, self.preview) = (None, None),
                Effect::Ask(Request::Edit { .. }) => {
                    self.preview.iter_mut().for_each(|preview| preview.editing = true);
                }
                _ => {}
            }
        }
        effects
    }

    /// Handles the text from the editor. `Err` returns the text unused: no summary of a shown compaction was being
    /// edited.
    pub(super) fn summary_edited(
        &mut self,
        text: Result<String, String>,
    ) -> Result<Vec<Effect>, Result<String, String>> {
        let Some(preview) = self.preview.as_mut().filter(|preview| preview.editing) else { return Err(text) };
        preview.editing = false;
        match text {
            Ok(text) if text.trim() != preview.plan.summary.trim() => {
                let plan = preview.plan.plan;
                Ok(vec![Effect::Send(Command::EditCompaction { plan, summary: text })])
            }
            // The text was left unchanged.
            Ok(_) => {
                self.overlay = Some(page(&preview.plan));
                Ok(Vec::new())
            }
            Err(why) => {
                preview.plan.notices = vec![why];
                self.overlay = Some(page(&preview.plan));
                Ok(Vec::new())
            }
        }
    }

    /// Opens the list of messages that compactions removed. If a compaction's block has focus, only its messages are
    /// listed.
    pub(super) fn choose_folded(&mut self) -> Vec<Effect> {
        if self.status.is_working() {
            return self.status.toast("first let it finish, or stop it with Esc".to_owned());
        }
        match self.transcript.folded() {
            Folded::Here(folded) => self.choose_from(&folded),
            Folded::Ask(entry) => {
                self.transcript.end_focus();
                self.picker = Some(Picker::new(Kind::Folded, "", None));
                vec![Effect::Ask(Request::Folded { entry })]
            }
        }
    }

    /// Handles the answer to [`Self::choose_folded`]: the messages that compactions removed from the context.
    pub(super) fn all_folded(&mut self, entry: Option<Seq>, folded: Vec<(Seq, String)>) -> Vec<Effect> {
        let asks = self.picker.as_ref().is_some_and(|picker| picker.kind() == Kind::Folded);
        let effects = if asks { self.choose_from(&folded) } else { Vec::new() };
        if let Some(entry) = entry {
            self.transcript.folded_is(entry, folded);
        }
        effects
    }

    fn choose_from(&mut self, folded: &[(Seq, String)]) -> Vec<Effect> {
        if folded.is_empty() {
            self.picker = None;
            let none = "no compaction of this session removed a message";
            return self.status.toast(none.to_owned());
        }
        self.transcript.end_focus();
        let row = |(seq, line): &(Seq, String)| Row {
            id: seq.to_string(),
            item: Item { name: line.clone(), detail: String::new() },
        };
        let rows = folded.iter().map(row).collect();
        self.picker = Some(Picker::new(Kind::Folded, "", Some(rows)));
        self.previewed()
    }

    /// Handles the text from the editor: a summary, or else text for the composer.
    pub(super) fn edited(&mut self, text: Result<String, String>) -> Vec<Effect> {
        match self.summary_edited(text) {
            Ok(effects) => effects,
            Err(Ok(text)) => {
                self.composer.set(text.trim_end_matches('\n'));
                self.draft.changed()
            }
            Err(Err(why)) => self.status.toast(why),
        }
    }

    /// Passes what a compaction lost to the block that asked for it.
    pub(super) fn lost(&mut self, entry: Seq, result: Result<Loss, String>) {
        let known = result.map_or_else(Known::Not, |loss| Known::Loss(Box::new(loss)));
        self.transcript.loss_is(entry, known);
    }
}

/// Asks the agent to bring messages back. `ids`: message ids separated by commas.
pub(super) fn bring_back(ids: &str) -> Vec<Effect> {
    let items = ids.split(',').map(str::to_owned).collect();
    vec![Effect::Send(Command::ChangeContext(ContextChange::Restore { items }))]
}

fn page(plan: &CompactionPlan) -> Overlay {
    let mut choices = vec![Choice::new(
        "Apply it",
        "apply",
        Effect::Send(Command::CarryOut { plan: plan.plan, force: false }),
    )];
    if !plan.summary.is_empty() {
        let edit = Effect::Ask(Request::Edit { text: plan.summary.clone() });
        choices.push(Choice::new("Edit the summary first", "edit", edit));
    }
    let page = Page { title: "compaction".to_owned(), markdown: markdown(plan), ..Page::default() };
    Overlay::choosing(page, choices)
}

fn markdown(plan: &CompactionPlan) -> String {
    let mut out = format!("{}\n\n", plan_line(plan));
    for notice in &plan.notices {
        let _ = writeln!(out, "> {}\n", notice.replace('\n', " "));
    }
    out.push_str("| tokens | before | after |\n|---|---:|---:|\n");
    for category in &plan.categories {
        let (before, after) = (thousands(category.before.0), thousands(category.after.0));
        let _ = writeln!(out, "| {} | {before} | {after} |", category.name);
    }
    out.push_str("\n## What would be lost\n\n");
    fenced(&mut out, &lines(&plan.loss).join("\n"));
    let _ = writeln!(
        out,
        "Rules files, pinned messages, open todos and your last message: {} found, byte for byte.\n",
        plan.present
    );
    if !plan.missing.is_empty() {
        let _ = writeln!(out, "**Missing:** {}\n", plan.missing.join(", "));
    }
    if !plan.left_out.is_empty() {
        out.push_str("## Left out of the model's summary\n\n");
        fenced(&mut out, &left_out_lines(&plan.left_out).join("\n"));
    }
    if !plan.summary.is_empty() {
        out.push_str("## Summary\n\n");
        fenced(&mut out, &plan.summary);
    }
    if !plan.gone.is_empty() {
        out.push_str("## Removed from the context\n\n");
        let line = |m: &FoldedMessage| {
            format!("{:>5}  {:<9}  {:>6}  {}", m.seq, m.who, thousands(m.tokens.0), m.words)
        };
        let mut list: Vec<String> = plan.gone.iter().take(MOST).map(line).collect();
        if plan.gone.len() > MOST {
            list.push(format!("… and {} more", plan.gone.len() - MOST));
        }
        fenced(&mut out, &list.join("\n"));
    }
    out
}

/// Appends text in a code fence. Fences inside the text are replaced, so that it cannot end the block.
fn fenced(out: &mut String, text: &str) {
    let _ = writeln!(out, "```text\n{}\n```\n", text.trim_end().replace("```", "'''"));
}
