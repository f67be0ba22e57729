//! A compaction that is looked at before it applies, and messages that one folded away brought back.
//!
//! Owns the plan that is looked at and whether its summary is in the editor. What a compaction does is the agent's business.

use super::App;
use crate::input::{Effect, Page, Request};
use crate::menu::Item;
use crate::overlay::{Choice, Overlay};
use crate::picker::{Kind, Picker, Row};
use crate::transcript::Folded;
use crate::transcript::block::thousands;
use crate::transcript::compaction::{Known, left_out_lines, lines};
use becket_types::{Command, CompactionPlan, ContextChange, FoldedMessage, Loss, Seq};
use std::fmt::Write as _;

/// Messages that the page lists.
const MOST: usize = 200;

/// See the module.
pub(super) struct Preview {
    plan: CompactionPlan,
    /// Its summary is in the person's editor.
    editing: bool,
}

impl App {
    pub(super) fn show_compaction(&mut self, plan: CompactionPlan) -> Vec<Effect> {
        self.overlay = Some(page(&plan));
        self.preview = Some(Preview { plan, editing: false });
        vec![Effect::Notify("the compaction can be looked at".to_owned())]
    }

    /// A key came to the page; `None`: it closes.
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

    /// The editor was left; `Err`: the text is no summary of a compaction that is looked at.
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
            // As it was.
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

    /// The list of messages that compactions folded away, or that the one in focus did.
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

    /// What compactions folded away is known.
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
            let none = "no message was folded away by a compaction here";
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

    /// What the editor left for the composer.
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

    /// What a compaction lost, for the block that asked.
    pub(super) fn lost(&mut self, entry: Seq, result: Result<Loss, String>) {
        let known = result.map_or_else(Known::Not, |loss| Known::Loss(Box::new(loss)));
        self.transcript.loss_is(entry, known);
    }
}

/// Ids of messages, separated by commas.
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
    let mut out = format!(
        "**{} → {} tokens.** Folded away: {} messages. Kept word for word: {}. Outputs that become stubs: {}. Nothing has \
         happened yet.\n\n",
        thousands(plan.tokens_before.0),
        thousands(plan.tokens_after.0),
        plan.gone.len(),
        plan.stays,
        plan.stubs
    );
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
        out.push_str("## Folded away\n\n");
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

/// Text as it is, whatever it holds.
fn fenced(out: &mut String, text: &str) {
    let _ = writeln!(out, "```text\n{}\n```\n", text.trim_end().replace("```", "'''"));
}
