//! The rules of other agents, in tokens: our reading of what they publish, none of anybody's code.
//!
//! They get the same steps and the same provider. A summary is asked for at the end of the running request, which is the
//! cheapest way, and has the same size.

use crate::cache::becket::{FLOOR, Run, SUMMARY};
use crate::cache::price::Request;
use crate::cache::shapes::Step;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// At the end of a turn, outputs older than the newest 40,000 tokens of outputs are cleared if that frees 20,000. A full
    /// window is summarised; the newest messages stay within a quarter of it and 8,000 tokens.
    Opencode,
    /// At 90 % of the window, a summary and the user's newest messages up to 20,000 tokens replace everything.
    Codex,
    /// A full window, less 33,000 tokens, is summarised; the files read last come along, up to 25,000 tokens. After a pause of
    /// more than an hour all outputs but the newest five are cleared.
    ClaudeCode,
}

struct Item {
    tokens: u64,
    user: bool,
    /// The step whose output this item is. `None` for other messages and for cleared outputs.
    step: Option<usize>,
    key: u64,
}

struct Plain {
    rules: Rules,
    window: u64,
    items: Vec<Item>,
    sent: Vec<(u64, u64)>,
    keys: u64,
    gap: u64,
    begins: bool,
    run: Run,
}

pub(crate) fn run(rules: Rules, steps: &[Step], window: u64) -> Run {
    let mut plain = Plain {
        rules,
        window,
        items: Vec::new(),
        sent: Vec::new(),
        keys: 0,
        gap: 0,
        begins: true,
        run: Run::default(),
    };
    for (n, step) in steps.iter().enumerate() {
        plain.gap += step.gap;
        plain.step(n, step, steps);
    }
    plain.run
}

impl Plain {
    fn push(&mut self, tokens: u64, user: bool, step: Option<usize>) {
        self.keys += 1;
        self.items.push(Item { tokens, user, step, key: self.keys });
    }

    fn full(&self) -> u64 {
        FLOOR + self.items.iter().map(|item| item.tokens).sum::<u64>()
    }

    fn step(&mut self, n: usize, step: &Step, steps: &[Step]) {
        if step.prompt > 0 {
            self.begins = true;
            match self.rules {
                Rules::Opencode => self.clear(40_000, 20_000, usize::MAX),
                Rules::ClaudeCode if self.gap > 3_600 => self.clear(0, 0, 5),
                _ => {}
            }
            self.push(step.prompt, true, None);
        }
        self.request(step.answer);
        if let Some(at) = step.needs.and_then(|back| n.checked_sub(back)).filter(|at| steps[*at].output > 0) {
            self.run.needs += 1;
            if self.items.iter().any(|item| item.step == Some(at)) {
                self.run.met += 1;
            } else {
                self.push(60, false, None);
                self.push(steps[at].output, false, Some(at));
                self.gap += 10;
                self.request(step.answer);
            }
        }
        self.push(step.answer, false, None);
        if step.output > 0 {
            self.push(step.output, false, Some(n));
        }
    }

    fn request(&mut self, output: u64) {
        let usable = self.window - 32_000.min(self.window / 4);
        let most = match self.rules {
            Rules::Opencode => usable,
            Rules::Codex => self.window / 10 * 9,
            Rules::ClaudeCode => self.window - 33_000,
        };
        if self.full() > most {
            self.compact(usable);
        }
        let now: Vec<(u64, u64)> = self.items.iter().map(|item| (item.key, item.tokens)).collect();
        let common = self.sent.iter().zip(&now).take_while(|(a, b)| a == b);
        let same =
            if self.run.requests.is_empty() { 0 } else { FLOOR + common.map(|(a, _)| a.1).sum::<u64>() };
        self.send(Request { gap: 0, total: self.full(), same, output, apart: false, begins: self.begins });
        self.sent = now;
        self.begins = false;
    }

    fn send(&mut self, request: Request) {
        let gap = std::mem::take(&mut self.gap);
        self.run.requests.push(Request { gap, ..request });
    }

    fn compact(&mut self, usable: u64) {
        let full = self.full();
        self.send(Request {
            gap: 0,
            total: full + 300,
            same: full,
            output: SUMMARY,
            apart: false,
            begins: false,
        });
        let (most, users) = match self.rules {
            Rules::Opencode => ((usable / 4).min(8_000), false),
            Rules::Codex => (20_000, true),
            Rules::ClaudeCode => (25_000, false),
        };
        let mut left = most;
        let mut kept: Vec<Item> = Vec::new();
        let last = self.items.iter().rposition(|item| item.user);
        for (at, item) in std::mem::take(&mut self.items).into_iter().enumerate().rev() {
            let wanted = Some(at) == last
                || match self.rules {
                    Rules::ClaudeCode => item.step.is_some(),
                    _ => !users || item.user,
                };
            if wanted && item.tokens <= left {
                left -= item.tokens;
                kept.push(item);
            } else if !users && self.rules == Rules::Opencode {
                left = 0;
            }
        }
        self.push(SUMMARY, false, None);
        self.items.extend(kept.into_iter().rev());
    }

    /// Clears old outputs, if that frees more than `worth` tokens. Old are those beyond the newest `count` outputs, or, if
    /// `count` is `usize::MAX`, beyond the newest `protected` tokens of outputs.
    fn clear(&mut self, protected: u64, worth: u64, count: usize) {
        let (mut seen, mut number, mut old) = (0, 0, Vec::new());
        for (at, item) in self.items.iter().enumerate().rev().filter(|(_, item)| item.step.is_some()) {
            let tokens_over = count == usize::MAX && seen > protected;
            if tokens_over || (count != usize::MAX && number >= count) {
                old.push(at);
            }
            (seen, number) = (seen + item.tokens, number + 1);
        }
        if old.iter().map(|at| self.items[*at].tokens).sum::<u64>() <= worth {
            return;
        }
        for at in old {
            self.keys += 1;
            let key = self.keys;
            let item = &mut self.items[at];
            (item.tokens, item.step, item.key) = (10, None, key);
        }
    }
}
