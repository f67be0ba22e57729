//! Tokens, cost and tools by day and project: as a table, as JSON, or as a self-contained page with charts.

use super::{query_index, write};
use crate::cmd::{count, count_column, one_line, short, write_page};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::index::{DayStatistics, ModelStatistics, Statistics, ToolStatistics};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

struct Figures {
    all: Statistics,
    /// Usage by model. Like the other fields, it is about the days that are shown.
    models: Vec<ModelStatistics>,
    days: Vec<DayStatistics>,
    tools: Vec<ToolStatistics>,
}

/// Shows the last `days` days.
pub(super) fn run(
    environment: &Environment,
    project: Option<&Path>,
    days: u64,
    as_json: bool,
    html: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    since(environment, project, (today() + 1).saturating_sub(days), as_json, html, out)
}

/// The number of days since 1970, in UTC.
fn today() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0) / 86_400
}

/// Shows all days from `since` on, a number of days since 1970.
pub(crate) fn since(
    environment: &Environment,
    project: Option<&Path>,
    since: u64,
    as_json: bool,
    html: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let days = (today() + 1).saturating_sub(since);
    let figures = query_index(environment, |index| {
        Ok(Figures {
            all: index.statistics(project)?,
            models: index.models(project, since)?,
            days: index.days(project, since)?,
            tools: index.tools(project, since)?,
        })
    })?;
    if let Some(path) = html {
        return write_page(path, &page(&figures, days), out);
    }
    if as_json {
        let rows: Vec<_> = figures
            .days
            .iter()
            .map(|d| {
                let mut row = serde_json::to_value(d).unwrap_or_default();
                row["date"] = json!(date(d.day));
                row
            })
            .collect();
        let body = json!({ "all": figures.all, "days": rows, "models": figures.models, "tools": figures.tools, "since": date(since) });
        return write(out, &format!("{body}\n"));
    }
    write(out, &becket_print::clean(&table(&figures, days)))
}

fn date(day: u64) -> String {
    let seconds = i64::try_from(day).unwrap_or(0).saturating_mul(86_400);
    jiff::Timestamp::from_second(seconds).map(|t| t.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// Sums all projects by day.
fn by_day(figures: &Figures) -> BTreeMap<u64, (u64, u64, u64, f64)> {
    let mut days: BTreeMap<u64, (u64, u64, u64, f64)> = BTreeMap::new();
    for d in &figures.days {
        let sum = days.entry(d.day).or_default();
        sum.0 += d.requests;
        sum.1 += d.usage.context().0;
        sum.2 += d.usage.output;
        sum.3 += d.cost.0;
    }
    days
}

fn by_project(figures: &Figures) -> BTreeMap<String, (u64, u64, f64)> {
    let mut projects: BTreeMap<String, (u64, u64, f64)> = BTreeMap::new();
    for d in &figures.days {
        let sum = projects.entry(d.project.display().to_string()).or_default();
        sum.0 += d.requests;
        sum.1 += d.usage.total().0;
        sum.2 += d.cost.0;
    }
    projects
}

fn table(figures: &Figures, days: u64) -> String {
    let all = &figures.all;
    let mut text = format!(
        "All time: {}, {}, {}B of ledgers\n\nThe last {} (UTC)\n{:<12} {:>8} {:>9} {:>9} {:>9}\n",
        count(all.sessions as usize, "session"),
        count(all.messages as usize, "message"),
        short(all.bytes),
        count(days as usize, "day"),
        "day",
        "requests",
        "tokens in",
        "out",
        "cost"
    );
    for (day, (requests, input, output, cost)) in by_day(figures) {
        let _ = writeln!(
            text,
            "{:<12} {requests:>8} {:>9} {:>9} {:>9}",
            date(day),
            short(input),
            short(output),
            format!("${cost:.2}")
        );
    }
    text.push_str("\nby project\n");
    for (project, (requests, tokens, cost)) in by_project(figures) {
        let _ = writeln!(
            text,
            "{} {:>8} tokens  ${cost:<8.2} {}",
            count_column(requests, "request", 8),
            short(tokens),
            one_line(&project, 80)
        );
    }
    text.push_str("\nby model\n");
    for m in &figures.models {
        let _ = writeln!(
            text,
            "{} {:>8} tokens  ${:<8.2} {}",
            count_column(m.requests, "request", 8),
            short(m.usage.total().0),
            m.cost.0,
            one_line(&m.model, 60)
        );
    }
    if !figures.tools.is_empty() {
        text.push_str("\nby tool\n");
    }
    for t in &figures.tools {
        let calls = count_column(t.calls, "call", 8);
        let _ = writeln!(text, "{calls} {:>6} failed  {}", t.failed, one_line(&t.tool, 60));
    }
    text
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(crate) const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:0 auto;\
padding:1rem}svg{width:100%;height:auto;color:#2f6f6a}svg text{font:11px system-ui,sans-serif;fill:GrayText}\
table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{padding:.2rem .5rem;text-align:right;\
border-bottom:1px solid #8884}td:first-child,th:first-child{text-align:left;overflow-wrap:anywhere}\
div{overflow-x:auto}";

fn page(figures: &Figures, days: u64) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>becket: {0}</title><style>{STYLE}</style></head><body><h1>The last {0}</h1>",
        count(days as usize, "day")
    );
    let days = by_day(figures);
    let tokens: Vec<(String, f64)> = days.iter().map(|(d, s)| (date(*d), (s.1 + s.2) as f64)).collect();
    let costs: Vec<(String, f64)> = days.iter().map(|(d, s)| (date(*d), s.3)).collect();
    let tools: Vec<(String, f64)> =
        figures.tools.iter().take(20).map(|t| (t.tool.clone(), t.calls as f64)).collect();
    out.push_str(&bars("Tokens a day", &tokens, |n| short(n as u64)));
    out.push_str(&bars("US dollars a day, at list price", &costs, |n| format!("{n:.2}")));
    out.push_str(&bars("Calls of tools", &tools, |n| format!("{n:.0}")));
    out.push_str(
        "<h2>By project</h2><div><table><tr><th>project</th><th>requests</th><th>tokens</th><th>$</th></tr>",
    );
    for (project, (requests, tokens, cost)) in by_project(figures) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{requests}</td><td>{tokens}</td><td>{cost:.2}</td></tr>",
            escape(&project)
        );
    }
    out.push_str("</table></div><h2>By model, all time</h2><div><table><tr><th>model</th><th>requests</th><th>tokens</th><th>$</th></tr>");
    for m in &figures.models {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td></tr>",
            escape(&m.model),
            m.requests,
            m.usage.total(),
            m.cost.0
        );
    }
    out.push_str("</table></div></body></html>\n");
    out
}

/// Draws horizontal bars with their names and values.
pub(crate) fn bars(title: &str, rows: &[(String, f64)], value: impl Fn(f64) -> String) -> String {
    let most = rows.iter().map(|(_, n)| *n).fold(0.0, f64::max);
    let mut out = format!("<h2>{}</h2>", escape(title));
    if most <= 0.0 {
        out.push_str("<p>nothing</p>");
        return out;
    }
    let height = rows.len() * 20 + 6;
    let _ = write!(out, "<svg viewBox=\"0 0 700 {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    for (at, (name, n)) in rows.iter().enumerate() {
        let y = at * 20 + 4;
        let width = (n / most * 440.0).max(1.0);
        let _ = write!(
            out,
            "<text x=\"150\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"158\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"14\" rx=\"2\" fill=\"currentColor\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            y + 11,
            escape(&one_line(name, 24)),
            164.0 + width,
            y + 11,
            escape(&value(*n))
        );
    }
    out.push_str("</svg>");
    out
}
