//! The rules of others, over plain messages.
//!
//! Our reading of published rules, none of anybody's code. Their summary requests are billed as the running request with a
//! question at its end, which is the cheapest way there is.

use crate::recall::engines::{By, Engine, Session, budget, call_parts, floor, picture, shown};
use crate::recall::spent::Spent;
use crate::recall::task::{Act, Call, Fact};
use becket_session::context::budget::{estimate_message, estimate_text};
use becket_types::{CallId, Message, Part};

/// opencode: newest tokens of output that stay, and what clearing must free.
const PROTECTED: u64 = 40_000;
const WORTH: u64 = 20_000;
/// Codex: tokens of the user's newest messages that stay.
const USERS_WORDS: u64 = 20_000;

/// A message with its size; the key changes with its text.
struct Item {
    message: Message,
    tokens: u64,
    key: u64,
}

pub(crate) struct Plain<'a> {
    engine: Engine,
    window: u64,
    by: By<'a>,
    items: Vec<Item>,
    summary: String,
    rounds: u64,
    keys: u64,
    used: u64,
    /// Keys of the items in the last request.
    sent: Vec<u64>,
    /// Keys of the results of the last step.
    unseen: Vec<u64>,
    spent: Spent,
}

impl<'a> Plain<'a> {
    pub(crate) fn new(engine: Engine, window: u64, by: By<'a>) -> Self {
        Self {
            engine,
            window,
            by,
            items: Vec::new(),
            summary: String::new(),
            rounds: 0,
            keys: 0,
            used: 0,
            sent: Vec::new(),
            unseen: Vec::new(),
            spent: Spent::default(),
        }
    }

    fn push(&mut self, message: Message) -> u64 {
        self.keys += 1;
        let tokens = estimate_message(&message).0;
        self.used += tokens;
        self.items.push(Item { message, tokens, key: self.keys });
        self.keys
    }

    fn full(&self) -> u64 {
        floor(self.window) + estimate_text(&self.summary).0 + self.used
    }

    /// True if the rules compact now.
    fn owed(&self) -> bool {
        let usable = budget(self.window).usable();
        match self.engine {
            Engine::Codex => self.full() * 10 >= self.window.min(usable * 10 / 9) * 9,
            _ => self.full() > usable,
        }
    }

    fn request(&mut self) -> Result<(), String> {
        if self.engine == Engine::Opencode {
            self.clear_outputs();
        }
        if self.owed() {
            self.compact()?;
        }
        let now: Vec<u64> =
            std::iter::once(self.rounds + (1 << 40)).chain(self.items.iter().map(|i| i.key)).collect();
        let same = self.sent.iter().zip(&now).take_while(|(a, b)| a == b).count();
        let lead = floor(self.window) + estimate_text(&self.summary).0;
        let common = match same {
            0 if self.sent.is_empty() => 0,
            0 => floor(self.window),
            n => lead + self.items[..n - 1].iter().map(|i| i.tokens).sum::<u64>(),
        };
        self.spent.request(self.full(), common, budget(self.window).usable());
        for key in std::mem::take(&mut self.unseen) {
            self.spent.due += 1;
            self.spent.shown += u64::from(self.items.iter().rev().any(|item| item.key == key));
        }
        self.sent = now;
        Ok(())
    }

    fn compact(&mut self) -> Result<(), String> {
        self.spent.compactions += 1;
        let usable = budget(self.window).usable();
        if self.engine == Engine::Sliding {
            self.keep(usable / 2);
            return Ok(());
        }
        let input = self.shown();
        self.summary = self.by.write(self.rounds, "", &input)?;
        self.spent.summary(200, self.full(), estimate_text(&self.summary).0);
        self.rounds += 1;
        match self.engine {
            Engine::Codex => self.keep_users(USERS_WORDS.min(usable / 2)),
            Engine::Opencode => self.keep((usable / 4).clamp(2_000, 8_000)),
            _ => self.keep(0),
        }
        Ok(())
    }

    /// Keeps the newest messages within `tokens` tokens, and always the user's last message.
    fn keep(&mut self, tokens: u64) {
        let mut left = tokens;
        let mut from = self.items.len();
        for (at, item) in self.items.iter().enumerate().rev() {
            if item.tokens > left {
                break;
            }
            (left, from) = (left - item.tokens, at);
        }
        // The kept part must not begin with results whose calls are removed.
        while self.items.get(from).is_some_and(|item| item.message.result_of().is_some()) {
            from += 1;
        }
        let last = self.items.iter().rposition(|item| item.message.is_user_turn()).filter(|at| *at < from);
        let tail = self.items.split_off(from);
        self.items = last.map(|at| self.items.swap_remove(at)).into_iter().chain(tail).collect();
        self.used = self.items.iter().map(|item| item.tokens).sum();
    }

    /// Keeps only messages of the user: the newest within `tokens` tokens.
    fn keep_users(&mut self, tokens: u64) {
        let mut left = tokens;
        let mut kept: Vec<Item> = Vec::new();
        for mut item in self.items.drain(..).rev().filter(|item| item.message.is_user_turn()) {
            if item.tokens > left {
                break;
            }
            left -= item.tokens;
            item.message.parts.retain(|part| !part.is_media());
            item.tokens = estimate_message(&item.message).0;
            self.keys += 1;
            item.key = self.keys;
            kept.push(item);
        }
        kept.reverse();
        self.items = kept;
        self.used = self.items.iter().map(|item| item.tokens).sum();
    }

    /// Old outputs lose their text, if that frees enough.
    fn clear_outputs(&mut self) {
        let (mut seen, mut freed, mut old) = (0, 0, Vec::new());
        for (at, item) in self.items.iter().enumerate().rev() {
            if item.message.result_of().is_some() && item.tokens > 16 {
                if seen > PROTECTED {
                    freed += item.tokens;
                    old.push(at);
                }
                seen += item.tokens;
            }
        }
        if freed <= WORTH {
            return;
        }
        for at in old {
            self.keys += 1;
            let item = &mut self.items[at];
            for part in &mut item.message.parts {
                if let Part::ToolResult { output, .. } = part {
                    "[cleared]".clone_into(output);
                }
            }
            self.used -= item.tokens;
            item.tokens = estimate_message(&item.message).0;
            self.used += item.tokens;
            item.key = self.keys;
        }
    }

    fn step(&mut self, calls: &[Call]) {
        let ids: Vec<CallId> =
            calls.iter().enumerate().map(|(n, _)| CallId(format!("c{}-{n}", self.keys))).collect();
        let parts = calls.iter().zip(&ids).flat_map(|(call, id)| call_parts(call, id)).collect();
        let message = Message::assistant(parts);
        self.spent.answer(estimate_text(&shown(&message)).0);
        self.push(message);
        for (call, id) in calls.iter().zip(ids) {
            let key = self.push(Message::tool_result(id, call.tool, &*call.output, false));
            self.unseen.push(key);
        }
    }
}

impl Session for Plain<'_> {
    fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::User(text, image) => {
                let mut message = Message::user(text);
                message.parts.extend(image.as_deref().map(picture));
                self.push(message);
            }
            Act::Says(text) => {
                self.request()?;
                let message = Message::assistant(vec![Part::text(text)]);
                self.spent.answer(estimate_text(text).0);
                self.push(message);
            }
            Act::Step(calls) => {
                self.request()?;
                self.step(calls);
            }
        }
        Ok(())
    }

    fn shown(&mut self) -> String {
        self.items.iter().fold(self.summary.clone(), |text, item| text + "\n" + &shown(&item.message))
    }

    fn finds(&mut self, _: &Fact, _: &str) -> Result<bool, String> {
        Ok(false)
    }

    fn spent(&mut self) -> &mut Spent {
        &mut self.spent
    }
}
