//! Prints the table of `docs/cost.md`: `--model anthropic/claude-sonnet-4-5`, `--seeds 3`, `--window 200000` (the model's own),
//! `--shape mixed` (shapes whose names contain it), `--hindsight no` (only the ways, relative to becket's own), `--groups 3` (the
//! best policies decide for this many groups of neighbouring pauses, not for each pause, which is quicker where there are many). `--causes yes` prints becket's own
//! session with single decisions replaced.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is its output")]

#[path = "mod.rs"]
mod cache;

use cache::shapes::SHAPES;
use cache::{Search, WAYS, parts, row};
use std::process::ExitCode;

fn main() -> ExitCode {
    match report() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn report() -> Result<(), String> {
    let (mut model, mut seeds, mut window) = ("anthropic/claude-sonnet-4-5".to_owned(), 3, None);
    let (mut only, mut search, mut causes) = (String::new(), Search::Each, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value:?} is no number"));
        match name.as_str() {
            "--model" => model.clone_from(&value),
            "--seeds" => seeds = number()?,
            "--window" => window = Some(number()?),
            "--shape" => only.clone_from(&value),
            "--hindsight" if value == "no" => search = Search::No,
            "--hindsight" => search = Search::Each,
            "--groups" => search = Search::Groups(number()?.clamp(1, 8) as u32),
            "--causes" => causes = value != "no",
            _ => return Err(format!("unknown option {name}")),
        }
    }
    let (provider, name) = model.split_once('/').ok_or("a model is PROVIDER/NAME")?;
    let info = becket_model::catalog::lookup(provider, name);
    let prices = info.prices.ok_or(format!("{model} has no price in the catalog"))?;
    let window = window.unwrap_or(info.window);
    println!(
        "{model}, window {window}, {seeds} sessions of each shape; prices: {prices:?} ({})\n",
        info.source
    );
    if causes {
        for shape in SHAPES.iter().filter(|shape| shape.name.contains(&only)) {
            for seed in 0..seeds {
                for (name, cost) in parts(&shape.steps(seed), window, prices)? {
                    println!("{} {seed}: ${:.2} ({:.0} %) {name}", shape.name, cost.usd, cost.percent());
                }
            }
        }
        return Ok(());
    }
    let names: Vec<&str> = WAYS.iter().map(|(_, name)| *name).collect();
    println!("| session | best alike | cheapest | {} |", names.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(names.len()));
    for shape in SHAPES.iter().filter(|shape| shape.name.contains(&only)) {
        let row = row(shape, seeds, window, prices, search)?;
        let ways: Vec<String> = row
            .ways
            .iter()
            .map(|cost| format!("{:.2} ({:.0} %)", cost.usd / row.alike.usd, cost.percent()))
            .collect();
        println!(
            "| {} | ${:.2} ({:.0} %) | {:.2} ({:.0} %) | {} |",
            shape.name,
            row.alike.usd / seeds as f64,
            row.alike.percent(),
            row.cheapest.usd / row.alike.usd,
            row.cheapest.percent(),
            ways.join(" | ")
        );
    }
    Ok(())
}
