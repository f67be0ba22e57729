//! Prints the tables of `docs/compaction.md`.
//!
//! `--tasks N` (5, one for each language), `--compactions 1,3,5,10`, `--windows 8000,32000,200000,1000000`, `--keeps 70`: the
//! dial of the scripted summariser. `--command CMD` instead of `--keeps`: a real model writes the summaries; the request is
//! on the command's input, the summary on its output. `--engines becket,opencode,…` by the beginnings of their names.
//! `--languages yes`: a table for each language of the user. `--cost yes`: what each policy costs instead of what it keeps.
//! `--json yes`: one JSON object a line.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is its output")]

#[path = "mod.rs"]
mod recall;

use recall::engines::{ENGINES, Engine};
use recall::language::LANGUAGES;
use recall::summariser::Summariser;
use recall::{Cost, Row, costs, table};
use serde_json::json;
use std::process::ExitCode;

struct Options {
    tasks: u64,
    compactions: Vec<usize>,
    windows: Vec<u64>,
    summarisers: Vec<(String, Summariser)>,
    engines: Vec<String>,
    languages: bool,
    cost: bool,
    json: bool,
}

fn main() -> ExitCode {
    let run = |options: &Options| if options.cost { price(options) } else { report(options) };
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let keeps = |list: &str| -> Result<Vec<(String, Summariser)>, String> {
        let percents = numbers(list)?.into_iter();
        Ok(percents.map(|n| (format!("{n} %"), Summariser::Keeps(n))).collect())
    };
    let mut options = Options {
        tasks: LANGUAGES.len() as u64,
        compactions: vec![1, 3, 5, 10],
        windows: vec![8_000, 32_000, 200_000, 1_000_000],
        summarisers: keeps("70")?,
        engines: Vec::new(),
        languages: false,
        cost: false,
        json: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let yes = value == "yes";
        match name.as_str() {
            "--tasks" => options.tasks = numbers(&value)?.first().copied().unwrap_or(1),
            "--compactions" => {
                options.compactions = numbers(&value)?.into_iter().map(|n| n as usize).collect();
            }
            "--windows" => options.windows = numbers(&value)?,
            "--keeps" => options.summarisers = keeps(&value)?,
            "--command" => {
                options.summarisers = vec![("a real model".to_owned(), Summariser::Command(value))];
            }
            "--engines" => options.engines = value.split(',').map(str::to_owned).collect(),
            "--languages" => options.languages = yes,
            "--cost" => options.cost = yes,
            "--json" => options.json = yes,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn numbers(list: &str) -> Result<Vec<u64>, String> {
    list.split(',').map(|n| n.trim().parse().map_err(|_| format!("{n:?} is no number"))).collect()
}

impl Options {
    /// Task numbers by language, or all of them together.
    fn groups(&self) -> Vec<(&'static str, Vec<u64>)> {
        let all: Vec<u64> = (0..self.tasks).collect();
        if !self.languages {
            return vec![("all", all)];
        }
        let of =
            |language: usize| all.iter().copied().filter(move |n| *n as usize % LANGUAGES.len() == language);
        LANGUAGES.iter().enumerate().map(|(n, name)| (*name, of(n).collect())).collect()
    }

    fn wants(&self, engine: Engine) -> bool {
        let name = format!("{engine:?}").to_lowercase();
        self.engines.is_empty() || self.engines.iter().any(|start| name.starts_with(start.as_str()))
    }
}

fn report(options: &Options) -> Result<(), String> {
    if !options.json {
        println!(
            "{} tasks of 44 facts; percent, after {:?} compactions\n",
            options.tasks, options.compactions
        );
        println!(
            "| window | kept by the summariser | users | engine | in the context | or one recall | plan | results seen | \
             run twice | compactions in 100 steps | window used |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
    }
    for window in &options.windows {
        for (label, summariser) in &options.summarisers {
            for (users, tasks) in options.groups() {
                // A row is there as soon as it is known: a real model may need hours for all of them.
                for (engine, name) in ENGINES.into_iter().filter(|(engine, _)| options.wants(*engine)) {
                    let rows = table(engine, &tasks, &options.compactions, *window, summariser)
                        .map_err(|error| format!("{name}, window {window}: {error}"))?;
                    if options.json {
                        for row in &rows {
                            let row = row.json();
                            println!(
                                "{}",
                                json!({"window": window, "summariser": label, "users": users, "engine": name, "row": row})
                            );
                        }
                    } else {
                        println!("| {window} | {label} | {users} | {name} | {} |", columns(&rows));
                    }
                }
            }
        }
    }
    Ok(())
}

fn columns(rows: &[Row]) -> String {
    let column = |of: &dyn Fn(&Row) -> String| rows.iter().map(of).collect::<Vec<_>>().join(" / ");
    [
        column(&|row| format!("{:.0}", row.present)),
        column(&|row| format!("{:.0}", row.reachable)),
        column(&|row| format!("{:.0}", row.plan)),
        column(&|row| format!("{:.0}", row.seen)),
        column(&|row| row.repeated.to_string()),
        column(&|row| format!("{:.1}", row.per_hundred)),
        column(&|row| format!("{:.0}", row.used)),
    ]
    .join(" | ")
}

fn price(options: &Options) -> Result<(), String> {
    let tasks: Vec<u64> = (0..options.tasks).collect();
    for window in &options.windows {
        for (label, summariser) in &options.summarisers {
            let mut costs = costs(&tasks, *window, summariser)?;
            let Some(becket) = costs.first().cloned() else { continue };
            costs.sort_by(|a, b| a.tokens.total_cmp(&b.tokens));
            if options.json {
                for Cost { policy, tokens, met } in &costs {
                    let (window, policy) = (*window, policy.as_str());
                    println!(
                        "{}",
                        json!({"window": window, "summariser": label, "policy": policy, "tokens": tokens, "met": met})
                    );
                }
                continue;
            }
            // A policy under which the model has less of what it needs is no better for being cheap.
            let best = costs.iter().find(|cost| cost.met >= becket.met - 1.0).unwrap_or(&becket);
            println!(
                "window {window}, {label}: becket {:.3} of the best ({}) that has as much in its context, {:.3} of the cheapest",
                becket.tokens / best.tokens,
                best.policy,
                becket.tokens / costs.first().map_or(becket.tokens, |least| least.tokens),
            );
            for cost in &costs {
                println!("  {:.3} {:.0} % {}", cost.tokens / becket.tokens, cost.met, cost.policy);
            }
        }
    }
    Ok(())
}
