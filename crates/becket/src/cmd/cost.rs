//! `becket cost`: the cost of a session and its subagents, by model, purpose and request, or of all sessions since a day.
//!
//! Reads ledgers and changes nothing. The sums by day are those of `becket sessions stats`.

use crate::args::CostArgs;
use crate::cmd::context::LoadedSession;
use crate::cmd::sessions::{day, stats};
use crate::cmd::{count, count_column, one_line, pick_session, short, store_failure, write, write_page};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::interactive::figures::{Sum, UNPRICED, UsageRow, Usages};
use becket_session::store::{self, SessionSummary};
use becket_types::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

const DAY_MS: u64 = 86_400_000;

/// A subagent, and the entries about its requests.
struct Sub {
    session: String,
    kind: String,
    entries: Vec<Entry>,
}

/// The cost of a session with its subagents.
struct SessionCost<'a> {
    session: &'a SessionSummary,
    own: Usages<'a>,
    subagents: Vec<(&'a Sub, Usages<'a>)>,
    sum: Sum,
    models: BTreeMap<String, Sum>,
    purposes: BTreeMap<String, Sum>,
}

/// Shows the cost of a session, or of all since a day.
///
/// # Errors
///
/// Returns a failure for the user if there is no such session, or if a file cannot be read or written.
pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &CostArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(since) = &args.since {
        // The last seven days are today and the six days before it.
        let of_a_date = day(since)?.0 / DAY_MS;
        let since = of_a_date + u64::from(since.ends_with('d') && since != "0d");
        return stats::since(environment, None, since, args.json, args.html.as_deref(), out);
    }
    let reading = LoadedSession::open(environment, pick_session(environment, cwd, args.session.as_deref())?)?;
    let subagents = subagents(environment, &reading.summary)?;
    let bill = SessionCost::new(&reading, &subagents);
    if let Some(path) = &args.html {
        return write_page(path, &page(&bill), out);
    }
    if args.json {
        return write(out, &format!("{}\n", bill.json()));
    }
    write(out, &becket_print::clean(&bill.table()))
}

/// Reads the sessions of the subagents that worked for this one.
fn subagents(environment: &Environment, above: &SessionSummary) -> Result<Vec<Sub>, Failure> {
    let found = store::subagents(&environment.sessions_dir(), above).map_err(store_failure)?;
    found
        .into_iter()
        .map(|summary| {
            let kind = summary.subagent_of().map(|of| of.agent).unwrap_or_default();
            let session = summary.id.to_string();
            Ok(Sub { session, kind, entries: LoadedSession::open(environment, summary)?.entries })
        })
        .collect()
}

impl<'a> SessionCost<'a> {
    fn new(reading: &'a LoadedSession, subagents: &'a [Sub]) -> Self {
        let own = Usages::from_entries(&reading.entries);
        let subagents: Vec<(&Sub, Usages<'_>)> =
            subagents.iter().map(|sub| (sub, Usages::from_entries(&sub.entries))).collect();
        let (mut sum, mut models, mut purposes) = (own.sum.clone(), own.models.clone(), own.purposes.clone());
        for (_, usages) in &subagents {
            sum.join(&usages.sum);
            for (model, part) in &usages.models {
                models.entry(model.clone()).or_default().join(part);
            }
            if !usages.rows.is_empty() {
                purposes.entry("subagent".to_owned()).or_default().join(&usages.sum);
            }
        }
        Self { session: &reading.summary, own, subagents, sum, models, purposes }
    }

    fn json(&self) -> Value {
        let group = |groups: &BTreeMap<String, Sum>, name: &str| -> Vec<Value> {
            groups
                .iter()
                .map(|(key, sum)| {
                    let mut row = numbers(sum);
                    row[name] = json!(key);
                    row
                })
                .collect()
        };
        let requests = |usages: &Usages<'_>| -> Vec<Value> {
            let row = |row: &UsageRow<'_>| {
                json!({
                    "seq": row.seq, "model": row.model, "purpose": row.purpose, "read": row.read,
                    "cached": row.cached, "wrote": row.wrote, "usd": row.cost, "missed": row.missed,
                })
            };
            usages.rows.iter().map(row).collect()
        };
        let subagents: Vec<Value> = self
            .subagents
            .iter()
            .map(|(sub, usages)| {
                json!({
                    "session": sub.session, "agent": sub.kind, "sum": numbers(&usages.sum),
                    "requests": requests(usages),
                })
            })
            .collect();
        json!({
            "session": self.session.id, "title": self.session.label(), "sum": numbers(&self.sum),
            "models": group(&self.models, "model"), "purposes": group(&self.purposes, "purpose"),
            "requests": requests(&self.own), "subagents": subagents,
        })
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{}: ${:.4}{}, {}\n{} tokens read ({} from the cache), {} written{}\n",
            one_line(self.session.label(), 60),
            self.sum.cost,
            if self.sum.cost > 0.0 || self.sum.requests == 0 {
                String::new()
            } else {
                format!(" ({UNPRICED})")
            },
            count(self.sum.requests, "request"),
            short(self.sum.read),
            short(self.sum.cached),
            short(self.sum.wrote),
            self.sum.estimated().map(|remark| format!(" ({remark})")).unwrap_or_default(),
        );
        let mut group = |title: &str, rows: Vec<(String, &Sum)>| {
            if rows.is_empty() {
                return;
            }
            let _ = writeln!(text, "\n{title}");
            for (name, sum) in rows {
                let _ = writeln!(
                    text,
                    "{:>10} {} {:>8} tokens  {}",
                    format!("${:.4}", sum.cost),
                    count_column(sum.requests as u64, "request", 8),
                    short(sum.read + sum.wrote),
                    one_line(&name, 60)
                );
            }
        };
        for (title, groups) in [("by model", &self.models), ("by purpose", &self.purposes)] {
            group(title, groups.iter().map(|(name, sum)| (name.clone(), sum)).collect());
        }
        let subagents = self.subagents.iter();
        group(
            "by subagent",
            subagents.map(|(sub, usages)| (format!("{} {}", sub.kind, sub.session), &usages.sum)).collect(),
        );
        text
    }
}

fn numbers(sum: &Sum) -> Value {
    json!({
        "requests": sum.requests, "read": sum.read, "cached": sum.cached, "cache_write": sum.cache_write,
        "wrote": sum.wrote, "usd": sum.cost, "estimated": sum.estimated,
    })
}

/// Makes a page that needs no other file.
fn page(bill: &SessionCost<'_>) -> String {
    use stats::{STYLE, bars, escape};
    let title = escape(&one_line(bill.session.label(), 80));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Cost of {title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><p>${:.4}, {}</p>",
        bill.sum.cost,
        count(bill.sum.requests, "request"),
    );
    if let Some(remark) = bill.sum.estimated() {
        let _ = write!(out, "<p>Tokens are {}</p>", escape(&remark));
    }
    let dollars = |n: f64| format!("{n:.4}");
    for (heading, groups) in
        [("US dollars by model", &bill.models), ("US dollars by purpose", &bill.purposes)]
    {
        let rows: Vec<(String, f64)> = groups.iter().map(|(name, sum)| (name.clone(), sum.cost)).collect();
        out.push_str(&bars(heading, &rows, dollars));
    }
    out.push_str(
        "<h2>Requests</h2><div><table><tr><th>for</th><th>model</th><th>read</th><th>cached</th>\
         <th>wrote</th><th>$</th></tr>",
    );
    let rows = bill.own.rows.iter().map(|row| (row.purpose.to_owned(), row));
    let below = bill.subagents.iter().flat_map(|(sub, usages)| {
        usages.rows.iter().map(|row| (format!("subagent {}: {}", sub.kind, row.purpose), row))
    });
    for (purpose, row) in rows.chain(below) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.4}</td></tr>",
            escape(&purpose),
            escape(row.model),
            row.read,
            row.cached,
            row.wrote,
            row.cost
        );
    }
    out.push_str("</table></div></body></html>\n");
    out
}
