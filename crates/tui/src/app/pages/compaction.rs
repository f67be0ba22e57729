//! Previews of a compaction, and bringing back messages that a compaction removed from the context.
//!
//! Owns the plan on show, and the flag that its summary is open in the editor. The agent computes and applies
//! compactions.

use super::{Pages, question};
use crate::input::{Effect, Request};
use crate::menu::Item;
use crate::overlay::{Choice, Overlay};
use crate::picker::{Kind, Picker, Row};
use crate::text::thousands;
use crate::transcript::compaction::{left_out_lines, lines, plan_line};
use becket_types::{Command, CompactionPlan, ContextChange, RemovedMessage, Seq};
use std::fmt::Write as _;

/// Maximum number of messages that the page lists.
const MOST: usize = 200;

/// A compaction that is shown before it is applied.
pub(super) struct Preview {
    plan: CompactionPlan,
    /// The user's editor is open on the summary.
    editing: bool,
}

impl Pages {
    /// Opens the page of a compaction that would be applied.
    pub(in crate::app) fn show_compaction(&mut self, plan: CompactionPlan) -> Effect {
        self.overlay = Some(page(&plan));
        self.preview = Some(Preview { plan, editing: false });
        Effect::Notify("the compaction is ready for your review".to_owned())
    }

    /// Handles the effects of a key on that page, and returns them. `None` closes the page.
    pub(in crate::app) fn compaction_answered(
        &mut self,
        effects: Option<Vec<Effect>>,
    ) -> Option<Vec<Effect>> {
        let Some(effects) = effects else {
            self.close_page();
            return None;
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
        Some(effects)
    }

    /// Handles the text from the editor. `Err` returns the text unused: no summary of a shown compaction was being
    /// edited.
    pub(in crate::app) fn summary_edited(
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

    /// Opens the list of messages that compactions removed from the context.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if compactions removed no message. The list is closed then.
    pub(in crate::app) fn choose_removed(&mut self, removed: &[(Seq, String)]) -> Result<(), String> {
        if removed.is_empty() {
            self.picker = None;
            return Err("no compaction of this session removed a message".to_owned());
        }
        let row = |(seq, line): &(Seq, String)| Row {
            id: seq.to_string(),
            item: Item { name: line.clone(), detail: String::new() },
        };
        let rows = removed.iter().map(row).collect();
        self.picker = Some(Picker::new(Kind::Removed, "", Some(rows)));
        Ok(())
    }
}

/// Asks the agent to bring messages back. `ids`: message ids separated by commas.
pub(in crate::app) fn bring_back(ids: &str) -> Vec<Effect> {
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
    question("compaction", markdown(plan), choices)
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
        plan.protected.present
    );
    if !plan.protected.missing.is_empty() {
        let _ = writeln!(out, "**Missing:** {}\n", plan.protected.missing.join(", "));
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
        let line = |m: &RemovedMessage| {
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
