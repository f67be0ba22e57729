//! Prints the table of `docs/compaction.md`.
//!
//! `--tasks N` (30), `--compactions 1,3,5`, `--window TOKENS` (64000), `--keeps 100,70,40,10`: the dial of the scripted
//! summariser. `--command CMD` instead of `--keeps`: a real model writes the summaries; the request is on the command's
//! input, the summary on its output. `--engines becket,opencode,…` by the beginnings of their names.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is its output")]

#[path = "mod.rs"]
mod recall;

use recall::engines::{ENGINES, Engine};
use recall::summariser::Summariser;
use recall::table;
use std::process::ExitCode;

struct Options {
    tasks: u64,
    compactions: Vec<usize>,
    window: u64,
    summarisers: Vec<(String, Summariser)>,
    engines: Vec<String>,
}

fn main() -> ExitCode {
    match options().and_then(|options| report(&options)) {
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
        Ok(percents.map(|n| (format!("keeps {n} %"), Summariser::Keeps(n))).collect())
    };
    let mut options = Options {
        tasks: 30,
        compactions: vec![1, 3, 5],
        window: 64_000,
        summarisers: keeps("100,70,40,10")?,
        engines: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--tasks" => options.tasks = numbers(&value)?.first().copied().unwrap_or(1),
            "--compactions" => {
                options.compactions = numbers(&value)?.into_iter().map(|n| n as usize).collect();
            }
            "--window" => options.window = numbers(&value)?.first().copied().unwrap_or(64_000),
            "--keeps" => options.summarisers = keeps(&value)?,
            "--command" => {
                options.summarisers = vec![("a real model".to_owned(), Summariser::Command(value))];
            }
            "--engines" => options.engines = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

fn numbers(list: &str) -> Result<Vec<u64>, String> {
    list.split(',').map(|n| n.trim().parse().map_err(|_| format!("{n:?} is no number"))).collect()
}

fn report(options: &Options) -> Result<(), String> {
    let Options { tasks, compactions, window, .. } = options;
    println!("{tasks} tasks of 40 facts, window {window}; percent, after {compactions:?} compactions\n");
    println!("| summariser | engine | in the context | or one recall | or a vague recall | plan | tokens |");
    println!("|---|---|---|---|---|---|---|");
    for (label, summariser) in &options.summarisers {
        let wanted = |engine: Engine| {
            let name = format!("{engine:?}").to_lowercase();
            options.engines.is_empty() || options.engines.iter().any(|start| name.starts_with(start.as_str()))
        };
        // A row is there as soon as it is known: a real model may need hours for all of them.
        for (engine, name) in ENGINES.into_iter().filter(|(engine, _)| wanted(*engine)) {
            let rows = table(engine, *tasks, compactions, *window, summariser)
                .map_err(|error| format!("{name}: {error}"))?;
            let column =
                |of: &dyn Fn(&recall::Row) -> String| rows.iter().map(of).collect::<Vec<_>>().join(" / ");
            println!(
                "| {label} | {name} | {} | {} | {} | {} | {} |",
                column(&|row| format!("{:.0}", row.present)),
                column(&|row| format!("{:.0}", row.reachable)),
                column(&|row| format!("{:.0}", row.vaguely)),
                column(&|row| format!("{:.0}", row.plan)),
                column(&|row| row.tokens.to_string()),
            );
        }
    }
    Ok(())
}
